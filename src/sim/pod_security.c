/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pod Security Admission, as far as tests need it: what a namespace's label
 * pod-security.kubernetes.io/enforce forbids (baseline: the host's namespaces, privileged,
 * hostPath, hostPorts, capabilities; restricted: also what must be said of each container), in the
 * API server's words.
 */
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "sim/pod_admit.h"

/* One rule: what it's called, and which parts of the Pod break it. */
struct finding {
	struct buf *out;
	const char *name;
	const char *close; /* behind what breaks it */
	size_t n;
};

static void found(struct finding *f, const char *before, struct str what, const char *between)
{
	if (f->n++ == 0)
		buf_printf(f->out, NULL, "%s%s (%s", f->out->len ? ", " : "", f->name, before);
	else
		buf_printf(f->out, NULL, "%s", between);
	buf_append_str(f->out, what, NULL);
}

static void close_finding(struct finding *f)
{
	if (f->n)
		buf_printf(f->out, NULL, "%s)", f->close);
}

typedef bool container_fn(const struct json *container, const struct json *pod_context);

/* Each container of all kinds that breaks a rule, named; who: "container", or "pod or container".
 */
static void check_containers(struct buf *out, const struct json *spec, const char *rule,
			     const char *who, const char *must, container_fn *breaks)
{
	static const char *const lists[] = {"initContainers", "containers"};
	struct buf names = BUF_INIT(4096);
	size_t n = 0;

	for (size_t i = 0; i < 2; i++) {
		struct json_iter it = json_iter(json_get(spec, lists[i]));

		while (json_next(&it)) {
			if (breaks(it.value, json_get(spec, "securityContext")))
				buf_printf(&names, NULL, "%s\"%.*s\"", n++ ? ", " : "",
					   STR_ARG(json_str(json_get(it.value, "name"))));
		}
	}
	if (n)
		buf_printf(out, NULL, "%s%s (%s%s %.*s must %s)", out->len ? ", " : "", rule, who,
			   n > 1 ? "s" : "", STR_ARG(buf_str(&names)), must);
	buf_done(&names);
}

static const struct json *context(const struct json *container, const char *key)
{
	return json_at(container, "securityContext", key, NULL);
}

static bool is_privileged(const struct json *container, const struct json *pod)
{
	(void)pod;
	return json_bool(context(container, "privileged"), false);
}

static bool has_host_port(const struct json *container, const struct json *pod)
{
	struct json_iter it = json_iter(json_get(container, "ports"));

	(void)pod;
	while (json_next(&it)) {
		if (json_int(json_get(it.value, "hostPort"), 0))
			return true;
	}
	return false;
}

static bool may_escalate(const struct json *container, const struct json *pod)
{
	(void)pod;
	return json_bool(context(container, "allowPrivilegeEscalation"), true);
}

static bool keeps_capabilities(const struct json *container, const struct json *pod)
{
	struct json_iter it = json_iter(json_get(context(container, "capabilities"), "drop"));

	(void)pod;
	while (json_next(&it)) {
		if (str_eqz(json_str(it.value), "ALL"))
			return false;
	}
	return true;
}

/* What containers have anyway. */
static bool is_common(struct str name)
{
	static const char *const common[] = {
		"AUDIT_WRITE", "CHOWN",  "DAC_OVERRIDE",     "FOWNER",  "FSETID",
		"KILL",        "MKNOD",  "NET_BIND_SERVICE", "SETFCAP", "SETGID",
		"SETPCAP",     "SETUID", "SYS_CHROOT",
	};

	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
		if (str_eqz(name, common[i]))
			return true;
	}
	return false;
}

static bool adds_capabilities(const struct json *container, const struct json *pod)
{
	struct json_iter it = json_iter(
		json_at(container, "securityContext", "capabilities", "add", NULL));

	(void)pod;
	while (json_next(&it)) {
		if (!is_common(json_str(it.value)))
			return true;
	}
	return false;
}

static bool may_be_root(const struct json *container, const struct json *pod)
{
	return !json_bool(context(container, "runAsNonRoot"),
			  json_bool(json_get(pod, "runAsNonRoot"), false));
}

