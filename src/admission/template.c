/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration's limits on templates, one after the other over the template as the user wrote
 * it: what the operator itself sets in Pods is the administrator's already.
 */
#include "admission/template.h"

#include <stdio.h>
#include <string.h>

#include "admission/security.h"
#include "core/str.h"

#define SPEC "spec.workers.template.spec"

static bool is_set(const struct json *v)
{
	return v && json_type(v) != JSON_NULL;
}

static bool is_any(const char *list)
{
	return !list || strcmp(list, "*") == 0;
}

/* ---- paths of the host ---- */

/* The same folder, or one below it; a path that goes back up is below nothing. */
static bool is_below(struct str path, struct str folder)
{
	while (folder.len > 1 && folder.p[folder.len - 1] == '/')
		folder.len--;
	if (!folder.len || !str_has_prefix(path, folder))
		return false;
	if (folder.len == 1 || path.len == folder.len)
		return true;
	return path.p[folder.len] == '/';
}

static bool goes_back(struct str path)
{
	struct str part;

	do {
		str_cut(path, '/', &part, &path);
		if (str_eqz(part, ".."))
			return true;
	} while (path.len);
	return false;
}

static bool is_path_listed(struct str path, const char *list)
{
	struct str rest = str_of(list), folder;

	if (goes_back(path))
		return false;
	while (rest.len) {
		str_cut(rest, ',', &folder, &rest);
		if (is_below(path, str_trim(folder)))
			return true;
	}
	return false;
}

static void check_host_paths(const char *list, const struct json *spec,
			     struct admission_findings *out)
{
	struct json_iter it = json_iter(json_get(spec, "volumes"));

	while (json_next(&it)) {
		const struct json *source = json_get(it.value, "hostPath");
		char path[96];

		if (!is_set(source) || is_path_listed(json_str(json_get(source, "path")), list))
			continue;
		snprintf(path, sizeof(path), SPEC ".volumes[%zu].hostPath", it.index);
		if (list[0])
			admission_problem(out, path, "Forbidden",
					  "templates may mount of a node only %s "
					  "(templates.hostPaths of the operator's configuration)",
					  list);
		else
			admission_problem(out, path, "Forbidden",
					  "templates may mount nothing of a node "
					  "(templates.hostPaths of the operator's configuration)");
	}
}

/* ---- accounts ---- */

static void check_accounts(const char *list, const struct json *spec,
			   struct admission_findings *out)
{
	static const char *const fields[] = {"serviceAccountName", "serviceAccount"};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct str name = json_str(json_get(spec, fields[i]));
		char path[64];

		if (!name.len || str_eqz(name, "default") || str_list_has(str_of(list), name))
			continue;
		snprintf(path, sizeof(path), SPEC ".%s", fields[i]);
		admission_problem(out, path, "Forbidden",
				  "templates may name only these accounts: default%s%s "
				  "(templates.serviceAccounts of the operator's configuration)",
				  list[0] ? ", " : "", list);
	}
}

/* ---- privileges ---- */

static void refuse(struct admission_findings *out, const char *path)
{
	admission_problem(out, path, "Forbidden",
			  "templates may not take privileges "
			  "(templates.privileged of the operator's configuration)");
}

static void check_context(const struct json *context, const char *at,
			  struct admission_findings *out)
{
	struct json_iter add = json_iter(json_at(context, "capabilities", "add", NULL));
	char path[160];

	if (json_bool(json_get(context, "privileged"), false)) {
		snprintf(path, sizeof(path), "%s.privileged", at);
		refuse(out, path);
	}
	if (json_bool(json_at(context, "windowsOptions", "hostProcess", NULL), false)) {
		snprintf(path, sizeof(path), "%s.windowsOptions.hostProcess", at);
		refuse(out, path);
	}
	while (json_next(&add)) {
		struct str name = json_str(add.value);

		/* RDMA needs locked memory. */
		if (str_eqz(name, "IPC_LOCK") || admission_capability_is_common(name))
			continue;
		snprintf(path, sizeof(path), "%s.capabilities.add[%zu]", at, add.index);
		refuse(out, path);
	}
}

static void check_privileges(const struct json *spec, struct admission_findings *out)
{
	static const char *const lists[] = {"initContainers", "containers", "ephemeralContainers"};

	if (json_bool(json_get(spec, "hostPID"), false))
		refuse(out, SPEC ".hostPID");
	check_context(json_get(spec, "securityContext"), SPEC ".securityContext", out);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct json_iter it = json_iter(json_get(spec, lists[i]));
		char at[128];

		while (json_next(&it)) {
			snprintf(at, sizeof(at), SPEC ".%s[%zu].securityContext", lists[i],
				 it.index);
			check_context(json_get(it.value, "securityContext"), at, out);
		}
	}
}

void admission_template_check(const struct admission_template_rules *rules,
			      const struct json *before, const struct json *template_,
			      struct admission_findings *out)
{
	const struct json *spec = json_get(template_, "spec");

	if (before && json_equal(before, template_))
		return;
	if (!is_any(rules->host_paths))
		check_host_paths(rules->host_paths, spec, out);
	if (!is_any(rules->service_accounts))
		check_accounts(rules->service_accounts, spec, out);
	if (rules->no_privileged)
		check_privileges(spec, out);
	if (rules->no_node_name && json_str(json_get(spec, "nodeName")).len)
		admission_problem(out, SPEC ".nodeName", "Forbidden",
				  "templates may not choose a node past the scheduler; use a "
				  "nodeSelector "
				  "(templates.nodeNames of the operator's configuration)");
}
