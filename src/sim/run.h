/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that run: their containers as processes of this machine, with folders for volumes, logs, and
 * commands that are run in them. The kubelet decides when; status is its own. Whoever wires the
 * program owns the struct sim_run and frees it last. Uses core, loop and the simulator's store.
 */
#ifndef IPU_SIM_RUN_H
#define IPU_SIM_RUN_H

#include "core/json.h"
#include "core/list.h"
#include "loop/loop.h"
#include "sim/api.h"
#include "sim/task.h"

struct sim_run;
struct sim_run_pod;
struct sim_container;

struct sim_run_config {
	struct loop *loop;
	struct sim_objects *objects;
	struct sim_api *api;
	const char *const *programs; /* "NAME=PATH": a command's first word NAME is PATH here */
	size_t n_programs;
};

/* ERR_INVALID: a program that isn't NAME=PATH. */
int sim_run_new(const struct sim_run_config *config, struct sim_run **ret, struct err *err);
/* All Pods have been freed. Ends what is left, and removes the folder. NULL is fine. */
void sim_run_free(struct sim_run *run);
/* Where Pods reach the API: copied. Before the first Pod. */
void sim_run_set_api(struct sim_run *run, const char *host, unsigned port, const char *ca_pem);

/* ---- for the kubelet ---- */

/* Makes the Pod's folder and volumes. changed is called when a container has ended, never from
 * within a call. Errors, in a kubelet's words: what is missing may come, so it may be tried again.
 */
int sim_run_pod_new(struct sim_run *run, const struct json *pod, void (*changed)(void *arg),
		    void *arg, struct sim_run_pod **ret, struct err *err);
/* Starts a container by its place, an init container or another. Errors: ERR_NOT_FOUND and
 * ERR_UNSUPPORTED (its environment), ERR_INVALID (no command), ERR_LIMIT (too many), ERR_IO. */
int sim_run_pod_start(struct sim_run_pod *p, const struct json *pod, bool init, size_t place,
		      struct err *err);
struct sim_ended {
	int code;
	const char *message; /* its own, or why it couldn't start; "" */
	bool started;
};
bool sim_run_pod_ended(const struct sim_run_pod *p, bool init, size_t place, struct sim_ended *ret);
bool sim_run_pod_runs(const struct sim_run_pod *p); /* any container does */
void sim_run_pod_terminate(struct sim_run_pod *p);
void sim_run_pod_kill(struct sim_run_pod *p);
/* Kills what runs, removes the folder; those who follow logs or are attached are told. NULL is
 * fine. */
void sim_run_pod_free(struct sim_run_pod *p);

/* ---- for the API ---- */

/* By the Pod's UID and the container's name; NULL: not there, or never started. */
struct sim_container *sim_run_find(struct sim_run *run, struct str uid, struct str name);
bool sim_container_runs(const struct sim_container *c);

/* A command in it: handler as for a task. Its mount points are replaced. The caller gives the task
 * back by sim_run_release, and doesn't free it: the process goes on until its end or the
 * container's. */
struct sim_exec_opts {
	const struct json *command; /* an array of strings */
	bool has_stdin, tty;
};
int sim_container_exec(struct sim_container *c, const struct sim_exec_opts *opts,
		       const struct sim_task_handler *handler, void *arg, struct sim_task **ret,
		       struct err *err);
void sim_run_release(struct sim_run *run, struct sim_task *task);

/* What is attached to a container's own process: sees its output from now on, and its end. */
struct sim_tap {
	struct list link;
	struct sim_container *c; /* NULL: it has ended */
	bool pauses;
	void (*on_output)(enum sim_stream stream, struct str data, void *arg);
	void (*on_writable)(void *arg);
	void (*on_end)(void *arg);
	void *arg;
};
void sim_container_attach(struct sim_container *c, struct sim_tap *tap);
void sim_container_detach(struct sim_tap *tap);
void sim_tap_pause(struct sim_tap *tap, bool on);
struct sim_task *sim_container_task(struct sim_container *c); /* for its input; NULL: ended */
bool sim_container_has_stdin(const struct sim_container *c);

/* A container's output, the newest part of it. Counted. */
#define SIM_LOG_BYTES ((size_t)1 << 20)
struct sim_log {
	unsigned refs;
	struct buf text;
	uint64_t begin; /* what was dropped before text */
	bool ended;
	struct list watchers;
};
struct sim_log_watcher {
	struct list link;
	void (*on_more)(void *arg); /* more, or ended */
	void *arg;
};
struct sim_log *sim_container_log(struct sim_container *c);
struct sim_log *sim_log_ref(struct sim_log *log);
void sim_log_unref(struct sim_log *log);

#endif
