/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which container runtimes a host has. A process is a runtime's by its name and by the unit that
 * its cgroup names: a containerd within k3s is k3s', one within a container is nobody's. Uses core.
 */
#include "runtimes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "units.h"

#define COMM_BYTES    64
#define CGROUP_BYTES  16384
#define LIMITS_BYTES  8192
#define DOCKER_BYTES  ((size_t)256 << 10)
#define MAX_PROCESSES 65536
#define DOCKER_FILE   "/etc/docker/daemon.json"

/* The names that a process shows in /proc/PID/comm, and systemd's units, the usual one first. */
static const struct kind {
	const char *name, *comms[4], *units[4];
} kinds[] = {
	{"containerd", {"containerd"}, {"containerd.service"}},
	{"k3s",
	 {"k3s-server", "k3s-agent", "k3s", "containerd"},
	 {"k3s.service", "k3s-agent.service"}},
	{"rke2", {"rke2", "containerd"}, {"rke2-agent.service", "rke2-server.service"}},
	{"k0s", {"k0s", "containerd"}, {"k0sworker.service", "k0scontroller.service"}},
	{"microk8s",
	 {"containerd", "kubelite"},
	 {"snap.microk8s.daemon-containerd.service", "snap.microk8s.daemon-kubelite.service"}},
	{"docker", {"dockerd"}, {"docker.service", "snap.docker.dockerd.service"}},
	{"cri-o", {"crio"}, {"crio.service", "cri-o.service"}},
	{"kubelet", {"kubelet"}, {"kubelet.service"}},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* How sure it is that a process is the runtime's own. */
enum fit {
	FIT_NONE,
	FIT_NAME, /* by its name; no unit of any runtime says otherwise */
	FIT_UNIT, /* by its unit, under its second name (k3s' containerd) */
	FIT_BOTH,
};

struct process {
	enum fit fit;
	int pid;
	bool known_limit;
	uint64_t memlock_bytes;
};

struct runtimes {
	const struct files *files;
	DIR *proc; /* NULL: not opened, or read to its end */
	unsigned seen;
	bool scanned;
	struct process found[N_KINDS];
};

struct runtimes *runtimes_new(const struct files *files)
{
	struct runtimes *runtimes = xcalloc(1, sizeof(*runtimes));

	runtimes->files = files;
	runtimes->proc = files_opendir(files, "/proc");
	runtimes->scanned = !runtimes->proc;
	return runtimes;
}

static void close_proc(struct runtimes *runtimes)
{
	if (runtimes->proc)
		closedir(runtimes->proc);
	runtimes->proc = NULL;
}

void runtimes_free(struct runtimes *runtimes)
{
	if (!runtimes)
		return;
	close_proc(runtimes);
	free(runtimes);
}

/* ---- processes ---- */

static bool is_one_of(const char *const names[4], const char *name, size_t *ret_at)
{
	for (size_t i = 0; i < 4 && names[i]; i++) {
		if (strcmp(names[i], name) == 0) {
			*ret_at = i;
			return true;
		}
	}
	return false;
}

static enum fit fit_of(const struct kind *kind, const char *comm, const char *unit)
{
	size_t at;

	if (!is_one_of(kind->comms, comm, &at))
		return FIT_NONE;
	bool second = strcmp(comm, "containerd") == 0 && strcmp(kind->name, "containerd") != 0;
	size_t unit_at;
	if (is_one_of(kind->units, unit, &unit_at))
		return second ? FIT_UNIT : FIT_BOTH;
	/* Another runtime's unit, and it's that one's. */
	for (size_t i = 0; i < N_KINDS; i++) {
		if (is_one_of(kinds[i].units, unit, &unit_at))
			return FIT_NONE;
	}
	return second ? FIT_NONE : FIT_NAME;
}

/* A short file of a process', into text. */
static bool read_of(const struct runtimes *runtimes, int pid, const char *what, struct buf *text)
{
	char path[64];

	buf_clear(text);
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	return files_read(runtimes->files, path, text) == 0;
}

static bool is_known_name(const char *comm)
{
	size_t at;

	for (size_t i = 0; i < N_KINDS; i++) {
		if (is_one_of(kinds[i].comms, comm, &at))
			return true;
	}
	return false;
}

static void look_closer(struct runtimes *runtimes, int pid, const char *comm)
{
	struct buf text = BUF_INIT(CGROUP_BYTES);
	char unit[NODE_NAME_SIZE] = "";
	bool ours = !read_of(runtimes, pid, "cgroup", &text) ||
		    host_parse_cgroup(buf_str(&text), unit);

	for (size_t i = 0; ours && i < N_KINDS; i++) {
		struct process *found = &runtimes->found[i];
		enum fit fit = fit_of(&kinds[i], comm, unit);

		if (fit == FIT_NONE || fit < found->fit || (fit == found->fit && pid > found->pid))
			continue;
		*found = (struct process){.fit = fit, .pid = pid};
		found->known_limit = read_of(runtimes, pid, "limits", &text) &&
				     host_parse_memlock(buf_str(&text), &found->memlock_bytes) == 0;
	}
	buf_done(&text);
}

static void look_at(struct runtimes *runtimes, int pid)
{
	struct buf text = BUF_INIT(COMM_BYTES);
	char comm[NODE_NAME_SIZE] = "";

	if (read_of(runtimes, pid, "comm", &text)) {
		struct str name = str_trim(buf_str(&text));

		snprintf(comm, sizeof(comm), "%.*s", STR_ARG(name));
		if (is_known_name(comm))
			look_closer(runtimes, pid, comm);
	}
	buf_done(&text);
}

bool runtimes_step(struct runtimes *runtimes, unsigned processes)
{
	for (unsigned i = 0; i < processes && !runtimes->scanned;) {
		const struct dirent *entry = readdir(runtimes->proc);
		int64_t pid;

		if (!entry || runtimes->seen == MAX_PROCESSES) {
			runtimes->scanned = true;
			close_proc(runtimes);
		} else if (str_to_int(str_of(entry->d_name), 1, INT32_MAX, &pid, NULL) == 0) {
			look_at(runtimes, (int)pid);
			runtimes->seen++;
			i++;
		}
	}
	return runtimes->scanned;
}

/* ---- units ---- */

/* A file that counts, by its path or the first bytes of it. */
static void set_file(struct fabric_runtime *runtime, const char *path)
{
	snprintf(runtime->unit, sizeof(runtime->unit), "%s", path);
}

/* Of a runtime's units the first that is installed. */
static void read_unit(const struct files *files, const struct kind *kind,
		      struct fabric_runtime *runtime)
{
	struct unit_facts unit = {0};

	for (size_t i = 0; i < 4 && kind->units[i] && !unit.installed; i++)
		unit_read(files, kind->units[i], &unit);
	runtime->installed = unit.installed;
	set_file(runtime, unit.file);
	if (unit.sets_memlock) {
		runtime->unit_sets_memlock = true;
		runtime->unit_memlock_bytes = unit.memlock_bytes;
		set_file(runtime, unit.memlock_file);
	}
	if (unit.sets_ulimit && strcmp(kind->name, "docker") == 0) {
		runtime->unit_sets_memlock = runtime->default_ulimit = true;
		runtime->unit_memlock_bytes = unit.ulimit_bytes;
		set_file(runtime, unit.ulimit_file);
	}
}

/* dockerd refuses to start with the same setting in its file and among its arguments. */
static void read_docker(const struct files *files, struct fabric_runtime *runtime)
{
	struct buf text = BUF_INIT(DOCKER_BYTES);

	if (files_read(files, DOCKER_FILE, &text) == 0 &&
	    host_parse_docker(buf_str(&text), &runtime->unit_memlock_bytes) == 0) {
		runtime->unit_sets_memlock = runtime->default_ulimit = true;
		set_file(runtime, DOCKER_FILE);
	}
	buf_done(&text);
}

void runtimes_list(struct runtimes *runtimes, bool units, struct fabric_runtime **ret,
		   size_t *ret_n)
{
	struct fabric_runtime *all = xcalloc(N_KINDS, sizeof(*all));
	size_t n = 0;

	for (size_t i = 0; i < N_KINDS; i++) {
		const struct process *process = &runtimes->found[i];
		struct fabric_runtime *runtime = &all[n];

		if (units)
			read_unit(runtimes->files, &kinds[i], runtime);
		if (!runtime->installed && process->fit == FIT_NONE)
			continue;
		snprintf(runtime->name, sizeof(runtime->name), "%s", kinds[i].name);
		if (units && strcmp(kinds[i].name, "docker") == 0)
			read_docker(runtimes->files, runtime);
		runtime->running = process->fit != FIT_NONE && process->known_limit;
		runtime->pid = runtime->running ? process->pid : 0;
		runtime->memlock_bytes = runtime->running ? process->memlock_bytes : 0;
		n++;
	}
	*ret = all;
	*ret_n = n;
}
