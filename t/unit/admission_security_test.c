/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pod Security: each control of the standards by a change to a Pod that "restricted" takes, and the
 * fields that either level then complains of; and the configuration's limits on templates.
 */
#include "admission/security.h"
#include "admission/template.h"
#include "core/str.h"
#include "tap.h"

static const char good_pod[] =
	"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"securityContext\":{\"runAsNonRoot\":true,"
	"\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}}}";
static const char good_container[] =
	"{\"name\":\"c\",\"image\":\"i\",\"securityContext\":{\"allowPrivilegeEscalation\":false,"
	"\"capabilities\":{\"drop\":[\"ALL\"]}}}";

#define SC(x)     "{\"securityContext\":{" x "}}"
#define SPEC(x)   "{\"spec\":{" x "}}"
#define PSC(x)    SPEC("\"securityContext\":{" x "}")
#define C         "spec.containers[0]."
#define CSC       C "securityContext."
#define P         "spec.securityContext."
#define VOLUME(x) SPEC("\"volumes\":[{\"name\":\"v\"," x "}]")

struct row {
	const char *name, *pod, *container; /* merge patches, or NULL */
	const char *baseline, *restricted;  /* paths, each followed by a blank */
};

/* clang-format off */
static const struct row rows[] = {
	{"a Pod in order", NULL, NULL, "", ""},
	{"one that says nothing", PSC("\"runAsNonRoot\":null,\"seccompProfile\":null"), "{\"securityContext\":null}", "",
	 CSC "capabilities.drop " CSC "allowPrivilegeEscalation " CSC "seccompProfile.type " CSC "runAsNonRoot "},
	/* baseline */
	{"HostProcess of the Pod", PSC("\"windowsOptions\":{\"hostProcess\":true}"), NULL, P "windowsOptions.hostProcess ", P "windowsOptions.hostProcess "},
	{"HostProcess of a container", NULL, SC("\"windowsOptions\":{\"hostProcess\":true}"), CSC "windowsOptions.hostProcess ", CSC "windowsOptions.hostProcess "},
	{"HostProcess false", NULL, SC("\"windowsOptions\":{\"hostProcess\":false}"), "", ""},
	{"hostNetwork", SPEC("\"hostNetwork\":true"), NULL, "spec.hostNetwork ", "spec.hostNetwork "},
	{"hostPID", SPEC("\"hostPID\":true"), NULL, "spec.hostPID ", "spec.hostPID "},
	{"hostIPC", SPEC("\"hostIPC\":true"), NULL, "spec.hostIPC ", "spec.hostIPC "},
	{"host namespaces false", SPEC("\"hostIPC\":false,\"hostPID\":false,\"hostNetwork\":false"), NULL, "", ""},
	{"privileged", NULL, SC("\"privileged\":true,\"allowPrivilegeEscalation\":null"), CSC "privileged ", CSC "privileged " CSC "allowPrivilegeEscalation "},
	{"a capability that all have", NULL, SC("\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"CHOWN\"]}"), "", CSC "capabilities.add[0] "},
	{"a capability that few have", NULL, SC("\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"NET_BIND_SERVICE\",\"IPC_LOCK\"]}"), CSC "capabilities.add[1] ", CSC "capabilities.add[1] "},
	{"capabilities by another case", NULL, SC("\"capabilities\":{\"drop\":[\"all\"],\"add\":[\"chown\"]}"), CSC "capabilities.add[0] ", CSC "capabilities.add[0] " CSC "capabilities.drop "},
	{"hostPath", VOLUME("\"hostPath\":{\"path\":\"/\"}"), NULL, "spec.volumes[0].hostPath ", "spec.volumes[0].hostPath "},
	{"a host port", NULL, "{\"ports\":[{\"containerPort\":1},{\"containerPort\":2,\"hostPort\":2}]}", C "ports[1].hostPort ", C "ports[1].hostPort "},
	{"host port 0", NULL, "{\"ports\":[{\"containerPort\":2,\"hostPort\":0}]}", "", ""},
	{"probes of elsewhere", NULL, "{\"livenessProbe\":{\"httpGet\":{\"host\":\"a\"}},\"readinessProbe\":{\"tcpSocket\":{\"host\":\"127.0.0.1\"}},\"startupProbe\":{\"httpGet\":{\"host\":\"\"}}}",
	 C "livenessProbe.httpGet.host " C "readinessProbe.tcpSocket.host ", C "livenessProbe.httpGet.host " C "readinessProbe.tcpSocket.host "},
	{"hooks to elsewhere", NULL, "{\"lifecycle\":{\"preStop\":{\"httpGet\":{\"host\":\"a\"}},\"postStart\":{\"tcpSocket\":{\"host\":\"b\"}}}}",
	 C "lifecycle.preStop.httpGet.host " C "lifecycle.postStart.tcpSocket.host ", C "lifecycle.preStop.httpGet.host " C "lifecycle.postStart.tcpSocket.host "},
	{"AppArmor of the Pod", PSC("\"appArmorProfile\":{\"type\":\"Unconfined\"}"), NULL, P "appArmorProfile.type ", P "appArmorProfile.type "},
	{"AppArmor of a container", NULL, SC("\"appArmorProfile\":{\"type\":\"Unconfined\"}"), CSC "appArmorProfile.type ", CSC "appArmorProfile.type "},
	{"AppArmor that is fine", PSC("\"appArmorProfile\":{\"type\":\"Localhost\"}"), SC("\"appArmorProfile\":{\"type\":\"RuntimeDefault\"}"), "", ""},
	{"AppArmor as an annotation", "{\"metadata\":{\"annotations\":{\"container.apparmor.security.beta.kubernetes.io/c\":\"unconfined\"}}}", NULL,
	 "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c] ", "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c] "},
	{"AppArmor annotations that are fine", "{\"metadata\":{\"annotations\":{\"container.apparmor.security.beta.kubernetes.io/c\":\"localhost/x\",\"container.apparmor.security.beta.kubernetes.io/d\":\"runtime/default\",\"container.apparmor.security.beta.kubernetes.io/e\":\"\"}}}", NULL, "", ""},
	{"SELinux of the Pod", PSC("\"seLinuxOptions\":{\"type\":\"spc_t\",\"user\":\"u\",\"role\":\"r\"}"), NULL,
	 P "seLinuxOptions.type " P "seLinuxOptions.user " P "seLinuxOptions.role ", P "seLinuxOptions.type " P "seLinuxOptions.user " P "seLinuxOptions.role "},
	{"SELinux of a container", NULL, SC("\"seLinuxOptions\":{\"type\":\"spc_t\"}"), CSC "seLinuxOptions.type ", CSC "seLinuxOptions.type "},
	{"SELinux that is fine", PSC("\"seLinuxOptions\":{\"type\":\"container_t\",\"level\":\"s0\"}"), SC("\"seLinuxOptions\":{\"type\":\"container_engine_t\"}"), "", ""},
	{"procMount", NULL, SC("\"procMount\":\"Unmasked\""), CSC "procMount ", CSC "procMount "},
	{"procMount Default", NULL, SC("\"procMount\":\"Default\""), "", ""},
	{"procMount in a user namespace", SPEC("\"hostUsers\":false"), SC("\"procMount\":\"Unmasked\""), "", CSC "procMount "},
	{"seccomp Unconfined of the Pod", PSC("\"seccompProfile\":{\"type\":\"Unconfined\"}"), NULL, P "seccompProfile.type ", P "seccompProfile.type "},
	{"seccomp Unconfined of a container", NULL, SC("\"seccompProfile\":{\"type\":\"Unconfined\"}"), CSC "seccompProfile.type ", CSC "seccompProfile.type "},
	{"a sysctl", PSC("\"sysctls\":[{\"name\":\"net.ipv4.tcp_rmem\",\"value\":\"1\"},{\"name\":\"kernel.msgmax\",\"value\":\"1\"}]"), NULL, P "sysctls[1].name ", P "sysctls[1].name "},
	/* restricted */
	{"a volume over the network", VOLUME("\"nfs\":{\"server\":\"s\",\"path\":\"/\"}"), NULL, "", "spec.volumes[0].nfs "},
	{"a claimed volume", VOLUME("\"persistentVolumeClaim\":{\"claimName\":\"c\"}"), NULL, "", ""},
	{"an image as a volume", VOLUME("\"image\":{\"reference\":\"r\"}"), NULL, "", ""},
	{"a volume of nothing", SPEC("\"volumes\":[{\"name\":\"v\"}]"), NULL, "", ""},
	{"privilege escalation unsaid", NULL, SC("\"allowPrivilegeEscalation\":null"), "", CSC "allowPrivilegeEscalation "},
	{"privilege escalation", NULL, SC("\"allowPrivilegeEscalation\":true"), "", CSC "allowPrivilegeEscalation "},
	{"root, says the Pod", PSC("\"runAsNonRoot\":false"), NULL, "", P "runAsNonRoot "},
	{"root, says the container", NULL, SC("\"runAsNonRoot\":false"), "", CSC "runAsNonRoot "},
	{"root unsaid", PSC("\"runAsNonRoot\":null"), NULL, "", CSC "runAsNonRoot "},
	{"not root, says the container alone", PSC("\"runAsNonRoot\":null"), SC("\"runAsNonRoot\":true"), "", ""},
	{"user 0 of the Pod", PSC("\"runAsUser\":0"), NULL, "", P "runAsUser "},
	{"user 0 of a container", NULL, SC("\"runAsUser\":0"), "", CSC "runAsUser "},
	{"user 1", PSC("\"runAsUser\":1"), SC("\"runAsUser\":2"), "", ""},
	{"root in a user namespace", SPEC("\"hostUsers\":false,\"securityContext\":{\"runAsNonRoot\":false,\"runAsUser\":0}"), NULL, "", ""},
	{"seccomp unsaid", PSC("\"seccompProfile\":null"), NULL, "", CSC "seccompProfile.type "},
	{"seccomp by the container alone", PSC("\"seccompProfile\":null"), SC("\"seccompProfile\":{\"type\":\"Localhost\"}"), "", ""},
	{"capabilities that aren't dropped", NULL, SC("\"capabilities\":{\"drop\":[\"CHOWN\"]}"), "", CSC "capabilities.drop "},
	{"NET_BIND_SERVICE", NULL, SC("\"capabilities\":{\"drop\":[\"ALL\"],\"add\":[\"NET_BIND_SERVICE\"]}"), "", ""},
	{"Windows", SPEC("\"os\":{\"name\":\"windows\"},\"securityContext\":{\"seccompProfile\":null}"), "{\"securityContext\":null}", "", ""},
	{"Windows as root", SPEC("\"os\":{\"name\":\"windows\"},\"securityContext\":{\"seccompProfile\":null,\"runAsNonRoot\":null}"), "{\"securityContext\":null}", "", CSC "runAsNonRoot "},
};
/* clang-format on */

