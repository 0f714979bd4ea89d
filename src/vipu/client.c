/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The typed V-IPU client: encode, call, decode, count. A call of ours owns the gRPC call under it;
 * its memory goes by the reaper.
 * Uses core, loop, net, grpc.
 */
#include "vipu/client.h"

#include <stdlib.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "net/net.h"
#include "vipu/codec.h"

#define REQUEST_BYTES ((size_t)4 << 20)

struct vipu_client {
	struct loop *loop;
	struct grpc_channel *channel;
	char *name;
	char *unusable; /* why calls aren't sent; NULL: they are */
	struct list calls;
};

union vipu_cb {
	vipu_done_fn *done;
	vipu_version_fn *version;
	vipu_created_fn *created;
	vipu_partitions_fn *partitions;
	vipu_agents_fn *agents;
	vipu_status_fn *status;
	vipu_ipuof_config_fn *ipuof;
};

struct vipu_call {
	struct op op; /* first: the caller holds it */
	struct list in_client;
	struct vipu_client *client;
	enum vipu_method method;
	struct op *grpc; /* NULL: refused, and work says so */
	struct loop_work work;
	int64_t began_us;
	union vipu_cb cb;
	void *arg;
};

/* ---- counting ---- */

static struct metric *requests_total, *request_seconds;

static void count(const struct vipu_call *call, const struct err *err)
{
	static const char *const labels[] = {"method", "code", NULL};
	static const char *const by_method[] = {"method", NULL};
	static const double buckets[] = {0.005, 0.02, 0.1, 0.5, 2, 10, 30};
	const char *method = vipu_method_name(call->method);

	if (!requests_total) {
		requests_total = metric_new(METRIC_COUNTER, "ipu_operator_vipu_requests_total",
					    "Calls to V-IPU controllers by method and gRPC status.",
					    labels, NULL, 0);
		request_seconds = metric_new(METRIC_HISTOGRAM, "ipu_operator_vipu_request_seconds",
					     "How long calls to V-IPU controllers took.", by_method,
					     buckets, sizeof(buckets) / sizeof(buckets[0]));
	}
	metric_add(requests_total,
		   (const char *const[]){method, err ? grpc_status_name(err->code) : "OK"}, 1);
	metric_observe(request_seconds, (const char *const[]){method},
		       (double)(clock_mono_us() - call->began_us) / 1e6);
}

/* ---- ends of calls ---- */

static void retire(struct vipu_call *call)
{
	list_unlink(&call->in_client);
	loop_reap(call->client->loop, call, free);
}

static void cancel_call(struct op *op)
{
	struct vipu_call *call = CONTAINER_OF(op, struct vipu_call, op);

	op_cancel(call->grpc);
	loop_work_cancel(&call->work);
	retire(call);
}

/* The callback with what the reply holds, or with an error. Each frees what nobody took. */
static void tell_version(struct vipu_call *call, const struct err *err, struct str reply)
{
	struct err bad = ERR_INIT;
	char *version = NULL;

	if (!err && vipu_decode_version(reply, &version, &bad) < 0)
		err = &bad;
	call->cb.version(call->arg, err, version);
	free(version);
}

static void tell_created(struct vipu_call *call, const struct err *err, struct str reply)
{
	struct err bad = ERR_INIT;
	char *id = NULL;

	if (!err && vipu_decode_created(reply, &id, &bad) < 0) {
		bad.maybe_applied = true;
		err = &bad;
	}
	call->cb.created(call->arg, err, id);
	free(id);
}

static void tell_partitions(struct vipu_call *call, const struct err *err, struct str reply)
{
	struct err bad = ERR_INIT;
	struct vipu_partitions got = {0};

	if (!err && vipu_decode_partitions(reply, &got, &bad) < 0)
		err = &bad;
	call->cb.partitions(call->arg, err, err ? NULL : &got);
	vipu_partitions_done(&got);
}

static void tell_agents(struct vipu_call *call, const struct err *err, struct str reply)
{
	struct err bad = ERR_INIT;
	struct vipu_agents got = {0};

	if (!err && vipu_decode_agents(reply, &got, &bad) < 0)
		err = &bad;
	call->cb.agents(call->arg, err, err ? NULL : &got);
	vipu_agents_done(&got);
}

