/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call starts one operation and runs the loop until its callback has stopped it. What was
 * received is parsed again from its bytes, so that the document outlives the callback.
 */
#include "ctl/link.h"

#include <errno.h>
#include <stdlib.h>

#include "ctl/term.h"
#include "kube/config.h"
#include "kube/exec_helper.h"
#include "kube/object.h"
#include "net/net.h"
#include "net/tls.h"

#define HERE           "http://127.0.0.1:8080"
#define SERVICE_PORT   "80"
#define MAX_BODY_BYTES ((size_t)64 << 20)

struct ctl_link {
	const struct ctl_options *o;
	struct loop *loop;
	struct net *net;
	struct scope scope;

	const char *server; /* NULL: through the API server */
	struct http_url url;
	char *prefix; /* of every path: the URL's own, or the API server's to the Service */
	char *advice;
	bool is_asked; /* whom the advice is about */
	struct tls_config *tls;
	struct http_client *http;

	struct kube_config *config;
	bool lacks_config; /* there is none at all, and none was named */
	char *lacks_why;   /* why there is none; NULL: there is one, or nobody has looked */
	struct kube_exec_helper *helper;
	struct kube_client *kube;

	/* The call that runs. */
	enum http_method method; /* to the server */
	struct str target;
	struct err err;
	struct json_doc *answer;
	unsigned waited_s;
	bool wants_text;
	char *text; /* the same, of one that does */
	size_t text_len;
};

/* ---- the choice ---- */

enum need { KUBE_UNUSED, KUBE_IF_ANY, KUBE_NEEDED }; /* beside the way to the server */

static int use_server(struct ctl_link *l, const char *server, struct err *err)
{
	struct str path, query;

	l->server = server;
	if (http_url_parse(str_of(server), &l->url, err) < 0)
		return err_wrap(err, l->o->server_by_env ? "IPUCTL_SERVER" : "--server");
	http_target_split(l->url.target, &path, &query);
	if (query.p)
		return err_set(err, ERR_INVALID, 0, "%s: must not have a query",
			       l->o->server_by_env ? "IPUCTL_SERVER" : "--server");
	while (path.len > 0 && path.p[path.len - 1] == '/')
		path.len--;
	l->prefix = str_dup(path);
	return 0;
}

/* NAMESPACE, NAME and PORT become /api/v1/namespaces/NAMESPACE/services/http:NAME:PORT/proxy. */
static int use_service(struct ctl_link *l, struct err *err)
{
	struct str name, port;
	int64_t number;

	if (!str_cut(str_of(l->o->service), ':', &name, &port))
		port = STR(SERVICE_PORT);
	if (kube_check_name("--operator-namespace", str_of(l->o->ns), false, err) < 0 ||
	    kube_check_name("--service", name, false, err) < 0)
		return -1;
	if (str_to_int(port, 1, 65535, &number, NULL) < 0 && !kube_is_dns1123_label(port))
		return err_set(err, ERR_INVALID, 0,
			       "--service: \"%.*s\" is neither the number nor the name of a port",
			       STR_ARG(port));
	l->prefix = xasprintf("/api/v1/namespaces/%s/services/http:%.*s:%.*s/proxy", l->o->ns,
			      STR_ARG(name), STR_ARG(port));
	l->advice = xasprintf(
		"asked for Service %s/%.*s through the API server %s (%s); "
		"--operator-namespace and --service name another, --server goes another way",
		l->o->ns, STR_ARG(name), kube_config_server(l->config),
		kube_config_source(l->config));
	return 0;
}

static int load_config(struct ctl_link *l, struct err *err)
{
	const struct ctl_options *o = l->o;

	return kube_config_load(o->kubeconfig, o->context, &l->config, err) < 0 ||
			       kube_exec_helper_fork(l->config, &l->helper, err) < 0
		       ? -1
		       : 0;
}

/* There is no kubeconfig that can be used: may it do without? */
static int lack_config(struct ctl_link *l, enum need need, struct err *why, struct err *err)
{
	bool is_named = l->o->kubeconfig || l->o->context;
	bool is_there = why->code != ENOENT || l->config;

	if (!is_named && (need == KUBE_IF_ANY && l->o->server)) {
		kube_config_free(l->config);
		l->config = NULL;
	} else if (is_named || is_there || need == KUBE_NEEDED) {
		l->lacks_config = !is_there && !is_named;
		why->code = 0;
		if (need == KUBE_NEEDED)
			err_wrap(why, "the Kubernetes API is needed for this");
		return err_copy(err, why);
	}
	l->lacks_why = xstrdup(why->msg);
	return 0;
}

