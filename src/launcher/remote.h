/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The near end's connection to a session in a worker: an exec through the API server's WebSocket
 * (v5.channel.k8s.io), tried again where that can help, then frames both ways. Owned by
 * who started it; borrows net, cluster and strings, which outlive it. Uses http, net, loop, core.
 */
#ifndef IPU_LAUNCHER_REMOTE_H
#define IPU_LAUNCHER_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "launcher/cluster.h"
#include "launcher/wire.h"
#include "net/net.h"

struct remote;

struct remote_opts {
	const struct cluster *cluster;
	const char *host;      /* a Pod, or a name that begins with one */
	const char *container; /* NULL: the Pod's default one */
	const char *launcher;  /* this program's path in the worker */
	int64_t deadline_ms;   /* on clock_mono_ms: until the session has said its hello */
	const char *resume;    /* a session whose connection was lost: its name; or NULL */
	bool once;             /* the first attempt that fails is the last */
};

struct remote_handler {
	/* The far end is there. Frames may be sent from now on: first the START. */
	void (*on_hello)(struct remote *r, void *arg);
	void (*on_frame)(struct remote *r, const struct wire_frame *frame, void *arg);
	/* What was queued has gone out: remote_is_full was true. */
	void (*on_drain)(struct remote *r, void *arg);
	/* Last, once. err: there never was a session, or it was lost; NULL: it ended in order, and
	 * its own exit status is there. */
	void (*on_over)(struct remote *r, const struct err *err, int exit_status, void *arg);
};

/* Never calls back before it returns. All callbacks may free it. */
struct remote *remote_new(struct net *net, const struct remote_opts *opts,
			  const struct remote_handler *handler, void *arg);
void remote_free(struct remote *r); /* the far end sees its input end. NULL is fine. */

/* Where frames are appended to (wire_put…), followed by remote_send. */
struct buf *remote_out(struct remote *r);
void remote_send(struct remote *r);
bool remote_is_full(const struct remote *r);

const char *remote_host(const struct remote *r);
struct net *remote_net(const struct remote *r);

#endif
