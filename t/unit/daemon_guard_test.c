/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the seccomp filter has refused, as the log and the metric tell it. The process is confined
 * for good by this, so everything is in one test.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "daemon/internal.h"
#include "tap.h"

static char said[4096];
static int from_log;

static const char *hear(void)
{
	ssize_t n = read(from_log, said, sizeof(said) - 1);

	said[n > 0 ? n : 0] = '\0';
	return said;
}

static void turn(struct loop *loop, int n)
{
	while (n-- > 0)
		loop_turn(loop, 0);
}

static void refuse(int call, int times)
{
	while (times-- > 0)
		ok(syscall(call, -1, 0, 0, 0) < 0, "call %d", call);
}

static double counted(void)
{
	struct buf out = BUF_INIT(65536);
	const char *at;
	double value = -1;

	if (metrics_write(&out, METRICS_TEXT, NULL) == 0 && buf_append(&out, "", 1, NULL) == 0 &&
	    (at = strstr(out.p, "\nipu_operator_refused_calls_total ")))
		value = strtod(strchr(at, ' '), NULL);
	buf_done(&out);
	return value;
}

int main(void)
{
	struct config c = {.seccomp = (char[]){"enforce"}};
	struct loop *loop;
	struct guard *g;
	struct err err;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0 || loop_new(&loop, &err) < 0)
		bail_out("setup");
	from_log = fds[0];
	log_init(LOG_INFO, LOG_TEXT, fds[1]);
	clock_freeze(1000, 1000);
	g = guard_new(loop, &c, false);
	turn(loop, 3);
	is_str(hear(), "", "nothing is said of nothing");
	ok(counted() == 0, "and nothing counted");

	refuse(SYS_setuid, 2);
	turn(loop, 3);
	has_str(hear(), "calls=", "a line at once");
	{
		CLEANUP_FREE char *want = xasprintf("calls=%d*2 number=2\n", SYS_setuid);
		has_str(said, want, "the call and how often");
	}

	/* Others meanwhile are told together, when ten seconds are over. */
	refuse(SYS_setuid, 1);
	refuse(SYS_execveat, 3);
	turn(loop, 3);
	is_str(hear(), "", "nothing more for now");
	clock_advance(9999);
	turn(loop, 3);
	is_str(hear(), "", "nor a little later");
	ok(counted() == 6, "they are counted at once");
	clock_advance(1);
	turn(loop, 3);
	hear();
	{
		CLEANUP_FREE char *one = xasprintf("%d*1", SYS_setuid),
				  *other = xasprintf("%d*3", SYS_execveat);
		has_str(said, one, "then both are told");
		has_str(said, other, "with their numbers");
	}
	has_str(said, "number=4\n", "and their sum");

	/* What comes after a quiet time is told at once, what comes last at the end. */
	clock_advance(10000);
	turn(loop, 3);
	is_str(hear(), "", "quiet");
	refuse(SYS_setuid, 1);
	turn(loop, 3);
	has_str(hear(), "number=1\n", "at once again");
	refuse(SYS_setuid, 1);
	guard_free(g);
	has_str(hear(), "number=1\n", "the last one at the end");
	loop_free(loop);
	return done_testing();
}
