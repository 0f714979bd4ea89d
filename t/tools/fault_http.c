/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests are handed on by the project's own server and client. A fault is drawn for each:
 * statuses are answered without asking; the others strike in the answer, after the request has had
 * its effect.
 */
#include "fault_http.h"

#include <stdlib.h>

#include "core/log.h"
#include "fault_late.h"
#include "net/tls.h"
#include "sim/certificate.h"

#define CONNECTIONS 512
#define DAY_MS      86400000
#define MOST_DELAY  400

struct fault_http {
	struct net *net;
	struct fault_plan *plan;
	uint16_t port;
	unsigned listen_port, hold_ms;
	struct http_server *server;
	struct http_client *client;
	struct fault_late *late;
	char *cert_pem;
	unsigned counts[FAULT_KINDS];
};

/* One request that is on its way; freed by its end, either end's. */
struct forward {
	struct fault_http *h;
	struct http_exchange *ex;
	struct http_call *call; /* NULL: not begun, or it has ended */
	struct http_header *headers;
	size_t n_headers;
	enum fault_kind kind;
	uint64_t lot;
	int64_t length; /* of the answer; -1: not known */
	uint64_t passed, strikes_at;
	bool begun, silent;
	struct loop_timer timer; /* a delay, or the end of a silence */
};

static void forward_free(struct forward *f)
{
	loop_timer_stop(&f->timer);
	if (f->call)
		op_cancel(&f->call->op);
	free(f->headers);
	free(f);
}

static void on_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	forward_free(arg);
}

/* The answer breaks off: the connection is closed in the middle of it. */
static void break_off(struct forward *f)
{
	http_exchange_on_abort(f->ex, NULL, NULL);
	http_reply_abort(f->ex);
	forward_free(f);
}

static void end_in_order(struct forward *f)
{
	http_exchange_on_abort(f->ex, NULL, NULL);
	http_reply_end(f->ex);
	forward_free(f);
}

/* Nothing more is said, until the connection breaks. */
static void go_silent(struct forward *f)
{
	f->silent = true;
	if (f->call)
		op_cancel(&f->call->op);
	f->call = NULL;
	loop_timer_start_in(&f->timer, 1 + (int64_t)(f->lot % f->h->hold_ms));
}

/* ---- the answer ---- */

/* Those of the connection (RFC 9110, 7.6.1), and those that are made anew. */
static bool is_passed(struct str name)
{
	static const char *const others[] = {
		"Connection", "Content-Length",    "Expect",  "Host",       "Keep-Alive",     "TE",
		"Trailer",    "Transfer-Encoding", "Upgrade", "User-Agent", "Accept-Encoding"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (str_ieqz(name, others[i]))
			return false;
	}
	return true;
}

/* *ret: the caller's to free; its texts are from's. */
static size_t pick_headers(const struct http_headers *from, struct http_header **ret)
{
	struct http_header *to = xcalloc(from->len + 1, sizeof(*to));
	size_t n = 0;

	for (size_t i = 0; i < from->len; i++) {
		to[n] = http_headers_at(from, i);
		n += is_passed(to[n].name);
	}
	*ret = to;
	return n;
}

static void on_drain(struct http_exchange *ex, void *arg)
{
	struct forward *f = arg;

	(void)ex;
	if (f->call)
		http_call_resume(f->call);
}

static void on_head(void *arg, const struct http_head *head)
{
	struct forward *f = arg;
	struct http_header *headers;
	size_t n;

	if (f->kind == FAULT_HOLE) {
		go_silent(f);
		return;
	}
	f->length = head->content_length;
	/* In the first half of what has a length; a watch's events come as they come. */
	f->strikes_at = f->lot % (f->length > 1 ? (uint64_t)f->length / 2 : 600);
	n = pick_headers(&head->headers, &headers);
	f->begun = true;
	http_exchange_on_drain(f->ex, on_drain, f);
	http_reply_begin(f->ex, head->status, NULL, headers, n);
	free(headers);
}