static struct jmut *parse(struct jmut_doc *doc, const char *z)
{
	CLEANUP_JSON struct json_doc *in = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(z), &in, &err) < 0)
		bail_out(err.msg);
	return jmut_copy(doc, json_root(in));
}

static struct jmut *patched(struct jmut_doc *doc, const char *z, const char *patch)
{
	CLEANUP_JMUT struct jmut_doc *other = jmut_doc_new();

	if (!patch)
		return parse(doc, z);
	return jmut_merge_patch(doc, parse(doc, z), jmut_view(parse(other, patch)));
}

struct got {
	char text[2048];
	size_t n;
};

static void add(void *arg, const char *path, const char *message)
{
	struct got *g = arg;
	size_t used = strlen(g->text);

	g->n++;
	ok(strncmp(message, "must ", 5) == 0, "says what it must be: %s", message);
	snprintf(g->text + used, sizeof(g->text) - used, "%s ", path);
}

static struct got check(const struct json *pod, enum admission_level level)
{
	struct got got = {0};
	size_t n = admission_security_check(pod, level, add, &got);

	is_uint(n, got.n, "as many as it says");
	is_uint(admission_security_check(pod, level, NULL, NULL), n, "and without a listener");
	return got;
}

static void test_controls(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct jmut *pod = patched(doc, good_pod, rows[i].pod);
		struct jmut *list = jmut_array(doc);

		jmut_push(doc, list, patched(doc, good_container, rows[i].container));
		jmut_set(doc, jmut_get(pod, "spec"), "containers", list);
		row_begin("%s", rows[i].name);
		is_str(check(jmut_view(pod), ADMISSION_BASELINE).text, rows[i].baseline,
		       "baseline");
		is_str(check(jmut_view(pod), ADMISSION_RESTRICTED).text, rows[i].restricted,
		       "restricted");
		is_uint(check(jmut_view(pod), ADMISSION_PRIVILEGED).n, 0, "privileged");
	}
	row_end();
}

