/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pods/exec and pods/attach over WebSockets, with the subprotocols v4 and v5.channel.k8s.io: the
 * first byte of a message is its channel. As with real nodes a command outlives its connection.
 * What goes wrong, and when it's told, is kube-apiserver's way (its stream translator for v5) and a
 * kubelet's (v4).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "http/websocket.h"
#include "kube/object.h"
#include "sim/api_internal.h"
#include "sim/run.h"

#define V5 "v5.channel.k8s.io"
#define V4 "v4.channel.k8s.io"

#define STDIN_LIMIT      ((size_t)1 << 20)
#define STDIN_HIGH_BYTES ((size_t)128 << 10)
#define MESSAGE_BYTES    ((uint64_t)4 << 20)
#define RESIZE_BYTES     256

enum channel { CH_STDIN = 0, CH_STDOUT = 1, CH_STDERR = 2, CH_ERROR = 3, CH_RESIZE = 4 };
#define CH_CLOSE 255 /* v5: its payload is the channel that ends */

/* What the query asks for. */
struct wanted {
	bool attach, in, out, err, tty;
	char *container; /* "" where none is named */
	struct jmut *command;
};

/* One connection. */
struct stream {
	struct list link; /* in the api */
	struct sim_api *api;
	struct ws *ws;
	struct sim_task *task; /* of an exec; NULL: attached, or over */
	struct sim_tap tap;    /* of an attach */
	bool v5, in, out, err, tty, attached;
	char *words;      /* the command, for v4's message */
	int channel;      /* of the message that is being read; -1: not known yet */
	struct buf input; /* what stdin hasn't taken */
	struct buf control;
	bool input_ends;
	bool over; /* the status has been sent */
};

/* ---- the end ---- */

static struct sim_task *task_of(struct stream *s)
{
	return s->attached && s->tap.c ? sim_container_task(s->tap.c) : s->task;
}

static void let_go(struct stream *s)
{
	if (s->task)
		sim_run_release(s->api->run, s->task);
	s->task = NULL;
	if (s->attached)
		sim_container_detach(&s->tap);
}

static void stream_reap(void *p)
{
	struct stream *s = p;
	buf_done(&s->input);
	buf_done(&s->control);
	free(s->words);
	free(s);
}

static void stream_free(struct stream *s)
{
	let_go(s);
	list_unlink(&s->link);
	ws_free(s->ws);
	loop_reap(s->api->loop, s, stream_reap);
}

void sim_streams_close(struct sim_api *api)
{
	LIST_FOREACH(pos, tmp, &api->streams)
		stream_free(CONTAINER_OF(pos, struct stream, link));
}

static void send_on(struct stream *s, enum channel channel, struct str data)
{
	const char byte = (char)channel;
	const struct str parts[] = {{&byte, 1}, data};
	struct err err = ERR_INIT;

	/* A connection that is dead tells so by itself. */
	if (ws_send(s->ws, true, parts, 2, &err) < 0)
		log_debug("exec", ws_peer(s->ws), "%s", err.msg);
}

/* A metav1.Status on the error channel, then the connection's end. */
static void send_status(struct stream *s, struct jmut_doc *doc, struct jmut *status)
{
	struct buf out = BUF_INIT(65536);

	jmut_set(doc, status, "metadata", jmut_object(doc));
	if (jmut_write(status, JSON_COMPACT, &out, NULL) == 0)
		send_on(s, CH_ERROR, buf_str(&out));
	buf_done(&out);
	s->over = true;
	let_go(s);
	ws_close(s->ws, WS_CODE_NORMAL, NULL);
}

static void send_success(struct stream *s)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *status = jmut_object(doc);

	jmut_set_str(doc, status, "status", "Success");
	send_status(s, doc, status);
}

static void add_cause(struct jmut_doc *doc, struct jmut *status, const char *reason,
		      const char *message)
{
	struct jmut *cause = jmut_object(doc);

	if (reason)
		jmut_set_str(doc, cause, "reason", reason);
	jmut_set_str(doc, cause, "message", message);
	jmut_push(doc, jmut_need_array(doc, jmut_need_object(doc, status, "details"), "causes"),
		  cause);
}