/* Behind the piece in which the fault is due. */
static void strike(struct forward *f)
{
	static const char noise[] = "\x7f\x01}]\"\xc3\x28{{nothing\n";

	switch (f->kind) {
	case FAULT_TRUNCATE:
		end_in_order(f);
		return;
	case FAULT_GARBAGE:
		http_reply_write(f->ex, (struct str){noise, sizeof(noise) - 1});
		end_in_order(f);
		return;
	case FAULT_HALF:
		go_silent(f);
		return;
	default:
		break_off(f);
	}
}

static bool strikes_in_body(const struct forward *f)
{
	return f->kind == FAULT_TRUNCATE || f->kind == FAULT_GARBAGE || f->kind == FAULT_HALF ||
	       f->kind == FAULT_RESET;
}

static void on_body(void *arg, struct str piece)
{
	struct forward *f = arg;
	bool due = strikes_in_body(f) && f->passed + piece.len > f->strikes_at;

	if (due)
		piece.len = (size_t)(f->strikes_at - f->passed);
	f->passed += piece.len;
	if (piece.len > 0 && http_reply_write(f->ex, piece))
		http_call_pause(f->call);
	if (due)
		strike(f);
}

static void on_done(void *arg, const struct err *why)
{
	struct forward *f = arg;

	f->call = NULL;
	if (why)
		break_off(f);
	else
		end_in_order(f);
}

static const struct http_call_handler call_handler = {on_head, on_body, on_done};

/* ---- the request ---- */

static void hand_on(struct forward *f)
{
	const struct http_request req = {
		.origin = {.host = "127.0.0.1", .port = f->h->port},
		.method = f->ex->method,
		.target = f->ex->target,
		.headers = f->headers,
		.n_headers = f->n_headers,
		.body = f->ex->body.len > 0 ? f->ex->body : STR_NULL,
		.first_byte_ms = DAY_MS,
		.idle_ms = DAY_MS,
		.streaming = true,
	};

	f->call = http_call_start(f->h->client, &req, &call_handler, f, NULL);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct forward *f = arg;

	(void)timer;
	if (f->silent)
		break_off(f);
	else
		hand_on(f);
}

/* What an API server under load, or one that ends, answers. */
static void answer(struct http_exchange *ex, enum fault_kind kind, uint64_t lot)
{
	static const struct said {
		int status;
		const char *reason, *message;
		bool later;
	} said[] = {
		[FAULT_410] = {410, "Expired", "too old resource version: 1 (1000)", false},
		[FAULT_429] = {429, "TooManyRequests", "too many requests", true},
		[FAULT_500] = {500, "InternalError", "etcdserver: request timed out", false},
		[FAULT_503] = {503, "ServiceUnavailable", "apiserver not ready", false},
	};
	const struct said *s = &said[kind];
	const struct http_header later = HTTP_H("Retry-After", "1");
	CLEANUP_FREE char *body = xasprintf(
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"%s\",\"reason\":\"%s\",\"code\":%d}",
		s->message, s->reason, s->status);
	bool is_plain = kind == FAULT_503 && lot % 2;

	http_reply(ex, s->status, is_plain ? "text/plain" : "application/json", &later, s->later,
		   str_of(is_plain ? s->message : body));
}

/* A watch is told in its stream, too, that its version is too old. */
static void answer_watch(struct http_exchange *ex)
{
	http_reply(ex, 200, "application/json", NULL, 0,
		   STR("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
		       "\"metadata\":{},\"status\":\"Failure\",\"message\":\"too old resource "
		       "version: 1 (1000)\",\"reason\":\"Expired\",\"code\":410}}\n"));
}