/* Every control of a container holds for all three lists. */
static void test_lists(void)
{
	static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};

	for (size_t i = 0; i < 3; i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_FREE char *want = xasprintf("spec.%s[1].securityContext.privileged ",
						    lists[i]);
		struct jmut *pod = parse(doc, good_pod), *list = jmut_array(doc);

		jmut_push(doc, list, parse(doc, good_container));
		jmut_push(doc, list, patched(doc, good_container, SC("\"privileged\":true")));
		jmut_set(doc, jmut_get(pod, "spec"), lists[i], list);
		is_str(check(jmut_view(pod), ADMISSION_BASELINE).text, want, "%s", lists[i]);
	}
}

static void test_shapeless(void)
{
	static const char *const pods[] = {
		"{}",
		"[]",
		"{\"spec\":7}",
		"{\"spec\":{\"containers\":{},\"volumes\":\"x\"}}",
		("{\"spec\":{\"containers\":[7,null,\"x\"],\"volumes\":[7],\"securityContext\":[]},"
		 "\"metadata\":{\"annotations\":[1]}}"),
	};

	for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

		is_uint(admission_security_check(jmut_view(parse(doc, pods[i])), ADMISSION_BASELINE,
						 NULL, NULL),
			0, "nothing is forbidden in %s", pods[i]);
	}
}

