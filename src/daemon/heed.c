/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process that leads the partition layer makes of Nodes' conditions (node/heed.h): made
 * and ended with its leading.
 */
#include "daemon/internal.h"
#include "node/heed.h"

static bool may_act(void *arg)
{
	const struct daemon *d = arg;

	return controllers_synced(d->controllers) && (!d->lease || kube_lease_held(d->lease));
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
		.may_act = may_act,
		.on_known = on_known,
		.arg = d,
	};

	heed_stop(d);
	if (d->leading && (c->roles & ROLE_PROXY) && (c->heed_nodes || c->node_silent_s))
		d->heed = heed_new(&opts);
}

void heed_stop(struct daemon *d)
{
	heed_free(d->heed);
	d->heed = NULL;
}
