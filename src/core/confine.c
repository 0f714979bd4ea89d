/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of calls, and the classic BPF program made of it. What each is for:
 * doc/design/confinement.md, which a test holds to this list.
 */
#include "core/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#if defined(__x86_64__)
#define ARCH       AUDIT_ARCH_X86_64
#define RESULT(uc) ((uc)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARCH       AUDIT_ARCH_AARCH64
#define RESULT(uc) ((uc)->uc_mcontext.regs[0])
#endif

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#ifndef SYS_SECCOMP /* of <asm/siginfo.h>, which doesn't go with glibc's */
#define SYS_SECCOMP 1
#endif

static volatile unsigned long refused[CONFINE_CALLS];
static confine_heard_fn *on_refused;
static void *on_refused_arg;

unsigned long confine_refused(unsigned call)
{
	return call < CONFINE_CALLS ? refused[call] : 0;
}

unsigned long confine_refused_in_all(void)
{
	unsigned long n = 0;

	for (unsigned i = 0; i < CONFINE_CALLS; i++)
		n += refused[i];
	return n;
}

void confine_hush(void)
{
	on_refused = NULL;
}

#ifdef ARCH

#define CALL(name) __NR_##name

/* What is called most comes first: kernels before 5.11 go through the list at each call. */
static const unsigned allowed[] = {
	CALL(epoll_pwait),
	CALL(read),
	CALL(write),
	CALL(recvfrom),
	CALL(sendto),
	CALL(epoll_ctl),
	CALL(close),
	/* Sockets; socket itself is below. */
	CALL(readv),
	CALL(writev),
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(sendmmsg),
	CALL(connect),
	CALL(bind),
	CALL(listen),
	CALL(accept),
	CALL(accept4),
	CALL(getsockname),
	CALL(getpeername),
	CALL(getsockopt),
	CALL(setsockopt),
	CALL(shutdown),
	/* The loop. */
	CALL(epoll_create1),
	CALL(eventfd2),
	CALL(timerfd_create),
	CALL(timerfd_settime),
	CALL(pipe2),
	CALL(ppoll),
	CALL(pselect6),
	CALL(inotify_init1),
	CALL(inotify_add_watch),
	CALL(inotify_rm_watch),
	/* Files; how they are opened is below. */
	CALL(newfstatat),
	CALL(fstat),
	CALL(statx),
	CALL(statfs),
	CALL(fstatfs),
	CALL(faccessat),
	CALL(faccessat2),
	CALL(readlinkat),
	CALL(getdents64),
	CALL(getcwd),
	CALL(lseek),
	CALL(pread64),
	CALL(fcntl),
	CALL(dup),
	CALL(ioctl),
	CALL(ftruncate),
	/* Memory; mmap and mprotect themselves are below. */
	CALL(munmap),
	CALL(mremap),
	CALL(brk),
	CALL(madvise),
	CALL(mlock),
	CALL(mlock2),
	CALL(munlock),
	/* Time and chance. */
	CALL(clock_gettime),
	CALL(clock_getres),
	CALL(clock_nanosleep),
	CALL(nanosleep),
	CALL(gettimeofday),
	CALL(getrandom),
	/* Signals and the end. */
	CALL(rt_sigaction),
	CALL(rt_sigprocmask),
	CALL(rt_sigreturn),
	CALL(sigaltstack),
	CALL(restart_syscall),
	CALL(futex),
	CALL(wait4),
	CALL(waitid),
	CALL(exit),
	CALL(exit_group),
	/* Who and where it is. */
	CALL(getpid),
	CALL(getppid),
	CALL(gettid),
	CALL(getuid),
	CALL(geteuid),
	CALL(getgid),
	CALL(getegid),
	CALL(capget),
	CALL(uname),
	CALL(sysinfo),
	CALL(getrusage),
	CALL(times),
	CALL(sched_yield),
	CALL(sched_getaffinity),
#ifdef __x86_64__ /* which has older forms too; aarch64 never had them */
	CALL(epoll_wait),
	CALL(poll),
	CALL(select),
	CALL(stat),
	CALL(lstat),
	CALL(access),
	CALL(readlink),
	CALL(getrlimit),
	CALL(time),
#endif
#if IS_SANITIZED /* at the end another process looks for leaks, and one names functions */
	CALL(clone),
	CALL(clone3),
	CALL(execve),
	CALL(ptrace),
	CALL(process_vm_readv),
	CALL(prctl),
	CALL(dup3),
	CALL(set_robust_list),
	CALL(rseq),
	CALL(kill),
#ifdef __x86_64__
	CALL(fork),
	CALL(vfork),
	CALL(pipe),
	CALL(dup2),
	CALL(arch_prctl),
	CALL(getdents),
#endif
#endif
};

/* From Linux 5.1 on a call has the same number everywhere. What libraries take of these, they can
 * do without on kernels that are older, which say ENOSYS; EPERM many take for the end. */
#define FIRST_NEW 424

static const unsigned renaming[] = {
	CALL(unlinkat), CALL(renameat), CALL(renameat2),
#ifdef __x86_64__
	CALL(unlink),   CALL(rename),
#endif
};

static void on_sigsys(int signum, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	unsigned call = (unsigned)info->si_syscall;

	(void)signum;
	if (info->si_code != SYS_SECCOMP) /* somebody's kill(2) */
		return;
	refused[call < CONFINE_CALLS ? call : CONFINE_CALLS - 1]++;
	RESULT(uc) = call < FIRST_NEW ? -EPERM : -ENOSYS;
	if (on_refused)
		on_refused(on_refused_arg);
}