static void test_levels(void)
{
	is_int(admission_level_of(STR("")), ADMISSION_PRIVILEGED, "no label");
	is_int(admission_level_of(STR("privileged")), ADMISSION_PRIVILEGED, "privileged");
	is_int(admission_level_of(STR("baseline")), ADMISSION_BASELINE, "baseline");
	is_int(admission_level_of(STR("restricted")), ADMISSION_RESTRICTED, "restricted");
	is_int(admission_level_of(STR("Baseline")), ADMISSION_RESTRICTED,
	       "what isn't a level is the strictest");
	is_str(admission_level_name(ADMISSION_BASELINE), "baseline", "its name");
}

/* ---- limits on templates ---- */

#define T(x)       "{\"spec\":{" x "}}"
#define HOST(path) T("\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"" path "\"}}]")
#define TSPEC      "spec.workers.template.spec."

/* clang-format off */
static const struct {
	const char *name;
	struct admission_template_rules rules;
	const char *template_, *want; /* paths, each followed by a blank */
} limits[] = {
	{"anything, where nothing is said", {0}, T("\"hostPID\":true,\"nodeName\":\"n\",\"serviceAccountName\":\"s\",\"volumes\":[{\"hostPath\":{\"path\":\"/\"}}],\"containers\":[{\"securityContext\":{\"privileged\":true}}]"), ""},
	{"any path", {.host_paths = "*"}, HOST("/etc"), ""},
	{"no path", {.host_paths = ""}, HOST("/etc"), TSPEC "volumes[0].hostPath "},
	{"no path, other volumes", {.host_paths = ""}, T("\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]"), ""},
	{"a listed folder", {.host_paths = "/dev/shm, /data/"}, HOST("/data"), ""},
	{"below a listed one", {.host_paths = "/dev/shm, /data/"}, HOST("/dev/shm/x"), ""},
	{"beside a listed one", {.host_paths = "/data"}, HOST("/database"), TSPEC "volumes[0].hostPath "},
	{"above a listed one", {.host_paths = "/data/x"}, HOST("/data"), TSPEC "volumes[0].hostPath "},
	{"out of a listed one", {.host_paths = "/data"}, HOST("/data/../etc"), TSPEC "volumes[0].hostPath "},
	{"a name with dots", {.host_paths = "/data"}, HOST("/data/..x"), ""},
	{"the root of the host", {.host_paths = "/"}, HOST("/etc"), ""},
	{"a path that isn't there", {.host_paths = "/data"}, T("\"volumes\":[{\"name\":\"v\",\"hostPath\":{}}]"), TSPEC "volumes[0].hostPath "},
	{"any account", {.service_accounts = "*"}, T("\"serviceAccountName\":\"s\""), ""},
	{"a listed account", {.service_accounts = "a, s"}, T("\"serviceAccountName\":\"s\""), ""},
	{"the default account", {.service_accounts = ""}, T("\"serviceAccountName\":\"default\""), ""},
	{"no account named", {.service_accounts = ""}, T("\"x\":1"), ""},
	{"another account", {.service_accounts = "a"}, T("\"serviceAccountName\":\"s\""), TSPEC "serviceAccountName "},
	{"by the field's old name", {.service_accounts = "a"}, T("\"serviceAccount\":\"s\""), TSPEC "serviceAccount "},
	{"a node's name", {.no_node_name = true}, T("\"nodeName\":\"n\""), TSPEC "nodeName "},
	{"no node's name", {.no_node_name = true}, T("\"nodeName\":\"\",\"nodeSelector\":{\"a\":\"b\"}"), ""},
	{"privileged", {.no_privileged = true}, T("\"containers\":[{},{\"securityContext\":{\"privileged\":true}}]"), TSPEC "containers[1].securityContext.privileged "},
	{"privileged init", {.no_privileged = true}, T("\"initContainers\":[{\"securityContext\":{\"privileged\":true}}]"), TSPEC "initContainers[0].securityContext.privileged "},
	{"capabilities", {.no_privileged = true}, T("\"containers\":[{\"securityContext\":{\"capabilities\":{\"add\":[\"IPC_LOCK\",\"CHOWN\",\"SYS_ADMIN\"]}}}]"), TSPEC "containers[0].securityContext.capabilities.add[2] "},
	{"the host's processes", {.no_privileged = true}, T("\"hostPID\":true,\"hostIPC\":true"), TSPEC "hostPID "},
	{"Windows' host processes", {.no_privileged = true}, T("\"securityContext\":{\"windowsOptions\":{\"hostProcess\":true}}"), TSPEC "securityContext.windowsOptions.hostProcess "},
};
/* clang-format on */

