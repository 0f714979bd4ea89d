/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher partition: the init container of a Pod with IPUs. Asks the operator's proxy for the
 * Pod's partition, waits until it's there, and writes its IPUoF configuration for the Pod's other
 * containers. One request at a time (doc/openapi.yaml); everything is owned by a struct on
 * launcher_partition's stack. Uses http, net, loop and core.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/str.h"
#include "http/client.h"
#include "launcher/cluster.h"
#include "launcher/launcher.h"
#include "loop/backoff.h"
#include "loop/loop.h"
#include "net/net.h"
#include "net/tls.h"

#define MAX_IPUS       65536
#define MAX_SECONDS    (INT64_C(10) * 366 * 86400)
#define WAIT_S         50 /* a request that waits for news; what takes longer isn't kept by all */
#define REQUEST_MS     15000
#define GIVE_BACK_MS   10000 /* of a Pod's 30 s, unless it says otherwise */
#define AGAIN_MS       500
#define AGAIN_MAX_MS   10000
#define AGAIN_POLL_MS  5000  /* where there are too many to be kept waiting */
#define TELL_MS        2000  /* news is told this often at most, */
#define TELL_AGAIN_MS  60000 /* and what is no news this often */
#define MAX_DENIALS    4     /* a token or a certificate may be about to be renewed */
#define MAX_BODY_BYTES ((uint64_t)2 << 20)
#define ETAG_SIZE      64
#define FILE_KEY       "ipuof-0.conf" /* of the only GCD */

enum step {
	STEP_ASK,       /* by POST */
	STEP_WATCH,     /* by GET, which waits for a change */
	STEP_FETCH,     /* the IPUoF configuration */
	STEP_GIVE_BACK, /* by DELETE, then this program ends with `status` */
};

struct partition {
	const char *ca_file, *token_file, *output;
	const char *ns, *name, *uid, *ca_pem;
	int64_t ipus, timeout_s, deadline_s;
	struct http_url url;
	struct loop *loop;
	struct net *net;
	struct tls_config *tls;
	struct http_client *client;
	struct scope scope;
	struct loop_timer next, tell, deadline, end;
	struct loop_signal signals[2];
	struct backoff backoff; /* of failures */
	struct backoff polls;   /* of answers that don't wait for a change */

	enum step step;
	enum http_method method; /* of the request under way */
	struct buf target;       /* the same */
	char *authorization;     /* the same */
	int64_t attempt;         /* that we ask for; -1: we haven't been told of any */
	char etag[ETAG_SIZE];    /* of the status that was told last; "": to be told at once */
	int64_t began_ms, asked_ms;
	unsigned denials;
	bool asked, asked_before; /* the proxy may know of us; before the request under way */
	int status;               /* to end with */

	char news[384], told[384];
	int64_t told_ms;
};

static void step(struct partition *p);

/* ---- words ---- */

/* What it waits for: told at once where it's new, but not too often, and again after a while. */
static void tell(struct partition *p)
{
	bool is_new = strcmp(p->news, p->told) != 0;
	int64_t due_ms = p->told_ms + (is_new ? TELL_MS : TELL_AGAIN_MS);
	if (p->news[0] == '\0' || p->step == STEP_GIVE_BACK)
		return;
	if (!p->told[0] || clock_mono_ms() >= due_ms) {
		launcher_fail(0, "%s", p->news);
		memcpy(p->told, p->news, sizeof(p->told));
		p->told_ms = clock_mono_ms();
		due_ms = p->told_ms + TELL_AGAIN_MS;
	}
	loop_timer_start_at(&p->tell, due_ms);
}

__attribute__((format(printf, 2, 3))) static void set_news(struct partition *p, const char *fmt,
							   ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(p->news, sizeof(p->news), fmt, ap);
	va_end(ap);
	tell(p);
}

static void on_tell(struct loop_timer *timer, void *arg)
{
	(void)timer;
	tell(arg);
}

static double seconds(const struct partition *p)
{
	return (double)(clock_mono_ms() - p->began_ms) / 1000;
}

/* ---- the way on ---- */

static void go(struct partition *p, enum step next, int64_t delay_ms)
{
	p->step = next;
	loop_timer_start_in(&p->next, delay_ms);
}

static void on_next(struct loop_timer *timer, void *arg)
{
	(void)timer;
	step(arg);
}

