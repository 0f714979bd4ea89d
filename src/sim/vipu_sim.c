/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated V-IPU controller: serves the model by gRPC, and meets calls with the faults that
 * were injected. It owns its server, its model, and the calls that it hasn't answered yet.
 * Uses core, loop, net, grpc, vipu.
 */
#include "vipu_sim.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "grpc/server.h"
#include "net/net.h"
#include "net/tls.h"
#include "vipu/client.h"
#include "vipu/codec.h"
#include "vipu_sim_impl.h"

#define REPLY_BYTES ((size_t)64 << 20)

/* ---- time ---- */

static void step_model(struct vipu_sim *sim)
{
	int64_t next = model_step(&sim->model, clock_mono_ms());

	if (next != 0)
		loop_timer_start_at(&sim->timer, next);
	else
		loop_timer_stop(&sim->timer);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	step_model(arg);
}

/* ---- acting ---- */

/* What a method came to: a status with words, or a message. */
struct outcome {
	enum grpc_status status;
	char why[MODEL_WHY_SIZE];
	struct buf message;
};

static void act_list(struct vipu_sim *sim, const struct vipu_request *r, struct outcome *o)
{
	struct vipu_partitions parts;

	model_partitions(&sim->model, r->allocation_id, &parts);
	vipu_encode_partitions(&parts, &o->message, NULL);
	vipu_partitions_done(&parts);
}

static void act_agents(struct vipu_sim *sim, const struct vipu_request *r, struct outcome *o)
{
	struct vipu_agents agents;

	o->status = model_agents(&sim->model, r->agents, r->n_agents, &agents, o->why);
	if (o->status != GRPC_OK)
		return;
	vipu_encode_agents(&agents, &o->message, NULL);
	vipu_agents_done(&agents);
}

static void act_status(struct vipu_sim *sim, const struct vipu_request *r, struct outcome *o)
{
	struct vipu_status status;

	o->status = model_status(&sim->model, r->id, &status, o->why);
	if (o->status != GRPC_OK)
		return;
	vipu_encode_status(&status, &o->message, NULL);
	vipu_status_done(&status);
}

static void act_ipuof(struct vipu_sim *sim, const struct vipu_request *r, struct outcome *o)
{
	struct vipu_ipuof_config config;

	o->status = model_ipuof(&sim->model, &r->ipuof, &config, o->why);
	if (o->status != GRPC_OK)
		return;
	vipu_encode_ipuof_config(&config, &o->message, NULL);
	vipu_ipuof_config_done(&config);
}

static void act_request(struct vipu_sim *sim, const struct vipu_request *r, bool fails,
			struct outcome *o)
{
	int64_t now = clock_mono_ms();

	switch (r->method) {
	case VIPU_GET_VERSION:
		vipu_encode_version(sim->version, &o->message, NULL);
		break;
	case VIPU_LIST_PARTITIONS:
		act_list(sim, r, o);
		break;
	case VIPU_LIST_IPU_ATTRIBUTES:
		act_agents(sim, r, o);
		break;
	case VIPU_CREATE_PARTITION:
		o->status = model_create(&sim->model, &r->create, fails, now, o->why);
		if (o->status == GRPC_OK)
			vipu_encode_created(r->create.id, &o->message, NULL);
		break;
	case VIPU_REMOVE_PARTITION:
		o->status = model_remove(&sim->model, &r->remove, now, o->why);
		break;
	case VIPU_RESET_PARTITION:
		o->status = model_reset(&sim->model, &r->reset, now, o->why);
		break;
	case VIPU_GET_IPUOF_CONFIG:
		act_ipuof(sim, r, o);
		break;
	case VIPU_GET_PARTITION_STATUS:
		act_status(sim, r, o);
		break;
	case VIPU_METHODS:
		break;
	}
}

static void act(struct vipu_sim *sim, enum vipu_method method, struct str message, bool fails,
		struct outcome *o)
{
	struct vipu_request r;
	struct err err = ERR_INIT;

