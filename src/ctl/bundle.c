/* SPDX-License-Identifier: Apache-2.0 */
/*
 * support-bundle: asks for all that an expert needs, one thing after the other, takes out what
 * looks like a secret, and writes one archive, with a list of what is in it and of what couldn't be
 * had. Secrets aren't even asked for. Bounded in size and in time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "ctl/commands.h"
#include "ctl/redact.h"
#include "ctl/tar.h"
#include "ctl/term.h"
#include "kube/object.h"

#define MAX_BYTES   ((size_t)128 << 20) /* the archive */
#define MAX_SECONDS 300
#define LOG_MIB     2
#define LOG_LINE    128 /* bytes, on the average: how many lines to ask for */
#define PAGE        "1000"
#define MAX_PATH    1024
#define NO_TIME     "no time left"
#define KUBE        "kubernetes/"
#define OPERATOR    "operator/"

enum shape { AS_JSON, AS_NODES, AS_WEBHOOKS, AS_CONFIGMAPS };

/* %s: the operator's namespace. */
static const struct source {
	const char *file, *path;
	bool of_proxy; /* path is the proxy's, not the API server's */
	enum shape shape;
} sources[] = {
	{KUBE "version.json", "/version", false, AS_JSON},
	{KUBE "ipujobs-definition.json",
	 "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipujobs.graphcore.ai", false,
	 AS_JSON},
	{KUBE "nodes.json", "/api/v1/nodes?limit=" PAGE, false, AS_NODES},
	{KUBE "mutating-webhooks.json",
	 "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", false, AS_WEBHOOKS},
	{KUBE "validating-webhooks.json",
	 "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", false,
	 AS_WEBHOOKS},
	{KUBE "priorityclasses.json", "/apis/scheduling.k8s.io/v1/priorityclasses", false, AS_JSON},
	{OPERATOR "deployments.json", "/apis/apps/v1/namespaces/%s/deployments", false, AS_JSON},
	{OPERATOR "pods.json", "/api/v1/namespaces/%s/pods?limit=" PAGE, false, AS_JSON},
	{OPERATOR "services.json", "/api/v1/namespaces/%s/services", false, AS_JSON},
	{OPERATOR "endpointslices.json", "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices",
	 false, AS_JSON},
	{OPERATOR "configmaps.json", "/api/v1/namespaces/%s/configmaps?limit=" PAGE, false,
	 AS_CONFIGMAPS},
	{OPERATOR "leases.json", "/apis/coordination.k8s.io/v1/namespaces/%s/leases", false,
	 AS_JSON},
	{OPERATOR "events.json", "/api/v1/namespaces/%s/events?limit=" PAGE, false, AS_JSON},
	{OPERATOR "networkpolicies.json",
	 "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies", false, AS_JSON},
	{OPERATOR "serviceaccounts.json", "/api/v1/namespaces/%s/serviceaccounts", false, AS_JSON},
	{"jobs/ipujobs.json", "/apis/graphcore.ai/v1alpha1/ipujobs?limit=" PAGE, false, AS_JSON},
	{"jobs/pods.json", "/api/v1/pods?labelSelector=graphcore.ai%%2Fjob&limit=" PAGE, false,
	 AS_JSON},
	{"jobs/annotated-pods.json", "/api/v1/pods?labelSelector=graphcore.ai%%2Fpod&limit=" PAGE,
	 false, AS_JSON},
	{"jobs/events.json",
	 "/api/v1/events?fieldSelector=involvedObject.kind%%3DIPUJob&limit=" PAGE, false, AS_JSON},
	{"jobs/resourcequotas.json", "/api/v1/resourcequotas?limit=" PAGE, false, AS_JSON},
	{"proxy/stats.json", "/stats", true, AS_JSON},
	{"proxy/query.json", "/query?size=1", true, AS_JSON},
	{"proxy/capacity.json", "/capacity", true, AS_JSON},
	{"proxy/queue.json", "/queue", true, AS_JSON},
	{"proxy/partitions.json", "/partitions", true, AS_JSON},
	{"proxy/controllers.json", "/controllers", true, AS_JSON},
};

/* What the operator's accounts must be allowed, as a sample: doc/reference/permissions.md has all.
 */
