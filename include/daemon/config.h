/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's configuration: etc/operator.yaml's keys from file, environment and flags, checked
 * whole before anything starts (doc/reference/configuration.md). Owns its strings.
 */
#ifndef IPU_DAEMON_CONFIG_H
#define IPU_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/log.h"
#include "partition/policy.h"
#include "vipu/address.h"

#define CONFIG_PATH "/etc/ipu-operator/operator.yaml"

enum config_role { ROLE_CONTROLLER = 1, ROLE_PROXY = 2, ROLE_WEBHOOK = 4, ROLE_NODE = 8 };

struct config {
	char *operator_ns;
	unsigned roles; /* of enum config_role */
	char *kubeconfig, *context;
	bool kube_http2;
	struct vipu_address_list controllers;
	char *controllers_file, *controllers_config_map; /* "": none */
	char *server_addr, *cluster_name;
	long server_port;
	struct vipu_address_list server; /* of these three: one entry or none */
	char *user_key, *access_key;
	long call_s, active_s, remove_grace_s, orphan_s, waiting_refresh_s, idle_refresh_s;
	bool host_network;
	char *privileged, *dns_policy;      /* "auto" or a choice */
	char *rdma_network, *rdma_resource; /* "": none */
	long rdma_amount;
	char *ipc_lock;       /* "auto" or a choice */
	char *launcher_image; /* "": none */
	char *launcher_pull;  /* "auto": as Kubernetes does by itself */
	char *mpi_interface;  /* "": MPI chooses */
	long worker_wait_s, backoff_s, backoff_max_s, start_deadline_s;
	long unreachable_s; /* 0: never */
	long ranks_end_s;   /* 0: not waited for */
	bool heed_nodes;
	char *tracker;
	char *proxy_listen, *proxy_tls_listen, *health_listen, *metrics_listen; /* "": not */
	bool proxy_details;
	char *proxy_page;             /* "off", "usage" or "full" */
	char *proxy_cert, *proxy_key; /* files; "": the operator's own certificate */
	char *proxy_accounts;         /* "": the controller role's in operatorNamespace */
	long proxy_read_s, proxy_write_s, proxy_idle_s;
	long log_level, slow_turn_ms;
	char *log_format;
	bool lease_enabled;
	char *lease_prefix, *lease_identity, *advertise, *proxy_url, *proxy_token, *proxy_ca;
	char *certificate_secret, *certificate_names;
	char *choice;                /* "firstFit" or "bestFit" */
	long max_ipus, max_job_ipus; /* -1: no limit */
	long max_deadline_s, default_deadline_s, max_interactive_s;
	struct partition_rules policy; /* of namespaces, and the three as its default */
	bool dry_run_pods;
	char *template_paths, *template_accounts; /* "*" or a list with commas */
	bool template_privileged, template_nodes;
	char *pods_mode;                               /* "gate" or "init" */
	char *pods_proxy_url;                          /* "": as proxy.url says, or the Service */
	long pods_wait_s;                              /* 0: for ever */
	char *webhook_listen;                          /* "": not */
	char *webhook_cert, *webhook_key, *webhook_ca; /* files; "": the operator's own */
	char *webhook_mutating, *webhook_validating;
	char *webhook_url;   /* "": the registration is somebody else's but for its bundle */
	char *webhook_scope; /* "": all namespaces */
	char *webhook_failure_policy;
	long webhook_timeout_s;
	long webhook_drain_s;
	char *seccomp;        /* "enforce", "log" or "off" */
	long stop_s;          /* 0: as the process was started */
	char *advertise_ipus; /* "none", "whole" or "share" */
	bool advertise_on_control_plane;
	char *scheduler_listen;       /* "": not */
	char *scheduler_client_ca;    /* a file; "": anybody may ask */
	char *scheduler_client_names; /* with commas between; "": all that it vouches for */
	long scheduler_body_bytes;
	bool metrics_secure;
	char *metrics_cert, *metrics_key; /* files; "": the operator's own certificate */
	long stuck_s;
	long connections, header_bytes, body_bytes;
	char *node_name; /* "": $NODE_NAME, or the host's */
	char *node_rdma; /* "route", "any" or "none" */
	bool node_labels;
	char *node_taint; /* "": none */
	long node_calm_s;
	long node_silent_s;         /* 0: never */
	char *node_root, *node_cni; /* "": as the machine has it */
};

/* Where a configuration comes from. Borrowed. */
struct config_source {
	const char *path;        /* NULL: CONFIG_PATH, which may be absent */
	const char *const *sets; /* "KEY=VALUE" of flags, in order */
	size_t n_sets;
	char *const *environ_; /* as the process's environ */
};
/* Says where and what would be right. */
typedef void config_fault_fn(void *arg, const char *fault);
/* tell (NULL: nobody) is called for each fault, one behind the other as they stand: of the file,
 * the environment, the flags; of keys that don't go together only where each is good by itself.
 * Errors: ERR_INVALID, ERR_NOT_FOUND, ERR_IO, which are the first of them. */
int config_load(const struct config_source *source, config_fault_fn *tell, void *arg,
		struct config *ret, struct err *err);
void config_done(struct config *c);

/* Names of keys, with ", " between: what has changed and counts now, and from the next start on. */
struct config_changes {
	char now[4096], later[4096]; /* of all keys if need be */
};
/* What a running process can take on goes from fresh into running, and comes back in exchange:
 * fresh is to be released when nobody has the old strings any more. */
void config_take_on(struct config *running, struct config *fresh, struct config_changes *ret);

#endif