static int catch_refusals(struct err *err)
{
	struct sigaction sa = {.sa_sigaction = on_sigsys,
			       .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
	sigset_t set;

	/* A refusal while the signal is blocked would end the process. */
	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	if (sigaction(SIGSYS, &sa, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0)
		return err_errno(err, errno, "seccomp: SIGSYS");
	return 0;
}

#define N_ALLOWED  (sizeof(allowed) / sizeof(allowed[0]))
#define N_RENAMING (sizeof(renaming) / sizeof(renaming[0]))
#define MOST       (2 * (N_ALLOWED + N_RENAMING) + 64)

struct program {
	struct sock_filter at[MOST];
	unsigned short n;
};

static void add(struct program *p, unsigned code, unsigned k, unsigned jt, unsigned jf)
{
	p->at[p->n++] = (struct sock_filter){(unsigned short)code, (unsigned char)jt,
					     (unsigned char)jf, k};
}

static void load(struct program *p, size_t offset)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static void end(struct program *p, unsigned verdict)
{
	add(p, BPF_RET | BPF_K, verdict, 0, 0);
}

/* The lower half of an argument: no bit of the upper one counts in those that are looked at. */
static size_t argument(unsigned n)
{
	return offsetof(struct seccomp_data, args) + n * sizeof(__u64);
}

static const unsigned equal = BPF_JMP | BPF_JEQ | BPF_K, any = BPF_JMP | BPF_JSET | BPF_K;

static void allow(struct program *p, unsigned call)
{
	add(p, equal, call, 0, 1);
	end(p, SECCOMP_RET_ALLOW);
}

/* Where its first argument is that. */
static void allow_for(struct program *p, unsigned call, unsigned first, unsigned refusal)
{
	add(p, equal, call, 0, 4);
	load(p, argument(0));
	add(p, equal, first, 1, 0);
	end(p, refusal);
	end(p, SECCOMP_RET_ALLOW);
}

/* Files are read. Devices are also written, but nothing is made or cut. */
static void allow_open(struct program *p, unsigned call, unsigned n_flags, bool uses_devices,
		       unsigned refusal)
{
	unsigned bad = O_CREAT | O_TRUNC | (uses_devices ? 0 : O_ACCMODE);

#ifdef WITH_COVERAGE
	bad = 0; /* its counts are written at the end */
#endif
	add(p, equal, call, 0, 4);
	load(p, argument(n_flags));
	add(p, any, bad, 0, 1);
	end(p, refusal);
	end(p, SECCOMP_RET_ALLOW);
}

static void make_files(struct program *p, const struct confine_opts *opts, unsigned refusal)
{
	for (size_t i = 0; opts->renames && i < N_RENAMING; i++)
		allow(p, renaming[i]);
	allow_open(p, CALL(openat), 2, opts->uses_devices, refusal);
#ifdef __x86_64__
	allow_open(p, CALL(open), 1, opts->uses_devices, refusal);
#endif
	/* Its flags are in memory, where no filter looks. */
	if (opts->uses_devices)
		allow(p, CALL(openat2));
}

/* Each part that looks at arguments ends with a verdict, so the parts may come in any order. */
static void make(struct program *p, const struct confine_opts *opts, unsigned refusal)
{
	static const unsigned families[] = {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK};
	const unsigned n_families = sizeof(families) / sizeof(families[0]);

	load(p, offsetof(struct seccomp_data, arch));
	add(p, equal, ARCH, 1, 0);
	end(p, SECCOMP_RET_KILL_PROCESS);
	load(p, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_ALLOWED; i++)
		allow(p, allowed[i]);
	make_files(p, opts, refusal);
	/* Signals and limits are its own: other processes of its user are left alone. */
	allow_for(p, CALL(tgkill), (unsigned)getpid(), refusal);
	allow_for(p, CALL(prlimit64), 0, refusal);
	add(p, equal, CALL(socket), 0, n_families + 3);
	load(p, argument(0));
	for (unsigned i = 0; i < n_families; i++)
		add(p, equal, families[i], n_families - i, 0);
	end(p, refusal);
	end(p, SECCOMP_RET_ALLOW);
	/* What was written before doesn't become code. */
	add(p, equal, CALL(mprotect), 0, 4);
	load(p, argument(2));
	add(p, any, PROT_EXEC, 0, 1);
	end(p, refusal);
	end(p, SECCOMP_RET_ALLOW);
	/* Code comes from files alone (dlopen), and can't be written. */
	add(p, equal, CALL(mmap), 0, 7);
	load(p, argument(2));
	add(p, any, PROT_EXEC, 0, 3);
	add(p, any, PROT_WRITE, 3, 0);
	load(p, argument(3));
	add(p, any, MAP_ANONYMOUS, 1, 0);
	end(p, SECCOMP_RET_ALLOW);
	end(p, refusal);
	end(p, refusal);
}

int confine_start(const struct confine_opts *opts, struct err *err)
{
	struct program p = {.n = 0};
	struct sock_fprog prog;

	if (opts->mode == CONFINE_OFF)
		return 0;
	make(&p, opts, opts->mode == CONFINE_LOG ? SECCOMP_RET_LOG : SECCOMP_RET_TRAP);
	prog = (struct sock_fprog){p.n, p.at};
	on_refused = opts->heard;
	on_refused_arg = opts->arg;
	if (catch_refusals(err) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, errno, "seccomp: no_new_privs");
	/* By prctl(2), which services' filters know better than seccomp(2); there is one thread. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
		return err_errno(err, errno, "seccomp");
	return 0;
}

#else

int confine_start(const struct confine_opts *opts, struct err *err)
{
	if (opts->mode == CONFINE_OFF)
		return 0;
	return err_set(err, ERR_UNSUPPORTED, 0, "seccomp: not on this kind of processor");
}

#endif
