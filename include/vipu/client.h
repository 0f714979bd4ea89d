/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed calls to one V-IPU controller over one gRPC channel, counted by method and code in
 * ipu_operator_vipu_requests_total. The client owns its channel. Uses core, loop, net, grpc.
 *
 * Errors of all calls are those of grpc_call_fn (grpc/channel.h): kind by meaning, code the gRPC
 * status, maybe_applied truthful. A reply that can't be decoded is ERR_PROTOCOL or ERR_LIMIT, of a
 * creation with maybe_applied.
 */
#ifndef IPU_VIPU_CLIENT_H
#define IPU_VIPU_CLIENT_H

#include <stdint.h>

#include "core/err.h"
#include "grpc/channel.h"
#include "loop/op.h"
#include "vipu/api.h"

struct vipu_client;
struct net;
struct tls_config;

#define VIPU_DEFAULT_PORT 8090
#define VIPU_USER_KEY     "api-user-id" /* the controller doesn't publish them: configurable */
#define VIPU_ACCESS_KEY   "api-access-key"

struct vipu_client_config {
	const char *host;
	uint16_t port;
	struct tls_config *tls;            /* NULL: h2c. A reference is taken */
	const char *server_name;           /* NULL: host */
	const char *user_key, *access_key; /* metadata names; NULL: those above */
	const char *user, *access;         /* their values; NULL: not sent */
	/* Not NULL: why it mustn't be called now. Calls end with ERR_UNAVAILABLE and these words,
	 * and nothing is sent. */
	const char *unusable;
};

/* Connects nothing yet; copies everything. Never NULL. */
struct vipu_client *vipu_client_new(struct net *net, const struct vipu_client_config *config);
void vipu_client_free(struct vipu_client *c); /* cancels its calls; NULL is fine */
/* Other user, access key, TLS settings and server name, for the calls from now on (host and port
 * stay). The connection is only made anew if it has to be. */
void vipu_client_set_auth(struct vipu_client *c, const struct vipu_client_config *config);
struct grpc_channel *vipu_client_channel(struct vipu_client *c);

/* err is NULL on success. Results are borrowed until the callback returns; one that wants to keep
 * them takes them (*mine = *got; memset(got, 0, sizeof(*got))). They are NULL on error. */
typedef void vipu_done_fn(void *arg, const struct err *err);
typedef void vipu_version_fn(void *arg, const struct err *err, const char *version);
typedef void vipu_created_fn(void *arg, const struct err *err, const char *id);
typedef void vipu_partitions_fn(void *arg, const struct err *err, struct vipu_partitions *got);
typedef void vipu_agents_fn(void *arg, const struct err *err, struct vipu_agents *got);
typedef void vipu_status_fn(void *arg, const struct err *err, struct vipu_status *got);
typedef void vipu_ipuof_config_fn(void *arg, const struct err *err, struct vipu_ipuof_config *got);

/* deadline_ms: from now, not 0. Never NULL; they never call back before they return; scope may be
 * NULL. */
struct op *vipu_get_version_start(struct vipu_client *c, unsigned deadline_ms, vipu_version_fn *cb,
				  void *arg, struct scope *scope);
/* allocation_id NULL or "": all that the user may see. */
struct op *vipu_list_partitions_start(struct vipu_client *c, const char *allocation_id,
				      unsigned deadline_ms, vipu_partitions_fn *cb, void *arg,
				      struct scope *scope);
/* n_agents 0: all. */
struct op *vipu_list_ipu_attributes_start(struct vipu_client *c, const char *const *agents,
					  size_t n_agents, unsigned deadline_ms, vipu_agents_fn *cb,
					  void *arg, struct scope *scope);
struct op *vipu_create_partition_start(struct vipu_client *c, const struct vipu_create *req,
				       unsigned deadline_ms, vipu_created_fn *cb, void *arg,
				       struct scope *scope);
struct op *vipu_remove_partition_start(struct vipu_client *c, const struct vipu_remove *req,
				       unsigned deadline_ms, vipu_done_fn *cb, void *arg,
				       struct scope *scope);
struct op *vipu_reset_partition_start(struct vipu_client *c, const struct vipu_reset *req,
				      unsigned deadline_ms, vipu_done_fn *cb, void *arg,
				      struct scope *scope);
struct op *vipu_get_ipuof_config_start(struct vipu_client *c,
				       const struct vipu_get_ipuof_config *req,
				       unsigned deadline_ms, vipu_ipuof_config_fn *cb, void *arg,
				       struct scope *scope);
struct op *vipu_get_partition_status_start(struct vipu_client *c, const char *id,
					   unsigned deadline_ms, vipu_status_fn *cb, void *arg,
					   struct scope *scope);

#endif
