/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers as processes. A Pod's containers are owned by its struct sim_run_pod; commands that
 * were run in them by the struct sim_run, since they may outlive who asked for them.
 */
#include "sim/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/log.h"
#include "kube/object.h"
#include "sim/path_map.h"
#include "sim/pod_env.h"
#include "sim/pod_files.h"

#define MESSAGE_BYTES     4096 /* as a kubelet's */
#define LOG_MESSAGE_BYTES 2048
#define MAX_TASKS         1024
#define DEFAULT_PATH      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define ACCOUNT_PATH      "/var/run/secrets/kubernetes.io/serviceaccount"

struct sim_run {
	struct sim_run_config c;
	struct path_map programs;
	char *dir; /* NULL: no Pod has run yet */
	char *api_host, *ca_pem;
	unsigned api_port;
	unsigned n_tasks;
	struct list pods, execs;
};

struct sim_container {
	struct sim_run_pod *pod;
	char *name, *dir, *message;
	struct path_map map;
	struct pod_env env;
	struct sim_task *task; /* NULL: never started */
	struct sim_log *log;
	struct list taps;
	unsigned paused;
	bool init, has_stdin, log_is_message, ended, cant_start, begun;
	int code;
};

struct sim_run_pod {
	struct list link;
	struct sim_run *run;
	char *uid, *root;
	size_t n_init, n;
	struct sim_container *containers; /* the init ones first */
	void (*changed)(void *arg);
	void *arg;
};

/* One command in a container. */
struct run_exec {
	struct list link;
	struct sim_task *task;
	struct sim_container *c; /* NULL: that has gone */
	bool released;
};

/* ---- logs ---- */

static struct sim_log *log_new(void)
{
	struct sim_log *log = xcalloc(1, sizeof(*log));

	log->refs = 1;
	buf_init(&log->text, 2 * SIM_LOG_BYTES);
	list_init(&log->watchers);
	return log;
}

struct sim_log *sim_log_ref(struct sim_log *log)
{
	log->refs++;
	return log;
}

void sim_log_unref(struct sim_log *log)
{
	if (!log || --log->refs > 0)
		return;
	buf_done(&log->text);
	free(log);
}

static void log_tell(struct sim_log *log)
{
	LIST_FOREACH(pos, tmp, &log->watchers) {
		struct sim_log_watcher *w = CONTAINER_OF(pos, struct sim_log_watcher, link);
		w->on_more(w->arg);
	}
}

/* The oldest lines go. */
static void log_add(struct sim_log *log, struct str data)
{
	buf_append_str(&log->text, data, NULL);
	if (log->text.len > SIM_LOG_BYTES) {
		size_t drop = log->text.len - SIM_LOG_BYTES;
		const char *end = memchr(log->text.p + drop, '\n', log->text.len - drop);
		if (end)
			drop = (size_t)(end - log->text.p) + 1;
		buf_consume(&log->text, drop);
		log->begin += drop;
	}
	log_tell(log);
}

/* ---- commands in containers ---- */

static void drop_exec(struct run_exec *x)
{
	x->c = NULL;
	list_unlink(&x->link);
	sim_task_free(x->task);
	free(x);
}

/* Those that have ended, and that nobody asks for any more. */
static void sweep(struct sim_run *run)
{
	LIST_FOREACH(pos, tmp, &run->execs) {
		struct run_exec *x = CONTAINER_OF(pos, struct run_exec, link);
		if (x->released && sim_task_is_gone(x->task))
			drop_exec(x);
	}
}

static size_t count_execs(const struct sim_run *run)
{
	size_t n = 0;

	LIST_FOREACH(pos, tmp, &run->execs)
		n++;
	return n;
}

