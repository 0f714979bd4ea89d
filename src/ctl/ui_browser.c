/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's browser: those that $BROWSER names (with colons between), else xdg-open, each with the
 * address as its only argument, without a shell. It lives on when we end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/ui.h"

struct ui_browser {
	struct loop_signal on_child;
	bool is_watched;
	pid_t pid; /* 0: none, or it has ended */
	char *name;
};

static bool is_set(const char *variable)
{
	const char *z = getenv(variable);

	return z && z[0];
}

/* In a session of its own, so that Ctrl-C is ours alone; its words go nowhere. */
static int spawn(char *name, const char *address, pid_t *ret)
{
	char *argv[] = {name, xstrdup(address), NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigemptyset(&all);
	sigaddset(&all, SIGPIPE);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
						POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(ret, name, &actions, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	free(argv[1]);
	return rc;
}

static void on_child(struct loop_signal *signal, int signum, void *arg)
{
	struct ui_browser *b = arg;
	int status;

	(void)signal;
	(void)signum;
	if (!b->pid || waitpid(b->pid, &status, WNOHANG) != b->pid)
		return;
	b->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		fprintf(stderr,
			"ipuctl: %s ended with status %d: open the address above in a browser\n",
			b->name, WEXITSTATUS(status));
}

static void start_one_of(struct ui_browser *b, const char *names, const char *address)
{
	struct str name, rest = str_of(names);
	int rc = ENOENT;

	while (rc != 0 && rest.len > 0) {
		str_cut(rest, ':', &name, &rest);
		if (name.len == 0)
			continue;
		free(b->name);
		b->name = str_dup(name);
		rc = spawn(b->name, address, &b->pid);
	}
	if (rc == 0)
		return;
	b->pid = 0;
	fprintf(stderr, "ipuctl: %s: %s: open the address above in a browser\n",
		b->name ? b->name : "BROWSER", strerror(rc));
}

struct ui_browser *ui_browser_start(struct loop *loop, const char *address)
{
	struct ui_browser *b = xcalloc(1, sizeof(*b));

	if (!is_set("BROWSER") && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY"))
		return b;
	loop_signal_start(&b->on_child, loop, SIGCHLD, on_child, b);
	b->is_watched = true;
	start_one_of(b, is_set("BROWSER") ? getenv("BROWSER") : "xdg-open", address);
	return b;
}

void ui_browser_free(struct ui_browser *b)
{
	if (!b)
		return;
	if (b->is_watched)
		loop_signal_stop(&b->on_child);
	free(b->name);
	free(b);
}
