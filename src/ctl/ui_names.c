/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /names: the IPUJobs and Pods that the user may list, by what stands for them on the page. They
 * are looked at when somebody asks, every 5 s at most; who asks meanwhile waits, or gets the last
 * look. A look lists IPUJobs, their Pods and annotated Pods one after the other: in all namespaces,
 * or, where that's forbidden, in the user's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/list.h"
#include "core/map.h"
#include "ctl/ui.h"
#include "job/held.h"
#include "job/model.h"
#include "kube/list.h"
#include "kube/object.h"
#include "partition/types.h"
#include "pod/held.h"
#include "pod/inject.h"
#include "pod/model.h"

#define KEEP_MS          5000  /* a look's answer */
#define FORBIDDEN_MS     60000 /* so long all namespaces aren't tried again */
#define LOOK_MS          60000 /* a look's deadline */
#define MAX_NAMESPACES   16
#define MAX_ITEMS        20000
#define MAX_PODS         100000
#define MAX_MESSAGE      1024
#define MAX_ANSWER_BYTES ((size_t)64 << 20)
#define ALL              (-1) /* a step's place: all namespaces */

enum { JOBS, JOB_PODS, PODS, N_KINDS };

static const struct {
	const struct kube_resource *resource;
	const char *selector;
} kinds[N_KINDS] = {
	{&KUBE_IPUJOBS, NULL},
	{&KUBE_PODS, JOB_LABEL_JOB},
	{&KUBE_PODS, POD_LABEL},
};

/* One who asks and waits for the look's end. */
struct waiter {
	struct list link;
	struct ui_names *names;
	struct http_exchange *ex;
};

struct ui_names {
	struct loop *loop;
	struct kube_client *kube; /* NULL: there are no names */
	unsigned timeout_ms;
	char *list; /* -n as it was given, or the kubeconfig's namespace */
	struct str namespaces[MAX_NAMESPACES];
	int n_namespaces;
	bool is_asked; /* by -n: these alone */

	struct list waiters;
	struct loop_timer deadline;
	int64_t looked_ms; /* when the last look ended; 0: none has */
	char *answer;      /* of it; NULL: it failed */
	size_t answer_len;
	char etag[2 + 32 + 1];
	struct err failure;
	char *told; /* on the terminal */

	/* The look that runs; doc NULL: none. */
	struct scope scope;
	struct jmut_doc *doc;
	struct jmut *items;
	struct map *owners;  /* UID → its item, by the object itself */
	struct map *claimed; /* "NAMESPACE/UID" → the item of a job that only Pods there tell of */
	struct map *pods;    /* UID → what stands for it in its item */
	int kind, place;
	bool is_full;
	/* Of the list that runs, in case it begins anew. */
	struct map *brought; /* what it has added, by its address */
	bool was_full;       /* before it */
	bool is_denied[N_KINDS][MAX_NAMESPACES];
	int64_t denied_until_ms[N_KINDS]; /* in all namespaces */
	bool has_no_jobs;                 /* the cluster doesn't know IPUJobs */
};

/* ---- what a list has brought ---- */

static struct str by_address(struct jmut *const *v)
{
	return (struct str){(const char *)v, sizeof(*v)};
}

static bool is_brought(const struct json *v, void *arg)
{
	const struct ui_names *n = arg;
	struct jmut *out = jmut_of(v);

	return map_get(n->brought, by_address(&out));
}

static void begin_to_bring(struct ui_names *n)
{
	map_free(n->brought);
	n->brought = map_new();
	n->was_full = n->is_full;
}

static void add(struct ui_names *n, struct jmut *to, struct jmut *v, struct map *in,
		struct str in_key)
{
	jmut_push(n->doc, to, v);
	map_put(in, in_key, v);
	map_put(n->brought, by_address(&v), v);
}

static void forget_brought(struct ui_names *n, struct map *m)
{
	struct map_iter it = MAP_ITER(m);

	while (map_next(&it)) {
		if (is_brought(jmut_view(it.value), n))
			map_del(m, it.key);
	}
}

