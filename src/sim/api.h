/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated Kubernetes API: discovery, Tables, CRUD, watch, patches, status and scale, over
 * sim_objects (doc/design/decisions.md, "What ipu-sim is, and isn't"). Borrows the store and the
 * schema.
 */
#ifndef IPU_SIM_API_H
#define IPU_SIM_API_H

#include "core/err.h"
#include "core/json.h"
#include "http/server.h"
#include "loop/loop.h"
#include "sim/objects.h"
#include "sim/schema.h"

struct net; /* net/net.h */
struct sim_api;
struct sim_run; /* sim/run.h */

struct sim_api *sim_api_new(struct loop *loop, struct sim_objects *objects,
			    const struct sim_schema *schema, const char *token);
void sim_api_free(struct sim_api *api); /* after its server's end; NULL is fine */
/* Serves services/proxy, and asks webhooks, from now on; net outlives the api. */
void sim_api_use_net(struct sim_api *api, struct net *net);
/* Serves exec, attach and log of Pods from now on; run outlives the api. */
void sim_api_use_run(struct sim_api *api, struct sim_run *run);
/* For http_server_listen; arg is the struct sim_api. */
void sim_api_handle(struct http_exchange *ex, void *arg);

/* By plural and group ("pods", ""); NULL: not served. */
const struct sim_resource *sim_resource_find(struct str group, struct str plural);

/* For who stands behind the API (kubelet, garbage collection): writes past validation, with
 * metadata (uid, creationTimestamp, generation) filled in as the API does. root is in doc. */
struct sim_object *sim_api_create(struct sim_api *api, const struct sim_resource *r,
				  struct jmut_doc *doc, struct jmut *root);
/* Takes an object away now, whatever its grace period, unless finalizers keep it; then what it
 * owned goes too. */
void sim_api_delete_now(struct sim_api *api, struct sim_object *o);

/* As a DELETE does: now, or when the grace period (seconds; -1: the Pod's own) or finalizers say.
 */
void sim_api_delete(struct sim_api *api, struct sim_object *o, int64_t grace_s);

/* A token of the Pod's ServiceAccount, bound to the Pod, as a kubelet asks for; audience STR_NULL:
 * the API's own. The caller's to free. NULL with ERR_NOT_FOUND: no such account. */
char *sim_api_mint_token(struct sim_api *api, const struct json *pod, struct str audience,
			 struct err *err);

/* A fault that the next requests meet: {"verb":"create","resource":"pods","count":1,"skip":0,
 * "kind":"status"|"hang"|"cut"|"lose"|"garbage","status":503,"message":"…","retryAfter":1}. "lose"
 * acts, and closes instead of answering. verb and resource left out: any. */
int sim_api_inject(struct sim_api *api, const struct json *fault, struct err *err);
void sim_api_clear_faults(struct sim_api *api);
/* Forbids what SubjectAccessReview else allows: {"user":…,"verb":…,"namespace":…,"group":…,
 * "resource":…,"subresource":…,"name":…,"path":…}; members left out: any. */
extern const char *const sim_access_keys[]; /* ends with NULL */
void sim_api_deny(struct sim_api *api, const struct json *rule);
void sim_api_allow_all(struct sim_api *api);
void sim_api_cut_watches(struct sim_api *api); /* closes all that are open */
/* {"requests":{"create pods":12,…},"watches":3}: what came in, for tests. */
struct jmut *sim_api_stats(const struct sim_api *api, struct jmut_doc *doc);

#endif