static const struct {
	bool of_proxy;
	const char *group, *resource, *verb;
} rights[] = {
	{false, "graphcore.ai", "ipujobs", "watch"},
	{false, "graphcore.ai", "ipujobs/status", "patch"},
	{false, "", "pods", "watch"},
	{false, "", "pods", "create"},
	{false, "", "pods", "delete"},
	{false, "", "configmaps", "create"},
	{false, "", "events", "create"},
	{false, "rbac.authorization.k8s.io", "roles", "create"},
	{true, "", "namespaces", "watch"},
	{true, "authentication.k8s.io", "tokenreviews", "create"},
};

struct bundle {
	struct ctl_link *link;
	const struct ctl_options *o;
	struct buf tar, list; /* the archive; MANIFEST.txt */
	char *folder;
	int64_t begin_ms, now_s;
	size_t files, missed;
};

/* ---- adding ---- */

static void note_missing(struct bundle *b, const char *file, const char *from, const char *why)
{
	b->missed++;
	(void)buf_printf(&b->list, NULL, "-\t%s\t%s\t%s\n", file, from, why);
}

static void add(struct bundle *b, const char *file, const char *from, struct str content)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s", b->folder, file);
	struct err err = ERR_INIT;

	if (ctl_tar_add(&b->tar, path, content, b->now_s, &err) < 0) {
		note_missing(b, file, from, err.msg);
		return;
	}
	b->files++;
	(void)buf_printf(&b->list, NULL, "%zu\t%s\t%s\n", content.len, file, from);
}

/* Only what concerns the scheduling of our Pods. */
static struct jmut *shape_nodes(struct jmut_doc *doc, const struct json *list)
{
	static const char *const status[] = {"nodeInfo", "allocatable", "conditions"};
	struct jmut *out = jmut_array(doc);
	struct json_iter it = json_iter(json_get(list, "items"));

	while (json_next(&it)) {
		struct jmut *node = jmut_object(doc);
		const struct json *meta = json_get(it.value, "metadata");

		jmut_set(doc, node, "name", jmut_copy(doc, json_get(meta, "name")));
		jmut_set(doc, node, "labels", jmut_copy(doc, json_get(meta, "labels")));
		jmut_set(doc, node, "spec", jmut_copy(doc, json_get(it.value, "spec")));
		for (size_t i = 0; i < sizeof(status) / sizeof(status[0]); i++)
			jmut_set(doc, node, status[i],
				 jmut_copy(doc, json_at(it.value, "status", status[i], NULL)));
		jmut_push(doc, out, node);
	}
	return out;
}

static bool is_our_webhook(const struct json *configuration)
{
	struct json_iter it = json_iter(json_get(configuration, "webhooks"));

	while (json_next(&it)) {
		if (str_has_suffix(json_str(json_get(it.value, "name")), STR(".graphcore.ai")))
			return true;
	}
	return false;
}

/* Of others the names: whose webhooks are asked too is often the answer. */
static struct jmut *shape_webhooks(struct jmut_doc *doc, const struct json *list)
{
	struct jmut *out = jmut_array(doc);
	struct json_iter it = json_iter(json_get(list, "items"));

	while (json_next(&it)) {
		struct jmut *other = jmut_object(doc);

		if (is_our_webhook(it.value)) {
			jmut_push(doc, out, jmut_copy(doc, it.value));
			continue;
		}
		jmut_set(doc, other, "name", jmut_str(doc, kube_name(it.value)));
		jmut_push(doc, out, other);
	}
	return out;
}

/* Others' in the same namespace are none of our business. */
static bool is_our_configmap(const struct bundle *b, const struct json *map)
{
	static const char *const labels[] = {"app.kubernetes.io/part-of", "app.kubernetes.io/name",
					     "app.kubernetes.io/managed-by"};
	const char *const names[] = {"ipu-operator-config", "ipu-partitions-tracker",
				     b->o->config_map};

	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		if (str_eqz(kube_label(map, labels[i]), "ipu-operator"))
			return true;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (str_eqz(kube_name(map), names[i]))
			return true;
	}
	return false;
}

static struct jmut *shape_configmaps(const struct bundle *b, struct jmut_doc *doc,
				     const struct json *list)
{
	struct jmut *out = jmut_array(doc);
	struct json_iter it = json_iter(json_get(list, "items"));

	while (json_next(&it)) {
		if (is_our_configmap(b, it.value))
			jmut_push(doc, out, jmut_copy(doc, it.value));
	}
	return out;
}