	*o = (struct outcome){.status = GRPC_OK, .message = BUF_INIT(REPLY_BYTES)};
	if (vipu_request_decode(method, message, &r, &err) < 0) {
		o->status = GRPC_INVALID_ARGUMENT;
		snprintf(o->why, sizeof(o->why), "%.150s", err.msg);
		return;
	}
	step_model(sim);
	act_request(sim, &r, fails, o);
	step_model(sim);
	log_debug("vipu-sim", sim->name, "%s: %s %s", vipu_method_name(method),
		  grpc_status_name(o->status), o->why);
	vipu_request_done(&r);
}

static void answer(struct grpc_server_call *call, struct outcome *o)
{
	if (o->status == GRPC_OK)
		grpc_server_call_reply(call, buf_str(&o->message));
	else
		grpc_server_call_fail(call, (int)o->status, o->why);
	buf_done(&o->message);
}

/* ---- calls that wait: LATE, SLOW, and those that are never answered ---- */

struct held_call {
	struct list place;
	struct vipu_sim *sim;
	struct grpc_server_call *call;
	enum vipu_method method;
	bool has_acted;
	struct outcome outcome;
	struct loop_timer timer;
};

static void drop_held(struct held_call *h)
{
	list_unlink(&h->place);
	loop_timer_stop(&h->timer);
	loop_reap(h->sim->loop, h, free);
}

static void on_held_timer(struct loop_timer *timer, void *arg)
{
	struct held_call *h = arg;
	(void)timer;

	if (!h->has_acted)
		act(h->sim, h->method, grpc_server_call_message(h->call), false, &h->outcome);
	answer(h->call, &h->outcome);
	drop_held(h);
}

/* For delay_ms, or for ever. outcome: of a call that has acted already, else NULL. */
static void hold(struct vipu_sim *sim, struct grpc_server_call *call, enum vipu_method method,
		 const struct outcome *outcome, unsigned delay_ms, bool for_ever)
{
	struct held_call *h = xcalloc(1, sizeof(*h));

	h->sim = sim;
	h->call = call;
	h->method = method;
	if (outcome) {
		h->has_acted = true;
		h->outcome = *outcome;
	}
	list_append(&sim->held, &h->place);
	loop_timer_init(&h->timer, sim->loop, on_held_timer, h);
	if (!for_ever)
		loop_timer_start_in(&h->timer, delay_ms);
}

static void end_held(struct vipu_sim *sim)
{
	while (!list_empty(&sim->held)) {
		struct held_call *h = CONTAINER_OF(sim->held.next, struct held_call, place);
		if (h->has_acted)
			buf_done(&h->outcome.message);
		grpc_server_call_reset(h->call, H2_INTERNAL_ERROR);
		drop_held(h);
	}
}

/* ---- serving ---- */

static void meet_fault(struct vipu_sim *sim, struct grpc_server_call *call, enum vipu_method method,
		       const struct vipu_sim_fault *f)
{
	struct str message = grpc_server_call_message(call);
	struct outcome o;

	switch (f->kind) {
	case VIPU_SIM_STATUS:
		grpc_server_call_fail(call, f->status, f->message);
		return;
	case VIPU_SIM_HANG:
		hold(sim, call, method, NULL, 0, true);
		return;
	case VIPU_SIM_LATE:
		hold(sim, call, method, NULL, f->delay_ms, false);
		return;
	case VIPU_SIM_CUT:
		grpc_server_call_cut(call);
		return;
	case VIPU_SIM_REFUSE:
		grpc_server_call_reset(call, H2_REFUSED_STREAM);
		return;
	case VIPU_SIM_GARBAGE:
		grpc_server_call_reply(call, STR("\xff\xff\xff\xff\xff\xff"));
		return;
	case VIPU_SIM_LOSE_REPLY:
	case VIPU_SIM_ACT_STATUS:
	case VIPU_SIM_ACT_CUT:
	case VIPU_SIM_SLOW:
	case VIPU_SIM_END_IN_ERROR:
		break;
	}
	act(sim, method, message, f->kind == VIPU_SIM_END_IN_ERROR, &o);
	if (f->kind == VIPU_SIM_SLOW || f->kind == VIPU_SIM_LOSE_REPLY) {
		hold(sim, call, method, &o, f->delay_ms, f->kind == VIPU_SIM_LOSE_REPLY);
		return;
	}
	if (f->kind == VIPU_SIM_END_IN_ERROR) {
		answer(call, &o);
		return;
	}
	buf_done(&o.message);
	if (f->kind == VIPU_SIM_ACT_CUT)
		grpc_server_call_cut(call);
	else
		grpc_server_call_fail(call, f->status, f->message);
}