/* What was asked for goes back before the end: a Pod that waits no more must not get IPUs. */
static void give_back(struct partition *p, int status)
{
	if (p->step == STEP_GIVE_BACK)
		return;
	p->status = status;
	scope_cancel(&p->scope);
	loop_timer_stop(&p->deadline);
	backoff_reset(&p->backoff);
	if (!p->asked) {
		loop_stop(p->loop, status);
		return;
	}
	loop_timer_start_in(&p->end, GIVE_BACK_MS);
	go(p, STEP_GIVE_BACK, 0);
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	struct partition *p = arg;
	(void)s;
	if (p->step != STEP_GIVE_BACK)
		launcher_fail(0, "ended by signal %d%s", signum,
			      p->asked ? ": what was asked for is given back" : "");
	give_back(p, 128 + signum);
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct partition *p = arg;
	(void)timer;
	launcher_fail(0,
		      "after %" PRId64 " s there are no IPUs, and none are asked for any more%s%s",
		      p->timeout_s, p->news[0] ? ": " : "", p->news);
	give_back(p, EXIT_FAILURE);
}

static void on_end(struct loop_timer *timer, void *arg)
{
	struct partition *p = arg;
	(void)timer;
	loop_stop(p->loop, p->status);
}

/* ---- what has gone wrong ---- */

/* A problem document's words (RFC 9457), where the body is one. */
static void add_detail(const struct http_response *response, struct str token, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	if (json_parse(response->body, &doc, NULL) < 0)
		return;
	struct str detail = http_without_token(json_str(json_get(json_root(doc), "detail")), token);
	unsigned retry_after_ms = err->retry_after_ms;
	if (detail.len == 0)
		return;
	err_set(err, err->kind, err->code, "%d %s: %.*s", err->code, http_status_reason(err->code),
		STR_ARG(detail));
	err->retry_after_ms = retry_after_ms;
}

static bool is_worth_another(struct partition *p, const struct err *err)
{
	if (err_is_retryable(err) || err->code >= 500)
		return true;
	/* No status, and yet denied: TLS. */
	return err->kind == ERR_DENIED && err->code != 403 && ++p->denials < MAX_DENIALS;
}

/* Tries again what failed, or ends. */
static void on_failure(struct partition *p, const struct err *err)
{
	if (p->step == STEP_ASK && !err->maybe_applied && err->code < 500)
		p->asked = p->asked_before;
	if (p->step == STEP_WATCH && (err->code == 404 || err->code == 409)) {
		go(p, STEP_ASK, backoff_next_ms(&p->backoff, NULL));
	} else if (p->step == STEP_FETCH && (err->code == 404 || err->code == 409)) {
		p->etag[0] = '\0';
		go(p, STEP_WATCH, backoff_next_ms(&p->backoff, NULL));
	} else if (is_worth_another(p, err)) {
		p->told_ms -= TELL_MS; /* failures are far enough apart by themselves */
		set_news(p, "the operator can't be asked: %s", err->msg);
		p->etag[0] = '\0';
		go(p, p->step, backoff_next_ms(&p->backoff, err));
	} else if (p->step == STEP_GIVE_BACK) {
		loop_stop(p->loop, p->status);
	} else {
		/* Nothing is asked for, or what is can't be told of: nothing to give back. */
		loop_stop(p->loop, launcher_fail(EXIT_FAILURE, "%s", err->msg));
	}
}

/* ---- the status ---- */

static void write_news(struct partition *p, const struct json *status)
{
	const char *state = json_cstr(json_get(status, "state"));
	const char *message = json_cstr(json_get(status, "message"));
	if (message && message[0])
		set_news(p, "%s", message);
	else if (strcmp(state, "waiting") != 0) /* else why it waits is about to be known */
		set_news(p, "%" PRId64 " IPU%s: %s", p->ipus, p->ipus == 1 ? "" : "s", state);
}

/* Whether a run of this program that came before may have given these IPUs to containers. */
static bool is_used(struct str state)
{
	return !str_eqz(state, "waiting") && !str_eqz(state, "creating");
}

static void tell_success(const struct partition *p, const struct json *status)
{
	const char *id = json_cstr(json_get(status, "id"));
	const char *controller = json_cstr(json_get(status, "controller"));
	launcher_fail(0, "%" PRId64 " IPU%s: partition %s on %s, after %.1f s", p->ipus,
		      p->ipus == 1 ? "" : "s", id ? id : "?", controller ? controller : "?",
		      seconds(p));
}

