/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPI's and PopDist's programs find in their environment, so that they need no flags. All of
 * it gives way to what the user's template and launcher.env say. Private to src/job.
 */
#ifndef IPU_JOB_LAUNCHER_ENV_H
#define IPU_JOB_LAUNCHER_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "core/json.h"
#include "job/model.h"
#include "job/pod.h"

#define JOB_MPI_VOLUME      "mpi-config"
#define JOB_MPI_DIR         "/etc/mpi" /* where a launcher finds the files of NAME-config */
#define JOB_MPI_SCRIPT      "kubeexec.sh"
#define JOB_MPI_HOSTFILE    "hostfile"    /* as Open MPI reads it: NAME slots=N */
#define JOB_MPI_MACHINEFILE "machinefile" /* as hydra reads it: NAME:N */

/* The launcher's main container. at: where in its environment; pod_spec: whether Pods have the
 * node's network and IPC. */
void job_mpi_apply(struct jmut_doc *doc, struct jmut *container, size_t at,
		   const struct jmut *pod_spec, const struct job_pod_settings *settings);

/* The first container of a worker, for launchers that aren't poprun: one process a worker, each
 * with the same number of replicas. Nothing where the job doesn't say how many there are. */
void job_popdist_apply(struct jmut_doc *doc, struct jmut *container, const struct job *job,
		       uint32_t worker);

/* Mounts the files of NAME-config on JOB_MPI_DIR: the script and an instance's lists of hosts for a
 * launcher; with NULL the script alone, for a worker: Open MPI's daemon in it looks for the agent,
 * and ends if it isn't there, though it never starts it. */
void job_mpi_files(struct jmut_doc *doc, struct jmut *pod_spec, struct jmut *container,
		   const struct job *job, const uint32_t *instance);

#endif