/* With a container's first process all others end. */
static void kill_execs(struct sim_container *c)
{
	LIST_FOREACH(pos, tmp, &c->pod->run->execs) {
		struct run_exec *x = CONTAINER_OF(pos, struct run_exec, link);
		if (x->c != c)
			continue;
		x->c = NULL;
		sim_task_kill(x->task);
	}
	sweep(c->pod->run);
}

int sim_container_exec(struct sim_container *c, const struct sim_exec_opts *o,
		       const struct sim_task_handler *handler, void *arg, struct sim_task **ret,
		       struct err *err)
{
	struct sim_run *run = c->pod->run;
	struct sim_task_opts opts = {.loop = run->c.loop,
				     .env = c->env.items,
				     .dir = c->dir,
				     .has_stdin = o->has_stdin,
				     .tty = o->tty};
	struct run_exec *x;

	sweep(run);
	if (run->n_tasks + count_execs(run) >= MAX_TASKS)
		return err_set(err, ERR_LIMIT, 0, "ipu-sim runs %d processes already", MAX_TASKS);
	/* A kubelet replaces no $(NAME) in what is asked for here. */
	char **words = pod_words(NULL, o->command, NULL, &run->programs, &c->map);
	opts.argv = words;
	x = xcalloc(1, sizeof(*x));
	list_init(&x->link);
	int rc = sim_task_start(&opts, handler, arg, &x->task, err);
	pod_words_free(words);
	if (rc < 0) {
		free(x);
		return -1;
	}
	x->c = c;
	list_append(&run->execs, &x->link);
	*ret = x->task;
	return 0;
}

void sim_run_release(struct sim_run *run, struct sim_task *task)
{
	LIST_FOREACH(pos, tmp, &run->execs) {
		struct run_exec *x = CONTAINER_OF(pos, struct run_exec, link);
		if (x->task != task)
			continue;
		sim_task_detach(task);
		x->released = true;
	}
	sweep(run);
}

/* ---- what a container's process does ---- */

static void on_output(enum sim_stream stream, struct str data, void *arg)
{
	struct sim_container *c = arg;

	log_add(c->log, data);
	LIST_FOREACH(pos, tmp, &c->taps) {
		struct sim_tap *tap = CONTAINER_OF(pos, struct sim_tap, link);
		tap->on_output(stream, data, tap->arg);
	}
}

static void on_writable(void *arg)
{
	struct sim_container *c = arg;

	LIST_FOREACH(pos, tmp, &c->taps) {
		struct sim_tap *tap = CONTAINER_OF(pos, struct sim_tap, link);
		tap->on_writable(tap->arg);
	}
}

static void end_taps(struct sim_container *c)
{
	while (!list_empty(&c->taps)) {
		struct sim_tap *tap = CONTAINER_OF(c->taps.next, struct sim_tap, link);
		list_unlink(&tap->link);
		tap->c = NULL;
		tap->on_end(tap->arg);
	}
}

/* What a container says of its end (Kubernetes: Determine the Reason for Pod Failure). */
static char *message_of(const struct sim_container *c)
{
	CLEANUP_FREE char *path = pod_files_message(c->pod->root, str_of(c->name));
	char text[MESSAGE_BYTES];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text), f) : 0;

	if (f)
		fclose(f);
	if (n == 0 && c->code != 0 && c->log_is_message) {
		struct str log = buf_str(&c->log->text);
		n = log.len < LOG_MESSAGE_BYTES ? log.len : LOG_MESSAGE_BYTES;
		if (n > 0)
			memcpy(text, log.p + log.len - n, n);
	}
	return n > 0 ? xstrndup(text, n) : NULL;
}

static void on_end(int status, const char *error, void *arg)
{
	struct sim_container *c = arg;
	struct sim_run_pod *p = c->pod;

	log_debug("kubelet", c->name, "ended: status=%d", status);
	c->ended = true;
	c->code = status;
	c->cant_start = error != NULL;
	c->message = error ? xasprintf("failed to create containerd task: %s", error)
			   : message_of(c);
	p->run->n_tasks--;
	kill_execs(c);
	c->log->ended = true;
	log_tell(c->log);
	end_taps(c);
	p->changed(p->arg);
}