static void add_json(struct bundle *b, const char *file, const char *from, enum shape shape,
		     const struct json *value)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = BUF_INIT(MAX_BYTES);
	struct err err = ERR_INIT;
	bool has_more = json_str(json_at(value, "metadata", "continue", NULL)).len > 0;

	if (shape == AS_NODES)
		value = jmut_view(shape_nodes(doc, value));
	else if (shape == AS_WEBHOOKS)
		value = jmut_view(shape_webhooks(doc, value));
	else if (shape == AS_CONFIGMAPS)
		value = jmut_view(shape_configmaps(b, doc, value));
	if (jmut_write(ctl_redact(doc, value), JSON_PRETTY, &out, &err) < 0)
		note_missing(b, file, from, err.msg);
	else
		add(b, file, from, buf_str(&out));
	if (has_more)
		note_missing(b, file, from, "only the first " PAGE " of them");
	buf_done(&out);
}

static void add_text(struct bundle *b, const char *file, const char *from, struct str text)
{
	struct buf out = BUF_INIT(MAX_BYTES);
	struct err err = ERR_INIT;

	if (ctl_redact_text(text, &out, &err) < 0)
		note_missing(b, file, from, err.msg);
	else
		add(b, file, from, buf_str(&out));
	buf_done(&out);
}

/* ---- asking ---- */

static bool is_late(const struct bundle *b)
{
	return clock_mono_ms() - b->begin_ms > MAX_SECONDS * 1000;
}

static bool is_in_time(struct bundle *b, const char *file, const char *from)
{
	CLEANUP_FREE char *line = xasprintf("taking %s", file);

	if (b->o->dry_run) {
		(void)buf_printf(&b->list, NULL, "%-36s  %s\n", file, from);
		return false;
	}
	if (is_late(b)) {
		note_missing(b, file, from, NO_TIME);
		return false;
	}
	ctl_progress(line);
	return true;
}

static void take(struct bundle *b, const struct source *s)
{
	char path[MAX_PATH];
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct kube_request r = {.verb = KUBE_GET, .path = path};
	struct err err = ERR_INIT;
	int result;

/* The paths are the table's. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(path, sizeof(path), s->path, b->o->ns);
#pragma GCC diagnostic pop
	if (!is_in_time(b, s->file, path))
		return;
	if (s->of_proxy)
		result = ctl_link_ask(b->link, path, STR_NULL, &doc, &err);
	else
		result = ctl_link_kube(b->link, &r, &doc, &err);
	if (result < 0)
		note_missing(b, s->file, path, err.msg);
	else
		add_json(b, s->file, path, s->shape, json_root(doc));
}

/* The account of the Pods with this component; they are called as the installation is. With one
 * Deployment for all there's no proxy's. */
static const char *account_of(const struct json *pods, bool of_proxy)
{
	const char *found = NULL;
	struct json_iter it = json_iter(json_get(pods, "items"));

	while (json_next(&it)) {
		bool is_proxy = str_eqz(kube_label(it.value, "app.kubernetes.io/component"),
					"vipu-proxy");
		const char *name = json_cstr(json_at(it.value, "spec", "serviceAccountName", NULL));

		if (name && is_proxy == of_proxy)
			return name;
		if (name && !is_proxy)
			found = name;
	}
	if (found)
		return found;
	return of_proxy ? "ipu-operator-vipu-proxy" : "ipu-operator-controller-manager";
}

static void take_rights(struct bundle *b, const struct json *pods)
{
	static const char file[] = OPERATOR "rights.txt";
	static const struct kube_resource *const what = &KUBE_SUBJECTACCESSREVIEWS;
	struct buf out = BUF_INIT((size_t)64 << 10);

	if (!is_in_time(b, file, "SubjectAccessReview"))
		return;
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		CLEANUP_JSON struct json_doc *answer = NULL;
		const char *account = account_of(pods, rights[i].of_proxy);
		CLEANUP_FREE char *user = xasprintf("system:serviceaccount:%s:%s", b->o->ns,
						    account);
		struct jmut *root = jmut_object(doc), *spec = jmut_object(doc);
		struct jmut *attributes = jmut_object(doc);
		struct kube_request r = {.verb = KUBE_CREATE, .resource = what, .json = root};
		struct str name, sub;
		struct err err = ERR_INIT;
		bool had;

		if (is_late(b)) {
			note_missing(b, file, "some of them", NO_TIME);
			break;
		}
		str_cut(str_of(rights[i].resource), '/', &name, &sub);
		jmut_set_str(doc, root, "apiVersion", "authorization.k8s.io/v1");
		jmut_set_str(doc, root, "kind", what->kind);
		jmut_set_str(doc, spec, "user", user);
		jmut_set_str(doc, attributes, "group", rights[i].group);
		jmut_set(doc, attributes, "resource", jmut_str(doc, name));
		jmut_set(doc, attributes, "subresource", jmut_str(doc, sub));
		jmut_set_str(doc, attributes, "verb", rights[i].verb);
		jmut_set(doc, spec, "resourceAttributes", attributes);
		jmut_set(doc, root, "spec", spec);
		had = ctl_link_kube(b->link, &r, &answer, &err) == 0;
		(void)buf_printf(
			&out, NULL, "%-7s  %s may %s %s%s%s\n",
			!had ? "unknown"
			: json_bool(json_at(json_root(answer), "status", "allowed", NULL), false)
				? "yes"
				: "no",
			account, rights[i].verb, rights[i].resource, had ? "" : ": ",
			had ? "" : err.msg);
	}
	add(b, file, "SubjectAccessReview", buf_str(&out));
	buf_done(&out);
}