static void on_request(struct http_exchange *ex, void *arg)
{
	struct fault_http *h = arg;
	struct forward *f;
	uint64_t lot;
	enum fault_kind kind;

	if (fault_late_take(h->late, ex))
		return;
	kind = fault_of_request(h->plan, ex->method, ex->path, ex->query, &lot);
	if (kind != FAULT_NONE) {
		h->counts[kind]++;
		log_info("fault", "api", "%s: %s %.*s", fault_kind_name(kind),
			 http_method_name(ex->method), STR_ARG(ex->target));
	}
	if (kind == FAULT_410 && lot % 2 && http_query_bool(ex->query, "watch", false)) {
		answer_watch(ex);
		return;
	}
	if (kind >= FAULT_410 && kind != FAULT_NONE) {
		answer(ex, kind, lot);
		return;
	}
	f = xcalloc(1, sizeof(*f));
	*f = (struct forward){.h = h, .ex = ex, .kind = kind, .lot = lot};
	f->n_headers = pick_headers(ex->headers, &f->headers);
	loop_timer_init(&f->timer, net_loop(h->net), on_timer, f);
	if (http_query_bool(ex->query, "watch", false))
		http_exchange_be_last(ex);
	http_exchange_on_abort(ex, on_abort, f);
	if (kind == FAULT_DELAY)
		loop_timer_start_in(&f->timer, 1 + (int64_t)(lot % MOST_DELAY));
	else
		hand_on(f);
}

/* ---- the port ---- */

/* Half of all seeds speak HTTP/2 with the daemon, where one stream's fault is to harm no other. */
static int listen_tls(struct fault_http *h, struct err *err)
{
	static const char *const alpn[] = {"h2", "http/1.1", NULL};
	bool is_h2 = fault_draw(h->plan, STR("protocol"), 0, 0) % 2 == 0;
	CLEANUP_FREE char *key = NULL;
	struct tls_config *tls;
	int result;

	if (sim_certificate_make(NULL, &h->cert_pem, &key, err) < 0)
		return -1;
	const struct tls_server_opts opts = {.cert_pem = str_of(h->cert_pem),
					     .key_pem = str_of(key),
					     .alpn = is_h2 ? alpn : alpn + 1};
	log_info("fault", NULL, "API server: %s", is_h2 ? alpn[0] : alpn[1]);
	if (tls_config_new_server(&opts, &tls, err) < 0)
		return -1;
	result = http_server_listen(h->server, "127.0.0.1:0", tls, on_request, h, &h->listen_port,
				    err);
	tls_config_unref(tls);
	return result;
}

int fault_http_new(struct net *net, const struct fault_http_config *config, struct fault_http **ret,
		   struct err *err)
{
	const struct http_client_config client = {.max_streaming = CONNECTIONS};
	const struct http_server_config server = {
		.max_connections = CONNECTIONS, .name = "fault", .idle_ms = DAY_MS};
	struct fault_http *h = xcalloc(1, sizeof(*h));

	h->net = net;
	h->plan = config->plan;
	h->port = config->port;
	h->hold_ms = config->hold_ms;
	h->client = http_client_new(net, &client);
	h->late = fault_late_new(h->client);
	h->server = http_server_new(net, &server);
	if (listen_tls(h, err) < 0) {
		fault_http_free(h);
		return -1;
	}
	*ret = h;
	return 0;
}

void fault_http_free(struct fault_http *h)
{
	if (!h)
		return;
	http_server_free(h->server);
	fault_late_free(h->late);
	http_client_free(h->client);
	free(h->cert_pem);
	free(h);
}

uint16_t fault_http_port(const struct fault_http *h)
{
	return (uint16_t)h->listen_port;
}

const char *fault_http_cert_pem(const struct fault_http *h)
{
	return h->cert_pem;
}

unsigned fault_http_count(const struct fault_http *h, enum fault_kind kind)
{
	return h->counts[kind];
}

struct fault_late *fault_http_late(const struct fault_http *h)
{
	return h->late;
}

uint16_t fault_http_leads_to(const struct fault_http *h)
{
	return h->port;
}

void fault_http_aim(struct fault_http *h, uint16_t port)
{
	h->port = port;
}
