/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IPUJob as the planner needs it: identity, size, policies, and what its status remembers. Made
 * from the object's JSON; both generations' spelling end in the same fields. Its words are
 * interned.
 */
#ifndef IPU_JOB_MODEL_H
#define IPU_JOB_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "partition/types.h"

#define JOB_FINALIZER                "ipu.finalizers.graphcore.ai"
#define JOB_LABEL_JOB                "graphcore.ai/job"
#define JOB_LABEL_INSTANCE           "graphcore.ai/instance"
#define JOB_LABEL_ROLE               "graphcore.ai/role"
#define JOB_ROLE_WORKER              "worker"
#define JOB_ROLE_LAUNCHER            "launcher"
#define JOB_ANNOTATION_PARTITION     "graphcore.ai/partition"
#define JOB_ANNOTATION_TEMPLATE      "graphcore.ai/template" /* struct job.template_hash, in hex */
#define JOB_ANNOTATION_FORCE_RELEASE "graphcore.ai/force-release" /* "true" */
#define JOB_LABEL_QUEUE              "kueue.x-k8s.io/queue-name"  /* Kueue's, on the IPUJob */
#define JOB_MANAGER                  "graphcore.ai/ipu-operator" /* spec.managedBy, where it's ours */
#define JOB_API_VERSION              "graphcore.ai/v1alpha1"
#define JOB_KIND                     "IPUJob"

enum job_clean { JOB_CLEAN_NONE, JOB_CLEAN_ALL, JOB_CLEAN_WORKERS };
enum job_restart {
	JOB_RESTART_NEVER,
	JOB_RESTART_ALWAYS,
	JOB_RESTART_ON_FAILURE,
	JOB_RESTART_EXIT_CODE
};

enum job_strategy { JOB_ROLLING_UPDATE, JOB_RECREATE };

/* The first JOB_STAGES of them are the job's stage: of these one is True at a time. The others
 * stand beside it. In the order in which the status shows them. */
enum job_condition_type {
	JOB_PENDING,
	JOB_RUNNING,
	JOB_RESTARTING,
	JOB_SUSPENDED,
	JOB_SUCCEEDED,
	JOB_FAILED,
	JOB_STAGES,
	JOB_CREATED = JOB_STAGES,
	JOB_RECONCILING, /* kstatus: not there yet, and on its way */
	JOB_STALLED,     /* kstatus: won't get there by itself */
	JOB_CONDITIONS,  /* how many there are */
};

enum job_instance_phase {
	JOB_INSTANCE_WAITING,
	JOB_INSTANCE_RUNNING,
	JOB_INSTANCE_RESTARTING, /* from a run's bad end until the next one runs */
	JOB_INSTANCE_SUCCEEDED,
	JOB_INSTANCE_FAILED,
};

/* What must be known of an instance whatever is lost: status.instances. A run is one life of its
 * gang, from an active partition to the end of its Pods. */
struct job_instance {
	enum job_instance_phase phase;
	uint32_t run;        /* which one, from 0: partition_ask.attempt */
	uint32_t restarts;   /* those that count against backOffLimit */
	uint32_t tries;      /* of starting its Pods in vain, one after the other */
	bool complete;       /* all Pods of this run have been there: one that isn't is lost */
	bool over;           /* this run is over: its Pods go, then the next one begins */
	bool yields;         /* over: the partition goes back before the next one */
	int64_t start_ms;    /* its first active partition: activeDeadlineSeconds; 0: not yet */
	int64_t since_ms;    /* the run has a partition since: startDeadlineSeconds; 0: hasn't */
	int64_t running_ms;  /* the run is Running since: interactive.ttl; 0: isn't yet */
	int64_t retry_ms;    /* the next run's Pods aren't made before; 0: at once */
	int64_t release_ms;  /* Failed: what it started in its workers has ended then; 0: unasked */
	const char *message; /* how the last run ended; interned, NULL: "" */
};

struct job_condition {
	enum job_condition_type type;
	bool on;                          /* "True" */
	const char *reason, *message;     /* interned; NULL: "" */
	int64_t update_ms, transition_ms; /* wall; 0: unknown */
};

/* The status as it is stored, and as the planner wants it. Its words are interned, NULL: "" or
 * absent. */
struct job_status {
	struct job_condition *conditions; /* those that are present, in the order of their types */
	unsigned n_conditions;
	const char *launcher_status; /* Pending, Running, Completed, Failed */
	const char *last_message;
	bool selects; /* its selector is the job's (job_selector) */
	bool partition_created;
	int64_t start_ms, completion_ms, reconcile_ms; /* wall; 0: not set */
	int32_t restart_count;
	int32_t active, succeeded, failed; /* worker Pods */
	int32_t current_replicas, desired_replicas;
	int64_t observed_generation;
	struct job_instance *instances; /* by index; those that have nothing to say are all 0 */
	size_t n_instances;
};

struct job {
	const char *ns, *name, *uid, *version; /* metadata; interned, as all words but problem */
	int64_t generation, created_ms;
	int64_t deletion_ms; /* deleting: since when; 0: unknown */
	bool deleting, has_finalizer;
	const char **finalizers; /* others'; NULL: none */
	size_t n_finalizers;

