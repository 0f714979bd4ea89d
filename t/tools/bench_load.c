/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP load for the benchmarks: one request, over and over, on so many connections that are kept,
 * with or without TLS, as fast as answers come or at a rate. It looks at no more of an answer than
 * its status and its length. Uses core, loop and net. Prints one line of JSON: requests, seconds,
 * latencies in microseconds.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/buf.h"
#include "core/clock.h"
#include "loop/loop.h"
#include "net/conn.h"
#include "net/net.h"
#include "net/tls.h"

#define MAX_CONNECTIONS 1024
#define CONNECT_MS      10000
#define WARM_US         200000

struct load;

struct client {
	struct load *load;
	struct net_conn *conn;
	struct loop_timer timer; /* the next request, at a rate */
	int64_t sent_us, due_ms;
	bool waits; /* for an answer */
};

struct load {
	struct loop *loop;
	struct net *net;
	struct scope scope;
	struct client clients[MAX_CONNECTIONS];
	unsigned connections, connected, rate;
	struct buf request;
	int64_t warm_us, end_us; /* what is answered in between counts */
	int64_t length_us;
	struct loop_timer end;
	uint32_t *took_us;
	size_t n, cap;
	int status; /* that answers must have */
};

struct words {
	const char *host, *method, *body_file, *type;
	char *path;
	uint16_t port;
	bool tls;
	unsigned connections, rate;
	double seconds;
	int status;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench-load: %s: %s\n", what, why);
	exit(2);
}

/* ---- one connection ---- */

static void send_one(struct client *c)
{
	struct err err = ERR_INIT;
	c->sent_us = clock_mono_us();
	c->waits = true;
	if (net_conn_write(c->conn, c->load->request.p, c->load->request.len, &err) < 0)
		die("write", err.msg);
}

static void on_due(struct loop_timer *timer, void *arg)
{
	(void)timer;
	send_one(arg);
}

/* At a rate, each connection has its own beat; one that is late doesn't catch up. */
static void send_next(struct client *c)
{
	struct load *l = c->load;
	if (l->rate == 0) {
		send_one(c);
		return;
	}
	c->due_ms += (int64_t)l->connections * 1000 / l->rate;
	if (c->due_ms < clock_mono_ms())
		c->due_ms = clock_mono_ms();
	loop_timer_start_at(&c->timer, c->due_ms);
}

static void note(struct load *l, int64_t sent_us)
{
	int64_t now = clock_mono_us();
	if (sent_us < l->warm_us || now > l->end_us)
		return;
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 65536;
		l->took_us = xrealloc(l->took_us, l->cap * sizeof(*l->took_us));
	}
	l->took_us[l->n++] = (uint32_t)(now - sent_us);
}

/* The length of the whole answer; 0: not all of its head is there. */
static size_t answer_len(const struct load *l, const char *p, size_t len)
{
	static const char field[] = "content-length:";
	const char *end = memmem(p, len, "\r\n\r\n", 4);
	size_t body = 0;
	if (!end)
		return 0;
	if (atoi(p + strlen("HTTP/1.1 ")) != l->status)
		die("an answer", p);
	for (const char *line = p; line < end; line++) {
		line = memchr(line, '\n', (size_t)(end + 2 - line));
		if (!line)
			break;
		if (strncasecmp(line + 1, field, sizeof(field) - 1) == 0)
			body = strtoul(line + sizeof(field), NULL, 10);
	}
	return (size_t)(end + 4 - p) + body;
}

static size_t on_data(struct net_conn *conn, const char *p, size_t len, void *arg)
{
	struct client *c = arg;
	size_t whole = answer_len(c->load, p, len);
	(void)conn;
	if (whole == 0 || len < whole)
		return 0;
	if (!c->waits || len > whole)
		die("an answer", "nobody asked for it");
	c->waits = false;
	note(c->load, c->sent_us);
	if (clock_mono_us() < c->load->end_us)
		send_next(c);
	return whole;
}

static void on_eof(struct net_conn *conn, void *arg)
{
	(void)arg;
	die(net_conn_peer(conn), "closed the connection");
}

static void on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)arg;
	die(net_conn_peer(conn), why->msg);
}

/* ---- all of them ---- */

static void on_end(struct loop_timer *timer, void *arg)
{
	struct load *l = arg;
	(void)timer;
	loop_stop(l->loop, 0);
}

/* They begin together, spread over one beat. */
static void begin(struct load *l)
{
	int64_t now_ms = clock_mono_ms();
	l->warm_us = clock_mono_us() + WARM_US;
	l->end_us = l->warm_us + l->length_us;
	loop_timer_init(&l->end, l->loop, on_end, l);
	loop_timer_start_in(&l->end, (l->end_us - clock_mono_us()) / 1000 + 5);
	for (unsigned i = 0; i < l->connections; i++) {
		struct client *c = &l->clients[i];
		net_conn_read_start(c->conn);
		c->due_ms = now_ms;
		if (l->rate > 0)
			c->due_ms -= (int64_t)i * 1000 / l->rate;
		send_next(c);
	}
}

