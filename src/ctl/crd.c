/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crd print and crd apply: the CustomResourceDefinition that this version was built with. helm
 * makes one at the first install and never changes it again; apply is what an upgrade's hook runs.
 */
#include <stdio.h>

#include "core/clock.h"
#include "core/yaml.h"
#include "ctl/commands.h"
#include "ctl/facts.h"
#include "ctl/term.h"
#include "kube/object.h"
#include "loop/backoff.h"

#define MAX_TRIES 10
#define LOOK_MS   200
#define WAIT_S    30

extern const char ctl_crd_text[]; /* made from crds/ by local.mk */

int ctl_run_crd_print(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	(void)link;
	(void)o;
	return ctl_write_out(str_of(ctl_crd_text), err);
}

/* ---- applying ---- */

/* What others have put into labels and annotations (helm, for one) stays beside ours. */
static struct jmut *make_object(struct jmut_doc *doc, const struct json *ours,
				const struct json *there)
{
	struct jmut *root = jmut_copy(doc, there ? there : ours);

	if (there) {
		struct jmut *meta = jmut_need_object(doc, root, "metadata");
		struct jmut *merged = jmut_merge_patch(doc, jmut_clone(doc, meta),
						       json_get(ours, "metadata"));

		jmut_set(doc, root, "metadata", merged);
		jmut_set(doc, root, "spec", jmut_copy(doc, json_get(ours, "spec")));
		jmut_del(root, "status");
	}
	return root;
}

static int get(struct ctl_link *link, const char *name, struct json_doc **ret, struct err *err)
{
	struct kube_request r = {.verb = KUBE_GET, .resource = &KUBE_CRDS, .name = name};

	return ctl_link_kube(link, &r, ret, err);
}

/* *ret_did is what happened to it, as kubectl says it. The API server leaves a resourceVersion as
 * it is where an update changes nothing. */
static int write_once(struct ctl_link *link, const struct json *ours, const char **ret_did,
		      struct json_doc **ret, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_JSON struct json_doc *there = NULL;
	const char *name = json_cstr(json_at(ours, "metadata", "name", NULL));
	struct kube_request r = {
		.verb = KUBE_CREATE, .resource = &KUBE_CRDS, .field_manager = "ipuctl"};

	if (get(link, name, &there, err) < 0 && err->kind != ERR_NOT_FOUND)
		return -1;
	if (there) {
		r.verb = KUBE_UPDATE;
		r.name = name;
	}
	r.json = make_object(doc, ours, there ? json_root(there) : NULL);
	if (ctl_link_kube(link, &r, ret, err) < 0)
		return -1;
	*ret_did = !there ? "created"
		   : str_eq(kube_version(json_root(there)), kube_version(json_root(*ret)))
			   ? "unchanged"
			   : "configured";
	return 0;
}

/* Somebody else's change in between is no error: look again, at most so often. */
static int write_it(struct ctl_link *link, const struct json *ours, const char **ret_did,
		    struct json_doc **ret, struct err *err)
{
	struct backoff backoff = BACKOFF_INIT(50, 1000);

	for (int tries = 1;; tries++) {
		if (write_once(link, ours, ret_did, ret, err) == 0)
			return 0;
		if ((err->kind != ERR_CONFLICT && err->kind != ERR_EXISTS) || tries == MAX_TRIES)
			return -1;
		ctl_link_pause(link, (unsigned)backoff_next_ms(&backoff, err));
	}
}

/* ---- waiting until it's served ---- */

/* *crd is replaced by what it became. */
static int wait_established(struct ctl_link *link, unsigned seconds, struct json_doc **crd,
			    struct err *err)
{
	int64_t deadline_ms = clock_mono_ms() + (int64_t)seconds * 1000;
	CLEANUP_FREE char *name = str_dup(kube_name(json_root(*crd)));

	while (!ctl_is_on(json_root(*crd), "Established")) {
		const struct json *names = ctl_condition(json_root(*crd), "NamesAccepted");

		if (str_eqz(json_str(json_get(names, "status")), "False"))
			return err_set(err, ERR_CONFLICT, 409,
				       "the API server doesn't take its names: %.*s",
				       STR_ARG(json_str(json_get(names, "message"))));
		if (clock_mono_ms() > deadline_ms)
			return err_set(err, ERR_BUSY, 0,
				       "written, but the API server doesn't serve it after %u s",
				       seconds);
		ctl_progress("waiting until the API server serves it");
		ctl_link_pause(link, LOOK_MS);
		ctl_progress(NULL);
		json_doc_free(*crd);
		*crd = NULL;
		if (get(link, name, crd, err) < 0)
			return -1;
	}
	return 0;
}

int ctl_run_crd_apply(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_YAML struct yaml *yaml = NULL;
	CLEANUP_JSON struct json_doc *crd = NULL;
	CLEANUP_FREE char *line = NULL;
	const struct json *ours;
	const char *name, *did;

	if (yaml_parse("crds", str_of(ctl_crd_text), &yaml, err) < 0)
		return -1;
	ours = yaml_doc(yaml, 0);
	name = json_cstr(json_at(ours, "metadata", "name", NULL));
	if (write_it(link, ours, &did, &crd, err) < 0 ||
	    wait_established(link, o->wait_s ? o->wait_s : WAIT_S, &crd, err) < 0)
		return err_wrap(err, "CustomResourceDefinition %s", name);
	line = xasprintf("customresourcedefinition/%s %s\n", name, did);
	return ctl_write_out(str_of(line), err);
}
