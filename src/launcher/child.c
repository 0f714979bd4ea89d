/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork and exec; a pipe that exec closes tells whether it came to that. Uses core.
 */
#include "launcher/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/str.h"
#include "launcher/fdio.h"

struct pipes {
	int stdio[3][2]; /* 0 is read from, 1 written to */
	int told[2];     /* an errno, if exec failed */
};

static void close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		if (pair[i] >= 0)
			close(pair[i]);
		pair[i] = -1;
	}
}

static void pipes_done(struct pipes *p)
{
	for (int i = 0; i < 3; i++)
		close_pair(p->stdio[i]);
	close_pair(p->told);
}

static int pipes_open(struct pipes *p, struct err *err)
{
	memset(p, 0xff, sizeof(*p)); /* -1 everywhere */
	bool fine = pipe2(p->told, O_CLOEXEC) == 0;
	for (int i = 0; i < 3 && fine; i++)
		fine = pipe2(p->stdio[i], O_CLOEXEC) == 0;
	if (fine)
		return 0;
	err_errno(err, errno, "a pipe");
	pipes_done(p);
	return -1;
}

__attribute__((noreturn)) static void run(const struct pipes *p, char *const *args,
					  char *const *env)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int signum = 1; signum < NSIG; signum++)
		signal(signum, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	bool fine = true;
	for (int i = 0; i < 3; i++)
		fine = fine && dup2(p->stdio[i][i == 0 ? 0 : 1], i) == i;
	for (size_t i = 0; env[i]; i++)
		putenv(env[i]);
	if (fine)
		execvp(args[0], args);
	int errnum = errno;
	ssize_t n = write(p->told[1], &errnum, sizeof(errnum));
	_exit(n < 0 ? 126 : 127);
}

/* Blocks for as long as exec takes. */
static int wait_for_exec(struct pipes *p, pid_t pid, const char *name, struct err *err)
{
	int errnum = 0;
	ssize_t n;
	close(p->told[1]);
	p->told[1] = -1;
	do {
		n = read(p->told[0], &errnum, sizeof(errnum));
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return 0;
	waitpid(pid, NULL, 0);
	return err_errno(err, n == (ssize_t)sizeof(errnum) ? errnum : EIO, "%s", name);
}

int child_start(char *const *args, char *const *env, struct child *ret, struct err *err)
{
	struct pipes p;
	struct child child;
	if (pipes_open(&p, err) < 0)
		return -1;
	child.pid = fork();
	if (child.pid == 0)
		run(&p, args, env);
	int status = child.pid < 0 ? err_errno(err, errno, "fork")
				   : wait_for_exec(&p, child.pid, args[0], err);
	for (int i = 0; i < 3 && status == 0; i++)
		status = fdio_set_nonblocking(p.stdio[i][i == 0 ? 1 : 0], err);
	for (int i = 0; i < 3 && status == 0; i++) {
		child.stdio[i] = p.stdio[i][i == 0 ? 1 : 0];
		p.stdio[i][i == 0 ? 1 : 0] = -1;
	}
	pipes_done(&p);
	if (status == 0)
		*ret = child;
	return status;
}

int child_exit_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
