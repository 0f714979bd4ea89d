/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper process: runs the plugin when it's asked to, one at a time, and sends back what it
 * wrote. It keeps no time; the program cancels. Plain poll(2), no loop, nothing above core/.
 */
#include "exec_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/str.h"
#include "kube/exec_helper.h"

struct run {
	pid_t pid;
	int pidfd, out, err; /* -1: ended */
	struct buf out_buf;
	char err_tail[KUBE_EXEC_STDERR_BYTES];
	size_t err_len;
};

static bool tell(int fd, const void *p, size_t len)
{
	return file_write_all(fd, (struct str){p, len}, NULL) == 0;
}

static bool read_request(int fd, struct kube_exec_request *req)
{
	char *at = (char *)req;
	size_t len = sizeof(*req);
	while (len > 0) {
		ssize_t n = read(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* In the plugin's process: never returns. */
__attribute__((noreturn)) static void become(const struct kube_exec_config *exec, int out, int err,
					     int report)
{
	size_t n = 0;
	while (exec->args[n])
		n++;
	char **argv = xcalloc(n + 2, sizeof(*argv));
	argv[0] = exec->command;
	memcpy(argv + 1, exec->args, n * sizeof(*argv));

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0)
		execvp(exec->command, argv);
	int why = errno;
	(void)tell(report, &why, sizeof(why));
	_exit(127);
}

static void run_done(struct run *r)
{
	close_fd(&r->pidfd);
	close_fd(&r->out);
	close_fd(&r->err);
	buf_done(&r->out_buf);
	str_wipe(r->err_tail, sizeof(r->err_tail));
}

/* 0, or an errno: then nothing runs. */
static int start(const struct kube_exec_config *exec, struct run *r)
{
	int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1}, why = 0;
	*r = (struct run){.pid = -1, .pidfd = -1, .out = -1, .err = -1};
	buf_init_secret(&r->out_buf, KUBE_EXEC_MAX_OUTPUT_BYTES);
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
		why = errno;
	if (why == 0 && (r->pid = fork()) < 0)
		why = errno;
	if (why == 0 && r->pid == 0)
		become(exec, out[1], err[1], report[1]);
	close_fd(&out[1]);
	close_fd(&err[1]);
	close_fd(&report[1]);
	if (why == 0) {
		ssize_t n;
		setpgid(r->pid, r->pid);
		do
			n = read(report[0], &why, sizeof(why));
		while (n < 0 && errno == EINTR);
		if (n != (ssize_t)sizeof(why))
			why = 0; /* closed by exec: it runs */
		else
			waitpid(r->pid, NULL, 0);
	}
	close_fd(&report[0]);
	r->out = out[0];
	r->err = err[0];
	if (why == 0) {
		r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
		fcntl(r->out, F_SETFL, O_NONBLOCK);
		fcntl(r->err, F_SETFL, O_NONBLOCK);
	} else {
		run_done(r);
	}
	return why;
}

/* Reads all that is there, tokens and keys: nothing of it stays on the stack. False: more than the
 * limit. */
static bool take_output(struct run *r)
{
	char bytes[4096];
	bool fits = true;
	while (r->out >= 0 && fits) {
		ssize_t n = read(r->out, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			close_fd(&r->out);
		else
			fits = buf_append(&r->out_buf, bytes, (size_t)n, NULL) == 0;
	}
	str_wipe(bytes, sizeof(bytes));
	return fits;
}

static void take_errors(struct run *r)
{
	char bytes[KUBE_EXEC_STDERR_BYTES / 2];
	for (int budget = 64; r->err >= 0 && budget > 0; budget--) {
		ssize_t n = read(r->err, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			close_fd(&r->err);
			break;
		}
		size_t len = (size_t)n;
		if (r->err_len + len > sizeof(r->err_tail)) { /* keep the end */
			size_t drop = r->err_len + len - sizeof(r->err_tail);
			memmove(r->err_tail, r->err_tail + drop, r->err_len - drop);
			r->err_len -= drop;
		}
		memcpy(r->err_tail + r->err_len, bytes, len);
		r->err_len += len;
	}
}

/* Until it has exited, says too much, or is cancelled. Ends the process when the program is gone.
 */
static enum kube_exec_outcome attend(struct run *r, int sock, uint32_t seq)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = sock, .events = POLLIN},
			{.fd = r->pidfd, .events = POLLIN},
			{.fd = r->out, .events = POLLIN},
			{.fd = r->err, .events = POLLIN},
		};
		/* Without a pidfd, the pipes' ends stand for the plugin's. */
		if (r->pidfd < 0 && r->out < 0 && r->err < 0)
			return KUBE_EXEC_EXITED;
		if (poll(fds, 4, -1) < 0)
			continue;
		if (fds[0].revents) {
			struct kube_exec_request req;
			if (!read_request(sock, &req)) {
				kill(-r->pid, SIGKILL);
				_exit(0);
			}
			if (req.ask == KUBE_EXEC_CANCEL && req.seq == seq)
				return KUBE_EXEC_CANCELLED;
		}
		take_errors(r);
		if (!take_output(r))
			return KUBE_EXEC_TOO_MUCH;
		if (fds[1].revents)
			return KUBE_EXEC_EXITED;
	}
}

static void serve_run(int sock, const struct kube_exec_config *exec, uint32_t seq)
{
	struct run r;
	struct kube_exec_reply reply = {.seq = seq};
	int why = start(exec, &r);
	if (why != 0) {
		reply.outcome = KUBE_EXEC_CANT_START;
		reply.code = why;
		if (!tell(sock, &reply, sizeof(reply)))
			_exit(0);
		return;
	}
	reply.outcome = (uint32_t)attend(&r, sock, seq);
	kill(-r.pid,
	     SIGKILL); /* it, or what it left behind; not reaped yet, so the id is its own */
	int status = 0;
	while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR)
		;
	reply.code = status;
	if (reply.outcome == KUBE_EXEC_EXITED) {
		reply.out_len = (uint32_t)r.out_buf.len;
		reply.err_len = (uint32_t)r.err_len;
	}
	bool sent = tell(sock, &reply, sizeof(reply)) && tell(sock, r.out_buf.p, reply.out_len) &&
		    tell(sock, r.err_tail, reply.err_len);
	run_done(&r);
	if (!sent)
		_exit(0);
}

void kube_exec_child(int sock, const struct kube_exec_config *exec)
{
	struct kube_exec_request req;
	sigset_t none;
	int null_fd = open("/dev/null", O_RDONLY);

	prctl(PR_SET_NAME, "ipu-credentials");
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is the program's to handle */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	if (null_fd >= 0)
		dup2(null_fd, STDIN_FILENO);
	if (sock != 3 && dup2(sock, 3) < 0)
		_exit(1);
	fcntl(3, F_SETFD, FD_CLOEXEC);
	close_range(4, ~0U, 0);
	for (size_t i = 0; exec->env[i]; i++)
		putenv(exec->env[i]);
	setenv("KUBERNETES_EXEC_INFO", exec->info, 1);

	while (read_request(3, &req))
		if (req.ask == KUBE_EXEC_RUN)
			serve_run(3, exec, req.seq);
	_exit(0);
}