/* Of one that asks this machine, for want of a kubeconfig. */
static char *advise_without(const struct ctl_link *l)
{
	const char *named = getenv("KUBECONFIG");
	bool is_named = named && named[0];

	return xasprintf("asked %s, since %s, or say by --server or IPUCTL_SERVER where the proxy "
			 "is",
			 l->server,
			 is_named ? "no file that KUBECONFIG names is there: correct it"
				  : "there is no kubeconfig: set KUBECONFIG");
}

static int choose(struct ctl_link *l, enum need need, struct err *err)
{
	const struct ctl_options *o = l->o;
	struct err why = ERR_INIT;

	if ((!o->server || need != KUBE_UNUSED) && load_config(l, &why) < 0 &&
	    lack_config(l, need, &why, err) < 0)
		return -1;
	if (!o->server && l->config)
		return use_service(l, err);
	if (use_server(l, o->server ? o->server : HERE, err) < 0)
		return -1;
	l->advice = o->server ? xasprintf("asked %s, from %s", l->server,
					  o->server_by_env ? "IPUCTL_SERVER" : "--server")
			      : advise_without(l);
	return 0;
}

static int connect_parts(struct ctl_link *l, struct err *err)
{
	struct tls_client_opts tls = {.ca_file = l->o->ca_file};
	struct kube_client_opts kube = {
		.config = l->config, .helper = l->helper, .user_agent = "ipuctl/" PACKAGE_VERSION};
	struct http_client_config http = {.user_agent = "ipuctl/" PACKAGE_VERSION};

	if (loop_new(&l->loop, err) < 0 || net_new(l->loop, &l->net, err) < 0)
		return -1;
	kube.loop = l->loop;
	kube.net = l->net;
	if (l->config && kube_client_new(&kube, &l->kube, err) < 0)
		return -1;
	if (l->server && l->url.tls && tls_config_new_client(&tls, &l->tls, err) < 0) {
		err->kind = ERR_INVALID; /* the file is a person's to mend, whatever is wrong */
		err->code = 0;
		return err_wrap(err, "--ca-file");
	}
	if (l->server)
		l->http = http_client_new(l->net, &http);
	return 0;
}

static int new(const struct ctl_options *o, enum need need, bool *ret_lacks, struct ctl_link **ret,
	       struct err *err)
{
	struct ctl_link *l = xcalloc(1, sizeof(*l));

	l->o = o;
	scope_init(&l->scope);
	if (choose(l, need, err) < 0 || connect_parts(l, err) < 0) {
		*ret_lacks = l->lacks_config;
		ctl_link_free(l);
		return -1;
	}
	*ret = l;
	return 0;
}

int ctl_link_new(const struct ctl_options *o, bool needs_kube, struct ctl_link **ret,
		 struct err *err)
{
	bool lacks;

	return new (o, needs_kube ? KUBE_NEEDED : KUBE_UNUSED, &lacks, ret, err);
}

int ctl_link_new_with_any(const struct ctl_options *o, struct ctl_link **ret, struct err *err)
{
	bool lacks;

	return new (o, KUBE_IF_ANY, &lacks, ret, err);
}

int ctl_link_new_if_any(const struct ctl_options *o, struct ctl_link **ret, struct err *err)
{
	bool lacks = false;

	if (new (o, KUBE_NEEDED, &lacks, ret, err) == 0)
		return 0;
	if (!lacks)
		return -1;
	*ret = NULL;
	return 0;
}

void ctl_link_free(struct ctl_link *l)
{
	if (!l)
		return;
	scope_cancel(&l->scope);
	http_client_free(l->http);
	tls_config_unref(l->tls);
	kube_client_free(l->kube);
	kube_exec_helper_free(l->helper);
	net_free(l->net);
	loop_free(l->loop);
	kube_config_free(l->config);
	free(l->prefix);
	free(l->advice);
	free(l->lacks_why);
	free(l);
}