/* Another attempt is another run, which finds its partition reset. */
static void on_status(struct partition *p, const struct json *status, bool is_made)
{
	struct str state = json_str(json_get(status, "state"));
	int64_t attempt = json_int(json_get(status, "attempt"), 0);
	int64_t wanted = json_int(json_get(status, "wantedAttempt"), attempt);
	if (p->attempt < 0 && is_used(state) && !is_made) {
		p->attempt = (wanted + 1) & UINT32_MAX;
		go(p, STEP_ASK, 0);
		return;
	}
	if (p->attempt < 0)
		p->attempt = wanted;
	if (str_eqz(state, "active") && attempt == p->attempt && wanted == attempt) {
		tell_success(p, status);
		backoff_reset(&p->backoff);
		go(p, STEP_FETCH, 0);
		return;
	}
	write_news(p, status);
	if (str_eqz(state, "failed")) {
		p->attempt = (wanted + 1) & UINT32_MAX;
		go(p, STEP_ASK, backoff_next_ms(&p->backoff, NULL));
	} else if (str_eqz(state, "releasing") || wanted != p->attempt) {
		/* Somebody has released or reset it: its owner asks again. */
		p->attempt = wanted;
		go(p, STEP_ASK, backoff_next_ms(&p->backoff, NULL));
	} else {
		backoff_reset(&p->backoff);
		backoff_reset(&p->polls);
		go(p, STEP_WATCH, p->etag[0] ? 0 : AGAIN_MS);
	}
}

static int parse_status(struct partition *p, const struct http_response *response)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct str etag = http_headers_get(&response->head->headers, "etag");
	struct err err = ERR_INIT;
	if (json_parse(response->body, &doc, &err) < 0 ||
	    !json_cstr(json_get(json_root(doc), "state")))
		return -1;
	p->etag[0] = '\0';
	if (etag.len < sizeof(p->etag))
		snprintf(p->etag, sizeof(p->etag), "%.*s", STR_ARG(etag));
	on_status(p, json_root(doc), response->head->status == 201);
	return 0;
}

/* ---- the configuration ---- */

static int take_file(struct partition *p, const struct http_response *response)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	if (json_parse(response->body, &doc, &err) < 0)
		return -1;
	struct str text = json_str(json_at(json_root(doc), "files", FILE_KEY, NULL));
	if (!text.p)
		return -1;
	/* A container that is restarted by itself may be reading it, as another user. */
	if (file_replace(p->output, text, 0644, &err) == 0) {
		loop_stop(p->loop, EXIT_SUCCESS);
	} else {
		launcher_fail(0, "partition: %s", err.msg);
		give_back(p, EXIT_FAILURE);
	}
	return 0;
}

/* ---- requests ---- */

static void on_answer(void *arg, const struct http_response *response, const struct err *why)
{
	struct partition *p = arg;
	struct str token = http_bearer_token(p->authorization);
	struct err err = ERR_INIT;
	int status = 0;
	if (why) {
		on_failure(p, why);
		return;
	}
	if (response->head->status == 304) {
		bool waited = clock_mono_ms() - p->asked_ms >= AGAIN_MS;
		p->denials = 0;
		go(p, STEP_WATCH, waited ? 0 : backoff_next_ms(&p->polls, NULL));
		return;
	}
	if (http_response_check(response, p->method, buf_str(&p->target), token, &err) < 0) {
		add_detail(response, token, &err);
		on_failure(p, &err);
		return;
	}
	p->denials = 0;
	if (p->step == STEP_GIVE_BACK)
		loop_stop(p->loop, p->status);
	else if (p->step == STEP_FETCH)
		status = take_file(p, response);
	else
		status = parse_status(p, response);
	if (status == 0)
		return;
	err_set(&err, ERR_UNAVAILABLE, 0, "%.*s: this is no answer of the operator's proxy",
		STR_ARG(buf_str(&p->target)));
	on_failure(p, &err);
}

/* Ask in doc/openapi.yaml. */
static void write_ask(const struct partition *p, struct buf *out)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *owner = jmut_object(doc),
		    *options = jmut_object(doc);
	jmut_set_str(doc, owner, "kind", "Pod");
	jmut_set_str(doc, owner, "namespace", p->ns);
	jmut_set_str(doc, owner, "name", p->name);
	jmut_set_str(doc, owner, "uid", p->uid);
	jmut_set(doc, root, "owner", owner);
	jmut_set_int(doc, root, "instance", 0);
	jmut_set_int(doc, root, "ipus", p->ipus);
	jmut_set_int(doc, options, "gcds", 1);
	jmut_set_bool(doc, options, "reconfigurable", true);
	jmut_set(doc, root, "options", options);
	if (p->attempt >= 0)
		jmut_set_int(doc, root, "attempt", p->attempt);
	if (p->deadline_s > 0)
		jmut_set_int(doc, root, "deadlineSeconds", p->deadline_s);
	(void)jmut_write(root, JSON_COMPACT, out, NULL);
}