/* What was there a moment ago may be gone, or be another one under its name. */
static void on_restart(void *arg)
{
	struct ui_names *n = arg;
	struct json_iter it;

	jmut_remove_if(n->items, is_brought, n);
	it = json_iter(jmut_view(n->items));
	while (json_next(&it)) {
		struct jmut *item = jmut_of(it.value), *pods = jmut_get(item, "pods");

		if (jmut_remove_if(pods, is_brought, n) > 0 && jmut_len(pods) == 0)
			jmut_del(item, "pods");
	}
	forget_brought(n, n->owners);
	forget_brought(n, n->claimed);
	forget_brought(n, n->pods);
	n->is_full = n->was_full;
	begin_to_bring(n);
}

/* ---- items ---- */

static void set_str(struct jmut_doc *doc, struct jmut *obj, const char *key, struct str s)
{
	if (s.len > 0)
		jmut_set(doc, obj, key, jmut_str(doc, s));
}

static struct jmut *need_item(struct ui_names *n, struct map *in, struct str in_key, struct str uid,
			      const char *kind, struct str ns, struct str name)
{
	CLEANUP_FREE char *z = str_dup(uid);
	char key[PARTITION_OWNER_KEY_SIZE];
	struct jmut *item = map_get(in, in_key);

	if (item || uid.len == 0 || name.len == 0)
		return item;
	if (map_len(n->owners) + map_len(n->claimed) == MAX_ITEMS) {
		n->is_full = true;
		return NULL;
	}
	partition_owner_key(z, key);
	item = jmut_object(n->doc);
	jmut_set_str(n->doc, item, "owner", key);
	jmut_set_str(n->doc, item, "kind", kind);
	set_str(n->doc, item, "namespace", ns);
	set_str(n->doc, item, "name", name);
	add(n, n->items, item, in, in_key);
	return item;
}

static struct jmut *own_item(struct ui_names *n, const struct json *o, const char *kind)
{
	return need_item(n, n->owners, kube_uid(o), kube_uid(o), kind, kube_namespace(o),
			 kube_name(o));
}

/* Of the job that a Pod says is its owner. Anybody may say so of another namespace's job: unless
 * the job itself was listed, there is an item for each namespace that says it, and the page takes
 * that of the namespace in which the operator has it. */
static struct jmut *claimed_item(struct ui_names *n, const struct json *pod,
				 const struct json *owner)
{
	struct str uid = json_str(json_get(owner, "uid")), ns = kube_namespace(pod);
	struct jmut *item = map_get(n->owners, uid);
	CLEANUP_FREE char *key = NULL;

	if (item)
		return str_eq(json_str(jmut_view(jmut_get(item, "namespace"))), ns) ? item : NULL;
	key = xasprintf("%.*s/%.*s", STR_ARG(ns), STR_ARG(uid));
	return need_item(n, n->claimed, str_of(key), uid, JOB_KIND, ns,
			 json_str(json_get(owner, "name")));
}

static void set_message(struct ui_names *n, struct jmut *item, struct str words)
{
	if (item)
		set_str(n->doc, item, "message",
			(struct str){words.p, str_utf8_cut(words, MAX_MESSAGE)});
}

/* What the operator itself may not know: where it decides about partitions alone, it sees neither
 * jobs nor Pods. */
static void set_held(struct ui_names *n, struct jmut *item, const struct job_held *held)
{
	struct jmut *out = jmut_object(n->doc);
	char since[CLOCK_RFC3339_SIZE];

	clock_format(held->since_ms, since);
	jmut_set_int(n->doc, out, "ipus", held->ipus);
	jmut_set_str(n->doc, out, "since", since);
	jmut_set_str(n->doc, out, "reason", held->reason);
	jmut_set_str(n->doc, out, "message", held->message);
	jmut_set(n->doc, item, "held", out);
}

static void see_job(struct ui_names *n, struct jmut *item, const struct json *o)
{
	struct str stage = json_str(json_at(o, "status", "launcherStatus", NULL));
	struct job_held held;
	struct job *job;

	if (!item || str_eqz(stage, "Running") || str_eqz(stage, "Completed") ||
	    str_eqz(stage, "Failed") || job_decode(o, &job, NULL) < 0)
		return;
	if (job_is_held(job, clock_wall_ms(), &held))
		set_held(n, item, &held);
	job_free(job);
}

