/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's Pods: building one from the template, and the projection of one that the store keeps.
 * Everything in the template that the operator has no opinion on reaches the Pod unchanged.
 */
#ifndef IPU_JOB_POD_H
#define IPU_JOB_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "job/model.h"
#include "job/rdma.h"
#include "partition/types.h"

/* ---- building ---- */

/* How a container learns where its IPUs are (doc/design/decisions.md, "What an instance is"). */
enum job_values {
	JOB_VALUES_LITERAL, /* in the Pod itself: people read them in `kubectl describe` */
	/* References to keys of a ConfigMap that is filled in later: either the variables by their
	 * names, or IPUOF_CONFIG_PATH and the files. The GCD is known now. */
	JOB_VALUES_KEYS,
	JOB_VALUES_FILE, /* the IPUoF configuration as a mounted file, and its path */
};

struct job_pod_settings { /* worker.* of the configuration */
	bool host_network;
	bool privileged;
	/* NULL: ClusterFirstWithHostNet with host_network, else the template's */
	const char *dns_policy;
	struct job_rdma rdma; /* nothing with host_network */
	/* launcher.* of the configuration */
	const char *launcher_image; /* the one that holds ipu-launcher; "": none is configured */
	const char *launcher_pull;  /* its imagePullPolicy; NULL: Kubernetes' own default */
	const char *mpi_interface;  /* for MPI's TCP: an interface or a subnet; NULL: MPI chooses */
	unsigned worker_wait_s;     /* how long a launcher waits for its workers at most */
};

struct job_ipus {
	enum job_values values;
	const char *partition_id; /* NULL with KEYS: there's none yet */
	const char *host;         /* literal */
	uint16_t port;
	uint32_t gcd;
	const char *config_map; /* KEYS and FILE: its name; a file's key is "ipuof-<gcd>.conf" */
	const char *label_key, *label_value; /* node selector of the controller, NULL: any node */
};

/* Adds IPUOF_* to one container (mutable, in doc): a value that the user's template sets for
 * IPUOF_VIPU_API_TIMEOUT wins, the others are the operator's. With FILE also the mount. Also for
 * annotated Pods. */
void job_env_apply(struct jmut_doc *doc, struct jmut *container, const struct job_ipus *ipus);

/* The volume that FILE mounts; harmless for the others. */
void job_volume_apply(struct jmut_doc *doc, struct jmut *pod_spec, const struct job_ipus *ipus);

/* Where the IPUoF configuration is mounted, by the two above. */
#define JOB_IPUOF_VOLUME    "ipuof-config"
#define JOB_IPUOF_DIR       "/etc/ipuof.conf.d"
#define JOB_LAUNCHER_SOURCE "/ipu-launcher" /* in the image launcher_image */

/* Pieces of other Pods too. */
bool job_env_has(struct jmut *env, const char *name);
/* Whether the container asks its Node for the resource that Nodes may show (node/nodes.h). That
 * gives it no IPUs, and where none shows it, its Pod is never placed. */
#define JOB_IPU_RESOURCE "graphcore.ai/ipu"
bool job_names_ipu_resource(const struct json *container);
void job_env_drop(struct jmut *env, struct str name);
void job_mount(struct jmut_doc *doc, struct jmut *container, const char *volume, const char *path,
	       bool read_only);
/* An init container of ours from the launcher's image, without any rights, and asking for no more
 * than `like`, a container of the Pod, does: quotas and QoS classes stay what they were. */
struct jmut *job_helper(struct jmut_doc *doc, const char *name, const struct json *like,
			const struct job_pod_settings *settings);

/* The worker Pod: spec is the IPUJob's. The root of doc is the Pod. Errors: ERR_INVALID where the
 * template can't be made a Pod (containers that aren't objects, labels that aren't a map). */
int job_pod_build(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		  uint32_t instance, uint32_t worker, const struct job_ipus *ipus,
		  const struct job_pod_settings *settings, struct err *err);

/* Legal but unwise things in the template that the user should hear of (an Event's message): the
 * template's restartPolicy isn't Never. NULL: nothing; the caller's to free. */
char *job_template_warning(const struct json *spec);

/* ---- observing ---- */

enum job_pod_phase {
	JOB_POD_PENDING,
	JOB_POD_RUNNING,
	JOB_POD_SUCCEEDED,
	JOB_POD_FAILED,
	JOB_POD_UNKNOWN
};

/* Why a Pod can't start. */
enum job_pod_fault {
	JOB_POD_FAULT_NONE,
	JOB_POD_FAULT_NODE, /* no node takes it */
	JOB_POD_FAULT_OWN,  /* its image or its configuration: the user's to mend */
};

struct job_pod { /* its words are interned where many have the same */
	const char *ns;
	const char *job_key;     /* "namespace/job", from the label graphcore.ai/job */
	const char *owner_uid;   /* controller reference; NULL: none */
	const char *partition;   /* annotation graphcore.ai/partition; NULL: none */
	const char *node;        /* NULL: it hasn't got one yet */
	const char *queue_group; /* label: the Pod group of Kueue that it belongs to; NULL: none */
	uint64_t template_hash;  /* annotation graphcore.ai/template; 0: none */
	int64_t instance;        /* label graphcore.ai/instance; -1: none, or not a number */
	int64_t deletion_ms;     /* deleting: when its grace period is over, wall clock */
	enum job_pod_phase phase;
	/* Of the container, init containers included, that failed first; 137 where it was killed
	 * and nobody knows its code (evicted, its node lost); 0 else. */
	int32_t exit_code;
	const char *why; /* one word: OOMKilled, Error, ImagePullBackOff, Unschedulable …; NULL */
	char *message;   /* for people: "container mnist exited with 3 (Error)", … ; owned, NULL */
	enum job_pod_fault fault; /* why and message say more */
	bool launcher;            /* label graphcore.ai/role */
	bool deleting, scheduled, ready;
	bool gated;             /* behind our gate (job/queue.h) */
	bool queued;            /* behind another one: Kueue's */
	bool preempted;         /* Kueue takes its place away from it */
	const char *name, *uid; /* behind the struct, in its allocation */
};

const char *job_pod_phase_name(enum job_pod_phase phase); /* as the API server writes it */

int job_pod_decode(const struct json *object, struct job_pod **ret, struct err *err);
void job_pod_free(struct job_pod *pod);
bool job_pod_equal(const struct job_pod *a, const struct job_pod *b);

#endif
