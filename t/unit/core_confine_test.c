/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp filter, in children of the test: what is let pass, what is refused, counted and told,
 * and the same with the filter that only logs.
 */
#include "core/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

#define PAGE      4096
#define FIRST_NEW 424 /* calls of Linux 5.1 or later, which a library may do without */

#ifdef WITH_COVERAGE /* which writes its counts */
#define UNLESS_COUNTED(call) 0
#else
#define UNLESS_COUNTED(call) (call)
#endif

static char *page; /* of a child's, to be read and written */

static long call_getpid(void)
{
	return syscall(SYS_getpid);
}

static long call_open(void)
{
	return open("/proc/self/status", O_RDONLY | O_CLOEXEC);
}

static long call_open_to_write(void)
{
	return open("/dev/null", O_WRONLY | O_CLOEXEC);
}

static long call_open_for_both(void)
{
	return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static long call_make(void)
{
	return open("/proc/there-is-no-such-thing", O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
}

static long call_cut(void)
{
	return open("/dev/null", O_WRONLY | O_TRUNC | O_CLOEXEC);
}

static long call_make_nameless(void)
{
	return open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
}

static long call_open_by_struct(void)
{
	return syscall(SYS_openat2, -1, NULL, NULL, 0);
}

/* A process that there is, and that this one could kill. */
static long call_signal_to_parent(void)
{
	return syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static long call_signal_to_itself(void)
{
	return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0);
}

static long call_limit(void)
{
	return getrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
}

static long call_limit_of_parent(void)
{
	return syscall(SYS_prlimit64, getppid(), RLIMIT_NOFILE, NULL, &(struct rlimit){0, 0});
}

static long call_rename(void)
{
	return renameat(AT_FDCWD, "/proc/none", AT_FDCWD, "/proc/other");
}

static long call_remove(void)
{
	return unlinkat(AT_FDCWD, "/proc/none", 0);
}

static long call_socket(int family)
{
	return socket(family, SOCK_STREAM, 0);
}

static long call_tcp(void)
{
	return call_socket(AF_INET);
}

static long call_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static long call_packets(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0);
}

static long call_crypto(void)
{
	return socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static long map(int protection, int flags, int fd)
{
	void *p = mmap(NULL, PAGE, protection, flags, fd, 0);

	return p == MAP_FAILED ? -1 : 0;
}

static long call_map(void)
{
	return map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static long call_map_wx(void)
{
	return map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static long call_map_x(void)
{
	return map(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* As dlopen maps a library's code. */
static long call_map_file_x(void)
{
	return map(PROT_READ | PROT_EXEC, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY));
}

static long call_map_file_wx(void)
{
	return map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE,
		   open("/proc/self/exe", O_RDONLY));
}

static long call_protect_r(void)
{
	return mprotect(page, PAGE, PROT_READ);
}

static long call_protect_x(void)
{
	return mprotect(page, PAGE, PROT_READ | PROT_EXEC);
}

static long call_exec_at(void)
{
	char *const none[] = {NULL};

	return syscall(SYS_execveat, -1, "/bin/true", none, none, 0);
}

static long call_fifo(void)
{
	return mkfifo("/proc/there-is-no-such-thing", 0600);
}

static long call_link(void)
{
	return symlinkat("x", AT_FDCWD, "/proc/there-is-no-such-thing");
}

static long call_memfd(void)
{
	return memfd_create("x", 0);
}

static long call_setuid(void)
{
	return syscall(SYS_setuid, getuid());
}

static long call_ring(void)
{
	return syscall(SYS_io_uring_setup, 0, NULL);
}

static long call_bpf(void)
{
	return syscall(SYS_bpf, -1, NULL, 0);
}

static long call_namespace(void)
{
	return syscall(SYS_unshare, 0);
}

static long call_newer(void)
{
	return syscall(SYS_epoll_pwait2, -1, NULL, 0, NULL, NULL, 0);
}

static long call_huge_number(void)
{
	return syscall(100000);
}

static const struct {
	const char *what;
	long (*fn)(void);
	int call; /* that is refused; 0: none */
} rows[] = {
	{"who it is", call_getpid, 0},
	{"a file to be read", call_open, 0},
	{"a file to be written", call_open_to_write, UNLESS_COUNTED(SYS_openat)},
	{"a file to be read and written", call_open_for_both, UNLESS_COUNTED(SYS_openat)},
	{"a new file", call_make, UNLESS_COUNTED(SYS_openat)},
	{"a new file without a name", call_make_nameless, UNLESS_COUNTED(SYS_openat)},
	{"a file, by arguments in memory", call_open_by_struct, SYS_openat2},
	{"another name for a file", call_rename, SYS_renameat},
	{"a file's end", call_remove, SYS_unlinkat},
	{"a signal to itself", call_signal_to_itself, 0},
	{"a signal to another process", call_signal_to_parent, SYS_tgkill},
	{"its limits", call_limit, 0},
	{"another process's limits", call_limit_of_parent, SYS_prlimit64},
	{"a TCP socket", call_tcp, 0},
	{"a netlink socket", call_netlink, 0},
	{"a socket for packets", call_packets, SYS_socket},
	{"a socket of the kernel's ciphers", call_crypto, SYS_socket},
	{"memory", call_map, 0},
	{"memory that is written and executed", call_map_wx, SYS_mmap},
	{"memory that is executed, of no file", call_map_x, SYS_mmap},
	{"a file's code", call_map_file_x, 0},
	{"a file's code that is written", call_map_file_wx, SYS_mmap},
	{"memory that isn't written any more", call_protect_r, 0},
	{"memory that becomes code", call_protect_x, SYS_mprotect},
	{"another program", call_exec_at, SYS_execveat},
	{"a FIFO", call_fifo, SYS_mknodat},
	{"a link", call_link, SYS_symlinkat},
	{"a file without a name", call_memfd, SYS_memfd_create},
	{"another user", call_setuid, SYS_setuid},
	{"io_uring", call_ring, SYS_io_uring_setup},
	{"a program for the kernel", call_bpf, SYS_bpf},
	{"a namespace", call_namespace, SYS_unshare},
	{"a call of newer kernels", call_newer, SYS_epoll_pwait2},
	{"a call that there isn't", call_huge_number, CONFINE_CALLS - 1},
};

/* With the role node, and where a file of ports is still to be moved into its place. */
static const struct {
	const char *what;
	struct confine_opts opts;
	long (*fn)(void);
	int call;
} other_rows[] = {
	{"a device", {.uses_devices = true}, call_open_for_both, 0},
	{"by arguments in memory", {.uses_devices = true}, call_open_by_struct, 0},
	{"a new file beside devices",
	 {.uses_devices = true},
	 call_make,
	 UNLESS_COUNTED(SYS_openat)},
	{"what cuts a file", {.uses_devices = true}, call_cut, UNLESS_COUNTED(SYS_openat)},
	{"another name beside devices", {.uses_devices = true}, call_rename, SYS_renameat},
	{"another name", {.renames = true}, call_rename, 0},
	{"a file's end, where they're renamed", {.renames = true}, call_remove, 0},
	{"a new file, where they're renamed",
	 {.renames = true},
	 call_make,
	 UNLESS_COUNTED(SYS_openat)},
};

static void on_heard(void *arg)
{
	*(int *)arg += 1;
}

/* What comes of fn under a filter, in a child: 0 when all is as it should be, else a number. */
static int confined(struct confine_opts opts, long (*fn)(void), int refused)
{
	enum confine_mode mode = opts.mode;
	struct err err = ERR_INIT;
	int heard = 0, failed, want = refused < FIRST_NEW ? EPERM : ENOSYS;
	long rc;

	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	opts.heard = on_heard;
	opts.arg = &heard;
	if (confine_start(&opts, &err) < 0)
		return 10;
	errno = 0;
	rc = fn();
	failed = errno;
	if (refused && (rc != -1 || failed != want))
		return 11;
	if (!refused && failed == EPERM && mode == CONFINE_ENFORCE)
		return 12;
	if (heard != (refused != 0) || confine_refused_in_all() != (unsigned long)heard)
		return 13;
	if (refused && confine_refused((unsigned)refused) != 1)
		return 14;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == (mode != CONFINE_OFF) ||
			       mode == CONFINE_ENFORCE
		       ? 0
		       : 15;
}

static int in_child_with(struct confine_opts opts, long (*fn)(void), int refused)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		bail_out("fork");
	if (pid == 0)
		_exit(confined(opts, fn, refused));
	if (waitpid(pid, &status, 0) != pid)
		bail_out("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int in_child(enum confine_mode mode, long (*fn)(void), int refused)
{
	return in_child_with((struct confine_opts){.mode = mode}, fn, refused);
}

/* Somebody's signal isn't a refusal. */
static long call_signal(void)
{
	return kill(getpid(), 0) == -1 && errno == EPERM ? 0 : raise(SIGSYS);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_int(in_child(CONFINE_ENFORCE, rows[i].fn, rows[i].call), 0, "%s: %s",
		       rows[i].what, rows[i].call ? "refused, and counted" : "passes");
	for (size_t i = 0; i < sizeof(other_rows) / sizeof(other_rows[0]); i++) {
		struct confine_opts opts = other_rows[i].opts;

		opts.mode = CONFINE_ENFORCE;
		is_int(in_child_with(opts, other_rows[i].fn, other_rows[i].call), 0, "%s: %s",
		       other_rows[i].what, other_rows[i].call ? "refused, and counted" : "passes");
	}
	is_int(in_child(CONFINE_LOG, call_map_wx, 0), 0, "a filter that logs lets it pass");
	is_int(in_child(CONFINE_OFF, call_map_wx, 0), 0, "none does too");
	is_int(in_child(CONFINE_LOG, call_signal, 0), 0, "a signal by hand is no refusal");
	return done_testing();
}