static const struct sim_task_handler container_handler = {on_output, on_writable, on_end};

/* ---- starting one ---- */

static void pass_on(struct pod_env *e, const char *name)
{
	const char *value = getenv(name);

	if (value)
		pod_env_set(e, str_of(name), str_of(value));
}

static void base_env(const struct sim_run *run, struct sim_container *c, const struct json *pod)
{
	/* What the tests' programs share with the simulator. */
	static const char *const passed[] = {"IPU_CLOCK_PAGE", "ASAN_OPTIONS", "LSAN_OPTIONS",
					     "UBSAN_OPTIONS"};
	const char *account = path_map_find(&c->map, ACCOUNT_PATH);
	const struct json *spec = json_get(pod, "spec");
	struct pod_env *e = &c->env;
	char port[16];

	snprintf(port, sizeof(port), "%u", run->api_port);
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		pass_on(e, passed[i]);
	pod_env_set(e, STR("PATH"), STR(DEFAULT_PATH));
	pod_env_set(e, STR("HOME"), str_of(c->dir));
	/* In the host's network a container has the host's name. */
	pod_env_set(e, STR("HOSTNAME"),
		    json_bool(json_get(spec, "hostNetwork"), false)
			    ? json_str(json_get(spec, "nodeName"))
			    : kube_name(pod));
	pod_env_set(e, STR("KUBERNETES_SERVICE_HOST"), str_of(run->api_host));
	pod_env_set(e, STR("KUBERNETES_SERVICE_PORT"), str_of(port));
	pod_env_set(e, STR("KUBERNETES_SERVICE_PORT_HTTPS"), str_of(port));
	if (account)
		pod_env_set(e, STR("IPU_SERVICEACCOUNT_DIR"), str_of(account));
}

static int prepare(struct sim_container *c, const struct json *pod, const struct json *spec,
		   struct err *err)
{
	struct sim_run *run = c->pod->run;
	const struct pod_files f = {run->c.objects, run->c.api, run->ca_pem, pod, c->pod->root};
	struct str dir = json_str(json_get(spec, "workingDir"));

	path_map_done(&c->map);
	pod_env_done(&c->env);
	free(c->dir);
	pod_files_map(&f, spec, &c->map);
	c->dir = dir.len ? path_map_apply(&c->map, dir) : xasprintf("%s/work", c->pod->root);
	base_env(run, c, pod);
	if (pod_env_read(&c->env, run->c.objects, pod, spec, &c->map, err) < 0)
		return -1;
	if (json_len(json_get(spec, "command")) == 0)
		return err_set(err, ERR_INVALID, 0,
			       "no command specified: ipu-sim has no images that would name one");
	if (run->n_tasks + count_execs(run) >= MAX_TASKS)
		return err_set(err, ERR_LIMIT, 0, "ipu-sim runs %d processes already", MAX_TASKS);
	return 0;
}

int sim_run_pod_start(struct sim_run_pod *p, const struct json *pod, bool init, size_t place,
		      struct err *err)
{
	struct sim_container *c = &p->containers[init ? place : p->n_init + place];
	const struct json *spec = json_item(
		json_at(pod, "spec", init ? "initContainers" : "containers", NULL), place);
	struct sim_task_opts opts = {.loop = p->run->c.loop, .ends_others = true};

