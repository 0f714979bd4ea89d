/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the role controller tells the proxy of another process for its page: what there was no
 * memory to write is told a moment later, and nothing by half. This file stands in for lead.c,
 * which knows what is held, and for partition/remote.c, which takes the papers.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "daemon/config.h"
#include "daemon/internal.h"
#include "no_memory.h"
#include "tap.h"

#define LATER_MS 2000 /* tell.c's APART_MS */

static struct config config = {.body_bytes = 1 << 20};
static struct daemon d = {.config = &config};

/* ---- what there is ---- */

static const struct partition_ask asks[] = {
	{.owner = {.uid = "uid-a", .kind = "IPUJob", .ns = "team", .name = "a"}},
	{.owner = {.uid = "uid-b", .kind = "IPUJob", .ns = "team", .name = "b"}, .instance = 1},
};

static bool is_synced(const struct partition_service *s)
{
	(void)s;
	return true;
}

static void each(const struct partition_service *s, partitions_each_fn *fn, void *arg)
{
	const struct partition_status status = {.state = PARTITION_STATE_ACTIVE, .id = "p"};

	(void)s;
	for (size_t i = 0; i < 2; i++)
		fn(&asks[i], &status, arg);
}

static const struct partition_service_ops service_ops = {.synced = is_synced, .each = each};

struct partition_service *partition_remote_service(struct partition_remote *r)
{
	static struct partition_service service = {.ops = &service_ops};

	(void)r;
	return &service;
}

bool lead_helds_until(const struct daemon *of, proxy_held_fn *fn, void *fn_arg, int64_t *due_ms)
{
	const struct proxy_held held = {
		.uid = "uid-c",
		.ns = "team",
		.kind = "IPUJob",
		.name = "c",
		.ipus = 2,
		.since_ms = 1700000000000,
		.reason = "Suspended",
		.message = "c asks for no IPUs",
		.plain = "it asks for no IPUs",
	};

	(void)of;
	(void)due_ms;
	fn(fn_arg, &held);
	return true;
}

void lead_pods(void *arg, const struct partition_owner *owner, uint32_t instance, proxy_pod_fn *fn,
	       void *fn_arg)
{
	const struct proxy_pod pod = {.name = owner->name, .phase = "Running", .node = "n"};

	(void)arg;
	(void)instance;
	fn(fn_arg, &pod);
}

enum proxy_page daemon_page(const struct config *c)
{
	(void)c;
	return PROXY_PAGE_FULL;
}

/* ---- what is told ---- */

static char *told[PARTITION_TOLD], *whole[PARTITION_TOLD];
static unsigned n_told;

void partition_remote_tell(struct partition_remote *r, unsigned which, struct str json)
{
	(void)r;
	free(told[which]);
	told[which] = str_dup(json);
	n_told++;
}

static void forget(char **papers)
{
	for (size_t i = 0; i < PARTITION_TOLD; i++) {
		free(papers[i]);
		papers[i] = NULL;
	}
	n_told = 0;
}

/* How many are there; *bad: how many of them aren't what they are to be. */
static unsigned count(unsigned *bad)
{
	unsigned n = 0;

	for (size_t i = 0; i < PARTITION_TOLD; i++) {
		n += told[i] != NULL;
		*bad += told[i] && !str_same(told[i], whole[i]);
	}
	return n;
}

static void wait_ms(int64_t ms)
{
	clock_advance(ms);
	loop_turn(d.loop, 0);
}

/* All may have changed: it's about to be looked at. */
static void begin(void)
{
	d.tell.parts = d.tell.told = 0;
	d.tell.changed = false;
	forget(told);
	tell_start(&d);
	tell_changed(&d, NULL, true);
}

static void test_no_memory(void)
{
	struct no_memory m = {0};
	unsigned short_of = 0, missing = 0, bad = 0, more = 0;

	begin();
	wait_ms(LATER_MS);
	memcpy(whole, told, sizeof(whole));
	memset(told, 0, sizeof(told));
	is_uint(n_told, 3, "what is held, and Pods of two parts, is told");
	has_str(whole[0], "\"uid-c\"", "what is held");

	row_begin("without memory");
	while (no_memory_next(&m)) {
		begin();
		clock_advance(LATER_MS);
		no_memory_begin(&m);
		loop_turn(d.loop, 0);
		no_memory_end(&m);
		short_of += count(&bad) < 3;
		wait_ms(LATER_MS);
		missing += count(&bad) < 3;
		unsigned all = n_told;
		for (int i = 0; i < 5; i++)
			wait_ms(LATER_MS);
		more += n_told - all;
		tell_stop(&d);
	}
	no_memory_ok(&m, 3);
	ok(short_of >= 3, "%u of them are missed", short_of);
	is_uint(missing, 0, "... and told a moment later");
	is_uint(bad, 0, "nothing is told by half");
	is_uint(more, 0, "then it's quiet");
	row_end();
	forget(told);
	forget(whole);
}

int main(void)
{
	struct err err = ERR_INIT;

	if (loop_new(&d.loop, &err) < 0)
		bail_out(err.msg);
	/* Somebody's, whom only those above would look at. */
	d.remote = (struct partition_remote *)&d;
	d.jobs = (struct job_controller *)&d;
	test_no_memory();
	loop_free(d.loop);
	return done_testing();
}
