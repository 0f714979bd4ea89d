/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the kernel from wherever this runs: lo, what isn't there, a process that may not
 * open netlink sockets. Everything else needs a network namespace and is t/78-fabric.t's. Uses
 * node.
 */
#include "tap.h"

#include <arpa/inet.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "loop/loop.h"
#include "node/links.h"

static unsigned n_changes;

static void on_changed(void *arg)
{
	(void)arg;
	n_changes++;
}

static void on_addr(const struct nl_addr *addr, void *arg)
{
	unsigned *n = arg;

	if (addr->link == 1)
		++*n;
}

static void test_questions(struct links *links)
{
	struct nl_ip local = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	struct nl_link link = {0}, parts[2];
	struct nl_route route;
	struct err err = ERR_INIT;
	size_t n = 99;
	unsigned addrs = 0;

	ok(links_get(links, 1, &link, &err) == 0, "lo is there: %s", err.msg);
	is_str(link.name, "lo", "with its name");
	ok(link.loopback && link.mtu_bytes > 0, "as what it is");
	is_int(links_get(links, INT32_MAX, &link, &err), -1, "a link that isn't there");
	is_int(err.kind, ERR_NOT_FOUND, "isn't found");
	is_str(link.name, "lo", "and what was known stays");
	is_int(links_members(links, 1, parts, 2, &n, &err), 0, "lo has no parts");
	is_uint(n, 0, "none at all");
	is_int(links_addrs(links, AF_INET, 1, on_addr, &addrs, &err), 0, "its addresses");
	if (addrs == 0) {
		skip(3, "lo has no address here");
		return;
	}
	ok(links_route(links, &local, 0, &route, &err) == 0, "the way to 127.0.0.1: %s", err.msg);
	is_int(route.type, 2 /* RTN_LOCAL */, "is local");
	is_int(route.link, 1, "by lo");
}

/* Every socket of netlink's is refused, as systemd's RestrictAddressFamilies= does. */
static bool deny_netlink(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a process of its own. 0: as it should be; 77: no filter to be had. */
static int denied(void)
{
	struct nl_ip ip = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	struct err err = ERR_INIT;
	struct nl_route route;
	struct nl_link link;
	struct loop *loop;
	int result = 0;

	if (!deny_netlink())
		return 77;
	if (loop_new(&loop, &err) < 0)
		return 1;
	struct links *links = links_new(loop, on_changed, NULL);
	if (links_get(links, 1, &link, &err) == 0 || err.kind != ERR_IO || !err.msg[0])
		result = 2;
	if (links_route(links, &ip, 0, &route, &err) == 0 || err.code != EAFNOSUPPORT)
		result = 3;
	loop_turn(loop, 0);
	links_free(links);
	loop_free(loop);
	return result;
}

static void test_denied(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(denied());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		fail("the process without netlink ends by itself");
	else if (WEXITSTATUS(status) == 77)
		skip(1, "no seccomp here");
	else
		is_int(WEXITSTATUS(status), 0, "without netlink every question says so");
}

int main(void)
{
	struct err err = ERR_INIT;
	struct loop *loop;

	test_denied();
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	struct links *links = links_new(loop, on_changed, NULL);
	test_questions(links);
	test_questions(links);
	links_free(links);
	links_free(NULL);
	loop_free(loop);
	return done_testing();
}