static bool has_no_seccomp(const struct json *container, const struct json *pod)
{
	struct str own = json_str(json_get(context(container, "seccompProfile"), "type"));
	struct str all = json_str(json_at(pod, "seccompProfile", "type", NULL));
	struct str type = own.len ? own : all;

	return !str_eqz(type, "RuntimeDefault") && !str_eqz(type, "Localhost");
}

/* Each capability that breaks the rule is named, for all containers together. */
static void check_capabilities(struct buf *out, const struct json *spec, const char *rule)
{
	static const char *const lists[] = {"initContainers", "containers"};
	struct buf must = BUF_INIT(4096);
	size_t n = 0;

	for (size_t i = 0; i < 2; i++) {
		struct json_iter it = json_iter(json_get(spec, lists[i]));

		while (json_next(&it)) {
			struct json_iter add = json_iter(
				json_get(context(it.value, "capabilities"), "add"));

			while (json_next(&add)) {
				struct str name = json_str(add.value);

				if (!is_common(name))
					buf_printf(&must, NULL, "%s\"%.*s\"",
						   n++ ? ", " : "not include ", STR_ARG(name));
			}
		}
	}
	buf_printf(&must, NULL, " in securityContext.capabilities.add");
	if (n) {
		CLEANUP_FREE char *words = str_dup(buf_str(&must));

		check_containers(out, spec, rule, "container", words, adds_capabilities);
	}
	buf_done(&must);
}

static void check_baseline(struct buf *out, const struct json *spec, bool is_restricted)
{
	static const char *const host[] = {"hostNetwork", "hostPID", "hostIPC"};
	struct finding namespaces = {.out = out, .name = "host namespaces", .close = "=true"};
	struct finding paths = {.out = out, .name = "hostPath volumes", .close = "\""};
	struct json_iter it = json_iter(json_get(spec, "volumes"));

	for (size_t i = 0; i < 3; i++) {
		if (json_bool(json_get(spec, host[i]), false))
			found(&namespaces, "", str_of(host[i]), "=true, ");
	}
	close_finding(&namespaces);
	while (json_next(&it)) {
		if (json_get(it.value, "hostPath"))
			found(&paths, "volume \"", json_str(json_get(it.value, "name")), "\", \"");
	}
	close_finding(&paths);
	check_containers(out, spec, "hostPort", "container", "not use hostPorts", has_host_port);
	check_containers(out, spec, "privileged", "container",
			 "not set securityContext.privileged=true", is_privileged);
	if (!is_restricted)
		check_capabilities(out, spec, "non-default capabilities");
}

static void check_restricted(struct buf *out, const struct json *spec)
{
	check_containers(out, spec, "allowPrivilegeEscalation != false", "container",
			 "set securityContext.allowPrivilegeEscalation=false", may_escalate);
	check_capabilities(out, spec, "unrestricted capabilities");
	check_containers(out, spec, "unrestricted capabilities", "container",
			 "set securityContext.capabilities.drop=[\"ALL\"]", keeps_capabilities);
	check_containers(out, spec, "runAsNonRoot != true", "pod or container",
			 "set securityContext.runAsNonRoot=true", may_be_root);
	check_containers(out, spec, "seccompProfile", "pod or container",
			 "set securityContext.seccompProfile.type to \"RuntimeDefault\" or "
			 "\"Localhost\"",
			 has_no_seccomp);
}

bool sim_pod_is_secure(const struct json *pod, const struct json *namespace, struct buf *why)
{
	const struct json *labels = json_at(namespace, "metadata", "labels", NULL);
	struct str level = json_str(json_get(labels, "pod-security.kubernetes.io/enforce"));
	const struct json *spec = json_get(pod, "spec");
	struct buf text = BUF_INIT(8192);
	bool secure;

	if (level.len && !str_eqz(level, "privileged"))
		check_baseline(&text, spec, str_eqz(level, "restricted"));
	if (str_eqz(level, "restricted"))
		check_restricted(&text, spec);
	secure = text.len == 0;
	if (!secure)
		buf_printf(why, NULL, "violates PodSecurity \"%.*s:latest\": %.*s", STR_ARG(level),
			   STR_ARG(buf_str(&text)));
	buf_done(&text);
	return secure;
}