static void on_call(void *arg, struct grpc_server_call *call)
{
	struct vipu_sim *sim = arg;
	int method = vipu_method_from_path(grpc_server_call_path(call));
	enum grpc_status admitted;
	struct vipu_sim_fault fault;
	const char *why;
	struct outcome o;

	if (method < 0) {
		grpc_server_call_fail(call, GRPC_UNIMPLEMENTED, "unknown method");
		return;
	}
	sim->calls[method]++;
	admitted = vipu_sim_admit(sim, call, &why);
	if (admitted != GRPC_OK) {
		grpc_server_call_fail(call, (int)admitted, why);
		return;
	}
	char *text = NULL;
	if (vipu_sim_take_fault(sim, (enum vipu_method)method, &fault, &text)) {
		meet_fault(sim, call, (enum vipu_method)method, &fault);
		free(text);
		return;
	}
	act(sim, (enum vipu_method)method, grpc_server_call_message(call), false, &o);
	answer(call, &o);
}

static uint16_t port_of(int fd)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr = {0};
	socklen_t len = sizeof(addr);

	if (getsockname(fd, &addr.sa, &len) < 0)
		return 0;
	return ntohs(addr.sa.sa_family == AF_INET6 ? addr.v6.sin6_port : addr.v4.sin_port);
}

/* A socket that is bound and never listens: the port stays its own also while it's down, where
 * another program could get it from the kernel otherwise, and be taken for this one. */
static int keep_port(struct vipu_sim *sim, uint16_t port, struct err *err)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
	};
	struct addrinfo *found;
	char service[8];
	int yes = 1, status = -1;

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(sim->host[0] ? sim->host : NULL, service, &hints, &found) != 0)
		return err_set(err, ERR_INVALID, 0,
			       "listening address: \"%s\" is no numeric address", sim->host);
	sim->port_fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sim->port_fd >= 0 &&
	    setsockopt(sim->port_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0)
		status = bind(sim->port_fd, found->ai_addr, found->ai_addrlen);
	if (status < 0)
		err_errno(err, errno, "listening on %s, port %s", sim->host, service);
	else
		sim->port = port_of(sim->port_fd);
	freeaddrinfo(found);
	return status;
}

static int start_serving(struct vipu_sim *sim, struct err *err)
{
	struct grpc_server_config config = {
		.addr = sim->name,
		.tls = sim->tls,
		.limits = {.streams = 1000},
	};

	return grpc_server_new(sim->net, &config, on_call, sim, &sim->server, err);
}

int vipu_sim_new(struct net *net, const struct vipu_sim_config *c, struct vipu_sim **ret,
		 struct err *err)
{
	unsigned agents = c->agents ? c->agents : 16;
	char host[NET_HOST_SIZE];
	uint16_t port;