	if (prepare(c, pod, spec, err) < 0)
		return -1;
	char **words = pod_words(&c->env, json_get(spec, "command"), json_get(spec, "args"),
				 &p->run->programs, &c->map);
	c->log_is_message = str_eqz(json_str(json_get(spec, "terminationMessagePolicy")),
				    "FallbackToLogsOnError");
	opts.tty = json_bool(json_get(spec, "tty"), false);
	opts.has_stdin = c->has_stdin = json_bool(json_get(spec, "stdin"), false);
	if (opts.tty)
		pod_env_set(&c->env, STR("TERM"), STR("xterm"));
	opts.argv = words;
	opts.env = c->env.items;
	opts.dir = c->dir;
	int rc = sim_task_start(&opts, &container_handler, c, &c->task, err);
	pod_words_free(words);
	if (rc < 0)
		return -1;
	c->begun = true;
	p->run->n_tasks++;
	return 0;
}

/* ---- a Pod ---- */

static int make_root(struct sim_run *run, struct err *err)
{
	const char *tmp = getenv("TMPDIR");

	if (run->dir)
		return 0;
	char *dir = xasprintf("%s/ipu-sim-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		err_errno(err, errno, "%s", dir);
		free(dir);
		return -1;
	}
	run->dir = dir;
	return 0;
}

static void take_containers(struct sim_run_pod *p, const struct json *pod)
{
	const struct json *init = json_at(pod, "spec", "initContainers", NULL);
	const struct json *others = json_at(pod, "spec", "containers", NULL);

	p->n_init = json_len(init);
	p->n = p->n_init + json_len(others);
	p->containers = xcalloc(p->n, sizeof(*p->containers));
	for (size_t i = 0; i < p->n; i++) {
		struct sim_container *c = &p->containers[i];
		c->pod = p;
		c->init = i < p->n_init;
		c->name = str_dup(json_str(json_get(
			c->init ? json_item(init, i) : json_item(others, i - p->n_init), "name")));
		c->log = log_new();
		list_init(&c->taps);
	}
}

int sim_run_pod_new(struct sim_run *run, const struct json *pod, void (*changed)(void *arg),
		    void *arg, struct sim_run_pod **ret, struct err *err)
{
	CLEANUP_FREE char *root = NULL, *work = NULL;
	struct sim_run_pod *p;

	if (make_root(run, err) < 0)
		return -1;
	root = xasprintf("%s/%.*s", run->dir, STR_ARG(kube_uid(pod)));
	work = xasprintf("%s/work", root);
	if ((mkdir(root, 0700) < 0 && errno != EEXIST) ||
	    (mkdir(work, 0700) < 0 && errno != EEXIST))
		return err_errno(err, errno, "%s", root);
	const struct pod_files f = {run->c.objects, run->c.api, run->ca_pem, pod, root};
	if (pod_files_make(&f, err) < 0)
		return -1;
	p = xcalloc(1, sizeof(*p));
	p->run = run;
	p->uid = str_dup(kube_uid(pod));
	p->root = xstrdup(root);
	p->changed = changed;
	p->arg = arg;
	take_containers(p, pod);
	list_append(&run->pods, &p->link);
	*ret = p;
	return 0;
}

bool sim_run_pod_ended(const struct sim_run_pod *p, bool init, size_t place, struct sim_ended *ret)
{
	const struct sim_container *c = &p->containers[init ? place : p->n_init + place];

	if (!c->ended)
		return false;
	*ret = (struct sim_ended){c->code, c->message ? c->message : "", !c->cant_start};
	return true;
}

bool sim_container_runs(const struct sim_container *c)
{
	return c->begun && !c->ended;
}

bool sim_run_pod_runs(const struct sim_run_pod *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (sim_container_runs(&p->containers[i]))
			return true;
	return false;
}

void sim_run_pod_terminate(struct sim_run_pod *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (sim_container_runs(&p->containers[i]))
			sim_task_terminate(p->containers[i].task);
}

void sim_run_pod_kill(struct sim_run_pod *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (sim_container_runs(&p->containers[i]))
			sim_task_kill(p->containers[i].task);
}