/* Path and method of the next request; its body, if it has one. */
static void prepare(struct partition *p, struct buf *body)
{
	static const enum http_method methods[] = {HTTP_METHOD_POST, HTTP_METHOD_GET,
						   HTTP_METHOD_GET, HTTP_METHOD_DELETE};
	p->method = methods[p->step];
	buf_clear(&p->target);
	buf_printf(&p->target, NULL, "/v1/partitions");
	if (p->step == STEP_ASK) {
		write_ask(p, body);
		return;
	}
	buf_printf(&p->target, NULL, "/%s/0", p->uid);
	if (p->step == STEP_WATCH && p->etag[0])
		buf_printf(&p->target, NULL, "?wait=%d", WAIT_S);
	else if (p->step == STEP_FETCH)
		buf_printf(&p->target, NULL, "/ipuof");
}

static void send_request(struct partition *p)
{
	struct buf body = BUF_INIT(4096);
	prepare(p, &body);
	const struct http_header headers[] = {
		{STR("Authorization"), str_of(p->authorization)},
		{STR("Accept"), STR("application/json")},
		p->step == STEP_ASK
			? (struct http_header){STR("Content-Type"), STR("application/json")}
			: (struct http_header){STR("If-None-Match"), str_of(p->etag)},
	};
	unsigned ms = REQUEST_MS + (p->step == STEP_WATCH ? WAIT_S * 1000 : 0);
	bool extra = p->step == STEP_ASK || (p->step == STEP_WATCH && p->etag[0]);
	struct http_request request = {
		.origin = {.host = p->url.host, .port = p->url.port, .tls = p->tls},
		.method = p->method,
		.target = buf_str(&p->target),
		.headers = headers,
		.n_headers = extra ? 3 : 2,
		.body = body.len ? buf_str(&body) : STR_NULL,
		.connect_ms = REQUEST_MS,
		.first_byte_ms = ms,
		.total_ms = ms,
		.max_body_bytes = MAX_BODY_BYTES,
	};
	p->asked_ms = clock_mono_ms();
	p->asked_before = p->asked;
	p->asked |= p->step == STEP_ASK;
	http_fetch_start(p->client, &request, on_answer, p, &p->scope);
	buf_done(&body);
}

/* The token is renewed behind our back: it's read for each request. */
static void step(struct partition *p)
{
	struct err err = ERR_INIT;
	cluster_free_authorization(p->authorization);
	p->authorization = NULL;
	if (cluster_read_token(p->token_file, &p->authorization, &err) < 0) {
		p->asked_before = p->asked;
		err.kind = ERR_UNAVAILABLE;
		on_failure(p, &err);
		return;
	}
	send_request(p);
}

/* ---- setting up ---- */