	if (agents > MODEL_MAX_AGENTS)
		return err_set(err, ERR_INVALID, 0, "%u agents are more than %u", agents,
			       MODEL_MAX_AGENTS);
	if (net_split_host_port(c->addr ? c->addr : "127.0.0.1:0", 0, host, &port, err) < 0)
		return -1;
	struct vipu_sim *sim = xcalloc(1, sizeof(*sim));
	sim->net = net;
	sim->loop = net_loop(net);
	sim->tls = tls_config_ref(c->tls);
	sim->host = xstrdup(host);
	sim->port_fd = -1;
	sim->user = xstrdup(c->user);
	sim->access = xstrdup(c->access);
	sim->user_key = xstrdup(VIPU_USER_KEY);
	sim->access_key = xstrdup(VIPU_ACCESS_KEY);
	sim->cluster = xstrdup(c->cluster ? c->cluster : "sim");
	sim->allocation = xstrdup(c->allocation ? c->allocation : "");
	sim->version = xstrdup(c->version ? c->version : "1.18.0");
	sim->agent_prefix = xstrdup(c->agent_prefix ? c->agent_prefix : "ag");
	sim->model = (struct model){
		.agents = agents,
		.cluster = sim->cluster,
		.allocation = sim->allocation,
		.agent_prefix = sim->agent_prefix,
		.create_ms = c->create_ms ? c->create_ms : 500,
		.reset_ms = c->reset_ms ? c->reset_ms : 300,
		.remove_ms = c->remove_ms ? c->remove_ms : 300,
		.max_auto_resets = c->max_auto_resets ? c->max_auto_resets : 3,
	};
	list_init(&sim->held);
	list_init(&sim->faults);
	loop_timer_init(&sim->timer, sim->loop, on_timer, sim);
	if (keep_port(sim, port, err) < 0)
		goto fail;
	sim->name = xasprintf(strchr(sim->host, ':') ? "[%s]:%u" : "%s:%u", sim->host, sim->port);
	if (start_serving(sim, err) < 0)
		goto fail;
	*ret = sim;
	return 0;
fail:
	vipu_sim_free(sim);
	return -1;
}

static void free_sim(void *p)
{
	struct vipu_sim *sim = p;

	model_done(&sim->model);
	tls_config_unref(sim->tls);
	free(sim->host);
	free(sim->name);
	free(sim->user);
	free(sim->access);
	free(sim->user_key);
	free(sim->access_key);
	free(sim->cert_pem);
	free(sim->key_pem);
	free(sim->client_pem);
	free(sim->client_key_pem);
	free(sim->cluster);
	free(sim->allocation);
	free(sim->version);
	free(sim->agent_prefix);
	free(sim);
}

void vipu_sim_free(struct vipu_sim *sim)
{
	if (!sim)
		return;
	loop_timer_stop(&sim->timer);
	end_held(sim);
	vipu_sim_clear_faults(sim);
	grpc_server_free(sim->server);
	sim->server = NULL;
	if (sim->port_fd >= 0)
		close(sim->port_fd);
	loop_reap(sim->loop, sim, free_sim);
}

uint16_t vipu_sim_port(const struct vipu_sim *sim)
{
	return sim->port;
}

/* ---- the connection's faults ---- */

void vipu_sim_cut(struct vipu_sim *sim)
{
	if (sim->server)
		grpc_server_cut(sim->server);
}

void vipu_sim_drain(struct vipu_sim *sim)
{
	if (sim->server)
		grpc_server_drain(sim->server);
}

void vipu_sim_go_down(struct vipu_sim *sim)
{
	grpc_server_free(sim->server);
	sim->server = NULL;
}

int vipu_sim_come_up(struct vipu_sim *sim, struct err *err)
{
	return sim->server ? 0 : start_serving(sim, err);
}

/* ---- looking in ---- */

static void show(const struct model_partition *p, struct vipu_sim_partition *ret)
{
	*ret = (struct vipu_sim_partition){
		.id = p->id,
		.size = p->size,
		.first_ipu = p->first_ipu,
		.ready = p->ready,
		.operation = p->operation,
		.gcds = p->gcds,
		.reconfigurable = p->reconfigurable,
		.by_hand = p->by_hand,
		.in_use = p->in_use,
		.resets = p->resets,
		.auto_resets = p->auto_resets,
		.created_ms = p->created_ms,
	};
}

size_t vipu_sim_len(struct vipu_sim *sim)
{
	step_model(sim);
	return sim->model.n_parts;
}

bool vipu_sim_at(struct vipu_sim *sim, size_t i, struct vipu_sim_partition *ret)
{
	step_model(sim);
	if (i >= sim->model.n_parts)
		return false;
	show(&sim->model.parts[i], ret);
	return true;
}

