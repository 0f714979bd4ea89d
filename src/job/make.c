/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods as they are created: which of the ways to tell values is taken, and what marks are put on.
 */
#include "job/make.h"

#include "core/str.h"
#include "job/files.h"
#include "job/launcher.h"
#include "job/queue.h"

/* What a container is told of a partition. files: the name of the instance's ConfigMap. Borrows
 * from both. */
static struct job_ipus ipus_of(const struct partition_status *part, const char *files, uint32_t gcd)
{
	return (struct job_ipus){
		.values = part->by_file ? JOB_VALUES_FILE : JOB_VALUES_LITERAL,
		.config_map = files,
		.partition_id = part->id,
		.host = part->host,
		.port = part->port,
		.gcd = gcd,
		.label_key = part->label_key,
		.label_value = part->label_value,
	};
}

int job_make_pod(struct jmut_doc *doc, const struct job *job, const struct json *spec,
		 uint32_t instance, uint32_t worker, bool launcher,
		 const struct partition_status *part, enum job_group_api api,
		 const struct job_pod_settings *settings, struct err *err)
{
	CLEANUP_FREE char *files = job_files_name(job, instance);
	struct job_ipus ipus = ipus_of(part, files, worker);
	bool queued = job->queue_name && !launcher;

	if (queued)
		ipus = (struct job_ipus){
			.values = JOB_VALUES_KEYS, .config_map = files, .gcd = worker};
	if (launcher)
		return job_launcher_build(doc, job, spec, instance, &ipus, settings, err);
	if (job_pod_build(doc, job, spec, instance, worker, &ipus, settings, err) < 0)
		return -1;
	if (queued)
		job_queue_mark(doc, job, instance);
	if (job->group_hash)
		job_group_mark(doc, job, instance, api);
	return 0;
}
