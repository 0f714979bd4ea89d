/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/PID/stat of all processes and follows the parents. A process that forks meanwhile
 * can escape one look, so callers look again until nothing is left. Uses core.
 */
#include "launcher/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/str.h"

struct proc {
	pid_t pid, parent;
	bool zombie, ours;
};

int tree_adopt_orphans(struct err *err)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_errno(err, errno, "PR_SET_CHILD_SUBREAPER");
	return 0;
}

/* "PID (COMM) STATE PPID …" (proc(5)); the name may hold anything, so its end is the last ')'. */
static bool read_proc(int dir_fd, const char *name, struct proc *ret)
{
	char path[300], text[512];
	snprintf(path, sizeof(path), "%s/stat", name);
	/* NOLINTNEXTLINE(clang-analyzer-unix.StdCLibraryFunctions): dirfd() of an open one */
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* it has gone */
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	const char *end = strrchr(text, ')');
	char state;
	int parent;
	if (!end || sscanf(end + 1, " %c %d", &state, &parent) != 2)
		return false;
	*ret = (struct proc){.pid = (pid_t)atoi(name), .parent = parent, .zombie = state == 'Z'};
	return true;
}

static size_t read_procs(DIR *dir, struct proc **ret)
{
	struct proc *procs = NULL;
	size_t n = 0, cap = 0;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (n == cap) {
			cap = cap ? 2 * cap : 64;
			procs = xrealloc(procs, cap * sizeof(*procs));
		}
		if (read_proc(dirfd(dir), entry->d_name, &procs[n]))
			n++;
	}
	*ret = procs;
	return n;
}

static int compare_pids(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void mark(struct proc *procs, size_t n, pid_t root)
{
	qsort(procs, n, sizeof(*procs), compare_pids);
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			struct proc key = {.pid = procs[i].parent};
			const struct proc *parent = bsearch(&key, procs, n, sizeof(*procs),
							    compare_pids);
			if (procs[i].ours ||
			    (procs[i].parent != root && (!parent || !parent->ours)))
				continue;
			procs[i].ours = changed = true;
		}
	}
}

int tree_signal(pid_t root, int signum, struct err *err)
{
	int count = 0;
	struct proc *procs;
	DIR *dir = opendir("/proc");
	if (!dir)
		return err_errno(err, errno, "/proc");
	size_t n = read_procs(dir, &procs);
	closedir(dir);
	if (n > 0)
		mark(procs, n, root);
	for (size_t i = 0; i < n; i++) {
		if (!procs[i].ours || procs[i].zombie)
			continue;
		count++;
		if (signum != 0)
			kill(procs[i].pid, signum);
	}
	free(procs);
	return count;
}
