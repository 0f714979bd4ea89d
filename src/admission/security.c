/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controls of the Pod Security Standards, in the order of their page. A control is a function
 * over the Pod or over each of its containers; those of "restricted" take the place of baseline's
 * on the same field.
 */
#include "admission/security.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 512

struct check {
	const struct json *pod, *spec;
	enum admission_level level;
	bool windows; /* spec.os.name: the API server lets such a Pod set none of these fields */
	bool user_ns; /* hostUsers: false: root in it is nobody outside */
	bool seccomp; /* the Pod's own context has what a container then needn't */
	bool non_root;
	char container[64]; /* "spec.initContainers[0]" */
	admission_security_fn *report;
	void *arg;
	size_t found;
};

__attribute__((format(printf, 3, 4))) static void bad(struct check *c, const char *message,
						      const char *path, ...)
{
	char at[PATH_SIZE];
	va_list ap;

	va_start(ap, path);
	vsnprintf(at, sizeof(at), path, ap);
	va_end(ap);
	c->found++;
	if (c->report)
		c->report(c->arg, at, message);
}

static bool is_set(const struct json *v)
{
	return v && json_type(v) != JSON_NULL;
}

static bool is_true(const struct json *v)
{
	return json_bool(v, false);
}

static bool is_one_of(struct str s, const char *const *list)
{
	for (; *list; list++) {
		if (str_eqz(s, *list))
			return true;
	}
	return false;
}

/* ---- of a security context, the Pod's or a container's ---- */

static void check_windows(struct check *c, const struct json *context, const char *at)
{
	if (is_true(json_at(context, "windowsOptions", "hostProcess", NULL)))
		bad(c, "must be false", "%s.windowsOptions.hostProcess", at);
}

static void check_app_armor(struct check *c, const struct json *context, const char *at)
{
	static const char *const good[] = {"RuntimeDefault", "Localhost", NULL};
	const struct json *profile = json_get(context, "appArmorProfile");

	if (is_set(profile) && !is_one_of(json_str(json_get(profile, "type")), good))
		bad(c, "must be RuntimeDefault or Localhost, or left out",
		    "%s.appArmorProfile.type", at);
}

static void check_se_linux(struct check *c, const struct json *context, const char *at)
{
	static const char *const types[] = {
		"",   "container_t", "container_init_t", "container_kvm_t", "container_engine_t",
		NULL,
	};
	const struct json *options = json_get(context, "seLinuxOptions");

	if (!is_one_of(json_str(json_get(options, "type")), types))
		bad(c,
		    "must be container_t, container_init_t, container_kvm_t or container_engine_t, "
		    "or left out",
		    "%s.seLinuxOptions.type", at);
	if (json_str(json_get(options, "user")).len)
		bad(c, "must be left out", "%s.seLinuxOptions.user", at);
	if (json_str(json_get(options, "role")).len)
		bad(c, "must be left out", "%s.seLinuxOptions.role", at);
}

/* Returns whether a good profile is there. */
static bool check_seccomp(struct check *c, const struct json *context, const char *at)
{
	static const char *const good[] = {"RuntimeDefault", "Localhost", NULL};
	const struct json *profile = json_get(context, "seccompProfile");

	if (!is_set(profile))
		return false;
	if (is_one_of(json_str(json_get(profile, "type")), good))
		return true;
	if (c->level < ADMISSION_RESTRICTED || !c->windows)
		bad(c, "must be RuntimeDefault or Localhost", "%s.seccompProfile.type", at);
	return true; /* said already */
}

static void check_user(struct check *c, const struct json *context, const char *at)
{
	if (json_int(json_get(context, "runAsUser"), 1) == 0)
		bad(c, "must not be 0", "%s.runAsUser", at);
}

/* ---- the Pod ---- */

static void check_host(struct check *c)
{
	static const char *const fields[] = {"hostNetwork", "hostPID", "hostIPC"};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (is_true(json_get(c->spec, fields[i])))
			bad(c, "must be false", "spec.%s", fields[i]);
	}
}

static bool is_allowed_volume(const struct json *volume, const char *const *good)
{
	for (; *good; good++) {
		if (is_set(json_get(volume, *good)))
			return true;
	}
	return false;
}

