/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the role proxy is another process's: tells it what its live page shows and only this one
 * knows: what is held, and with `proxy.page: full` the Pods of partitions. Looks when something of
 * it may have changed, or one has now waited for long enough; a quiet cluster isn't looked at.
 */
#include "core/clock.h"
#include "core/map.h"
#include "internal.h"
#include "proxy/held.h"

#define SOON_MS   200   /* what comes together is told together, */
#define APART_MS  2000  /* … and what goes on coming that often */
#define MAX_BYTES 60000 /* a paper's, and no more than limits.requestBodyBytes */

static size_t paper_bytes(const struct daemon *d)
{
	size_t limit = (size_t)d->config->body_bytes; /* the same for all roles */

	return limit < MAX_BYTES ? limit : MAX_BYTES;
}

/* ---- what is held ---- */

struct look {
	struct proxy_newest newest;
	struct map *asking; /* UIDs of those that the proxy knows of by itself */
};

static void note_asking(const struct partition_ask *ask, const struct partition_status *status,
			void *arg)
{
	struct look *look = arg;

	if (partition_state_asks(status->state))
		map_put(look->asking, str_of(ask->owner.uid), look);
}

static void take(void *arg, const struct proxy_held *held)
{
	struct look *look = arg;

	if (!map_get(look->asking, str_of(held->uid)))
		proxy_newest_take(&look->newest, held);
}

/* *due_ms: wall, when there may be more of them, or there was no memory now; 0: not by time alone.
 * False: it isn't known. */
static bool tell_held(struct daemon *d, int64_t *due_ms)
{
	struct partition_service *service = partition_remote_service(d->remote);
	bool names = daemon_page(d->config) == PROXY_PAGE_FULL;
	struct look look = {.asking = map_new()};
	struct buf json = BUF_INIT((size_t)1 << 20);
	bool known;

	service->ops->each(service, note_asking, &look);
	known = service->ops->synced(service) && lead_helds_until(d, take, &look, due_ms);
	if (known) {
		if (proxy_newest_write(&look.newest, names, 0, paper_bytes(d), &json, NULL) < 0)
			*due_ms = clock_wall_ms();
		else
			partition_remote_tell(d->remote, 0, buf_str(&json));
	}
	buf_done(&json);
	map_free(look.asking);
	return known;
}

/* ---- Pods ---- */

/* A partition's Pods are in one part or another, and stay there. */
static unsigned part_of(const char *uid)
{
	unsigned sum = 0;

	while (*uid)
		sum += (unsigned char)*uid++;
	return sum % PARTITION_TOLD_PARTS;
}

struct parts {
	struct daemon *d;
	uint32_t wanted; /* bits */
	struct proxy_pods pods[PARTITION_TOLD_PARTS];
};

static void see(const struct partition_ask *ask, const struct partition_status *status, void *arg)
{
	struct parts *parts = arg;
	unsigned part = part_of(ask->owner.uid);

	if (!(parts->wanted & UINT32_C(1) << part) || !status->id)
		return;
	proxy_pods_of(&parts->pods[part], ask->owner.uid, ask->instance);
	lead_pods(parts->d, &ask->owner, ask->instance, proxy_pods_take, &parts->pods[part]);
}

/* *due_ms: the same. */
static void tell_pods(struct daemon *d, int64_t *due_ms)
{
	struct partition_service *service = partition_remote_service(d->remote);
	struct parts parts = {.d = d, .wanted = d->tell.parts};
	struct buf json = BUF_INIT((size_t)1 << 20);

	d->tell.parts = 0;
	for (unsigned i = 0; i < PARTITION_TOLD_PARTS; i++) {
		if (parts.wanted & UINT32_C(1) << i)
			proxy_pods_begin(&parts.pods[i], paper_bytes(d));
	}
	service->ops->each(service, see, &parts);
	for (unsigned i = 0; i < PARTITION_TOLD_PARTS; i++) {
		const uint32_t bit = UINT32_C(1) << i;
		bool any;

		if (!(parts.wanted & bit))
			continue;
		if (proxy_pods_write(&parts.pods[i], &json, &any, NULL) < 0) {
			d->tell.parts |= bit;
			*due_ms = clock_wall_ms();
			continue;
		}
		if (!any && !(d->tell.told & bit))
			continue;
		d->tell.told |= bit;
		partition_remote_tell(d->remote, 1 + i, buf_str(&json));
	}
	buf_done(&json);
}

/* ---- when ---- */

static bool tells(const struct daemon *d)
{
	return d->remote && d->jobs && daemon_page(d->config) != PROXY_PAGE_OFF;
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct daemon *d = arg;
	int64_t due_ms = 0, in_ms;

	d->tell.looked_ms = clock_mono_ms();
	d->tell.changed = false;
	/* What isn't known yet will have changed when it is. */
	if (!tells(d) || !tell_held(d, &due_ms))
		return;
	if (d->tell.parts && daemon_page(d->config) == PROXY_PAGE_FULL)
		tell_pods(d, &due_ms);
	in_ms = due_ms - clock_wall_ms();
	if (due_ms && !d->tell.changed)
		loop_timer_start_in(timer, in_ms < APART_MS ? APART_MS : in_ms);
}

void tell_changed(struct daemon *d, const char *uid, bool of_pod)
{
	int64_t at_ms = clock_mono_ms() + SOON_MS;

	if (of_pod)
		d->tell.parts |= uid ? UINT32_C(1) << part_of(uid) : UINT32_MAX;
	if (d->tell.changed || !tells(d))
		return;
	d->tell.changed = true;
	if (at_ms < d->tell.looked_ms + APART_MS)
		at_ms = d->tell.looked_ms + APART_MS;
	loop_timer_start_at(&d->tell.timer, at_ms);
}

void tell_start(struct daemon *d)
{
	loop_timer_init(&d->tell.timer, d->loop, on_timer, d);
	d->tell.looked_ms = clock_mono_ms() - APART_MS;
}

void tell_stop(struct daemon *d)
{
	loop_timer_stop(&d->tell.timer);
}