/* The end of a log: so many lines that they should fit, fewer if they don't. */
static void take_log(struct bundle *b, const char *pod, const char *container, bool previous)
{
	size_t most = (size_t)(b->o->log_mib ? b->o->log_mib : LOG_MIB) << 20;
	CLEANUP_FREE char *file = xasprintf("logs/%s/%s%s.log", pod, container,
					    previous ? "-previous" : "");
	struct err err = ERR_INIT;

	for (size_t lines = most / LOG_LINE; lines > 0; lines /= 4) {
		CLEANUP_FREE char *text = NULL;
		CLEANUP_FREE char *path = xasprintf(
			"/api/v1/namespaces/%s/pods/%s/log?container=%s&tailLines=%zu%s", b->o->ns,
			pod, container, lines, previous ? "&previous=true" : "");
		size_t len = 0;

		if (!is_in_time(b, file, path))
			return;
		if (ctl_link_text(b->link, path, &text, &len, &err) == 0) {
			add_text(b, file, path, ctl_last_lines((struct str){text, len}, most));
			return;
		}
		if (err.kind != ERR_LIMIT)
			break;
	}
	if (!previous)
		note_missing(b, file, "its log", err.msg);
}

static bool has_restarted(const struct json *pod, struct str container)
{
	struct json_iter it = json_iter(json_at(pod, "status", "containerStatuses", NULL));

	while (json_next(&it)) {
		if (str_eq(json_str(json_get(it.value, "name")), container))
			return json_int(json_get(it.value, "restartCount"), 0) > 0;
	}
	return false;
}

static void take_health(struct bundle *b, const char *pod, const char *which)
{
	CLEANUP_FREE char *file = xasprintf("health/%s/%s.txt", pod, which);
	CLEANUP_FREE char *path = xasprintf("/api/v1/namespaces/%s/pods/%s:8081/proxy/%s", b->o->ns,
					    pod, which);
	CLEANUP_FREE char *text = NULL;
	struct err err = ERR_INIT;
	size_t len = 0;

	if (!is_in_time(b, file, path))
		return;
	if (ctl_link_text(b->link, path, &text, &len, &err) < 0)
		note_missing(b, file, path, err.msg);
	else
		add_text(b, file, path, (struct str){text, len});
}

static void take_pod(struct bundle *b, const struct json *pod)
{
	CLEANUP_FREE char *name = str_dup(kube_name(pod));
	struct json_iter it = json_iter(json_at(pod, "spec", "containers", NULL));

	take_health(b, name, "healthz");
	take_health(b, name, "readyz");
	while (json_next(&it)) {
		CLEANUP_FREE char *container = str_dup(json_str(json_get(it.value, "name")));

		take_log(b, name, container, false);
		if (has_restarted(pod, str_of(container)))
			take_log(b, name, container, true);
	}
}