static void see_pod(struct ui_names *n, struct jmut *item, const struct json *o)
{
	struct job_held held;
	struct pod *pod;

	if (!item || json_get(json_get(o, "spec"), "nodeName") || pod_decode(o, &pod, NULL) < 0)
		return;
	if (pod_is_held(pod, 0, clock_wall_ms(), &held))
		set_held(n, item, &held);
	pod_free(pod);
}

static void add_pod(struct ui_names *n, struct jmut *item, const struct json *pod, bool of_job)
{
	struct jmut *out;
	int64_t instance;

	if (!item || map_get(n->pods, kube_uid(pod)))
		return;
	if (map_len(n->pods) == MAX_PODS) {
		n->is_full = true;
		return;
	}
	out = jmut_object(n->doc);
	set_str(n->doc, out, "name", kube_name(pod));
	set_str(n->doc, out, "phase", json_str(json_at(pod, "status", "phase", NULL)));
	set_str(n->doc, out, "node", json_str(json_at(pod, "spec", "nodeName", NULL)));
	if (of_job &&
	    str_to_int(kube_label(pod, JOB_LABEL_INSTANCE), 0, UINT32_MAX, &instance, NULL) == 0)
		jmut_set_int(n->doc, out, "instance", instance);
	add(n, jmut_need_array(n->doc, item, "pods"), out, n->pods, kube_uid(pod));
}

static void on_object(void *arg, const struct json *o, bool again)
{
	struct ui_names *n = arg;
	const struct json *owner = kube_controller_ref(o);
	bool is_of_job = str_eqz(json_str(json_get(owner, "kind")), JOB_KIND);
	struct jmut *item;

	(void)again;
	if (n->kind == JOBS) {
		item = own_item(n, o, JOB_KIND);
		set_message(n, item, json_str(json_at(o, "status", "lastMessage", NULL)));
		see_job(n, item, o);
	} else if (is_of_job) { /* it names its job, which its user perhaps may not list */
		add_pod(n, claimed_item(n, o, owner), o, true);
	} else if (n->kind == PODS) {
		item = own_item(n, o, POD_KIND);
		set_message(n, item, kube_annotation(o, POD_ANNOTATION_WAITING));
		see_pod(n, item, o);
		add_pod(n, item, o, false);
	}
}

/* ---- what couldn't be seen ---- */

static bool is_forbidden(const struct ui_names *n, int kind)
{
	return n->is_asked || clock_mono_ms() < n->denied_until_ms[kind];
}

static bool are_both_denied(const struct ui_names *n, int place)
{
	return n->is_denied[JOBS][place] &&
	       (n->is_denied[JOB_PODS][place] || n->is_denied[PODS][place]);
}

/* In words, "" where it was everything. */
static char *limits_of(const struct ui_names *n)
{
	struct buf out = BUF_INIT(16384);
	const char *between = "";

	if (!n->is_asked && (is_forbidden(n, JOBS) || is_forbidden(n, JOB_PODS))) {
		(void)buf_printf(
			&out, NULL,
			"you may not list %s of all namespaces: names are those of %s (-n names another)",
			!is_forbidden(n, JOB_PODS) ? "IPUJobs"
			: is_forbidden(n, JOBS)    ? "IPUJobs and Pods"
						   : "Pods",
			n->list);
		between = "; ";
	}
	for (int i = 0; i < n->n_namespaces; i++) {
		bool pods = n->is_denied[JOB_PODS][i] || n->is_denied[PODS][i];

		if (!pods && !n->is_denied[JOBS][i])
			continue;
		(void)buf_printf(&out, NULL, "%syou may not list %s of %.*s", between,
				 are_both_denied(n, i) ? "IPUJobs and Pods"
				 : pods                ? "Pods"
						       : "IPUJobs",
				 STR_ARG(n->namespaces[i]));
		between = "; ";
	}
	if (n->has_no_jobs) {
		(void)buf_printf(&out, NULL, "%sthe cluster of the kubeconfig has no IPUJobs",
				 between);
		between = "; ";
	}
	if (n->is_full)
		(void)buf_printf(&out, NULL, "%smore than %d jobs or %d Pods: not all have names",
				 between, MAX_ITEMS, MAX_PODS);
	return buf_steal(&out, NULL);
}

