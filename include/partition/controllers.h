/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of V-IPU controllers: from the configuration's keys, from a file and from a ConfigMap,
 * merged, with what Secrets and the ConfigMap's annotations say of them, handed to the fleet
 * whenever any of it changes. It owns the list; client, fleet and recorder are borrowed.
 * Uses core, loop, net, kube, vipu.
 */
#ifndef IPU_PARTITION_CONTROLLERS_H
#define IPU_PARTITION_CONTROLLERS_H

#include <stdbool.h>

#include "core/err.h"
#include "kube/client.h"
#include "kube/event.h"
#include "vipu/address.h"
#include "vipu/fleet.h"

struct controllers;

/* A file or ConfigMap that goes counts as empty after this long: one that is replaced comes back
 * in that time. */
#define CONTROLLERS_GONE_MS 3000

/* The key of the ConfigMap that holds the list: YAML, or the flat string (vipu/address.h). */
#define CONTROLLERS_KEY "controllers.yaml"
/* Its annotations: controllers' names ("host:port", the port 8090 where it's left out), separated
 * by commas. */
#define CONTROLLERS_CORDON "graphcore.ai/cordon"
#define CONTROLLERS_DRAIN  "graphcore.ai/drain"

/* Is this an entry that this version can use? ERR_INVALID says what is wrong with it. */
int controllers_check_entry(const struct vipu_address *a, struct err *err);

/* The list as it is now, from the loop: for who only needs to know where controllers are. Borrowed.
 */
typedef void controllers_list_fn(void *arg, const struct vipu_address_list *list);

/* All copied. */
struct controllers_config {
	const char *ns; /* of the ConfigMap and the Secrets */
	/* In the order of their precedence: of entries with one host and port the first serves.
	 * NULL and "": none. */
	const struct vipu_address_list *server; /* vipu.serverAddr and so on */
	const struct vipu_address_list *list;   /* the key "controllers" */
	const char *file;
	const char *config_map;
	const char *user_key, *access_key; /* of gRPC metadata; NULL: vipu/client.h's */
	controllers_list_fn *on_list;      /* NULL: nobody */
	void *on_list_arg;
};

/* Called from the loop, once: every source has been read, and the fleet is configured. A source
 * that is named and isn't there yet, or can't be read, is waited for: what it would say isn't
 * known, and controllers must not be taken for gone. (A ConfigMap need not be there.) */
typedef void controllers_synced_fn(void *arg);

/* recorder: NULL for no Events. fleet: NULL for the list alone; then neither Secrets nor the
 * ConfigMap's annotations are looked at, and on_synced may be NULL. Configures the fleet from the
 * loop, not before it returns. */
struct controllers *controllers_new(struct kube_client *kube, struct vipu_fleet *fleet,
				    struct kube_recorder *recorder,
				    const struct controllers_config *config,
				    controllers_synced_fn *on_synced, void *arg);
/* The configuration's two sources, from now on. */
void controllers_set_lists(struct controllers *c, const struct vipu_address_list *server,
			   const struct vipu_address_list *list);
void controllers_free(struct controllers *c); /* leaves the fleet as it is; NULL is fine */

bool controllers_synced(const struct controllers *c);
/* 0 when the list is known; else -1 and which source isn't, and why. For readiness. (A later
 * version of a source that can't be read is told otherwise: the one before it serves.) */
int controllers_check(const struct controllers *c, struct err *err);

#endif