/* The operator's Pods, whatever the installation is called; *ret is theirs to read for as long. */
static void list_pods(struct bundle *b, struct json_doc **ret)
{
	struct kube_request r = {.verb = KUBE_LIST,
				 .resource = &KUBE_PODS,
				 .ns = b->o->ns,
				 .label_selector = CTL_OPERATOR_PODS,
				 .limit = 100};

	if (!b->o->dry_run && !is_late(b))
		(void)ctl_link_kube(b->link, &r, ret, NULL); /* noted with pods.json */
}

static void take_pods(struct bundle *b, const struct json *pods)
{
	struct json_iter it = json_iter(json_get(pods, "items"));

	if (b->o->dry_run)
		(void)buf_printf(&b->list, NULL, "%-36s  %s\n%-36s  %s\n",
				 "health/POD/healthz.txt, readyz.txt", "of each of its Pods",
				 "logs/POD/CONTAINER.log", "of each of its Pods");
	while (json_next(&it))
		take_pod(b, it.value);
}

/* ---- the file ---- */

static int save(const struct bundle *b, const char *name, struct err *err)
{
	bool is_zipped = str_has_suffix(str_of(name), STR(".gz")) ||
			 str_has_suffix(str_of(name), STR(".tgz"));
	struct stat st;
	bool is_file; /* else a device or a pipe, which isn't ours to remove */
	int fd, result;

	if (strcmp(name, "-") == 0)
		return ctl_write_out(buf_str(&b->tar), err);
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, ERR_INVALID, 0, "%s: %s", name, strerror(errno));
	is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	result = is_zipped ? ctl_gzip(buf_str(&b->tar), fd, err)
			   : file_write_all(fd, buf_str(&b->tar), err);
	if (result < 0)
		err_wrap(err, "%s", name);
	if (close(fd) < 0 && result == 0)
		result = err_errno(err, errno, "%s", name);
	if (result < 0 && is_file)
		unlink(name);
	return result;
}

static void begin_manifest(struct bundle *b)
{
	char now[CLOCK_RFC3339_SIZE];

	clock_format(clock_wall_ms(), now);
	(void)buf_printf(
		&b->list, NULL,
		"Support bundle of the IPU operator, by ipuctl " PACKAGE_VERSION ", %s\n"
		"Operator's namespace: %s\n"
		"Secrets weren't asked for; what looked like one in the rest is " CTL_REDACTED
		".\nMetrics aren't in it: the API server passes nobody's token on to them "
		"(ipuctl(1) says how to add them).\n\nBytes, file and source; '-' and the reason, where it couldn't be "
		"had.\n",
		now, b->o->ns);
}

static int take_all(struct bundle *b, struct err *err)
{
	CLEANUP_JSON struct json_doc *pods = NULL;

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		take(b, &sources[i]);
	list_pods(b, &pods);
	take_rights(b, pods ? json_root(pods) : NULL);
	take_pods(b, pods ? json_root(pods) : NULL);
	ctl_progress(NULL);
	if (b->o->dry_run)
		return ctl_write_out(buf_str(&b->list), err);
	if (b->files == 0)
		return err_set(err, ERR_UNAVAILABLE, 0, "nothing could be had: %.*s",
			       STR_ARG(buf_str(&b->list)));
	add(b, "MANIFEST.txt", "this list", buf_str(&b->list));
	return ctl_tar_end(&b->tar, err);
}

int ctl_run_bundle(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct bundle b = {.link = link, .o = o, .begin_ms = clock_mono_ms()};
	char when[CLOCK_RFC3339_SIZE];
	CLEANUP_FREE char *name = NULL;
	int result;

	b.now_s = clock_wall_ms() / 1000;
	clock_format(clock_wall_ms(), when);
	for (char *p = when; *p; p++)
		*p = (char)(*p == ':' ? '-' : *p);
	b.folder = xasprintf("ipu-support-%s", when);
	name = o->out ? xstrdup(o->out) : xasprintf("%s.tar", b.folder);
	buf_init(&b.tar, MAX_BYTES);
	buf_init(&b.list, (size_t)4 << 20);
	if (!o->dry_run)
		begin_manifest(&b);
	result = take_all(&b, err);
	if (result == 0 && !o->dry_run) {
		result = save(&b, name, err);
		if (result == 0)
			fprintf(stderr,
				"%s: %zu files; %zu couldn't be had (MANIFEST.txt says why)\n",
				strcmp(name, "-") == 0 ? "standard output" : name, b.files,
				b.missed);
	}
	buf_done(&b.tar);
	buf_done(&b.list);
	free(b.folder);
	return result;
}