static void send_exit_code(struct stream *s, int code)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *status = jmut_object(doc);
	char number[16];

	snprintf(number, sizeof(number), "%d", code);
	jmut_set_str(doc, status, "status", "Failure");
	if (s->v5)
		jmut_set(doc, status, "message",
			 jmut_strf(doc,
				   "command terminated with non-zero exit code: command terminated "
				   "with exit code %d",
				   code));
	else
		jmut_set(doc, status, "message",
			 jmut_strf(doc,
				   "command terminated with non-zero exit code: error executing "
				   "command [%s], exit code %d",
				   s->words, code));
	jmut_set_str(doc, status, "reason", "NonZeroExitCode");
	add_cause(doc, status, "ExitCode", number);
	send_status(s, doc, status);
}

static void send_failure(struct stream *s, const char *why)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *status = jmut_object(doc);

	jmut_set_str(doc, status, "status", "Failure");
	jmut_set(doc, status, "message", jmut_strf(doc, "Internal error occurred: %s", why));
	jmut_set_str(doc, status, "reason", "InternalError");
	add_cause(doc, status, NULL, why);
	jmut_set_int(doc, status, "code", 500);
	send_status(s, doc, status);
}

/* ---- from the process ---- */

static void pause_output(struct stream *s, bool on)
{
	if (s->attached)
		sim_tap_pause(&s->tap, on);
	else if (s->task)
		sim_task_pause(s->task, on);
}

static void on_output(enum sim_stream stream, struct str data, void *arg)
{
	struct stream *s = arg;
	bool wanted = stream == SIM_STDOUT ? s->out : s->err;

	if (!wanted || s->over)
		return;
	send_on(s, stream == SIM_STDOUT ? CH_STDOUT : CH_STDERR, data);
	if (ws_is_full(s->ws))
		pause_output(s, true);
}

static void feed_stdin(struct stream *s)
{
	struct sim_task *task = task_of(s);

	if (!task)
		buf_clear(&s->input);
	else if (s->input.len > 0)
		buf_consume(&s->input, sim_task_write(task, buf_str(&s->input)));
	/* One who is attached leaves the process' input open for others. */
	if (task && s->input_ends && s->input.len == 0 && !s->attached)
		sim_task_close_stdin(task);
	if (s->input.len < STDIN_HIGH_BYTES)
		ws_resume(s->ws);
}

static void on_writable(void *arg)
{
	feed_stdin(arg);
}

static void on_end(int status, const char *error, void *arg)
{
	struct stream *s = arg;

	if (error) {
		CLEANUP_FREE char *why = xasprintf(
			"error executing command in container: failed to exec in container: failed "
			"to start exec: OCI runtime exec failed: exec failed: unable to start "
			"container process: exec: \"%s\": %s: unknown",
			s->words, error);
		send_failure(s, why);
	} else if (status == 0) {
		send_success(s);
	} else {
		send_exit_code(s, status);
	}
}

static void on_container_end(void *arg)
{
	send_success(arg);
}

static const struct sim_task_handler task_handler = {on_output, on_writable, on_end};

/* ---- from the client ---- */

static void take_resize(struct stream *s)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (json_parse(buf_str(&s->control), &doc, NULL) < 0 || !task_of(s))
		return;
	sim_task_resize(task_of(s), (unsigned)json_int(json_get(json_root(doc), "Width"), 0),
			(unsigned)json_int(json_get(json_root(doc), "Height"), 0));
}

static void take_end(struct stream *s)
{
	if (s->v5 && s->control.len == 1 && s->control.p[0] == CH_STDIN) {
		s->input_ends = true;
		feed_stdin(s);
	}
}

static void on_message(struct ws *ws, const struct ws_piece *piece, void *arg)
{
	struct stream *s = arg;
	struct str data = piece->data;

	if (piece->first) {
		buf_clear(&s->control);
		s->channel = data.len > 0 ? (unsigned char)data.p[0] : -1;
		data.p += data.len > 0;
		data.len -= data.len > 0;
	}
	if (s->channel == CH_STDIN && s->in && !s->input_ends) {
		buf_append_str(&s->input, data, NULL);
		feed_stdin(s);
		if (s->input.len >= STDIN_HIGH_BYTES)
			ws_pause(ws);
	} else if (s->channel == CH_RESIZE || s->channel == CH_CLOSE) {
		buf_append_str(&s->control, data, NULL);
		if (piece->last && s->channel == CH_RESIZE)
			take_resize(s);
		else if (piece->last)
			take_end(s);
	}
}

