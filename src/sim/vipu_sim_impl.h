/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the simulated controller: what its serving half (vipu_sim.c), its faults and JSON
 * (vipu_sim_fault.c) and what it asks of callers (vipu_sim_secure.c) share. Private to these.
 */
#ifndef IPU_SIM_VIPU_SIM_IMPL_H
#define IPU_SIM_VIPU_SIM_IMPL_H

#include "core/list.h"
#include "grpc/status.h"
#include "loop/loop.h"
#include "vipu_model.h"
#include "vipu_sim.h"

struct grpc_server_call;

struct vipu_sim {
	struct net *net;
	struct loop *loop;
	struct tls_config *tls;
	struct grpc_server *server; /* NULL: down */
	char *host, *name;          /* name: "host:port" */
	uint16_t port;
	int port_fd;                 /* bound to it for as long as this lives */
	char *user, *access;         /* NULL: not asked for */
	char *user_key, *access_key; /* the metadata that carries them */
	bool secure;                 /* vipu_sim_secure was called: the rest is its own */
	bool client_cert;            /* asked for */
	char *cert_pem, *key_pem;    /* made or given; NULL: none yet */
	char *client_pem, *client_key_pem;
	char *cluster, *allocation, *version, *agent_prefix;
	struct model model;
	struct loop_timer timer; /* the model's next end of an operation */
	struct list held;        /* calls that wait, or are never answered */
	struct list faults;      /* in the order in which they were added */
	unsigned long calls[VIPU_METHODS];
};

/* The fault that meets a call of this method now, used up by one; false: none. *ret_text: what
 * ret->message points to, the caller's to free. */
bool vipu_sim_take_fault(struct vipu_sim *sim, enum vipu_method method, struct vipu_sim_fault *ret,
			 char **ret_text);

/* Whether a call may be: GRPC_OK, UNAUTHENTICATED (something is missing) or PERMISSION_DENIED
 * (something is wrong), with words. */
enum grpc_status vipu_sim_admit(const struct vipu_sim *sim, const struct grpc_server_call *call,
				const char **ret_why);

#endif
