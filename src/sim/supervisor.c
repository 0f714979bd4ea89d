/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervises one process of a simulated container. It lives as long as any descendant does and the
 * simulator holds the other end of its socket: the kernel closes that one, however the simulator
 * ends. Uses no memory of the simulator's but its options.
 */
#include "sim/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_SIGNAL 31

static void say(int control, enum supervisor_word word, int value)
{
	const struct supervisor_packet packet = {word, value};
	/* A simulator that has gone hears nothing. */
	(void)!send(control, &packet, sizeof(packet), MSG_NOSIGNAL);
}

/* ---- the process ---- */

_Noreturn static void become(const struct supervisor_opts *o, pid_t parent)
{
	sigset_t none;

	setsid();
	if (o->tty)
		ioctl(o->in, TIOCSCTTY, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (int i = 1; i <= LAST_SIGNAL; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(o->in, 0) < 0 || dup2(o->out, 1) < 0 || dup2(o->err, 2) < 0)
		_exit(1);
	if (chdir(o->dir) < 0) {
		say(o->control, SUPERVISOR_CANT_ENTER, errno);
		_exit(1);
	}
	environ = o->env;
	execvp(o->argv[0], o->argv);
	say(o->control, SUPERVISOR_CANT_RUN, errno);
	_exit(1);
}

/* ---- its end ---- */

/* Our children, which all orphans among our descendants become. */
static size_t list_children(pid_t *ret, size_t most)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	size_t n = 0;
	int pid;

	while (f && n < most && fscanf(f, "%d", &pid) == 1)
		ret[n++] = (pid_t)pid;
	if (f)
		fclose(f);
	return n;
}

static void reaped(const struct supervisor_opts *o, pid_t pid, pid_t *main_pid, int status)
{
	if (pid != *main_pid)
		return;
	*main_pid = 0;
	say(o->control, SUPERVISOR_ENDED, status);
}

/* Until nobody is left: whoever dies leaves its children to us. */
static void kill_all(const struct supervisor_opts *o, pid_t *main_pid)
{
	pid_t children[256];
	int status;

	for (;;) {
		size_t n = list_children(children, sizeof(children) / sizeof(children[0]));
		for (size_t i = 0; i < n; i++)
			kill(children[i], SIGKILL);
		pid_t pid = waitpid(-1, &status, n > 0 ? 0 : WNOHANG);
		if (pid > 0)
			reaped(o, pid, main_pid, status);
		else if (pid < 0 && errno == ECHILD)
			return;
	}
}

/* False when no child is left. */
static bool reap(const struct supervisor_opts *o, pid_t *main_pid)
{
	pid_t pid, had = *main_pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		reaped(o, pid, main_pid, status);
	bool left = pid == 0;
	if (had && !*main_pid && o->ends_others) {
		kill_all(o, main_pid);
		left = false;
	}
	return left;
}

/* ---- its work ---- */

/* The simulator's descriptors mustn't live on here: ports and connections. */
static void close_others(const struct supervisor_opts *o)
{
	int keep[] = {o->control, o->in, o->out, o->err};
	unsigned from = 3;

	for (;;) {
		int next = -1;
		for (size_t i = 0; i < 4; i++)
			if (keep[i] >= (int)from && (next < 0 || keep[i] < next))
				next = keep[i];
		if (next < 0)
			break;
		if ((unsigned)next > from)
			close_range(from, (unsigned)next - 1, 0);
		from = (unsigned)next + 1;
	}
	close_range(from, ~0U, 0);
}

static void to_null(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 2 && null >= 0; fd++)
		dup2(null, fd);
}

_Noreturn void supervisor_run(const struct supervisor_opts *o)
{
	struct pollfd watched[2];
	sigset_t child;
	pid_t main_pid, self = getpid();

	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	close_others(o);
	for (int i = 1; i <= LAST_SIGNAL; i++)
		signal(i, SIG_DFL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	watched[0] = (struct pollfd){.fd = o->control, .events = POLLIN};
	watched[1] = (struct pollfd){.fd = signalfd(-1, &child, SFD_CLOEXEC), .events = POLLIN};
	main_pid = fork();
	if (main_pid == 0)
		become(o, self);
	if (main_pid < 0 || watched[1].fd < 0)
		_exit(1);
	/* Its ends are its own: that they close must be seen. */
	close(o->in);
	close(o->out);
	close(o->err);
	to_null();
	for (;;) {
		struct supervisor_packet packet;
		struct signalfd_siginfo info;
		if (poll(watched, 2, -1) < 0)
			continue;
		if (watched[1].revents) {
			(void)!read(watched[1].fd, &info, sizeof(info));
			if (!reap(o, &main_pid))
				_exit(0);
		}
		if (!watched[0].revents)
			continue;
		ssize_t n = recv(o->control, &packet, sizeof(packet), 0);
		if (n == (ssize_t)sizeof(packet) && packet.word == SUPERVISOR_TERMINATE) {
			if (main_pid)
				kill(main_pid, SIGTERM);
		} else if (n >= 0 || errno != EINTR) {
			kill_all(o, &main_pid);
			_exit(0);
		}
	}
}
