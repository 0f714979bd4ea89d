/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated controller's state without I/O: agents, domains, partitions and what is being done
 * to them, on a clock that is handed in. It owns its partitions. Private to src/sim.
 */
#ifndef IPU_SIM_VIPU_MODEL_H
#define IPU_SIM_VIPU_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grpc/status.h"
#include "vipu/api.h"

#define MODEL_AGENT_IPUS  4
#define MODEL_DOMAIN_IPUS 64
#define MODEL_MAX_AGENTS  1024

struct model_partition {
	char *id;
	uint32_t size, first_ipu; /* numbers over the whole controller: domain · 64 + position */
	enum vipu_routing routing;
	enum vipu_gw_routing gw_routing;
	enum vipu_sync sync;
	uint32_t gcds, segments, replicas;
	bool reconfigurable;
	bool auto_reset;
	char *allocation;
	enum vipu_ready ready;
	enum vipu_operation operation;
	int64_t ends_ms; /* when the operation is over; 0: none goes on */
	bool fails;      /* its creation ends in PS_ERROR */
	char *error;     /* or NULL */
	bool by_hand;
	bool in_use; /* has devices open: only force removes it */
	unsigned resets, auto_resets;
	int64_t last_auto_reset_ms; /* wall clock */
	int64_t created_ms;
};

struct model {
	unsigned agents;
	const char *cluster, *allocation, *agent_prefix; /* borrowed from whoever set it up */
	unsigned create_ms, reset_ms, remove_ms, max_auto_resets;
	struct model_partition *parts;
	size_t n_parts, cap_parts;
	uint64_t taken[MODEL_MAX_AGENTS * MODEL_AGENT_IPUS / MODEL_DOMAIN_IPUS];
	unsigned long created;
	bool broken;            /* two partitions held one IPU */
	struct {                /* the machine that a test has made ill */
		unsigned agent; /* from 1; 0: none */
		unsigned celsius;
		char *state; /* of its first IPU; owned; NULL: no errors */
	} fault;
};

void model_done(struct model *m);
unsigned model_total_ipus(const struct model *m);
unsigned model_taken_ipus(const struct model *m);
struct model_partition *model_find(struct model *m, const char *id);

/* Ends the operations whose time has come. Returns when the next one ends, 0: none. */
int64_t model_step(struct model *m, int64_t now_ms);

/* What methods do. GRPC_OK, or a status with words for people in why. */
#define MODEL_WHY_SIZE 200
enum grpc_status model_create(struct model *m, const struct vipu_create *req, bool fails,
			      int64_t now_ms, char why[MODEL_WHY_SIZE]);
enum grpc_status model_remove(struct model *m, const struct vipu_remove *req, int64_t now_ms,
			      char why[MODEL_WHY_SIZE]);
enum grpc_status model_reset(struct model *m, const struct vipu_reset *req, int64_t now_ms,
			     char why[MODEL_WHY_SIZE]);
enum grpc_status model_break(struct model *m, const char *id, const char *message, bool auto_reset,
			     int64_t now_ms, char why[MODEL_WHY_SIZE]);
enum grpc_status model_set_agents(struct model *m, unsigned agents, char why[MODEL_WHY_SIZE]);
/* At once, whatever it is doing. */
void model_drop(struct model *m, struct model_partition *p);

/* What they list: owned by the caller. */
void model_partitions(const struct model *m, const char *allocation, struct vipu_partitions *ret);
enum grpc_status model_agents(const struct model *m, const char *const *agents, size_t n_agents,
			      struct vipu_agents *ret, char why[MODEL_WHY_SIZE]);
enum grpc_status model_status(struct model *m, const char *id, struct vipu_status *ret,
			      char why[MODEL_WHY_SIZE]);
enum grpc_status model_ipuof(struct model *m, const struct vipu_get_ipuof_config *req,
			     struct vipu_ipuof_config *ret, char why[MODEL_WHY_SIZE]);

#endif
