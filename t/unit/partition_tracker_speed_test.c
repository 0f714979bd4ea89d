/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Five thousand entries in real time, with the API server in a process of its own: how long a turn
 * of the loop takes at most, how much memory the tracker needs, how many writes a burst becomes.
 */
#include "partition_tracker_rig.h"

#include <malloc.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES     5000
#define ENTRY_BYTES 450
#define TURN_MAX_US 20000
#define SLOW        8 /* a sanitizer, valgrind, or a machine that others use too */

static int64_t longest_us, turns_over;

static int64_t now_us(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* The API server: says its port, and lives until it's killed. */
__attribute__((noreturn)) static void serve(int fd)
{
	struct err err = ERR_INIT;

	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		_exit(1);
	make_api();
	if (write(fd, kube_config->server, strlen(kube_config->server)) < 0)
		_exit(1);
	close(fd);
	_exit(loop_run(loop));
}

static pid_t begin_server(char url_z[64])
{
	int fds[2];
	ssize_t n;
	pid_t pid;

	fflush(stdout);
	if (pipe(fds) < 0 || (pid = fork()) < 0)
		bail_out("no second process");
	if (pid == 0)
		serve(fds[1]);
	close(fds[1]);
	n = read(fds[0], url_z, 63);
	close(fds[0]);
	if (n <= 0)
		bail_out("no API server");
	url_z[n] = '\0';
	return pid;
}

static void begin_client(const char *url)
{
	struct err err = ERR_INIT;

	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		bail_out(err.msg);
	kube_config = xcalloc(1, sizeof(*kube_config));
	if (kube_config_set_server(kube_config, url, &err) < 0)
		bail_out(err.msg);
	kube_config->source = xstrdup("the test");
	kube_config->token.data = xstrdup("a-token");
	kube_config->token.len = strlen("a-token");
	make_client();
}

static void end_client(void)
{
	kube_client_free(kube);
	for (int i = 0; i < 10; i++)
		loop_turn(loop, 0);
	kube_config_free(kube_config);
	net_free(net);
	loop_free(loop);
}

/* Turns until cond: the time of this process in each, waiting apart. */
static bool run_until(const struct keeper *k, unsigned recorded, bool synced)
{
	int64_t end = now_us(CLOCK_MONOTONIC) + INT64_C(300000000);

	longest_us = turns_over = 0;
	while ((k->recorded < recorded || (synced && !k->synced)) &&
	       now_us(CLOCK_MONOTONIC) < end) {
		int64_t from = now_us(CLOCK_PROCESS_CPUTIME_ID), took;

		loop_turn(loop, 5);
		took = now_us(CLOCK_PROCESS_CPUTIME_ID) - from;
		longest_us = took > longest_us ? took : longest_us;
		turns_over += took > TURN_MAX_US;
	}
	return k->recorded >= recorded && (!synced || k->synced);
}

static void check_turns(const char *what)
{
	note("%s: longest turn %" PRId64 " us, over 20 ms: %" PRId64, what, longest_us, turns_over);
	ok(longest_us < (int64_t)TURN_MAX_US * SLOW, "%s: no turn keeps others waiting", what);
}

static void fill(struct keeper *k, int from, int to, int version)
{
	char json[ENTRY_BYTES + 1], key[40], uid[40];

	for (int i = from; i < to; i++) {
		snprintf(key, sizeof(key), "some-job-in-a-namespace-%d", i);
		snprintf(uid, sizeof(uid), "uid-%d", i);
		memset(json, 'x', ENTRY_BYTES);
		json[ENTRY_BYTES] = '\0';
		json[snprintf(json, 30, "{\"v\":%d,\"p\":\"", version)] = 'x';
		memcpy(json + ENTRY_BYTES - 2, "\"}", 2);
		tracker_put(k->t, key, uid, str_of(json));
	}
}

static void test_speed(const char *url)
{
	struct keeper *k;
	size_t before;
	unsigned long writes;
	int64_t began, took_ms;

	begin_client(url);
	before = mallinfo2().uordblks;
	k = lead();
	k->adopts = false;
	ok(run_until(k, 0, true), "read");
	fill(k, 0, ENTRIES, 1);
	ok(run_until(k, ENTRIES, true), "%d at once", ENTRIES);
	check_turns("at once");
	note("%zu bytes an entry of %d", (mallinfo2().uordblks - before) / ENTRIES, ENTRY_BYTES);
	k->recorded = 0;
	writes = tracker_writes(k->t);
	began = now_us(CLOCK_MONOTONIC);
	for (int i = 0; i < 500; i += 5) {
		fill(k, i, i + 5, 2);
		while (now_us(CLOCK_MONOTONIC) < began + (int64_t)(i / 5 + 1) * 10000)
			loop_turn(loop, 1);
	}
	ok(run_until(k, 500, true), "500 changes within a second, in small groups");
	check_turns("in small groups");
	writes = tracker_writes(k->t) - writes;
	took_ms = (now_us(CLOCK_MONOTONIC) - began) / 1000;
	note("%lu writes in %" PRId64 " ms", writes, took_ms);
	ok((int64_t)writes <= took_ms / 45 + 2, "few writes: %lu in %" PRId64 " ms", writes,
	   took_ms);
	keeper_free(k);
	end_client();

	begin_client(url);
	before = mallinfo2().uordblks;
	k = lead();
	ok(run_until(k, ENTRIES, true), "another process reads them");
	is_int(k->found, ENTRIES, "all");
	check_turns("read");
	keeper_free(k);
	end_client();
}

int main(void)
{
	char url[64];
	pid_t pid;

	log_init(LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	pid = begin_server(url);
	test_speed(url);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return done_testing();
}