static void tell_status(struct vipu_call *call, const struct err *err, struct str reply)
{
	struct err bad = ERR_INIT;
	struct vipu_status got = {0};

	if (!err && vipu_decode_status(reply, &got, &bad) < 0)
		err = &bad;
	call->cb.status(call->arg, err, err ? NULL : &got);
	vipu_status_done(&got);
}

static void tell_ipuof(struct vipu_call *call, const struct err *err, struct str reply)
{
	struct err bad = ERR_INIT;
	struct vipu_ipuof_config got = {0};

	if (!err && vipu_decode_ipuof_config(reply, &got, &bad) < 0)
		err = &bad;
	call->cb.ipuof(call->arg, err, err ? NULL : &got);
	vipu_ipuof_config_done(&got);
}

static void on_answer(void *arg, const struct err *err, struct str reply)
{
	struct vipu_call *call = arg;

	if (!op_end(&call->op))
		return;
	if (call->grpc)
		count(call, err);
	loop_about(call->client->loop, "answer to", vipu_method_name(call->method),
		   call->client->name);
	retire(call);
	switch (call->method) {
	case VIPU_GET_VERSION:
		tell_version(call, err, reply);
		break;
	case VIPU_LIST_PARTITIONS:
		tell_partitions(call, err, reply);
		break;
	case VIPU_LIST_IPU_ATTRIBUTES:
		tell_agents(call, err, reply);
		break;
	case VIPU_CREATE_PARTITION:
		tell_created(call, err, reply);
		break;
	case VIPU_REMOVE_PARTITION: /* their replies are empty, and what a newer one holds is
				       ignored */
	case VIPU_RESET_PARTITION:
		call->cb.done(call->arg, err);
		break;
	case VIPU_GET_IPUOF_CONFIG:
		tell_ipuof(call, err, reply);
		break;
	case VIPU_GET_PARTITION_STATUS:
		tell_status(call, err, reply);
		break;
	case VIPU_METHODS:
		break;
	}
}

static void on_refused(struct loop_work *work, void *arg)
{
	struct vipu_call *call = arg;
	struct err err = ERR_INIT;

	(void)work;
	err_set(&err, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, "%s",
		call->client->unusable ? call->client->unusable : "it couldn't be called");
	on_answer(call, &err, STR_NULL);
}

/* ---- starts ---- */

static struct op *start(struct vipu_client *c, const struct vipu_request *req, unsigned deadline_ms,
			union vipu_cb cb, void *arg, struct scope *scope)
{
	struct vipu_call *call = xcalloc(1, sizeof(*call));
	struct buf bytes = BUF_INIT(REQUEST_BYTES);

	call->client = c;
	call->method = req->method;
	call->began_us = clock_mono_us();
	call->cb = cb;
	call->arg = arg;
	op_begin(&call->op, scope, cancel_call);
	list_append(&c->calls, &call->in_client);
	loop_work_init(&call->work, c->loop, on_refused, call);
	if (c->unusable) {
		loop_work_post(&call->work);
		return &call->op;
	}
	/* Our own requests are small: over the limit it would be empty, which a controller refuses.
	 */
	if (vipu_request_encode(req, &bytes, NULL) < 0)
		buf_clear(&bytes);
	call->grpc = grpc_call_start(c->channel, vipu_method_path(req->method), buf_str(&bytes),
				     deadline_ms, on_answer, call, NULL);
	buf_done(&bytes);
	return &call->op;
}

struct op *vipu_get_version_start(struct vipu_client *c, unsigned deadline_ms, vipu_version_fn *cb,
				  void *arg, struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_GET_VERSION};
	return start(c, &req, deadline_ms, (union vipu_cb){.version = cb}, arg, scope);
}

struct op *vipu_list_partitions_start(struct vipu_client *c, const char *allocation_id,
				      unsigned deadline_ms, vipu_partitions_fn *cb, void *arg,
				      struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_LIST_PARTITIONS, .allocation_id = allocation_id};
	return start(c, &req, deadline_ms, (union vipu_cb){.partitions = cb}, arg, scope);
}

struct op *vipu_list_ipu_attributes_start(struct vipu_client *c, const char *const *agents,
					  size_t n_agents, unsigned deadline_ms, vipu_agents_fn *cb,
					  void *arg, struct scope *scope)
{
	struct vipu_request req = {
		.method = VIPU_LIST_IPU_ATTRIBUTES, .agents = agents, .n_agents = n_agents};
	return start(c, &req, deadline_ms, (union vipu_cb){.agents = cb}, arg, scope);
}