/* Once, until it's something else. */
static void tell(struct ui_names *n, const char *words)
{
	if (words[0] && (!n->told || strcmp(n->told, words) != 0))
		fprintf(stderr, "ipuctl: names: %s\n", words);
	free(n->told);
	n->told = xstrdup(words);
}

/* ---- answers ---- */

static void reply(struct ui_names *n, struct http_exchange *ex)
{
	const struct http_header headers[] = {HTTP_H("Cache-Control", "no-cache"),
					      {STR("ETag"), str_of(n->etag)}};

	if (!n->answer)
		http_reply_problem(ex, 503, "names: %s", n->failure.msg);
	else if (http_headers_has_tag(ex->headers, n->etag))
		http_reply(ex, 304, NULL, headers, 2, STR(""));
	else
		http_reply(ex, 200, "application/json", headers, 2,
			   (struct str){n->answer, n->answer_len});
}

static void drop_look(struct ui_names *n)
{
	scope_cancel(&n->scope);
	loop_timer_stop(&n->deadline);
	map_free(n->owners);
	map_free(n->claimed);
	map_free(n->pods);
	map_free(n->brought);
	jmut_doc_free(n->doc);
	n->owners = n->claimed = n->pods = n->brought = NULL;
	n->doc = NULL;
}

/* err NULL: answer is there. */
static void end_look(struct ui_names *n, const struct err *err)
{
	struct err why = err ? *err : (struct err)ERR_INIT;

	if (err) {
		free(n->answer);
		n->answer = NULL;
		n->failure = why;
		tell(n, why.msg);
	}
	n->looked_ms = clock_mono_ms();
	drop_look(n);
	LIST_FOREACH(pos, tmp, &n->waiters) {
		struct waiter *w = CONTAINER_OF(pos, struct waiter, link);

		list_unlink(&w->link);
		http_exchange_on_abort(w->ex, NULL, NULL);
		reply(n, w->ex);
		free(w);
	}
}

static int write_answer(struct ui_names *n, const char *limits, struct err *err)
{
	struct buf out = BUF_INIT(MAX_ANSWER_BYTES);
	struct jmut *root = jmut_object(n->doc);
	struct str text;
	uint8_t digest[32];
	char hex[2 * 32 + 1];

	jmut_set_bool(n->doc, root, "names", n->kube != NULL);
	if (limits[0])
		jmut_set_str(n->doc, root, "limited", limits);
	jmut_set(n->doc, root, "items", n->items);
	if (jmut_write(root, JSON_COMPACT, &out, err) < 0) {
		buf_done(&out);
		return -1;
	}
	text = buf_str(&out);
	hash_sha256(&text, 1, digest);
	hex_encode(digest, sizeof(digest), hex);
	snprintf(n->etag, sizeof(n->etag), "\"%.32s\"", hex);
	free(n->answer);
	n->answer = buf_steal(&out, &n->answer_len);
	return 0;
}

static void end_well(struct ui_names *n, const char *limits)
{
	struct err err = ERR_INIT;

	if (write_answer(n, limits, &err) < 0) {
		end_look(n, &err);
		return;
	}
	tell(n, limits);
	end_look(n, NULL);
}

/* ---- a look ---- */

static void start_list(struct ui_names *n);

/* The next place, or the next kind. */
static void go_on(struct ui_names *n)
{
	CLEANUP_FREE char *limits = NULL;

	if (n->place == ALL || ++n->place == n->n_namespaces) {
		n->kind++;
		n->place = n->kind < N_KINDS && is_forbidden(n, n->kind) ? 0 : ALL;
	}
	if (n->kind < N_KINDS) {
		start_list(n);
		return;
	}
	limits = limits_of(n);
	end_well(n, limits);
}

static void on_listed(void *arg, const struct err *err, struct str resource_version)
{
	struct ui_names *n = arg;

	(void)resource_version;
	if (err && err->kind == ERR_DENIED && err->code == 403 && n->place == ALL) {
		n->denied_until_ms[n->kind] = clock_mono_ms() + FORBIDDEN_MS;
		n->place = 0;
		start_list(n);
		return;
	}
	if (err && err->kind == ERR_DENIED && err->code == 403) {
		n->is_denied[n->kind][n->place] = true;
	} else if (err && err->kind == ERR_NOT_FOUND && n->kind == JOBS) {
		n->has_no_jobs = true;
	} else if (err) {
		end_look(n, err);
		return;
	}
	go_on(n);
}

