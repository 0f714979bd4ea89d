/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the role proxy is another process's: tells it what is held here, for its live page. Every
 * few seconds, if that has changed, as a look at all jobs costs less than to hear of each.
 */
#include "core/map.h"
#include "internal.h"
#include "proxy/held.h"

#define LOOK_MS   2000
#define MAX_BYTES 60000 /* limits.requestBodyBytes is 65536 by default */

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

static void tell(struct daemon *d)
{
	struct partition_service *service = partition_remote_service(d->remote);
	struct look look = {.asking = map_new()};
	struct buf json = BUF_INIT((size_t)1 << 20);
	size_t more = 0;

	service->ops->each(service, note_asking, &look);
	if (service->ops->synced(service) && lead_helds(d, take, &look, &more)) {
		proxy_newest_write(&look.newest, MAX_BYTES, &json);
		partition_remote_tell_held(d->remote, buf_str(&json));
	}
	buf_done(&json);
	map_free(look.asking);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct daemon *d = arg;

	if (d->remote && d->jobs)
		tell(d);
	loop_timer_start_in(timer, LOOK_MS);
}

void tell_start(struct daemon *d)
{
	loop_timer_init(&d->tell_timer, d->loop, on_timer, d);
	if ((d->config->roles & ROLE_CONTROLLER) && !(d->config->roles & ROLE_PROXY))
		loop_timer_start_in(&d->tell_timer, LOOK_MS);
}

void tell_stop(struct daemon *d)
{
	loop_timer_stop(&d->tell_timer);
}