bool vipu_sim_find(struct vipu_sim *sim, const char *id, struct vipu_sim_partition *ret)
{
	step_model(sim);
	const struct model_partition *p = model_find(&sim->model, id);
	if (p)
		show(p, ret);
	return p != NULL;
}

unsigned vipu_sim_total_ipus(const struct vipu_sim *sim)
{
	return model_total_ipus(&sim->model);
}

unsigned vipu_sim_taken_ipus(struct vipu_sim *sim)
{
	step_model(sim);
	return model_taken_ipus(&sim->model);
}

unsigned long vipu_sim_calls(const struct vipu_sim *sim, enum vipu_method method)
{
	return sim->calls[method];
}

unsigned long vipu_sim_created(const struct vipu_sim *sim)
{
	return sim->model.created;
}

bool vipu_sim_is_broken(const struct vipu_sim *sim)
{
	return sim->model.broken;
}

/* ---- people ---- */

static int to_err(enum grpc_status status, const char *why, struct err *err)
{
	return status == GRPC_OK ? 0 : grpc_status_to_err((int)status, str_of(why), err);
}

int vipu_sim_create_by_hand(struct vipu_sim *sim, const char *id, uint32_t size, struct err *err)
{
	struct vipu_create create = {
		.id = id,
		.size = size,
		.cluster_id = "",
		.allocation_id = "",
		.segments = size > MODEL_DOMAIN_IPUS ? size / MODEL_DOMAIN_IPUS : 1,
	};
	char why[MODEL_WHY_SIZE];

	step_model(sim);
	enum grpc_status status = model_create(&sim->model, &create, false, clock_mono_ms(), why);
	if (status == GRPC_OK) {
		struct model_partition *p = model_find(&sim->model, id);
		p->by_hand = true;
		p->ready = VIPU_PS_ACTIVE;
		p->operation = VIPU_POS_IDLE;
		p->ends_ms = 0;
	}
	return to_err(status, why, err);
}

int vipu_sim_remove_by_hand(struct vipu_sim *sim, const char *id, struct err *err)
{
	struct model_partition *p = model_find(&sim->model, id);

	if (!p)
		return err_set(err, ERR_NOT_FOUND, GRPC_NOT_FOUND, "partition \"%s\" not found",
			       id);
	model_drop(&sim->model, p);
	return 0;
}

int vipu_sim_break(struct vipu_sim *sim, const char *id, const char *message, bool auto_reset,
		   struct err *err)
{
	char why[MODEL_WHY_SIZE];

	step_model(sim);
	enum grpc_status status = model_break(&sim->model, id, message, auto_reset, clock_mono_ms(),
					      why);
	step_model(sim);
	return to_err(status, why, err);
}

int vipu_sim_set_in_use(struct vipu_sim *sim, const char *id, bool in_use, struct err *err)
{
	struct model_partition *p = model_find(&sim->model, id);

	if (!p)
		return err_set(err, ERR_NOT_FOUND, GRPC_NOT_FOUND, "partition \"%s\" not found",
			       id);
	p->in_use = in_use;
	return 0;
}

int vipu_sim_set_agents(struct vipu_sim *sim, unsigned agents, struct err *err)
{
	char why[MODEL_WHY_SIZE];

	step_model(sim);
	return to_err(model_set_agents(&sim->model, agents, why), why, err);
}

void vipu_sim_set_health(struct vipu_sim *sim, unsigned agent, unsigned celsius, const char *state)
{
	free(sim->model.fault.state);
	sim->model.fault.agent = agent;
	sim->model.fault.celsius = celsius;
	sim->model.fault.state = state[0] ? xstrdup(state) : NULL;
}

void vipu_sim_set_delays(struct vipu_sim *sim, unsigned create_ms, unsigned reset_ms,
			 unsigned remove_ms)
{
	sim->model.create_ms = create_ms;
	sim->model.reset_ms = reset_ms;
	sim->model.remove_ms = remove_ms;
}