const char *ctl_link_advice(const struct ctl_link *l)
{
	return l->is_asked ? l->advice : NULL;
}

const char *ctl_link_namespace(const struct ctl_link *l)
{
	const char *ns = l->config ? kube_config_namespace(l->config) : NULL;

	return l->o->job_ns ? l->o->job_ns : ns && ns[0] ? ns : "default";
}

/* ---- calls ---- */

static void keep_answer(struct ctl_link *l, struct str body)
{
	if (json_parse(body, &l->answer, &l->err) == 0)
		return;
	err_wrap(&l->err, "the answer isn't JSON: is this the operator's proxy?");
	l->err.kind = ERR_PROTOCOL;
}

/* The words of a problem document (RFC 9457) or of a Status say more than a status line. */
struct str ctl_link_words(const struct json *body)
{
	struct str detail = json_str(json_get(body, "detail"));

	if (!detail.p)
		detail = json_str(json_get(body, "message"));
	return http_without_token(detail, STR_NULL);
}

static void use_words(struct err *err, const struct json *body)
{
	struct str words = ctl_link_words(body);

	if (words.len > 0)
		err_set(err, err->kind, err->code, "%.*s", STR_ARG(words));
}

static void on_fetched(void *arg, const struct http_response *response, const struct err *why)
{
	struct ctl_link *l = arg;
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (why) {
		l->err = *why;
	} else if (http_response_check(response, l->method, l->target, STR_NULL, &l->err) == 0) {
		keep_answer(l, response->body);
	} else if (json_parse(response->body, &doc, NULL) == 0) {
		use_words(&l->err, json_root(doc));
	}
	loop_stop(l->loop, 0);
}

static void on_called(void *arg, const struct err *why, const struct kube_response *response)
{
	struct ctl_link *l = arg;

	if (!why && l->wants_text) {
		l->text = str_dup(response->raw);
		l->text_len = response->raw.len;
	} else if (!why) {
		keep_answer(l, response->raw);
	} else {
		l->err = *why;
		/* A Status' are in it, without our own token too, which isn't known here. */
		if (response && !str_eqz(json_str(json_get(response->json, "kind")), "Status"))
			use_words(&l->err, response->json);
	}
	loop_stop(l->loop, 0);
}

/* For a person at a terminal, once an answer takes longer than people wait without a sign. */
static void on_slow(struct loop_timer *timer, void *arg)
{
	struct ctl_link *l = arg;
	CLEANUP_FREE char *line = xasprintf("waiting for an answer, %u of %u s", ++l->waited_s,
					    l->o->timeout_s);

	ctl_progress(line);
	loop_timer_start_in(timer, 1000);
}

static int run(struct ctl_link *l, struct json_doc **ret, struct err *err)
{
	struct loop_timer slow;

	l->waited_s = 0;
	loop_timer_init(&slow, l->loop, on_slow, l);
	if (ctl_term_has_progress())
		loop_timer_start_in(&slow, 1000);
	loop_run(l->loop);
	loop_timer_stop(&slow);
	if (l->waited_s)
		ctl_progress(NULL);
	scope_cancel(&l->scope);
	if (l->err.kind != ERR_NONE)
		return err_copy(err, &l->err);
	*ret = l->answer;
	l->answer = NULL;
	return 0;
}

static int ask_server(struct ctl_link *l, const char *path, struct str body, struct json_doc **ret,
		      struct err *err)
{
	static const struct http_header headers[] = {HTTP_H("Accept", "application/json"),
						     HTTP_H("Content-Type", "application/json")};
	CLEANUP_FREE char *target = xasprintf("%s%s", l->prefix, path);
	unsigned ms = l->o->timeout_s * 1000;
	struct http_request request = {
		.origin = {.host = l->url.host, .port = l->url.port, .tls = l->tls},
		.method = body.p ? HTTP_METHOD_POST : HTTP_METHOD_GET,
		.target = str_of(target),
		.headers = headers,
		.n_headers = body.p ? 2 : 1,
		.body = body,
		.connect_ms = ms,
		.first_byte_ms = ms,
		.idle_ms = ms,
		.total_ms = ms,
		.max_body_bytes = MAX_BODY_BYTES,
	};

