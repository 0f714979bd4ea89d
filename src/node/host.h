/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the host matters to RDMA in containers: locked-memory limits of this process and of what
 * starts containers, huge pages, kernel modules, the folder of network configurations. Reading
 * goes in steps, so that a machine with many processes doesn't hold up the loop. Uses core.
 */
#ifndef IPU_NODE_HOST_H
#define IPU_NODE_HOST_H

#include "core/str.h"
#include "node/facts.h"

struct host_reader;

/* root: before /proc, /sys and the rest, NULL and "": none; cni_folder NULL: it's found.
 * limits_only: neither modules nor units nor that folder, so nothing but /proc and /sys. */
struct host_reader *host_reader_new(const char *root, const char *cni_folder, bool limits_only);
void host_reader_free(struct host_reader *reader); /* NULL is fine */
/* Looks at so many processes. True when all has been read: *ret is the caller's then. */
bool host_reader_step(struct host_reader *reader, unsigned processes, struct fabric_host *ret);

/* ---- its parsers ---- */

/* The soft limit in a process' limits file (proc_pid_limits(5)); -1: it isn't there. */
int host_parse_memlock(struct str limits, uint64_t *ret_bytes);
/* A number of /proc/meminfo, as it stands there. */
int host_parse_meminfo(struct str meminfo, const char *key, uint64_t *ret);
/* The unit that a process belongs to by its cgroups ("containerd.service"; "": none); false: it
 * runs in a container, and isn't the host's. */
bool host_parse_cgroup(struct str cgroup, char ret_unit[NODE_NAME_SIZE]);
/* dockerd's default-ulimits in its daemon.json; -1: it sets none for locked memory. */
int host_parse_docker(struct str json, uint64_t *ret_bytes);

bool fabric_host_equal(const struct fabric_host *a, const struct fabric_host *b);

#endif
