/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the partition layer's remote service in one loop: the keeper's (partition_remote),
 * and the proxy's TLS port with the manager behind it; between them somebody who delays and loses.
 * Included once by each test.
 */
#ifndef IPU_T_UNIT_PROXY_REMOTE_RIG_H
#define IPU_T_UNIT_PROXY_REMOTE_RIG_H

#include "proxy_rig.h"

#include <unistd.h>

#include "partition/remote.h"
#include "proxy/internal.h"

static struct proxy *proxy;
static struct http_server *front_server;
static unsigned front_port;
static char token_file[] = "/tmp/proxy_remote.XXXXXX";

static struct kube_client *remote_kube;
static struct partition_remote *remote;
static struct partition_service *ps;
static bool remote_synced;

/* ---- the proxy's end, and somebody between who delays and loses ---- */

static bool holding;               /* requests wait here … */
static struct http_exchange *held; /* … as this one does */
static int lose = -1;              /* a method whose next request takes effect, unanswered */
static struct partition_ask lost;  /* what that one says */
static const char *says;           /* the answer to all requests; NULL: the proxy's */
static unsigned n_lost;
static unsigned long n_requests;

static inline void on_held_abort(struct http_exchange *ex, void *arg)
{
	(void)arg;
	if (held == ex)
		held = NULL;
}

static inline void act_and_lose(struct http_exchange *ex)
{
	if (ex->method == HTTP_METHOD_POST)
		partition_ensure(parts, &lost);
	else
		partition_release(parts, lost.owner.uid, lost.instance);
	n_lost++;
	lose = -1;
	http_reply_begin(ex, 200, "application/json", NULL, 0);
	http_reply_write(ex, STR("{"));
	http_reply_abort(ex);
}

static inline void front(struct http_exchange *ex, void *arg)
{
	n_requests++;
	if ((int)ex->method == lose) {
		act_and_lose(ex);
	} else if (says) {
		http_reply(ex, 200, "application/json", NULL, 0, str_of(says));
	} else if (holding && !held) {
		held = ex;
		http_exchange_on_abort(ex, on_held_abort, NULL);
	} else {
		proxy_handle_partitions(ex, arg);
	}
}

static inline void let_go(void)
{
	struct http_exchange *ex = held;

	holding = false;
	held = NULL;
	if (ex)
		proxy_handle_partitions(ex, proxy);
}

static inline void on_parts_changed(const struct partition_owner *owner, void *arg)
{
	(void)arg;
	if (proxy)
		proxy_partition_changed(proxy, owner);
}

static enum proxy_page page = PROXY_PAGE_OFF;

static inline void proxy_begin(void)
{
	struct partitions_config pc = {
		.ns = NS, .tracker_name = TRACKER, .times = partition_times_default, .rules = site};
	struct proxy_config config;
	struct http_server_config sc = {.on_answered = proxy_on_answered};
	CLEANUP_FREE char *listen = xasprintf("127.0.0.1:%u", front_port);
	struct err err = ERR_INIT;

	synced = false;
	parts = partitions_new(loop, kube, fleet, &pc, on_synced, on_parts_changed, NULL);
	config = (struct proxy_config){.loop = loop,
				       .partitions = parts,
				       .fleet = fleet,
				       .accounts = TRUSTED,
				       .page = page,
				       .kube = kube};
	proxy = sc.on_answered_arg = proxy_new(&config);
	front_server = http_server_new(net, &sc);
	if (http_server_listen(front_server, listen, tls.for_server, front, proxy, &front_port,
			       &err) < 0)
		bail_out(err.msg);
}

static inline void proxy_end(void)
{
	holding = false;
	held = NULL;
	http_server_free(front_server);
	proxy_free(proxy);
	proxy = NULL;
	partitions_free(parts);
	parts = NULL;
}

/* As kill -9, with nobody there for a while. */
static inline void proxy_restart(unsigned away_ms)
{
	proxy_end();
	vipu_fleet_free(fleet);
	kube_client_free(kube);
	turns(away_ms / 10 + 4, 10);
	make_client();
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	proxy_begin();
}

/* ---- the keeper's end ---- */

static inline void on_remote_synced(void *arg)
{
	(void)arg;
	remote_synced = true;
}

static bool leads = true;

static inline bool may_act(void *arg)
{
	(void)arg;
	return leads;
}

static bool late_tls; /* the keeper begins before it knows whom to trust */

static inline void remote_begin(void)
{
	CLEANUP_FREE char *url = xasprintf("https://127.0.0.1:%u", front_port);
	struct partition_remote_config config = {.url = url,
						 .tls = late_tls ? NULL : tls.for_client,
						 .server_name = "localhost",
						 .token_file = token_file,
						 .ns = NS,
						 .tracker_name = TRACKER,
						 .may_act = may_act};
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = kube_config};
	struct err err = ERR_INIT;

	remote_synced = false;
	if (kube_client_new(&opts, &remote_kube, &err) < 0 ||
	    partition_remote_new(net, remote_kube, &config, on_remote_synced, on_change, NULL,
				 &remote, &err) < 0)
		bail_out(err.msg);
	ps = partition_remote_service(remote);
}

static inline void remote_end(void)
{
	partition_remote_free(remote);
	kube_client_free(remote_kube);
	turns(4, 0);
}

static inline void write_token(const char *text)
{
	FILE *f = fopen(token_file, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		bail_out("the token's file");
}

/* One row: both ends, which have heard of each other. */
static inline void both_begin(const char *what)
{
	row_begin("%s", what);
	rig_begin(16);
	fleet = vipu_fleet_new(net, NULL);
	configure(true);
	front_port = 0;
	credentials_make();
	write_token(token);
	proxy_begin();
	remote_begin();
	ok(WITHIN(5000, synced && remote_synced), "both have read the tracker");
	ok(WITHIN(5000, partitions_count_fits(parts, 64) == 1), "and the proxy its controller");
}

static inline void both_end(void)
{
	remote_end();
	proxy_end();
	ok(!violated, "the invariants held");
	vipu_fleet_free(fleet);
	credentials_done();
	rig_end();
	row_end();
}

static inline void ask_for(const char *uid, uint32_t ipus)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ps->ops->ensure(ps, &ask);
}

static inline void let(const char *uid)
{
	ps->ops->release(ps, uid, 0);
}

static inline struct partition_status told(const char *uid)
{
	struct partition_status st;

	ps->ops->get_status(ps, uid, 0, &st);
	return st;
}

static inline bool hears(const char *uid, enum partition_state state)
{
	return told(uid).state == state;
}

static inline void count_seat(const struct partition_ask *ask, const struct partition_status *st,
			      void *arg)
{
	(void)ask;
	(void)st;
	++*(unsigned *)arg;
}

static inline unsigned n_seats(void)
{
	unsigned n = 0;

	ps->ops->each(ps, count_seat, &n);
	return n;
}

/* Neither end remembers anything, and no key is left in the tracker. */
static inline bool all_over(const char *uid)
{
	return is_over(uid) && n_waits() == 0 && ps->ops->held(ps, uid) == 0 && n_seats() == 0;
}

static inline void ends_well(const char *uid)
{
	let(uid);
	ok(WITHIN(60000, all_over(uid)), "released: nothing is left anywhere");
}

/* ---- the file that has the token ---- */

static inline void token_file_make(void)
{
	int fd = mkstemp(token_file);

	if (fd < 0)
		bail_out("no file for the token");
	close(fd);
}

static inline void token_file_done(void)
{
	metrics_reset();
	unlink(token_file);
}

#endif