static void join(const struct admission_findings *f, char *to, size_t size)
{
	to[0] = '\0';
	for (size_t i = 0; i < f->n_problems; i++) {
		size_t used = strlen(to);

		snprintf(to + used, size - used, "%s ", f->problems[i].path);
		is_str(f->problems[i].kind, "Forbidden", "the kind");
		has_str(f->problems[i].message, "(templates.", "names the key");
	}
}

static void test_limits(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		const struct json *now = jmut_view(parse(doc, limits[i].template_));
		const struct json *other = jmut_view(parse(doc, "{}"));
		char text[512];

		row_begin("%s", limits[i].name);
		admission_template_check(&limits[i].rules, NULL, now, &f);
		join(&f, text, sizeof(text));
		is_str(text, limits[i].want, "the fields");
		admission_findings_done(&f);
		admission_template_check(&limits[i].rules, other, now, &f);
		join(&f, text, sizeof(text));
		is_str(text, limits[i].want, "the same on a change");
		admission_findings_done(&f);
		admission_template_check(&limits[i].rules, now, now, &f);
		is_uint(f.n_problems, 0, "nothing of what is there already");
		admission_findings_done(&f);
	}
	row_end();
}

int main(void)
{
	test_controls();
	test_lists();
	test_shapeless();
	test_levels();
	test_limits();
	return done_testing();
}
