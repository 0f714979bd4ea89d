/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: pairs of connections, the client's and ours to the server. Faults come in what the server
 * says; each pair counts those bytes until the plan's next fault is due.
 */
#include "fault_relay.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/log.h"
#include "net/conn.h"
#include "net/listen.h"

#define CONNECT_MS 10000
#define LINGER_MS  1000
#define GRACE_MS   20 /* from the last bytes that shall arrive to the RST behind them */
#define MOST_DELAY 250
#define MOST_DRIP  100
#define DRIP_MS    1
#define NOISE      64

struct fault_relay {
	struct net *net;
	char *name;
	const struct fault_plan *plan;
	uint16_t port;
	bool secure, parted;
	unsigned hold_ms;
	struct net_listener *listener;
	struct list pairs;
	uint64_t accepted;
	unsigned counts[FAULT_KINDS];
};

struct pair {
	struct list link;
	struct fault_relay *relay;
	struct net_conn *client, *server; /* server NULL: not there yet, or gone */
	struct op *connecting;
	uint64_t number, faults; /* of the link's connections; had by this one */
	enum fault_kind kind;    /* the next one … */
	uint64_t left;           /* … when the server has said so much more */
	unsigned drip;           /* bytes that come one by one */
	bool held;               /* a delay */
	bool silent;             /* nothing passes any more, until the timer's RST */
	bool swallow;            /* … and what the client says vanishes */
	struct loop_timer timer;
	struct loop_work again;
};

static struct str name_of(const struct pair *p)
{
	return str_of(p->relay->name);
}

static void draw(struct pair *p)
{
	const struct fault_relay *r = p->relay;

	p->kind = fault_of_bytes(r->plan, name_of(p), r->secure, p->number, p->faults++, &p->left);
}

/* ---- the end of a pair ---- */

static void pair_free(void *arg)
{
	free(arg);
}

static void pair_end(struct pair *p)
{
	op_cancel(p->connecting);
	loop_timer_stop(&p->timer);
	loop_work_cancel(&p->again);
	list_unlink(&p->link);
	net_conn_close(p->client);
	net_conn_close(p->server);
	p->client = p->server = NULL;
	loop_reap(net_loop(p->relay->net), p, pair_free);
}

