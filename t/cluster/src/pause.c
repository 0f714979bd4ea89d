/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pause: what runs in a Pod's sandbox container of the test clusters. It holds the Pod's
 * namespaces, reaps what is left to it (it is PID 1 where a Pod shares its process namespace), and
 * ends at SIGTERM or SIGINT. Static, stands alone, uses nothing of the project.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

static void reap_all(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

int main(void)
{
	sigset_t wanted;
	int number;

	sigemptyset(&wanted);
	sigaddset(&wanted, SIGCHLD);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGINT);
	if (sigprocmask(SIG_BLOCK, &wanted, NULL) < 0)
		return 1;
	for (;;) {
		number = sigwaitinfo(&wanted, NULL);
		if (number == SIGTERM || number == SIGINT)
			return 0;
		if (number < 0 && errno != EINTR)
			return 1;
		reap_all();
	}
}
