/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC for the benchmarks: unary calls on one connection to a server in a process of its own, so
 * many at a time. Each side has a processor where there are two. Uses core, loop, net and grpc.
 * Prints one line of JSON.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "grpc/channel.h"
#include "grpc/server.h"
#include "loop/loop.h"
#include "net/net.h"

#define DEADLINE_MS 30000

static struct loop *loop;
static struct net *net;

struct calls {
	struct grpc_channel *channel;
	struct scope scope;
	unsigned long wanted, sent, answered, failed;
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "bench-grpc: %s: %s\n", what, err ? err->msg : "failed");
	exit(2);
}

static void take_processor(int which)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(which, &set);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		sched_setaffinity(0, sizeof(set), &set);
}

static void make_loop(void)
{
	struct err err = ERR_INIT;
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		die("start", &err);
}

/* ---- the server ---- */

static void on_call(void *arg, struct grpc_server_call *call)
{
	(void)arg;
	grpc_server_call_reply(call, grpc_server_call_message(call));
}

static void on_end(struct loop_signal *s, int signum, void *arg)
{
	(void)s;
	(void)signum;
	(void)arg;
	loop_stop(loop, 0);
}

static void serve(int ports)
{
	struct grpc_server_config config = {.limits = {.streams = 1000}};
	struct grpc_server *server;
	struct loop_signal term;
	struct err err = ERR_INIT;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	take_processor(0);
	make_loop();
	if (grpc_server_new(net, &config, on_call, NULL, &server, &err) < 0)
		die("the server", &err);
	uint16_t port = grpc_server_port(server);
	if (write(ports, &port, sizeof(port)) != sizeof(port))
		die("the server", NULL);
	loop_signal_start(&term, loop, SIGTERM, on_end, NULL);
	loop_run(loop);
	loop_signal_stop(&term);
	grpc_server_free(server);
	net_free(net);
	loop_free(loop);
	_exit(0);
}

/* ---- the client ---- */

static void call(struct calls *c);

static void on_reply(void *arg, const struct err *err, struct str reply)
{
	struct calls *c = arg;
	(void)reply;
	if (err && c->failed++ == 0)
		fprintf(stderr, "bench-grpc: %s\n", err->msg);
	if (++c->answered == c->wanted)
		loop_stop(loop, 0);
	else if (c->sent < c->wanted)
		call(c);
}

static void call(struct calls *c)
{
	c->sent++;
	grpc_call_start(c->channel, "/bench.Echo/Call",
			STR("a request of forty bytes, as most are.. "), DEADLINE_MS, on_reply, c,
			&c->scope);
}

static void run(struct calls *c, unsigned long wanted, unsigned at_once)
{
	c->wanted = wanted;
	c->sent = c->answered = 0;
	for (unsigned i = 0; i < at_once && c->sent < wanted; i++)
		call(c);
	loop_run(loop);
}

static double cpu_s(int who)
{
	struct rusage u;
	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	unsigned long wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	unsigned at_once = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
	struct calls c = {0};
	int ports[2];
	uint16_t port = 0;
	if (wanted == 0 || at_once == 0 || pipe(ports) < 0)
		die("usage: bench-grpc [CALLS [AT-ONCE]]", NULL);
	pid_t server = fork();
	if (server == 0)
		serve(ports[1]);
	if (server < 0 || read(ports[0], &port, sizeof(port)) != sizeof(port))
		die("the server", NULL);
	take_processor(1);
	make_loop();
	scope_init(&c.scope);
	struct grpc_channel_config config = {.host = "127.0.0.1", .port = port};
	c.channel = grpc_channel_new(net, &config);
	run(&c, at_once, at_once); /* the connection is there, and warm */
	double cpu = cpu_s(RUSAGE_SELF);
	int64_t began = clock_mono_us();
	run(&c, wanted, at_once);
	double took = (double)(clock_mono_us() - began) / 1e6;
	cpu = cpu_s(RUSAGE_SELF) - cpu;
	grpc_channel_free(c.channel);
	net_free(net);
	loop_free(loop);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	printf("{\"calls\":%lu,\"failed\":%lu,\"seconds\":%.6f,\"cpu\":%.6f,\"server_cpu\":%.6f}\n",
	       wanted, c.failed, took, cpu, cpu_s(RUSAGE_CHILDREN));
	return c.failed > 0;
}
