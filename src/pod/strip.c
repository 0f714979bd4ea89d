/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an earlier injection left in a Pod that is created again, as from `kubectl get -o yaml`:
 * taken out by its shape, since a label or an annotation may have been edited away. Pure.
 */
#include "core/str.h"
#include "pod/model.h"
#include "pod/parts.h"

const char *const pod_container_lists[POD_CONTAINER_LISTS] = {"initContainers", "containers"};

static struct str text_of(const struct jmut *v)
{
	return json_str(jmut_view(v));
}

static bool is_config_map(struct str name)
{
	static const struct str prefix = {"ipuof-", 6};

	return str_has_prefix(name, prefix) &&
	       pod_token_is((struct str){name.p + prefix.len, name.len - prefix.len});
}

/* A list or map that we have emptied wasn't there before. */
static void del_if_empty(struct jmut *obj, const char *key)
{
	struct jmut *v = jmut_get(obj, key);

	if (v && jmut_len(v) == 0)
		jmut_del(obj, key);
}

typedef bool is_ours_fn(const struct json *item, bool injected);

struct ours {
	is_ours_fn *is_ours;
	bool injected;
};

static bool is_one_of_ours(const struct json *item, void *arg)
{
	const struct ours *o = arg;

	return o->is_ours(item, o->injected);
}

static bool drop_ours(struct jmut *obj, const char *key, is_ours_fn *is_ours, bool injected)
{
	struct ours ours = {is_ours, injected};
	bool found = jmut_remove_if(jmut_get(obj, key), is_one_of_ours, &ours) > 0;

	if (found)
		del_if_empty(obj, key);
	return found;
}

static bool is_gate(const struct json *gate, bool injected)
{
	(void)injected;
	return str_eqz(json_str(json_get(gate, "name")), POD_GATE);
}

static bool is_volume(const struct json *volume, bool injected)
{
	struct str name = json_str(json_get(volume, "name"));

	if (str_eqz(name, POD_TOKEN_VOLUME)) {
		const struct json *sources = json_at(volume, "projected", "sources", NULL);

		return str_eqz(json_str(json_at(json_item(sources, 0), "serviceAccountToken",
						"audience", NULL)),
			       POD_TOKEN_AUDIENCE);
	}
	return str_eqz(name, JOB_IPUOF_VOLUME) &&
	       (is_config_map(json_str(json_at(volume, "configMap", "name", NULL))) ||
		(injected && json_get(volume, "emptyDir")));
}

static bool is_init(const struct json *container, bool injected)
{
	const struct json *command = json_get(container, "command");

	(void)injected;
	return str_eqz(json_str(json_get(container, "name")), POD_INIT_NAME) &&
	       str_eqz(json_str(json_item(command, 0)), JOB_LAUNCHER_SOURCE) &&
	       str_eqz(json_str(json_item(command, 1)), "partition");
}

static bool is_mount(const struct json *mount, bool injected)
{
	(void)injected;
	return str_eqz(json_str(json_get(mount, "name")), JOB_IPUOF_VOLUME) &&
	       str_eqz(json_str(json_get(mount, "mountPath")), JOB_IPUOF_DIR);
}

static bool is_reference(const struct json *var, bool injected)
{
	(void)injected;
	return is_config_map(json_str(json_at(var, "valueFrom", "configMapKeyRef", "name", NULL)));
}

static bool is_path(const struct json *var, bool injected)
{
	(void)injected;
	return str_eqz(json_str(json_get(var, "name")), "IPUOF_CONFIG_PATH") &&
	       str_eqz(json_str(json_get(var, "value")), POD_FILE);
}

/* Beside references, and nowhere else ours. */
static bool is_literal(const struct json *var, bool injected)
{
	struct str name = json_str(json_get(var, "name")), value = json_str(json_get(var, "value"));

	return injected && ((str_eqz(name, "IPUOF_VIPU_API_GCD_ID") && str_eqz(value, "0")) ||
			    (str_eqz(name, POD_TIMEOUT_NAME) && str_eqz(value, POD_TIMEOUT)));
}

static void strip_containers(struct jmut *spec, bool injected)
{
	for (size_t k = 0; k < POD_CONTAINER_LISTS; k++) {
		struct json_iter it = json_iter(jmut_view(jmut_get(spec, pod_container_lists[k])));

		while (json_next(&it)) {
			struct jmut *container = jmut_of(it.value);
			bool referred = drop_ours(container, "env", is_reference, injected);

			drop_ours(container, "env", is_literal, referred);
			drop_ours(container, "env", is_path, injected);
			if (injected)
				drop_ours(container, "volumeMounts", is_mount, injected);
		}
	}
}

/* The controller's node selector: another partition may be another controller's. */
static void strip_selector(struct jmut *spec, struct str added)
{
	struct jmut *selector = jmut_get(spec, "nodeSelector");
	struct str key, value;

	if (!str_cut(added, '=', &key, &value) || !str_eq(text_of(jmut_getn(selector, key)), value))
		return;
	jmut_deln(selector, key);
	del_if_empty(spec, "nodeSelector");
}

static bool strip_metadata(struct jmut *meta)
{
	static const char *const names[] = {POD_ANNOTATION_STATUS, POD_ANNOTATION_SELECTOR,
					    POD_ANNOTATION_PARTITION, POD_ANNOTATION_WAITING};
	struct jmut *labels = jmut_get(meta, "labels"),
		    *annotations = jmut_get(meta, "annotations");
	bool injected = jmut_get(labels, POD_LABEL) || jmut_get(annotations, POD_ANNOTATION_STATUS);

	if (jmut_get(labels, POD_LABEL)) {
		jmut_del(labels, POD_LABEL);
		del_if_empty(meta, "labels");
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (jmut_get(annotations, names[i])) {
			jmut_del(annotations, names[i]);
			del_if_empty(meta, "annotations");
		}
	}
	return injected;
}

void pod_strip(struct jmut *pod, bool *ret_injected)
{
	struct jmut *spec = jmut_get(pod, "spec"), *meta = jmut_get(pod, "metadata");
	struct str added = text_of(
		jmut_get(jmut_get(meta, "annotations"), POD_ANNOTATION_SELECTOR));
	bool injected;

	/* Before its annotation goes. */
	strip_selector(spec, added);
	injected = strip_metadata(meta);
	drop_ours(spec, "schedulingGates", is_gate, injected);
	injected |= drop_ours(spec, "initContainers", is_init, injected);
	injected |= drop_ours(spec, "volumes", is_volume, injected);
	strip_containers(spec, injected);
	*ret_injected = injected;
}
