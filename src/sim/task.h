/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process on this machine with all that it starts, as a container has it: under a supervisor of
 * its own, which ends every descendant when it's told to, or when the simulator is gone. Its owner
 * frees it. Uses core and loop.
 */
#ifndef IPU_SIM_TASK_H
#define IPU_SIM_TASK_H

#include <stdbool.h>

#include "core/err.h"
#include "core/str.h"
#include "loop/loop.h"

struct sim_task;

enum sim_stream { SIM_STDOUT = 1, SIM_STDERR = 2 };

/* None is called from within a call of ours, none after sim_task_detach or sim_task_free. Each may
 * call anything of this header. */
struct sim_task_handler {
	void (*on_output)(enum sim_stream stream, struct str data, void *arg);
	void (*on_writable)(void *arg); /* after sim_task_write took less than all; NULL: nobody */
	/* Once: the process has ended, and its output has. status as a shell's: 128 + N for signal
	 * N. error: it couldn't be started, and why; else NULL. */
	void (*on_end)(int status, const char *error, void *arg);
};

struct sim_task_opts {
	struct loop *loop;
	char *const *argv; /* found in env's PATH, where it has no slash */
	char **env;
	const char *dir;  /* to run in */
	bool has_stdin;   /* else /dev/null */
	bool tty;         /* a terminal: output is all SIM_STDOUT */
	bool ends_others; /* what it has started goes when it ends; else it stays until it's killed
			   */
};

/* handler is static. Everything is copied. ERR_IO. */
int sim_task_start(const struct sim_task_opts *opts, const struct sim_task_handler *handler,
		   void *arg, struct sim_task **ret, struct err *err);
/* How much its stdin took; less than all: the rest after on_writable. All, once it has ended. */
size_t sim_task_write(struct sim_task *t, struct str data);
void sim_task_close_stdin(struct sim_task *t);    /* behind what was written; on a terminal: ^D */
void sim_task_pause(struct sim_task *t, bool on); /* no on_output meanwhile */
void sim_task_terminate(struct sim_task *t);      /* SIGTERM to the process */
void sim_task_kill(struct sim_task *t);           /* SIGKILL to it and all that it has started */
void sim_task_resize(struct sim_task *t, unsigned columns, unsigned rows);
/* Nobody is told of it any more, its input ends, and its output is read and dropped. */
void sim_task_detach(struct sim_task *t);
bool sim_task_is_gone(const struct sim_task *t); /* nothing of it is left on this machine */
/* Kills all of it, and waits until it has gone (SIGKILL: at once). NULL is fine. */
void sim_task_free(struct sim_task *t);

#endif