static int parse_options(struct partition *p, int argc, char **argv)
{
	static const struct option options[] = {
		{"ipus", required_argument, NULL, 'i'},
		{"output", required_argument, NULL, 'o'},
		{"ca", required_argument, NULL, 'c'},
		{"token-file", required_argument, NULL, 't'},
		{"timeout", required_argument, NULL, 's'},
		{"deadline", required_argument, NULL, 'd'},
		{NULL, 0, NULL, 0},
	};
	int option, status = 0;
	opterr = 0;
	while (status == 0 && (option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (option) {
		case 'i':
			status = launcher_number_option("ipus", argv, 1, MAX_IPUS, &p->ipus);
			break;
		case 'o':
			p->output = optarg;
			break;
		case 'c':
			p->ca_file = optarg;
			break;
		case 't':
			p->token_file = optarg;
			break;
		case 's':
			status = launcher_number_option("timeout", argv, 1, MAX_SECONDS,
							&p->timeout_s);
			break;
		case 'd':
			status = launcher_number_option("deadline", argv, 1, MAX_SECONDS,
							&p->deadline_s);
			break;
		default:
			return launcher_bad_option(option, argv);
		}
	}
	if (status == 0 && argc - optind != 1)
		return launcher_fail(EXIT_USAGE, "partition: exactly one URL is wanted");
	return status;
}

static int check_options(struct partition *p, const char *url)
{
	struct err err = ERR_INIT;
	if (p->ipus == 0 || !p->output || !p->token_file)
		return launcher_fail(EXIT_USAGE, "partition: --%s is missing",
				     p->ipus == 0 ? "ipus"
				     : !p->output ? "output"
						  : "token-file");
	if (p->ipus & (p->ipus - 1))
		return launcher_fail(
			EXIT_USAGE, "partition: --ipus: must be a power of two: 1, 2, 4 and so on");
	if (http_url_parse(str_of(url), &p->url, &err) < 0)
		return launcher_fail(EXIT_USAGE, "partition: %s", err.msg);
	if (!p->url.tls)
		return launcher_fail(EXIT_USAGE, "partition: a token is sent over https only");
	if (!str_eqz(p->url.target, "/"))
		return launcher_fail(EXIT_USAGE, "partition: the URL must be https://HOST:PORT");
	return 0;
}

static int take_environment(struct partition *p)
{
	static const char *const names[] = {"IPU_POD_NAMESPACE", "IPU_POD_NAME", "IPU_POD_UID"};
	const char **const fields[] = {&p->ns, &p->name, &p->uid};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*fields[i] = getenv(names[i]);
		if (!*fields[i] || !(*fields[i])[0])
			return launcher_fail(EXIT_USAGE,
					     "partition: %s isn't set: it's the Pod's, from the "
					     "downward API",
					     names[i]);
	}
	/* It becomes a part of paths. */
	if (strspn(p->uid, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
	    strlen(p->uid))
		return launcher_fail(EXIT_USAGE, "partition: IPU_POD_UID: that is no UID");
	p->ca_pem = getenv("IPU_PROXY_CA");
	return 0;
}

/* Input that a person or the webhook gave: what is wrong with it is found before anything is
 * connected. */
static int load(struct partition *p)
{
	struct err err = ERR_INIT;
	struct tls_client_opts opts = {.ca_file = p->ca_file};
	char *authorization = NULL;
	if (!p->ca_file && p->ca_pem && p->ca_pem[0])
		opts.ca_pem = str_of(p->ca_pem);
	if (cluster_read_token(p->token_file, &authorization, &err) < 0)
		return launcher_fail(EXIT_USAGE, "partition: --token-file: %s", err.msg);
	cluster_free_authorization(authorization);
	if (tls_config_new_client(&opts, &p->tls, &err) < 0)
		return launcher_fail(EXIT_USAGE, "partition: %s: %s",
				     p->ca_file ? p->ca_file : "IPU_PROXY_CA", err.msg);
	if (access(p->output, F_OK) == 0)
		unlink(p->output); /* of a run before: it's another's by now */
	return 0;
}

static int run(struct partition *p)
{
	static const int signums[] = {SIGTERM, SIGINT};
	const struct http_client_config config = {.user_agent = "ipu-launcher"};
	p->client = http_client_new(p->net, &config);
	p->began_ms = clock_mono_ms();
	for (size_t i = 0; i < sizeof(signums) / sizeof(signums[0]); i++)
		loop_signal_start(&p->signals[i], p->loop, signums[i], on_signal, p);
	loop_timer_init(&p->next, p->loop, on_next, p);
	loop_timer_init(&p->tell, p->loop, on_tell, p);
	loop_timer_init(&p->deadline, p->loop, on_deadline, p);
	loop_timer_init(&p->end, p->loop, on_end, p);
	if (p->timeout_s > 0)
		loop_timer_start_in(&p->deadline, p->timeout_s * 1000);
	go(p, STEP_ASK, 0);
	int status = loop_run(p->loop);
	for (size_t i = 0; i < sizeof(signums) / sizeof(signums[0]); i++)
		loop_signal_stop(&p->signals[i]);
	loop_timer_stop(&p->next);
	loop_timer_stop(&p->tell);
	loop_timer_stop(&p->deadline);
	loop_timer_stop(&p->end);
	return status;
}

int launcher_partition(int argc, char **argv)
{
	struct partition p = {
		.attempt = -1,
		.target = BUF_INIT(1024),
		.backoff = BACKOFF_INIT(AGAIN_MS, AGAIN_MAX_MS),
		.polls = BACKOFF_INIT(AGAIN_MS, AGAIN_POLL_MS),
	};
	struct err err = ERR_INIT;
	scope_init(&p.scope);
	int status = parse_options(&p, argc, argv);
	if (status == 0)
		status = check_options(&p, argv[optind]);
	if (status == 0)
		status = take_environment(&p);
	if (status == 0)
		status = load(&p);
	if (status == 0 && (loop_new(&p.loop, &err) < 0 || net_new(p.loop, &p.net, &err) < 0))
		status = launcher_fail(EXIT_FAILURE, "partition: %s", err.msg);
	if (status == 0)
		status = run(&p);
	scope_cancel(&p.scope);
	http_client_free(p.client);
	tls_config_unref(p.tls);
	net_free(p.net);
	loop_free(p.loop);
	buf_done(&p.target);
	cluster_free_authorization(p.authorization);
	return status;
}
