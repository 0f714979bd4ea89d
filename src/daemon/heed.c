/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process with the partition layer makes of Nodes' conditions (node/heed.h): made anew when
 * it begins or ends to lead. One that doesn't lead tells readers the same as the one that does.
 */
#include "daemon/internal.h"
#include "node/heed.h"

static bool may_act(void *arg)
{
	const struct daemon *d = arg;

	return controllers_synced(d->controllers) &&
	       (!d->leading || !d->lease || kube_lease_held(d->lease));
}

static void on_known(void *arg)
{
	const struct daemon *d = arg;

	partitions_nodes_known(d->partitions);
}

void heed_led(struct daemon *d)
{
	const struct config *c = d->config;
	const struct heed_opts opts = {
		.loop = d->loop,
		.kube = d->kube,
		.fleet = d->fleet,
		.nodes = advert_nodes(d),
		.controllers = c->heed_nodes,
		.silent_ms = c->node_silent_s * 1000,
		.leads = d->leading,
		.may_act = may_act,
		.on_known = on_known,
		.arg = d,
	};

	heed_stop(d);
	if ((c->roles & ROLE_PROXY) && (c->heed_nodes || (d->leading && c->node_silent_s)))
		d->heed = heed_new(&opts);
}

void heed_stop(struct daemon *d)
{
	heed_free(d->heed);
	d->heed = NULL;
}