static void start_list(struct ui_names *n)
{
	static const struct kube_list_ops ops = {
		.on_object = on_object, .on_restart = on_restart, .on_done = on_listed};
	CLEANUP_FREE char *ns = n->place == ALL ? NULL : str_dup(n->namespaces[n->place]);
	const struct kube_list_opts opts = {
		.resource = kinds[n->kind].resource,
		.ns = ns,
		.label_selector = kinds[n->kind].selector,
		.deadline_ms = n->timeout_ms,
	};

	begin_to_bring(n);
	kube_list_start(n->kube, &opts, &ops, n, &n->scope);
}

static void on_late(struct loop_timer *timer, void *arg)
{
	struct err err = ERR_INIT;

	(void)timer;
	err_set(&err, ERR_TIMEOUT, 0, "the API server takes more than %d s to list them",
		LOOK_MS / 1000);
	end_look(arg, &err);
}

static void begin_look(struct ui_names *n)
{
	n->doc = jmut_doc_new();
	n->items = jmut_array(n->doc);
	n->owners = map_new();
	n->claimed = map_new();
	n->pods = map_new();
	n->is_full = n->has_no_jobs = false;
	memset(n->is_denied, 0, sizeof(n->is_denied));
	n->kind = JOBS;
	n->place = is_forbidden(n, JOBS) ? 0 : ALL;
}

static void on_gone(struct http_exchange *ex, void *arg)
{
	struct waiter *w = arg;
	struct ui_names *n = w->names;

	(void)ex;
	list_unlink(&w->link);
	free(w);
	if (list_empty(&n->waiters))
		drop_look(n);
}

void ui_names_answer(struct ui_names *n, struct http_exchange *ex)
{
	struct waiter *w;

	if (!n->kube || (n->looked_ms && clock_mono_ms() - n->looked_ms < KEEP_MS)) {
		reply(n, ex);
		return;
	}
	w = xcalloc(1, sizeof(*w));
	w->names = n;
	w->ex = ex;
	list_append(&n->waiters, &w->link);
	http_exchange_on_abort(ex, on_gone, w);
	if (n->doc)
		return;
	begin_look(n);
	loop_timer_start_in(&n->deadline, LOOK_MS);
	start_list(n);
}

/* ---- for ui.c ---- */

static int take_namespaces(struct ui_names *n, struct err *err)
{
	struct str ns, rest = str_of(n->list);

	while (rest.len > 0) {
		str_cut(rest, ',', &ns, &rest);
		if (kube_check_name("--namespace", ns, false, err) < 0)
			return -1;
		if (n->n_namespaces == MAX_NAMESPACES)
			return err_set(err, ERR_INVALID, 0, "--namespace: more than %d",
				       MAX_NAMESPACES);
		n->namespaces[n->n_namespaces++] = ns;
	}
	return 0;
}

int ui_names_new(struct ctl_link *link, const struct ctl_options *o, struct ui_names **ret,
		 struct err *err)
{
	struct ui_names *n = xcalloc(1, sizeof(*n));
	const char *why = "";

	n->loop = ctl_link_loop(link);
	n->kube = ctl_link_client(link, &why);
	n->timeout_ms = o->timeout_s * 1000;
	n->list = xstrdup(ctl_link_namespace(link));
	n->is_asked = o->job_ns != NULL;
	list_init(&n->waiters);
	scope_init(&n->scope);
	loop_timer_init(&n->deadline, n->loop, on_late, n);
	if (take_namespaces(n, err) < 0) {
		ui_names_free(n);
		return -1;
	}
	if (!n->kube) { /* the answer for ever */
		begin_look(n);
		end_well(n, why);
	}
	*ret = n;
	return 0;
}

void ui_names_free(struct ui_names *n)
{
	if (!n)
		return;
	drop_look(n);
	free(n->list);
	free(n->answer);
	free(n->told);
	free(n);
}