static void on_drain(struct ws *ws, void *arg)
{
	(void)ws;
	pause_output(arg, false);
}

/* Whatever has come of the connection: the command goes on by itself. */
static void on_close(struct ws *ws, const struct ws_closed *closed, void *arg)
{
	(void)ws, (void)closed;
	stream_free(arg);
}

static const struct ws_handler ws_handlers = {on_message, on_drain, on_close};

/* ---- beginning ---- */

static struct stream *stream_new(struct sim_request *req, struct ws *ws, const struct wanted *w)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	struct buf words = BUF_INIT(65536);

	s->api = req->api;
	s->ws = ws;
	s->v5 = strcmp(ws_protocol(ws), V5) == 0;
	s->in = w->in;
	s->out = w->out;
	s->err = w->err && !w->tty;
	s->tty = w->tty;
	s->attached = w->attach;
	s->channel = -1;
	for (size_t i = 0; i < jmut_len(w->command); i++)
		buf_printf(&words, NULL, "%s%.*s", i ? " " : "",
			   STR_ARG(json_str(jmut_view(jmut_item(w->command, i)))));
	s->words = buf_steal(&words, NULL);
	buf_init(&s->input, STDIN_LIMIT);
	buf_init(&s->control, RESIZE_BYTES);
	list_init(&s->tap.link);
	list_append(&req->api->streams, &s->link);
	ws_set_handler(ws, &ws_handlers, s);
	ws_resume(ws);
	return s;
}

/* A real server's first message: nothing, on the lowest channel that it writes. */
static void greet(struct stream *s)
{
	send_on(s, s->out ? CH_STDOUT : s->err ? CH_STDERR : CH_ERROR, STR_NULL);
}

static void attach(struct stream *s, struct sim_container *c)
{
	s->in = s->in && sim_container_has_stdin(c);
	s->tap.on_output = on_output;
	s->tap.on_writable = on_writable;
	s->tap.on_end = on_container_end;
	s->tap.arg = s;
	sim_container_attach(c, &s->tap);
}

static void begin(struct stream *s, struct sim_container *c, const struct wanted *w)
{
	const struct sim_exec_opts opts = {
		.command = jmut_view(w->command), .has_stdin = w->in, .tty = w->tty};
	struct err err = ERR_INIT;

	if (w->attach) {
		attach(s, c);
		return;
	}
	if (sim_container_exec(c, &opts, &task_handler, s, &s->task, &err) < 0)
		send_failure(s, err.msg);
}

static void refuse(struct sim_request *req, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	sim_reply_err(req, doc, err, NULL);
}

static void accept_stream(struct sim_request *req, struct sim_container *c, const struct wanted *w)
{
	static const char *const protocols[] = {V5, V4, NULL};
	const struct ws_opts opts = {.max_message_bytes = MESSAGE_BYTES};
	CLEANUP_FREE char *gone = xasprintf(
		"unable to upgrade connection: container not found (\"%s\")", w->container);
	bool runs = c && sim_container_runs(c);
	const char *protocol;
	struct err err = ERR_INIT;
	struct ws *ws;

	if (!ws_is_upgrade(req->ex)) {
		err_set(&err, ERR_INVALID, 400, "%s",
			http_headers_has(req->ex->headers, "upgrade")
				? "ipu-sim upgrades to WebSockets only, with " V5 " or " V4
				: "Upgrade request required");
		refuse(req, &err);
		return;
	}
	if (ws_check_upgrade(req->ex, protocols, &protocol, &err) < 0) {
		refuse(req, &err);
		return;
	}
	if (!runs && strcmp(protocol, V4) == 0) {
		err_set(&err, ERR_INTERNAL, 500, "Internal error occurred: %s", gone);
		refuse(req, &err);
		return;
	}
	if (ws_accept(req->ex, protocol, &opts, &ws, &err) < 0) {
		refuse(req, &err);
		return;
	}
	struct stream *s = stream_new(req, ws, w);
	if (!runs) {
		send_failure(s, gone);
		return;
	}
	greet(s);
	begin(s, c, w);
}