static void set_reset(struct net_conn *conn)
{
	const struct linger now = {.l_onoff = 1, .l_linger = 0};

	if (conn)
		setsockopt(net_conn_fd(conn), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void pair_reset(struct pair *p)
{
	set_reset(p->client);
	set_reset(p->server);
	pair_end(p);
}

/* What the one who is left still gets is sent first. */
static void pair_finish(struct pair *p, struct net_conn **last)
{
	struct net_conn *conn = *last;

	*last = NULL;
	if (conn)
		net_conn_finish(conn, LINGER_MS);
	pair_end(p);
}

/* ---- faults ---- */

static void go_silent(struct pair *p, unsigned ms)
{
	p->silent = true;
	net_conn_close(p->server);
	p->server = NULL;
	op_cancel(p->connecting);
	p->connecting = NULL;
	if (!p->swallow)
		net_conn_read_stop(p->client);
	loop_timer_start_in(&p->timer, ms);
}

static void say_noise(struct pair *p, uint64_t lot)
{
	char noise[NOISE];

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(fault_draw(p->relay->plan, name_of(p), lot, i) & 0xff);
	net_conn_write(p->client, noise, sizeof(noise), NULL);
}

/* The fault that is due. True: bytes go on passing afterwards, perhaps after a while. */
static bool strike(struct pair *p)
{
	static const char alert[] = {0x15, 3, 3, 0,
				     2,    2, 80}; /* fatal, internal_error (RFC 8446) */
	struct fault_relay *r = p->relay;
	enum fault_kind kind = p->kind;
	uint64_t lot = fault_draw(r->plan, name_of(p), p->number, ~p->faults);

	r->counts[kind]++;
	log_info("fault", r->name, "%s: connection=%llu", fault_kind_name(kind),
		 (unsigned long long)p->number);
	if (kind == FAULT_DELAY || kind == FAULT_DRIP) {
		draw(p);
		p->drip = kind == FAULT_DRIP ? MOST_DRIP / 2 + (unsigned)(lot % (MOST_DRIP / 2))
					     : 0;
		p->held = kind == FAULT_DELAY;
		if (p->held)
			loop_timer_start_in(&p->timer, 1 + (int64_t)(lot % MOST_DELAY));
		return true;
	}
	p->swallow = kind == FAULT_HOLE;
	if (kind == FAULT_ALERT)
		net_conn_write(p->client, alert, sizeof(alert), NULL);
	if (kind == FAULT_GARBAGE)
		say_noise(p, lot);
	if (kind == FAULT_ALERT || kind == FAULT_GARBAGE)
		pair_finish(p, &p->client);
	else
		go_silent(p, kind == FAULT_RESET ? GRACE_MS : 1 + (unsigned)(lot % r->hold_ms));
	return false;
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct pair *p = arg;

	(void)timer;
	if (p->silent) {
		pair_reset(p);
		return;
	}
	p->held = false;
	if (!p->relay->parted && p->server)
		net_conn_read_start(p->server);
}

static void on_again(struct loop_work *work, void *arg)
{
	struct pair *p = arg;

	(void)work;
	if (!p->relay->parted && p->server)
		net_conn_read_start(p->server);
}

/* ---- bytes ---- */

static size_t on_server_data(struct net_conn *conn, const char *s, size_t len, void *arg)
{
	struct pair *p = arg;
	size_t pass = len;

	if (!p->held && p->kind != FAULT_NONE && p->left == 0 && !strike(p))
		return len;
	if (p->held) {
		net_conn_read_stop(conn);
		return 0;
	}
	if (p->kind != FAULT_NONE && pass > p->left)
		pass = p->left;
	if (p->drip > 0)
		pass = 1;
	if (p->kind != FAULT_NONE)
		p->left -= pass;
	net_conn_write(p->client, s, pass, NULL);
	/* What is left over is offered again in the next turn, or when there is room. */
	if (pass < len || p->drip > 0 || net_conn_is_full(p->client))
		net_conn_read_stop(conn);
	if (p->drip > 0) {
		p->drip--;
		loop_timer_start_in(&p->timer, DRIP_MS);
	} else if (pass < len) {
		loop_work_post(&p->again);
	}
	return pass;
}

static void on_client_drain(struct net_conn *conn, void *arg)
{
	struct pair *p = arg;

	(void)conn;
	if (p->server && !p->held && !p->relay->parted)
		net_conn_read_start(p->server);
}

static size_t on_client_data(struct net_conn *conn, const char *s, size_t len, void *arg)
{
	struct pair *p = arg;

	(void)conn;
	if (p->swallow)
		return len;
	/* A fault before the server has said anything: a connection may begin with it. */
	if (p->kind != FAULT_NONE && p->left == 0 && !p->held && !strike(p))
		return len;
	net_conn_write(p->server, s, len, NULL);
	return len;
}

static void on_server_eof(struct net_conn *conn, void *arg)
{
	struct pair *p = arg;

	(void)conn;
	pair_finish(p, &p->client);
}

static void on_client_eof(struct net_conn *conn, void *arg)
{
	struct pair *p = arg;

	(void)conn;
	pair_finish(p, &p->server);
}

static void on_error(struct net_conn *conn, const struct err *why, void *arg)
{
	(void)conn;
	(void)why;
	pair_reset(arg);
}

static const struct net_conn_handler client_handler = {
	.on_data = on_client_data,
	.on_eof = on_client_eof,
	.on_error = on_error,
	.on_drain = on_client_drain,
};
static const struct net_conn_handler server_handler = {
	.on_data = on_server_data,
	.on_eof = on_server_eof,
	.on_error = on_error,
};

/* ---- connections ---- */

static void on_connected(struct net_conn *conn, const struct err *why, void *arg)
{
	struct pair *p = arg;

	p->connecting = NULL;
	if (why) {
		pair_reset(p);
		return;
	}
	p->server = conn;
	net_conn_set_handler(conn, &server_handler, p);
	if (p->relay->parted)
		return;
	net_conn_read_start(conn);
	net_conn_read_start(p->client);
}

static void pair_connect(struct pair *p)
{
	const struct net_connect_opts opts = {
		.host = "127.0.0.1",
		.port = p->relay->port,
		.deadline_ms = clock_mono_ms() + CONNECT_MS,
	};

	p->connecting = net_connect_start(p->relay->net, NULL, &opts, on_connected, p);
}

static void on_accept(struct net_listener *l, struct net_conn *conn, void *arg)
{
	struct fault_relay *r = arg;
	struct loop *loop = net_loop(r->net);
	struct pair *p = xcalloc(1, sizeof(*p));

	(void)l;
	p->relay = r;
	p->client = conn;
	p->number = r->accepted++;
	loop_timer_init(&p->timer, loop, on_timer, p);
	loop_work_init(&p->again, loop, on_again, p);
	list_append(&r->pairs, &p->link);
	net_conn_set_handler(conn, &client_handler, p);
	draw(p);
	if (!r->parted)
		pair_connect(p);
}

/* ---- the link ---- */

int fault_relay_new(struct net *net, const struct fault_relay_config *config,
		    struct fault_relay **ret, struct err *err)
{
	const struct net_listen_opts opts = {.addr = "127.0.0.1:0"};
	struct fault_relay *r = xcalloc(1, sizeof(*r));

	r->net = net;
	r->name = xstrdup(config->name);
	r->plan = config->plan;
	r->port = config->port;
	r->secure = config->secure;
	r->hold_ms = config->hold_ms;
	list_init(&r->pairs);
	if (net_listener_new(net, &opts, on_accept, r, &r->listener, err) < 0) {
		fault_relay_free(r);
		return -1;
	}
	*ret = r;
	return 0;
}

void fault_relay_free(struct fault_relay *r)
{
	if (!r)
		return;
	fault_relay_cut(r);
	net_listener_close(r->listener);
	free(r->name);
	free(r);
}

const char *fault_relay_name(const struct fault_relay *r)
{
	return r->name;
}

uint16_t fault_relay_port(const struct fault_relay *r)
{
	return net_listener_port(r->listener);
}

unsigned fault_relay_count(const struct fault_relay *r, enum fault_kind kind)
{
	return r->counts[kind];
}

void fault_relay_aim(struct fault_relay *r, uint16_t port)
{
	r->port = port;
}

void fault_relay_part(struct fault_relay *r)
{
	r->parted = true;
	LIST_FOREACH(pos, tmp, &r->pairs) {
		struct pair *p = CONTAINER_OF(pos, struct pair, link);

		net_conn_read_stop(p->client);
		if (p->server)
			net_conn_read_stop(p->server);
	}
}

void fault_relay_mend(struct fault_relay *r)
{
	if (!r->parted)
		return;
	r->parted = false;
	LIST_FOREACH(pos, tmp, &r->pairs) {
		struct pair *p = CONTAINER_OF(pos, struct pair, link);

		if (p->server && !p->held)
			net_conn_read_start(p->server);
		if (p->server || p->swallow)
			net_conn_read_start(p->client);
		else if (!p->silent && !p->connecting)
			pair_connect(p);
	}
}

void fault_relay_cut(struct fault_relay *r)
{
	LIST_FOREACH(pos, tmp, &r->pairs)
		pair_reset(CONTAINER_OF(pos, struct pair, link));
}
