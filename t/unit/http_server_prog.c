/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server for t/20-http.t: serves until SIGTERM, then ends gracefully.
 * http_server_prog --ports-file=FILE [--cert=FILE --key=FILE] [--header-ms=N] [--idle-ms=N]
 * Listeners: "http", and "https" with a certificate.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "http/server.h"
#include "net/net.h"
#include "net/tls.h"

static struct loop *loop;
static struct http_server *server;
static unsigned n_open, n_aborted;

static void get_hello(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "text/plain", NULL, 0, STR("hello\n"));
}

static void post_echo(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "application/octet-stream", NULL, 0, ex->body);
}

/* ---- /stream?lines=N&ms=M: a line each M milliseconds; M 0: as fast as it's taken ---- */

struct stream {
	struct http_exchange *ex;
	struct loop_timer timer;
	int64_t next, lines, ms;
};

static void stream_end(struct stream *s)
{
	loop_timer_stop(&s->timer);
	n_open--;
	loop_reap(loop, s, free);
}

static void stream_abort(struct http_exchange *ex, void *arg)
{
	(void)ex;
	n_aborted++;
	stream_end(arg);
}

static void stream_step(struct stream *s)
{
	char line[32];
	while (s->next < s->lines) {
		int len = snprintf(line, sizeof(line), "line %lld\n", (long long)s->next++);
		if (http_reply_write(s->ex, (struct str){line, (size_t)len}))
			return;
		if (s->ms > 0) {
			loop_timer_start_in(&s->timer, s->ms);
			return;
		}
	}
	struct http_exchange *ex = s->ex;
	stream_end(s);
	http_reply_end(ex);
}

static void stream_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	stream_step(arg);
}

static void stream_drain(struct http_exchange *ex, void *arg)
{
	(void)ex;
	stream_step(arg);
}

static int64_t number(struct str query, const char *name)
{
	int64_t n = 0;
	CLEANUP_FREE char *text = http_query_get(query, name, NULL);
	str_to_int(str_of(text), 0, 10000000, &n, NULL);
	return n;
}

static void get_stream(struct http_exchange *ex, void *arg)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	(void)arg;
	s->ex = ex;
	s->lines = number(ex->query, "lines");
	s->ms = number(ex->query, "ms");
	loop_timer_init(&s->timer, loop, stream_timer, s);
	n_open++;
	http_exchange_on_abort(ex, stream_abort, s);
	http_exchange_on_drain(ex, stream_drain, s);
	http_reply_begin(ex, 200, "text/plain", NULL, 0);
	stream_step(s);
}

static void get_state(struct http_exchange *ex, void *arg)
{
	char text[100];
	(void)arg;
	snprintf(text, sizeof(text), "{\"open\":%u,\"aborted\":%u}", n_open, n_aborted);
	http_reply(ex, 200, "application/json", NULL, 0, str_of(text));
}

static const struct http_route routes[] = {
	{HTTP_METHOD_GET, "/hello", get_hello},   {HTTP_METHOD_POST, "/echo", post_echo},
	{HTTP_METHOD_GET, "/stream", get_stream}, {HTTP_METHOD_GET, "/state", get_state},
	{HTTP_METHOD_NONE, NULL, NULL},
};

static void handle(struct http_exchange *ex, void *arg)
{
	http_route(ex, routes, arg);
}

static void on_stopped(void *arg)
{
	(void)arg;
	loop_stop(loop, 0);
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	static bool stopping;
	(void)s, (void)signum, (void)arg;
	if (!stopping)
		http_server_stop(server, 30000, on_stopped, NULL);
	stopping = true;
}

/* ---- beginning ---- */

struct options {
	const char *ports_file, *cert, *key;
	struct http_server_config config;
};

static bool option(const char *arg, const char *name, const char **ret)
{
	size_t len = strlen(name);
	if (strncmp(arg, name, len) != 0)
		return false;
	*ret = arg + len;
	return true;
}

static int parse(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		const char *text;
		if (option(argv[i], "--ports-file=", &o->ports_file) ||
		    option(argv[i], "--cert=", &o->cert) || option(argv[i], "--key=", &o->key))
			continue;
		if (option(argv[i], "--header-ms=", &text))
			o->config.header_ms = (unsigned)atoi(text);
		else if (option(argv[i], "--idle-ms=", &text))
			o->config.idle_ms = (unsigned)atoi(text);
		else
			return -1;
	}
	return o->ports_file ? 0 : -1;
}

static char *slurp(const char *path)
{
	struct buf b = BUF_INIT(1 << 20);
	char chunk[4096];
	size_t n;
	FILE *in = fopen(path, "re");
	while (in && (n = fread(chunk, 1, sizeof(chunk), in)) > 0)
		buf_append(&b, chunk, n, NULL);
	if (in)
		fclose(in);
	return buf_steal(&b, NULL);
}

static int listen_tls(const struct options *o, unsigned *ret_port, struct err *err)
{
	CLEANUP_FREE char *cert = slurp(o->cert);
	CLEANUP_FREE char *key = slurp(o->key);
	const struct tls_server_opts opts = {.cert_pem = str_of(cert), .key_pem = str_of(key)};
	struct tls_config *tls;
	if (tls_config_new_server(&opts, &tls, err) < 0)
		return -1;
	int rc = http_server_listen(server, "127.0.0.1:0", tls, handle, NULL, ret_port, err);
	tls_config_unref(tls);
	return rc;
}

static int open_all(const struct options *o, struct err *err)
{
	unsigned plain, secure = 0;
	if (http_server_listen(server, "127.0.0.1:0", NULL, handle, NULL, &plain, err) < 0)
		return -1;
	if (o->cert && listen_tls(o, &secure, err) < 0)
		return -1;
	FILE *out = fopen(o->ports_file, "we");
	if (!out)
		return err_set(err, ERR_IO, 0, "can't write the ports file");
	fprintf(out, "http %u\n", plain);
	if (secure)
		fprintf(out, "https %u\n", secure);
	fclose(out);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.config = {.limits = {.max_body_bytes = 1 << 20}, .date = true}};
	struct err err = ERR_INIT;
	struct net *net;
	struct loop_signal term;
	int status;

	if (parse(argc, argv, &o) < 0) {
		fprintf(stderr,
			"usage: http_server_prog --ports-file=FILE [--cert=FILE --key=FILE] "
			"[--header-ms=N] [--idle-ms=N]\n");
		return 2;
	}
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	server = http_server_new(net, &o.config);
	loop_signal_start(&term, loop, SIGTERM, on_signal, NULL);
	if (open_all(&o, &err) == 0) {
		status = loop_run(loop);
	} else {
		fprintf(stderr, "%s\n", err.msg);
		status = 1;
	}
	loop_signal_stop(&term);
	http_server_free(server);
	net_free(net);
	loop_free(loop);
	return status;
}