static void on_connect(struct net_conn *conn, const struct err *err, void *arg)
{
	static const struct net_conn_handler handler = {
		.on_data = on_data, .on_eof = on_eof, .on_error = on_error};
	struct client *c = arg;
	if (err)
		die("connect", err->msg);
	c->conn = conn;
	net_conn_set_handler(conn, &handler, c);
	if (++c->load->connected == c->load->connections)
		begin(c->load);
}

static void connect_all(struct load *l, const struct words *w)
{
	struct tls_client_opts opts = {.insecure_skip_verify = true};
	struct tls_config *tls = NULL;
	struct err err = ERR_INIT;
	if (w->tls && tls_config_new_client(&opts, &tls, &err) < 0)
		die("TLS", err.msg);
	for (unsigned i = 0; i < l->connections; i++) {
		struct net_connect_opts to = {.host = w->host,
					      .port = w->port,
					      .tls = tls,
					      .deadline_ms = clock_mono_ms() + CONNECT_MS};
		l->clients[i].load = l;
		loop_timer_init(&l->clients[i].timer, l->loop, on_due, &l->clients[i]);
		net_connect_start(l->net, &l->scope, &to, on_connect, &l->clients[i]);
	}
	tls_config_unref(tls);
}

/* ---- what is asked, what came of it ---- */

static void make_request(struct load *l, const struct words *w)
{
	struct err err = ERR_INIT;
	char *body = NULL;
	size_t len = 0;
	if (w->body_file) {
		FILE *in = fopen(w->body_file, "r");
		if (!in || getdelim(&body, &len, '\0', in) < 0)
			die(w->body_file, "can't be read");
		fclose(in);
		len = strlen(body);
	}
	if (buf_printf(&l->request, &err, "%s %s HTTP/1.1\r\nHost: %s:%u\r\n", w->method, w->path,
		       w->host, w->port) < 0 ||
	    (body &&
	     buf_printf(&l->request, &err, "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
			w->type, len, body) < 0) ||
	    (!body && buf_append_str(&l->request, STR("\r\n"), &err) < 0))
		die("the request", err.msg);
	free(body);
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static void report(struct load *l)
{
	if (l->n == 0)
		die("the server", "no answer came");
	qsort(l->took_us, l->n, sizeof(*l->took_us), by_size);
	printf("{\"requests\":%zu,\"seconds\":%.6f,\"warm_seconds\":%.6f,\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u}\n",
	       l->n, (double)l->length_us / 1e6, WARM_US / 1e6, l->took_us[l->n / 2],
	       l->took_us[l->n - 1 - l->n / 100], l->took_us[l->n - 1]);
}

static void read_words(int argc, char **argv, struct words *w)
{
	static const struct option options[] = {
		{"body", required_argument, NULL, 'b'},
		{"connections", required_argument, NULL, 'c'},
		{"rate", required_argument, NULL, 'r'},
		{"seconds", required_argument, NULL, 's'},
		{"status", required_argument, NULL, 'S'},
		{NULL, 0, NULL, 0},
	};
	static char host[NET_HOST_SIZE];
	struct err err = ERR_INIT;
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'b')
			w->body_file = optarg;
		else if (c == 'c')
			w->connections = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			w->rate = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 's')
			w->seconds = strtod(optarg, NULL);
		else if (c == 'S')
			w->status = atoi(optarg);
		else
			die("usage", "bench-load [--body=FILE] [--connections=N] [--rate=N] "
				     "[--seconds=S] [--status=N] URL");
	}
	static char none[1];
	char *url = argv[optind] ? argv[optind] : none, *slash;
	w->tls = strncmp(url, "https://", 8) == 0;
	if (!w->tls && strncmp(url, "http://", 7) != 0)
		die("usage", "the URL begins with http:// or https://");
	url += w->tls ? 8 : 7;
	slash = strchr(url, '/');
	if (!slash || w->connections == 0 || w->connections > MAX_CONNECTIONS)
		die("usage", "a URL with a path, 1 to 1024 connections");
	w->path = xstrdup(slash);
	*slash = '\0';
	if (net_split_host_port(url, w->tls ? 443 : 80, host, &w->port, &err) < 0)
		die("the URL", err.msg);
	w->host = host;
	w->method = w->body_file ? "POST" : "GET";
}

int main(int argc, char **argv)
{
	static struct load l;
	struct words w = {
		.connections = 1, .seconds = 1, .status = 200, .type = "application/json"};
	struct err err = ERR_INIT;
	read_words(argc, argv, &w);
	buf_init(&l.request, (size_t)8 << 20);
	l.connections = w.connections;
	l.rate = w.rate;
	l.status = w.status;
	l.length_us = (int64_t)(w.seconds * 1e6);
	if (loop_new(&l.loop, &err) < 0 || net_new(l.loop, &l.net, &err) < 0)
		die("start", err.msg);
	scope_init(&l.scope);
	make_request(&l, &w);
	connect_all(&l, &w);
	loop_run(l.loop);
	report(&l);
	for (unsigned i = 0; i < l.connections; i++) {
		loop_timer_stop(&l.clients[i].timer);
		net_conn_close(l.clients[i].conn);
	}
	net_free(l.net);
	loop_free(l.loop);
	buf_done(&l.request);
	free(l.took_us);
	free(w.path);
	return 0;
}