struct op *vipu_create_partition_start(struct vipu_client *c, const struct vipu_create *create,
				       unsigned deadline_ms, vipu_created_fn *cb, void *arg,
				       struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_CREATE_PARTITION, .create = *create};
	return start(c, &req, deadline_ms, (union vipu_cb){.created = cb}, arg, scope);
}

struct op *vipu_remove_partition_start(struct vipu_client *c, const struct vipu_remove *remove,
				       unsigned deadline_ms, vipu_done_fn *cb, void *arg,
				       struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_REMOVE_PARTITION, .remove = *remove};
	return start(c, &req, deadline_ms, (union vipu_cb){.done = cb}, arg, scope);
}

struct op *vipu_reset_partition_start(struct vipu_client *c, const struct vipu_reset *reset,
				      unsigned deadline_ms, vipu_done_fn *cb, void *arg,
				      struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_RESET_PARTITION, .reset = *reset};
	return start(c, &req, deadline_ms, (union vipu_cb){.done = cb}, arg, scope);
}

struct op *vipu_get_ipuof_config_start(struct vipu_client *c,
				       const struct vipu_get_ipuof_config *ipuof,
				       unsigned deadline_ms, vipu_ipuof_config_fn *cb, void *arg,
				       struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_GET_IPUOF_CONFIG, .ipuof = *ipuof};
	return start(c, &req, deadline_ms, (union vipu_cb){.ipuof = cb}, arg, scope);
}

struct op *vipu_get_partition_status_start(struct vipu_client *c, const char *id,
					   unsigned deadline_ms, vipu_status_fn *cb, void *arg,
					   struct scope *scope)
{
	struct vipu_request req = {.method = VIPU_GET_PARTITION_STATUS, .id = id};
	return start(c, &req, deadline_ms, (union vipu_cb){.status = cb}, arg, scope);
}

/* ---- the client ---- */

static size_t fill_metadata(const struct vipu_client_config *config, struct grpc_metadata ret[2])
{
	size_t n = 0;

	if (config->user && config->user[0])
		ret[n++] = (struct grpc_metadata){
			config->user_key && config->user_key[0] ? config->user_key : VIPU_USER_KEY,
			config->user};
	if (config->access && config->access[0])
		ret[n++] = (struct grpc_metadata){config->access_key && config->access_key[0]
							  ? config->access_key
							  : VIPU_ACCESS_KEY,
						  config->access};
	return n;
}

struct vipu_client *vipu_client_new(struct net *net, const struct vipu_client_config *config)
{
	struct vipu_client *c = xcalloc(1, sizeof(*c));
	struct grpc_metadata metadata[2];
	uint16_t port = config->port ? config->port : VIPU_DEFAULT_PORT;
	struct grpc_channel_config channel = {
		.host = config->host,
		.port = port,
		.tls = config->tls,
		.server_name = config->server_name,
		.metadata = metadata,
		.n_metadata = fill_metadata(config, metadata),
	};

	c->loop = net_loop(net);
	c->name = xasprintf(strchr(config->host, ':') ? "[%s]:%u" : "%s:%u", config->host, port);
	c->channel = grpc_channel_new(net, &channel);
	c->unusable = xstrdup(config->unusable);
	list_init(&c->calls);
	return c;
}

static void free_client(void *p)
{
	struct vipu_client *c = p;

	free(c->name);
	free(c->unusable);
	free(c);
}

void vipu_client_free(struct vipu_client *c)
{
	if (!c)
		return;
	while (!list_empty(&c->calls)) {
		struct vipu_call *call = CONTAINER_OF(c->calls.next, struct vipu_call, in_client);
		op_cancel(&call->op);
	}
	grpc_channel_free(c->channel);
	loop_reap(c->loop, c, free_client);
}

void vipu_client_set_auth(struct vipu_client *c, const struct vipu_client_config *config)
{
	struct grpc_metadata metadata[2];

	free(c->unusable);
	c->unusable = xstrdup(config->unusable);
	grpc_channel_set_metadata(c->channel, metadata, fill_metadata(config, metadata));
	grpc_channel_set_tls(c->channel, config->tls, config->server_name);
}

struct grpc_channel *vipu_client_channel(struct vipu_client *c)
{
	return c->channel;
}
