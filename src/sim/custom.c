/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources that a CustomResourceDefinition brings, other than IPUJobs: served from its creation to
 * its deletion, and kept as they are written; of their schemas nothing is looked at.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "sim/api_internal.h"

static char *text_of(const struct json *v)
{
	return str_dup(json_str(v));
}

#define UNCONST(z) ((void *)(uintptr_t)(z))

static void free_strings(struct sim_resource *r)
{
	free(UNCONST(r->group));
	free(UNCONST(r->version));
	free(UNCONST(r->plural));
	free(UNCONST(r->singular));
	free(UNCONST(r->kind));
}

/* Its place stays taken: the store's history points there. */
static void rename_to_nothing(struct sim_resource *r)
{
	free_strings(r);
	r->group = xstrdup("");
	r->version = xstrdup("");
	r->plural = xstrdup("");
	r->singular = xstrdup("");
	r->kind = xstrdup("");
}

/* At once, where a real one takes a moment. */
static void establish(struct jmut_doc *doc, struct jmut *crd)
{
	static const char *const types[] = {"NamesAccepted", "Established"};
	struct jmut *status = jmut_need_object(doc, crd, "status");
	struct jmut *conditions = jmut_array(doc);

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct jmut *c = jmut_object(doc);

		jmut_set_str(doc, c, "type", types[i]);
		jmut_set_str(doc, c, "status", "True");
		jmut_push(doc, conditions, c);
	}
	jmut_set(doc, status, "conditions", conditions);
}

static void serve(const struct json *crd)
{
	const struct json *spec = json_get(crd, "spec"), *names = json_get(spec, "names");
	const struct json *version = json_item(json_get(spec, "versions"), 0);
	struct str group = json_str(json_get(spec, "group")),
		   plural = json_str(json_get(names, "plural"));
	struct sim_resource *r = sim_resources;

	if (!group.len || !plural.len || sim_resource_find(group, plural))
		return;
	while (r->plural)
		r++;
	if (r == &sim_resources[SIM_MAX_RESOURCES - 1])
		return; /* the last one is the end of the list */
	*r = (struct sim_resource){
		.group = str_dup(group),
		.version = text_of(json_get(version, "name")),
		.plural = str_dup(plural),
		.singular = text_of(json_get(names, "singular")),
		.kind = text_of(json_get(names, "kind")),
		.namespaced = str_eqz(json_str(json_get(spec, "scope")), "Namespaced"),
		.has_status = json_at(version, "subresources", "status", NULL) != NULL,
	};
}

void sim_custom_add(struct jmut_doc *doc, struct jmut *crd)
{
	serve(jmut_view(crd));
	establish(doc, crd);
}

void sim_custom_remove(struct sim_api *api, const struct json *crd)
{
	const struct json *spec = json_get(crd, "spec");
	struct str group = json_str(json_get(spec, "group")),
		   plural = json_str(json_at(spec, "names", "plural", NULL));
	struct sim_resource *r = &sim_resources[SIM_FIXED_RESOURCES];
	struct sim_object **all;
	size_t n;

	while (r->plural && !(str_eqz(group, r->group) && str_eqz(plural, r->plural)))
		r++;
	if (!r->plural)
		return;
	all = sim_objects_list(api->objects, r, STR_NULL, &n);
	for (size_t i = 0; i < n; i++)
		sim_object_ref(all[i]);
	for (size_t i = 0; i < n; i++) {
		sim_api_delete_now(api, all[i]);
		sim_object_unref(all[i]);
	}
	free(all);
	rename_to_nothing(r);
}

void sim_custom_clear(void)
{
	for (struct sim_resource *r = &sim_resources[SIM_FIXED_RESOURCES]; r->plural; r++) {
		free_strings(r);
		*r = (struct sim_resource){.plural = NULL};
	}
}