static void container_done(struct sim_container *c)
{
	kill_execs(c);
	if (sim_container_runs(c))
		c->pod->run->n_tasks--;
	sim_task_free(c->task);
	c->log->ended = true;
	log_tell(c->log);
	end_taps(c);
	sim_log_unref(c->log);
	path_map_done(&c->map);
	pod_env_done(&c->env);
	free(c->name);
	free(c->dir);
	free(c->message);
}

static void pod_reap(void *arg)
{
	struct sim_run_pod *p = arg;

	free(p->containers);
	free(p->uid);
	free(p->root);
	free(p);
}

void sim_run_pod_free(struct sim_run_pod *p)
{
	if (!p)
		return;
	list_unlink(&p->link);
	for (size_t i = 0; i < p->n; i++)
		container_done(&p->containers[i]);
	pod_files_remove(p->root);
	loop_reap(p->run->c.loop, p, pod_reap);
}

/* ---- for the API ---- */

struct sim_container *sim_run_find(struct sim_run *run, struct str uid, struct str name)
{
	LIST_FOREACH(pos, tmp, &run->pods) {
		struct sim_run_pod *p = CONTAINER_OF(pos, struct sim_run_pod, link);
		for (size_t i = 0; str_eqz(uid, p->uid) && i < p->n; i++)
			if (str_eqz(name, p->containers[i].name) && p->containers[i].begun)
				return &p->containers[i];
	}
	return NULL;
}

void sim_container_attach(struct sim_container *c, struct sim_tap *tap)
{
	tap->c = c;
	list_init(&tap->link);
	list_append(&c->taps, &tap->link);
}

void sim_container_detach(struct sim_tap *tap)
{
	sim_tap_pause(tap, false);
	if (tap->c)
		list_unlink(&tap->link);
	tap->c = NULL;
}

/* A container goes on when nobody wants it to wait. */
void sim_tap_pause(struct sim_tap *tap, bool on)
{
	if (!tap->c || tap->pauses == on)
		return;
	tap->pauses = on;
	tap->c->paused += on ? 1 : -1U;
	sim_task_pause(tap->c->task, tap->c->paused > 0);
}

struct sim_task *sim_container_task(struct sim_container *c)
{
	return c->ended ? NULL : c->task;
}

bool sim_container_has_stdin(const struct sim_container *c)
{
	return c->has_stdin;
}

struct sim_log *sim_container_log(struct sim_container *c)
{
	return c->log;
}

/* ---- life ---- */

int sim_run_new(const struct sim_run_config *config, struct sim_run **ret, struct err *err)
{
	struct sim_run *run;
	struct path_map programs = {0};

	for (size_t i = 0; i < config->n_programs; i++) {
		struct str name, path;
		if (!str_cut(str_of(config->programs[i]), '=', &name, &path) || !name.len ||
		    !path.len) {
			path_map_done(&programs);
			return err_set(err, ERR_INVALID, 0, "%s: a program is NAME=PATH",
				       config->programs[i]);
		}
		CLEANUP_FREE char *to = str_dup(path);
		path_map_add(&programs, name, to);
	}
	run = xcalloc(1, sizeof(*run));
	run->c = *config;
	run->programs = programs;
	run->api_host = xstrdup("");
	run->ca_pem = xstrdup("");
	list_init(&run->pods);
	list_init(&run->execs);
	*ret = run;
	return 0;
}

void sim_run_set_api(struct sim_run *run, const char *host, unsigned port, const char *ca_pem)
{
	free(run->api_host);
	free(run->ca_pem);
	run->api_host = xstrdup(host);
	run->api_port = port;
	run->ca_pem = xstrdup(ca_pem);
}

void sim_run_free(struct sim_run *run)
{
	if (!run)
		return;
	LIST_FOREACH(pos, tmp, &run->execs)
		drop_exec(CONTAINER_OF(pos, struct run_exec, link));
	if (run->dir)
		pod_files_remove(run->dir);
	path_map_done(&run->programs);
	free(run->dir);
	free(run->api_host);
	free(run->ca_pem);
	free(run);
}