/* ---- the request ---- */

static void list_containers(const struct json *pod, char *ret_z, size_t size)
{
	struct json_iter it = json_iter(json_at(pod, "spec", "containers", NULL));
	size_t used = 0;

	ret_z[0] = '\0';
	while (json_next(&it) && used < size)
		used += (size_t)snprintf(ret_z + used, size - used, "%s%.*s", used ? " " : "",
					 STR_ARG(json_str(json_get(it.value, "name"))));
}

static bool has_container(const struct json *pod, const char *name)
{
	static const char *const lists[] = {"containers", "initContainers"};

	for (size_t i = 0; i < 2; i++) {
		struct json_iter it = json_iter(json_at(pod, "spec", lists[i], NULL));
		while (json_next(&it))
			if (str_eqz(json_str(json_get(it.value, "name")), name))
				return true;
	}
	return false;
}

int sim_choose_container(const struct json *pod, char **container, struct err *err)
{
	const struct json *all = json_at(pod, "spec", "containers", NULL);
	char name[SIM_POD_NAME], names[SIM_POD_NAME];

	snprintf(name, sizeof(name), "%.*s", STR_ARG(kube_name(pod)));
	if ((*container)[0] && !has_container(pod, *container))
		return err_set(err, ERR_INVALID, 400, "container %s is not valid for pod %s",
			       *container, name);
	if ((*container)[0])
		return 0;
	list_containers(pod, names, sizeof(names));
	if (json_len(all) != 1)
		return err_set(err, ERR_INVALID, 400,
			       "a container name must be specified for pod %s, choose one of: [%s]",
			       name, names);
	free(*container);
	*container = xstrdup(names);
	return 0;
}

static void read_wanted(struct sim_request *req, struct jmut_doc *doc, struct wanted *ret)
{
	struct str query = req->ex->query;
	struct http_query_iter it = HTTP_QUERY_ITER(query);
	char *container = http_query_get(query, "container", NULL);

	ret->attach = strcmp(req->subresource, "attach") == 0;
	ret->in = http_query_bool(query, "stdin", false);
	ret->out = http_query_bool(query, "stdout", false);
	ret->err = http_query_bool(query, "stderr", false);
	ret->tty = http_query_bool(query, "tty", false);
	ret->container = container ? container : xstrdup("");
	ret->command = jmut_array(doc);
	while (http_query_next(&it)) {
		struct buf word = BUF_INIT(1 << 20);
		if (str_eqz(it.name, "command") && http_unescape(&word, it.value, true, NULL) == 0)
			jmut_push(doc, ret->command, jmut_str(doc, buf_str(&word)));
		buf_done(&word);
	}
}

static int check(struct sim_request *req, const struct sim_object *o, struct wanted *w,
		 struct err *err)
{
	const struct json *pod = o ? sim_object_json(o) : NULL;

	if (!o)
		return err_set(err, ERR_NOT_FOUND, 404, "pods \"%s\" not found", req->name);
	if (sim_choose_container(pod, &w->container, err) < 0)
		return -1;
	if (!json_str(json_at(pod, "spec", "nodeName", NULL)).len)
		return err_set(err, ERR_INVALID, 400, "pod %s does not have a host assigned",
			       req->name);
	if (!w->in && !w->out && !w->err)
		return err_set(err, ERR_INVALID, 400,
			       "you must specify at least 1 of stdin, stdout, stderr");
	if (!w->attach && jmut_len(w->command) == 0)
		return err_set(err, ERR_INVALID, 400, "you must specify a command");
	return 0;
}

void sim_stream(struct sim_request *req)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct sim_object *o = sim_objects_get(req->api->objects, req->resource, str_of(req->ns),
					       str_of(req->name));
	struct wanted w = {0};
	struct err err = ERR_INIT;

	read_wanted(req, doc, &w);
	if (check(req, o, &w, &err) < 0)
		refuse(req, &err);
	else
		accept_stream(req, sim_run_find(req->api->run, str_of(o->uid), str_of(w.container)),
			      &w);
	free(w.container);
}