	bool first_generation;             /* sized by modelReplicas (1.0) */
	uint32_t instances, ipus, workers; /* workers: of one instance */
	uint32_t slots;                    /* of a worker in the hostfile, at least 1 */
	bool launcher, interactive;        /* at most one of them */
	int64_t ttl_ms;                    /* of an interactive session */
	enum job_clean clean;
	enum job_restart restart;
	uint32_t backoff_limit;
	uint8_t restart_codes[32]; /* a bit for each exit code: those that lead to a restart */
	enum job_strategy strategy;
	uint32_t max_surge, max_unavailable; /* instances; not both 0 */
	uint64_t template_hash; /* of what Pods are made from; never 0 but where there's no template
				 */
	bool suspend;
	int64_t deadline_ms;       /* activeDeadlineSeconds; 0: none */
	int64_t start_deadline_ms; /* 0: what the configuration says */
	int64_t finished_ttl_ms;   /* ttlSecondsAfterFinished; -1: none */
	const char *managed_by;    /* another controller's name; NULL: it's ours */
	const char *queue_name;    /* Kueue's label on the job; NULL: none */
	uint64_t group_hash;       /* of what PodGroups are made from; 0: there are none */
	const char *scheduler;     /* the template's schedulerName; NULL: none is named */
	bool force_release;        /* annotation: the finalizer doesn't wait for the IPUs */
	struct partition_options options;
	bool keeps_partitions;      /* until it's deleted; else until it has finished */
	const char *priority_class; /* of the template; NULL: none is named */
	int32_t priority;           /* that class's value: set by who knows the classes */
	char *problem; /* every broken rule, one line; NULL: it can be run. Sizes may be 0 then */

	struct job_status status;
};

/* Fails only where there's no identity to speak of (name, namespace, uid): ERR_INVALID. Everything
 * else that's wrong stands in job.problem. */
int job_decode(const struct json *object, struct job **ret, struct err *err);
void job_free(struct job *job); /* NULL is fine */

/* The same of what needn't be stored yet (a manifest, an object under review): identity where it
 * has one, else "", and the spec as far as it can be read. Its rules aren't checked (job.problem is
 * NULL), its status isn't read. */
struct job *job_preview(const struct json *object);

/* Every rule of doc/reference/validation.md that the object breaks, in its table's order, through
 * report(field path, kind, message), with the words of the reference: kind is "Required",
 * "Forbidden", "Invalid", "Unsupported" or "Too long". Returns how many. */
typedef void job_report_fn(void *arg, const char *path, const char *kind, const char *message);
size_t job_validate(const struct json *object, job_report_fn *report, void *arg);
/* The same for its "Rules on updates": what an object that is there says now, against what it said.
 */
size_t job_validate_update(const struct json *before, const struct json *object,
			   job_report_fn *report, void *arg);

/* Members that no IPUJob has (at the top, in metadata, in its spec), each as "Forbidden": misspelt
 * ones, in what people write. A template's are Kubernetes', and not looked at. */
size_t job_unknown_fields(const struct json *object, job_report_fn *report, void *arg);

/* What JOB_ANNOTATION_TEMPLATE says; 0: no hash. */
uint64_t job_hash_parse(struct str hex);

/* One of Kubernetes' quantities, without a sign: 4, 0.5, 500m, 8Gi, 1e3. */
bool job_is_quantity(struct str s);

void job_status_done(struct job_status *s);
void job_status_copy(struct job_status *to, const struct job_status *from);
/* What is remembered of the instances, to one that has none. */
void job_status_copy_memory(struct job_status *to, const struct job_status *from);
/* Equal but for lastReconcileTime and the conditions' lastUpdateTime. */
bool job_status_equal(const struct job_status *a, const struct job_status *b);
/* The body of a merge patch of the status subresource: {"status": {…}}. */
struct jmut *job_status_encode(struct jmut_doc *doc, const struct job *job,
			       const struct job_status *s);
const char *job_condition_name(enum job_condition_type type); /* "Pending", … */
/* What launcherStatus says of a stage: as the condition, but "Completed" for Succeeded. */
const char *job_stage_word(enum job_condition_type stage);
/* One that isn't in the status isn't on, and has no words. Borrowed until the next one is added. */
const struct job_condition *job_condition(const struct job_status *s, enum job_condition_type type);
bool job_condition_present(const struct job_status *s, enum job_condition_type type);
static inline bool job_condition_on(const struct job_status *s, enum job_condition_type type)
{
	return job_condition(s, type)->on;
}
/* The same as job_condition, added where it isn't there yet. */
struct job_condition *job_condition_need(struct job_status *s, enum job_condition_type type);

/* "NAME-worker-N", N counted through all instances. */
char *job_worker_name(const struct job *job, uint32_t instance, uint32_t worker);
/* "NAME-launcher", "NAME-launcher-1" … */
char *job_launcher_name(const struct job *job, uint32_t instance);
bool job_has_launcher(const struct job *job); /* a launcher Pod: launcher or interactive */
char *job_selector(const struct job *job);    /* for status.selector */
/* What Graphcore's operator 1.2 called an instance's partition; the caller frees. */
char *job_legacy_partition(const struct job *job, uint32_t instance);
/* An instance's ask, of its present run. Borrows from the job: use at once. */
struct partition_ask job_ask(const struct job *job, uint32_t instance);
/* What the status remembers of an instance; all 0 where it says nothing. */
const struct job_instance *job_memory(const struct job *job, uint32_t instance);
const char *job_instance_phase_name(enum job_instance_phase phase);

#endif