static void check_volumes(struct check *c)
{
	static const char *const good[] = {
		"configMap", "csi",    "downwardAPI",           "emptyDir",  "ephemeral",
		"image",     "secret", "persistentVolumeClaim", "projected", NULL,
	};
	struct json_iter it = json_iter(json_get(c->spec, "volumes"));

	while (json_next(&it)) {
		struct json_iter source = json_iter(it.value);

		if (c->level == ADMISSION_BASELINE) {
			if (is_set(json_get(it.value, "hostPath")))
				bad(c, "must be left out", "spec.volumes[%zu].hostPath", it.index);
			continue;
		}
		/* One without a source is an emptyDir. */
		while (!is_allowed_volume(it.value, good) && json_next(&source)) {
			if (!str_eqz(source.key, "name") && is_set(source.value))
				bad(c,
				    "must be a configMap, csi, downwardAPI, emptyDir, ephemeral, "
				    "image, persistentVolumeClaim, projected or secret volume",
				    "spec.volumes[%zu].%.*s", it.index, STR_ARG(source.key));
		}
	}
}

static void check_sysctls(struct check *c)
{
	static const char *const safe[] = {
		"kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range",
		"net.ipv4.ip_local_reserved_ports",
		"net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.ping_group_range",
		"net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes",
		"net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_rmem",
		"net.ipv4.tcp_syncookies",
		"net.ipv4.tcp_wmem",
		NULL,
	};
	struct json_iter it = json_iter(json_at(c->spec, "securityContext", "sysctls", NULL));

	while (json_next(&it)) {
		if (!is_one_of(json_str(json_get(it.value, "name")), safe))
			bad(c, "must be one of the sysctls that are safe",
			    "spec.securityContext.sysctls[%zu].name", it.index);
	}
}

/* AppArmor, as it was written before it had fields. */
static void check_annotations(struct check *c)
{
	struct json_iter it = json_iter(json_at(c->pod, "metadata", "annotations", NULL));

	while (json_next(&it)) {
		struct str value = json_str(it.value);

		if (str_has_prefix(it.key,
				   STR("container.apparmor.security.beta.kubernetes.io/")) &&
		    value.len && !str_eqz(value, "runtime/default") &&
		    !str_has_prefix(value, STR("localhost/")))
			bad(c, "must be runtime/default or localhost/NAME",
			    "metadata.annotations[%.*s]", STR_ARG(it.key));
	}
}

static void check_pod(struct check *c)
{
	static const char at[] = "spec.securityContext";
	const struct json *context = json_get(c->spec, "securityContext");
	const struct json *non_root = json_get(context, "runAsNonRoot");

	check_host(c);
	check_volumes(c);
	check_sysctls(c);
	check_annotations(c);
	check_windows(c, context, at);
	check_app_armor(c, context, at);
	check_se_linux(c, context, at);
	c->seccomp = check_seccomp(c, context, at);
	if (c->level < ADMISSION_RESTRICTED || c->user_ns)
		return;
	check_user(c, context, at);
	c->non_root = is_set(non_root);
	if (c->non_root && !is_true(non_root))
		bad(c, "must be true", "%s.runAsNonRoot", at);
}

/* ---- a container ---- */

bool admission_capability_is_common(struct str name)
{
	static const char *const common[] = {
		"AUDIT_WRITE", "CHOWN",  "DAC_OVERRIDE",     "FOWNER",  "FSETID",
		"KILL",        "MKNOD",  "NET_BIND_SERVICE", "SETFCAP", "SETGID",
		"SETPCAP",     "SETUID", "SYS_CHROOT",       NULL,
	};

	return is_one_of(name, common);
}

static void check_capabilities(struct check *c, const struct json *context)
{
	const struct json *all = json_get(context, "capabilities");
	struct json_iter add = json_iter(json_get(all, "add")),
			 drop = json_iter(json_get(all, "drop"));
	bool restricted = c->level == ADMISSION_RESTRICTED, dropped = false;

	if (restricted && c->windows)
		return;
	while (json_next(&add)) {
		struct str name = json_str(add.value);

		if (restricted ? !str_eqz(name, "NET_BIND_SERVICE")
			       : !admission_capability_is_common(name))
			bad(c,
			    restricted ? "must be left out: NET_BIND_SERVICE alone may be added"
				       : "must be left out: only capabilities that containers have "
					 "anyway may be added",
			    "%s.securityContext.capabilities.add[%zu]", c->container, add.index);
	}
	while (json_next(&drop))
		dropped = dropped || str_eqz(json_str(drop.value), "ALL");
	if (restricted && !dropped)
		bad(c, "must hold ALL", "%s.securityContext.capabilities.drop", c->container);
}

static void check_ports(struct check *c, const struct json *container)
{
	struct json_iter it = json_iter(json_get(container, "ports"));

	while (json_next(&it)) {
		if (json_int(json_get(it.value, "hostPort"), 0) != 0)
			bad(c, "must be left out", "%s.ports[%zu].hostPort", c->container,
			    it.index);
	}
}