	l->err = (struct err)ERR_INIT;
	l->method = request.method;
	l->target = request.target;
	http_fetch_start(l->http, &request, on_fetched, l, &l->scope);
	return run(l, ret, err);
}

int ctl_link_kube(struct ctl_link *l, const struct kube_request *request, struct json_doc **ret,
		  struct err *err)
{
	struct kube_request r = *request;

	r.deadline_ms = l->o->timeout_s * 1000;
	r.max_response_bytes = MAX_BODY_BYTES;
	l->err = (struct err)ERR_INIT;
	kube_call_start(l->kube, &r, on_called, l, &l->scope);
	return run(l, ret, err);
}

int ctl_link_text(struct ctl_link *l, const char *path, char **ret, size_t *ret_len,
		  struct err *err)
{
	struct kube_request r = {.verb = KUBE_GET, .path = path};
	struct json_doc *none = NULL;
	int result;

	l->wants_text = true;
	result = ctl_link_kube(l, &r, &none, err);
	l->wants_text = false;
	if (result < 0)
		return -1;
	*ret = l->text;
	*ret_len = l->text_len;
	l->text = NULL;
	return 0;
}

int ctl_link_ask(struct ctl_link *l, const char *path, struct str body, struct json_doc **ret,
		 struct err *err)
{
	CLEANUP_FREE char *whole = NULL;
	struct kube_request request = {.verb = body.p ? KUBE_CREATE : KUBE_GET, .body = body};

	l->is_asked = true;
	if (l->server)
		return ask_server(l, path, body, ret, err);
	whole = xasprintf("%s%s", l->prefix, path);
	request.path = whole;
	return ctl_link_kube(l, &request, ret, err);
}

static void on_time(struct loop_timer *timer, void *arg)
{
	struct ctl_link *l = arg;

	(void)timer;
	loop_stop(l->loop, 0);
}

void ctl_link_pause(struct ctl_link *l, unsigned ms)
{
	struct loop_timer timer;

	loop_timer_init(&timer, l->loop, on_time, l);
	loop_timer_start_in(&timer, ms);
	loop_run(l->loop);
	loop_timer_stop(&timer);
}

/* ---- streams ---- */

struct loop *ctl_link_loop(struct ctl_link *l)
{
	return l->loop;
}

struct net *ctl_link_net(struct ctl_link *l)
{
	return l->net;
}

struct kube_client *ctl_link_client(struct ctl_link *l, const char **ret_why)
{
	if (!l->kube)
		*ret_why = l->lacks_why ? l->lacks_why : "there is no kubeconfig";
	return l->kube;
}

struct ctl_stream ctl_link_stream_start(struct ctl_link *l, enum http_method method,
					const char *path, const struct http_header *headers,
					size_t n_headers, unsigned idle_ms,
					const struct http_call_handler *handler, void *arg)
{
	CLEANUP_FREE char *target = xasprintf("%s%s", l->prefix, path);
	unsigned ms = l->o->timeout_s * 1000;
	struct kube_pass_request pass = {.method = method,
					 .path = target,
					 .headers = headers,
					 .n_headers = n_headers,
					 .begin_ms = ms,
					 .idle_ms = idle_ms};
	struct http_request request = {
		.origin = {.host = l->url.host, .port = l->url.port, .tls = l->tls},
		.method = method,
		.target = str_of(target),
		.headers = headers,
		.n_headers = n_headers,
		.connect_ms = ms,
		.first_byte_ms = ms,
		.idle_ms = idle_ms,
		.streaming = true,
	};
	struct ctl_stream stream = {0};

	if (l->server)
		stream.call = http_call_start(l->http, &request, handler, arg, &l->scope);
	else
		stream.pass = kube_pass_start(l->kube, &pass, handler, arg, &l->scope);
	return stream;
}

void ctl_stream_pause(struct ctl_stream *stream, bool pauses)
{
	if (stream->pass)
		kube_pass_pause(stream->pass, pauses);
	else if (stream->call && pauses)
		http_call_pause(stream->call);
	else if (stream->call)
		http_call_resume(stream->call);
}

void ctl_stream_cancel(struct ctl_stream *stream)
{
	if (stream->pass)
		op_cancel(&stream->pass->op);
	if (stream->call)
		op_cancel(&stream->call->op);
	*stream = (struct ctl_stream){0};
}
