/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated V-IPU controller: agents, IPU-Link domains, partitions and their operations on core's
 * clock, served by gRPC with all eight methods, and the faults that tests inject. One struct is one
 * controller; ipu-sim embeds several. Owns its server and model. Uses core, loop, net, grpc, vipu.
 */
#ifndef IPU_SIM_VIPU_SIM_H
#define IPU_SIM_VIPU_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "vipu/api.h"

struct net;
struct tls_config;
struct vipu_sim;

/* Zero means the default. */
struct vipu_sim_config {
	const char *addr;          /* to listen at, default "127.0.0.1:0" */
	struct tls_config *tls;    /* secure mode: TLS; NULL: h2c. A reference is taken */
	const char *user, *access; /* what every call must carry (api-user-id, api-access-key);
				      NULL: nothing */
	unsigned agents;           /* IPU-Machines of 4 IPUs, default 16: one POD64 */
	const char *cluster;       /* default "sim" */
	const char *allocation;    /* default "" */
	const char *version;       /* default "1.18.0" */
	const char *agent_prefix;  /* default "ag": agents are ag01, ag02 … */
	unsigned create_ms;        /* PS_PENDING to PS_ACTIVE, default 500 */
	unsigned reset_ms;         /* default 300 */
	unsigned remove_ms;        /* default 300 */
	unsigned max_auto_resets;  /* default 3 */
};

/* Starts to serve. Errors: those of net_listener_new; ERR_INVALID for a configuration that makes no
 * sense (no agents, more than 1024). */
int vipu_sim_new(struct net *net, const struct vipu_sim_config *config, struct vipu_sim **ret,
		 struct err *err);
void vipu_sim_free(struct vipu_sim *sim); /* NULL is fine */
uint16_t vipu_sim_port(const struct vipu_sim *sim);

/* ---- looking in; operations whose time has come are ended first ---- */

struct vipu_sim_partition {
	const char *id;
	uint32_t size,
		first_ipu; /* IPU numbers over the whole controller: domain · 64 + position */
	enum vipu_ready ready;
	enum vipu_operation operation;
	unsigned gcds;
	bool reconfigurable;
	bool by_hand, in_use;
	unsigned resets, auto_resets;
	int64_t created_ms; /* monotonic */
};
size_t vipu_sim_len(struct vipu_sim *sim);
bool vipu_sim_at(struct vipu_sim *sim, size_t i, struct vipu_sim_partition *ret);
bool vipu_sim_find(struct vipu_sim *sim, const char *id, struct vipu_sim_partition *ret);
unsigned vipu_sim_total_ipus(const struct vipu_sim *sim);
unsigned vipu_sim_taken_ipus(struct vipu_sim *sim);
/* How many calls of a method came in, and how many partitions were ever made. */
unsigned long vipu_sim_calls(const struct vipu_sim *sim, enum vipu_method method);
unsigned long vipu_sim_created(const struct vipu_sim *sim);
/* True if two partitions ever held one IPU at the same time: the model's own check. */
bool vipu_sim_is_broken(const struct vipu_sim *sim);
/* All of it for people and tests: {"port":…,"ipus":{"total","taken","free"},"partitions":[…],
 * "calls":{…},"faults":[…]}. */
struct jmut *vipu_sim_to_json(struct vipu_sim *sim, struct jmut_doc *doc);

/* ---- faults, at run time ---- */