/* Whom a probe or a hook may talk to: the Pod itself. */
static void check_handlers(struct check *c, const struct json *container)
{
	static const char *const handlers[][2] = {
		{"livenessProbe", NULL},  {"readinessProbe", NULL},   {"startupProbe", NULL},
		{"lifecycle", "preStop"}, {"lifecycle", "postStart"},
	};
	static const char *const ways[] = {"httpGet", "tcpSocket"};

	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		const char *inner = handlers[i][1];
		const struct json *v = json_get(container, handlers[i][0]);

		if (inner)
			v = json_get(v, inner);
		for (size_t k = 0; k < 2; k++) {
			if (json_str(json_at(v, ways[k], "host", NULL)).len)
				bad(c, "must be left out", "%s.%s%s%s.%s.host", c->container,
				    handlers[i][0], inner ? "." : "", inner ? inner : "", ways[k]);
		}
	}
}

/* What only "restricted" asks for. */
static void check_restricted(struct check *c, const struct json *context, const char *at,
			     bool has_seccomp)
{
	const struct json *escalation = json_get(context, "allowPrivilegeEscalation");
	const struct json *non_root = json_get(context, "runAsNonRoot");

	if (!c->windows && (!is_set(escalation) || is_true(escalation)))
		bad(c, "must be false", "%s.allowPrivilegeEscalation", at);
	if (!c->windows && !has_seccomp && !c->seccomp)
		bad(c, "must be RuntimeDefault or Localhost, here or in the Pod's securityContext",
		    "%s.seccompProfile.type", at);
	if (c->user_ns)
		return;
	check_user(c, context, at);
	if (is_set(non_root) ? !is_true(non_root) : !c->non_root)
		bad(c,
		    is_set(non_root) ? "must be true"
				     : "must be true, here or in the Pod's securityContext",
		    "%s.runAsNonRoot", at);
}

static void check_container(struct check *c, const struct json *container)
{
	const struct json *context = json_get(container, "securityContext");
	const struct json *proc_mount = json_get(context, "procMount");
	bool has_seccomp;
	char at[PATH_SIZE];

	snprintf(at, sizeof(at), "%s.securityContext", c->container);
	if (is_true(json_get(context, "privileged")))
		bad(c, "must be false", "%s.privileged", at);
	check_capabilities(c, context);
	check_ports(c, container);
	check_handlers(c, container);
	check_windows(c, context, at);
	check_app_armor(c, context, at);
	check_se_linux(c, context, at);
	if (is_set(proc_mount) && !str_eqz(json_str(proc_mount), "Default") &&
	    (c->level == ADMISSION_RESTRICTED || !c->user_ns))
		bad(c, "must be Default", "%s.procMount", at);
	has_seccomp = check_seccomp(c, context, at);
	if (c->level == ADMISSION_RESTRICTED)
		check_restricted(c, context, at, has_seccomp);
}

/* ---- all ---- */

size_t admission_security_check(const struct json *pod, enum admission_level level,
				admission_security_fn *report, void *arg)
{
	static const char *const lists[] = {"initContainers", "containers", "ephemeralContainers"};
	struct check c = {
		.pod = pod,
		.spec = json_get(pod, "spec"),
		.level = level,
		.report = report,
		.arg = arg,
	};

	if (level == ADMISSION_PRIVILEGED)
		return 0;
	c.windows = str_eqz(json_str(json_at(c.spec, "os", "name", NULL)), "windows");
	c.user_ns = !json_bool(json_get(c.spec, "hostUsers"), true);
	check_pod(&c);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct json_iter it = json_iter(json_get(c.spec, lists[i]));

		while (json_next(&it)) {
			snprintf(c.container, sizeof(c.container), "spec.%s[%zu]", lists[i],
				 it.index);
			check_container(&c, it.value);
		}
	}
	return c.found;
}

static const char *const level_names[] = {
	[ADMISSION_PRIVILEGED] = "privileged",
	[ADMISSION_BASELINE] = "baseline",
	[ADMISSION_RESTRICTED] = "restricted",
};

const char *admission_level_name(enum admission_level level)
{
	return level_names[level];
}

enum admission_level admission_level_of(struct str label)
{
	if (!label.len || str_eqz(label, level_names[ADMISSION_PRIVILEGED]))
		return ADMISSION_PRIVILEGED;
	return str_eqz(label, level_names[ADMISSION_BASELINE]) ? ADMISSION_BASELINE
							       : ADMISSION_RESTRICTED;
}
