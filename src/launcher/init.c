/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher init: PID 1 of containers that wait: workers until a launcher starts something in
 * them, interactive launchers until their time is over. Reaps what is handed to PID 1; at its end
 * nothing is left running. Uses loop and core.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/str.h"
#include "launcher/launcher.h"
#include "launcher/tree.h"
#include "loop/loop.h"

#define GRACE_S   25   /* a Pod has 30 unless it says otherwise */
#define LOOK_S    0.02 /* an exec's first process isn't our child: its end is seen, not told */
#define FOR_MAX_S (INT64_C(10) * 366 * 86400)

struct init {
	struct loop *loop;
	struct loop_signal signals[4];
	struct loop_timer end; /* --for, then the grace period */
	struct ev_timer look;  /* while it ends; in real time, whatever a test's clock says */
	int64_t for_s, grace_s;
	bool is_first; /* PID 1: all that it sees is its own */
	bool ending, killing;
};

/* How many others there are, after sending them signum. */
static int signal_all(struct init *init, int signum)
{
	if (!init->is_first)
		return tree_signal(getpid(), signum, NULL);
	if (kill(-1, signum) < 0)
		return 0;                   /* ESRCH: nobody */
	return tree_signal(0, 0, NULL) - 1; /* an exec's parent is outside, 0 as ours is */
}

static void reap(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void look(struct init *init)
{
	reap();
	if (signal_all(init, init->killing ? SIGKILL : 0) <= 0)
		loop_stop(init->loop, EXIT_SUCCESS);
}

static void on_look(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
	(void)ev, (void)revents;
	look(timer->data);
}

/* A shell at a terminal ignores TERM and ends at HUP; what is stopped sees neither without CONT. */
static void begin_end(struct init *init)
{
	init->ending = true;
	signal_all(init, SIGTERM);
	signal_all(init, SIGHUP);
	signal_all(init, SIGCONT);
	loop_timer_start_in(&init->end, init->grace_s * 1000);
	ev_timer_start(loop_ev(init->loop), &init->look);
	look(init);
}

static void on_end(struct loop_timer *timer, void *arg)
{
	struct init *init = arg;
	(void)timer;
	if (init->ending)
		init->killing = true;
	else
		begin_end(init);
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	struct init *init = arg;
	(void)s;
	if (signum == SIGCHLD)
		reap();
	else if (!init->ending)
		begin_end(init);
}

static int parse_options(struct init *init, int argc, char **argv)
{
	static const struct option options[] = {
		{"for", required_argument, NULL, 'f'},
		{"grace", required_argument, NULL, 'g'},
		{NULL, 0, NULL, 0},
	};
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (option) {
		case 'f':
			if (launcher_number_option("for", argv, 1, FOR_MAX_S, &init->for_s) != 0)
				return EXIT_USAGE;
			break;
		case 'g':
			if (launcher_number_option("grace", argv, 0, FOR_MAX_S, &init->grace_s) !=
			    0)
				return EXIT_USAGE;
			break;
		default:
			return launcher_bad_option(option, argv);
		}
	}
	if (optind != argc)
		return launcher_fail(EXIT_USAGE, "init: it takes no operands");
	return 0;
}

int launcher_init(int argc, char **argv)
{
	static const int signums[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
	struct init init = {.grace_s = GRACE_S, .is_first = getpid() == 1};
	struct err err = ERR_INIT;
	int status = parse_options(&init, argc, argv);
	if (status != 0)
		return status;
	if (tree_adopt_orphans(&err) < 0 || loop_new(&init.loop, &err) < 0)
		return launcher_fail(EXIT_FAILURE, "init: %s", err.msg);
	for (size_t i = 0; i < sizeof(signums) / sizeof(signums[0]); i++)
		loop_signal_start(&init.signals[i], init.loop, signums[i], on_signal, &init);
	loop_timer_init(&init.end, init.loop, on_end, &init);
	ev_timer_init(&init.look, on_look, LOOK_S, LOOK_S);
	init.look.data = &init;
	if (init.for_s > 0)
		loop_timer_start_in(&init.end, init.for_s * 1000);
	status = loop_run(init.loop);
	for (size_t i = 0; i < sizeof(signums) / sizeof(signums[0]); i++)
		loop_signal_stop(&init.signals[i]);
	loop_timer_stop(&init.end);
	ev_timer_stop(loop_ev(init.loop), &init.look);
	loop_free(init.loop);
	return status;
}