enum vipu_sim_fault_kind {
	VIPU_SIM_STATUS,       /* answer with this status and message, do nothing */
	VIPU_SIM_HANG,         /* do nothing, answer nothing; the caller's deadline passes */
	VIPU_SIM_LOSE_REPLY,   /* act, then answer nothing */
	VIPU_SIM_LATE,         /* act after delay_ms, whoever still waits; answer then */
	VIPU_SIM_ACT_STATUS,   /* act, then answer with this status: a lie of the network's */
	VIPU_SIM_CUT,          /* close the connection, do nothing */
	VIPU_SIM_ACT_CUT,      /* act, then close the connection */
	VIPU_SIM_REFUSE,       /* RST_STREAM with REFUSED_STREAM */
	VIPU_SIM_GARBAGE,      /* answer OK with bytes that aren't the message */
	VIPU_SIM_SLOW,         /* act now, answer after delay_ms */
	VIPU_SIM_END_IN_ERROR, /* CreatePartition: the partition ends in PS_ERROR */
};
struct vipu_sim_fault {
	enum vipu_sim_fault_kind kind;
	int method;          /* enum vipu_method, -1: any */
	unsigned count;      /* how many calls it meets, 0: until cleared */
	unsigned skip;       /* calls that pass before it */
	int status;          /* gRPC status, for STATUS and ACT_STATUS */
	const char *message; /* copied */
	unsigned delay_ms;   /* LATE, SLOW */
};
/* Faults are tried in the order in which they were added; the first that matches is used. */
void vipu_sim_inject(struct vipu_sim *sim, const struct vipu_sim_fault *fault);
void vipu_sim_clear_faults(struct vipu_sim *sim);
size_t vipu_sim_faults(const struct vipu_sim *sim); /* still waiting */
/* {"kind":"status","method":"CreatePartition","count":2,"status":"RESOURCE_EXHAUSTED",
 * "message":"…","delayMs":…}: what an admin end-point takes. */
int vipu_sim_inject_json(struct vipu_sim *sim, const struct json *v, struct err *err);

/* ---- secure mode ---- */

/* {"tls":true,"clientCert":true,"userId":"…","accessKey":"…","userIdMetadata":"…",
 * "accessKeyMetadata":"…","cert":PEM,"key":PEM,"newCertificate":true}: what is named counts from
 * now on, the rest stays. The first time, TLS is on unless said otherwise; a certificate is made
 * where none is given. A change of TLS closes all connections; userId or accessKey "": not asked
 * for. */
int vipu_sim_secure(struct vipu_sim *sim, const struct json *v, struct err *err);
/* What a caller needs: {"tls","clientCert","ca","cert","key" (the client's),"userId","accessKey",
 * "userIdMetadata","accessKeyMetadata"}. */
struct jmut *vipu_sim_secure_to_json(const struct vipu_sim *sim, struct jmut_doc *doc);

/* Closes all connections / refuses to listen and closes / listens again on the same port, which is
 * nobody else's meanwhile. */
void vipu_sim_cut(struct vipu_sim *sim);
void vipu_sim_go_down(struct vipu_sim *sim);
int vipu_sim_come_up(struct vipu_sim *sim, struct err *err);
void vipu_sim_drain(struct vipu_sim *sim); /* GOAWAY on all connections */

/* ---- people at the controller's own command line ---- */

/* As `vipu create partition` does: active at once. Errors: ERR_EXISTS, ERR_BUSY, ERR_INVALID. */
int vipu_sim_create_by_hand(struct vipu_sim *sim, const char *id, uint32_t size, struct err *err);
int vipu_sim_remove_by_hand(struct vipu_sim *sim, const char *id, struct err *err);
/* Puts a partition into PS_ERROR with a message; with auto_reset it resets itself first, as a
 * controller does, and fails only when its retries are used up. */
int vipu_sim_break(struct vipu_sim *sim, const char *id, const char *message, bool auto_reset,
		   struct err *err);
/* Takes IPUs out of, or adds them to, the pool: the number of agents from now on. Agents with
 * partitions on them can't go: ERR_BUSY. */
int vipu_sim_set_agents(struct vipu_sim *sim, unsigned agents, struct err *err);
/* How its IPU-Machine agent (from 1; 0: none) is: the hottest die, and the error state of its first
 * IPU ("": none). */
void vipu_sim_set_health(struct vipu_sim *sim, unsigned agent, unsigned celsius, const char *state);
/* Devices of it are open: only a forced remove takes it away. */
int vipu_sim_set_in_use(struct vipu_sim *sim, const char *id, bool in_use, struct err *err);
void vipu_sim_set_delays(struct vipu_sim *sim, unsigned create_ms, unsigned reset_ms,
			 unsigned remove_ms);

#endif
