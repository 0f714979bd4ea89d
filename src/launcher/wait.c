/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher wait: returns when every worker of a hostfile has answered once by a session, so
 * that MPI's launcher, which doesn't try again, finds them all. Owned by launcher_wait's stack.
 * Uses net, loop and core.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "launcher/cluster.h"
#include "launcher/hostfile.h"
#include "launcher/launcher.h"
#include "launcher/remote.h"
#include "loop/backoff.h"
#include "loop/loop.h"

#define TIMEOUT_S      300
#define TIMEOUT_MAX_S  86400
#define AT_ONCE        64 /* sessions that are being asked for; more would only queue up there */
#define AGAIN_MS       500
#define AGAIN_MAX_MS   5000
#define PROGRESS_MS    5000
#define HOSTFILE_BYTES ((size_t)1 << 20)

struct waiting;

struct worker {
	struct waiting *all;
	const char *host;
	struct remote *remote; /* while it is being asked */
	struct backoff backoff;
	int64_t due_ms;
	bool answered;
	struct err why; /* it hasn't yet */
};

struct waiting {
	struct loop *loop;
	struct net *net;
	struct cluster cluster;
	char *text, **hosts;
	struct worker *workers;
	size_t n, n_answered, n_asked; /* all; done; being asked */
	const char *file;
	int64_t timeout_s, deadline_ms;
	struct loop_timer next, progress, deadline;
};

static void ask_more(struct waiting *w);

/* ---- words ---- */

static void tell_progress(const struct waiting *w)
{
	const struct worker *first = NULL;
	for (size_t i = 0; i < w->n && !first; i++)
		if (!w->workers[i].answered)
			first = &w->workers[i];
	if (!first)
		return;
	launcher_fail(0, "%zu of %zu workers answer; waiting for %s%s: %s", w->n_answered, w->n,
		      first->host, w->n - w->n_answered > 1 ? " and others" : "",
		      first->why.kind ? first->why.msg : "no answer yet");
}

static int tell_failure(const struct waiting *w)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct worker *worker = &w->workers[i];
		if (!worker->answered)
			launcher_fail(0, "%s: %s", worker->host,
				      worker->why.kind ? worker->why.msg : "no answer");
	}
	return launcher_fail(EXIT_FAILURE, "after %lld s only %zu of %zu workers answer",
			     (long long)w->timeout_s, w->n_answered, w->n);
}

/* ---- asking ---- */

static void asked(struct worker *worker, const struct err *why)
{
	struct waiting *w = worker->all;
	remote_free(worker->remote);
	worker->remote = NULL;
	w->n_asked--;
	if (why) {
		worker->why = *why;
		worker->due_ms = clock_mono_ms() + backoff_next_ms(&worker->backoff, why);
	} else {
		worker->answered = true;
		w->n_answered++;
	}
	if (w->n_answered == w->n)
		loop_stop(w->loop, EXIT_SUCCESS);
	else
		loop_timer_start_in(&w->next, 0);
}

/* That is all: the end of its input ends a session that has started nothing. */
static void on_hello(struct remote *r, void *arg)
{
	(void)r;
	asked(arg, NULL);
}

static void on_frame(struct remote *r, const struct wire_frame *frame, void *arg)
{
	(void)r, (void)frame, (void)arg;
}

static void on_drain(struct remote *r, void *arg)
{
	(void)r, (void)arg;
}

static void on_over(struct remote *r, const struct err *err, int exit_status, void *arg)
{
	struct err none = ERR_INIT;
	(void)r;
	err_set(&none, ERR_UNAVAILABLE, 0, "the session ended with status %d", exit_status);
	asked(arg, err ? err : &none);
}

static void ask(struct worker *worker)
{
	static const struct remote_handler handler = {on_hello, on_frame, on_drain, on_over};
	struct waiting *w = worker->all;
	struct remote_opts opts = {.cluster = &w->cluster,
				   .host = worker->host,
				   .container = launcher_worker_container(),
				   .launcher = launcher_worker_path(),
				   .deadline_ms = w->deadline_ms,
				   .once = true};
	w->n_asked++;
	worker->remote = remote_new(w->net, &opts, &handler, worker);
}

static void ask_more(struct waiting *w)
{
	int64_t now_ms = clock_mono_ms(), next_ms = INT64_MAX;
	for (size_t i = 0; i < w->n && w->n_asked < AT_ONCE; i++) {
		struct worker *worker = &w->workers[i];
		if (worker->answered || worker->remote)
			continue;
		if (worker->due_ms <= now_ms)
			ask(worker);
		else if (worker->due_ms < next_ms)
			next_ms = worker->due_ms;
	}
	if (next_ms != INT64_MAX)
		loop_timer_start_at(&w->next, next_ms);
}

static void on_next(struct loop_timer *timer, void *arg)
{
	(void)timer;
	ask_more(arg);
}

static void on_progress(struct loop_timer *timer, void *arg)
{
	tell_progress(arg);
	loop_timer_start_in(timer, PROGRESS_MS);
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct waiting *w = arg;
	(void)timer;
	loop_stop(w->loop, tell_failure(w));
}

/* ---- setting up ---- */

static int parse_options(struct waiting *w, int argc, char **argv)
{
	static const struct option options[] = {
		{"hostfile", required_argument, NULL, 'h'},
		{"timeout", required_argument, NULL, 't'},
		{NULL, 0, NULL, 0},
	};
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			w->file = optarg;
			break;
		case 't':
			if (launcher_number_option("timeout", argv, 1, TIMEOUT_MAX_S,
						   &w->timeout_s) != 0)
				return EXIT_USAGE;
			break;
		default:
			return launcher_bad_option(option, argv);
		}
	}
	if (optind != argc)
		return launcher_fail(EXIT_USAGE, "wait: it takes no operands");
	if (!w->file)
		return launcher_fail(EXIT_USAGE, "wait: --hostfile is missing");
	return 0;
}

static int read_hosts(struct waiting *w, struct err *err)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): parse_options wants one */
	int fd = open(w->file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, errno, "%s", w->file);
	struct buf text = BUF_INIT(HOSTFILE_BYTES);
	int status = file_read_all(fd, &text, err);
	size_t len;
	close(fd);
	w->text = buf_steal(&text, &len);
	if (status < 0)
		return err_wrap(err, "%s", w->file);
	if (hostfile_parse((struct str){w->text, len}, &w->hosts, &w->n, err) < 0)
		return err_wrap(err, "%s", w->file);
	w->workers = xcalloc(w->n, sizeof(*w->workers));
	for (size_t i = 0; i < w->n; i++)
		w->workers[i] = (struct worker){.all = w,
						.host = w->hosts[i],
						.backoff = BACKOFF_INIT(AGAIN_MS, AGAIN_MAX_MS)};
	return 0;
}

static int wait_for_all(struct waiting *w)
{
	int64_t began_ms = clock_mono_ms();
	w->deadline_ms = began_ms + w->timeout_s * 1000;
	loop_timer_init(&w->next, w->loop, on_next, w);
	loop_timer_init(&w->progress, w->loop, on_progress, w);
	loop_timer_init(&w->deadline, w->loop, on_deadline, w);
	loop_timer_start_at(&w->deadline, w->deadline_ms);
	loop_timer_start_in(&w->progress, PROGRESS_MS);
	loop_timer_start_in(&w->next, 0);
	int status = loop_run(w->loop);
	if (status == EXIT_SUCCESS)
		launcher_fail(0, "all %zu workers answer, after %.1f s", w->n,
			      (double)(clock_mono_ms() - began_ms) / 1000);
	loop_timer_stop(&w->next);
	loop_timer_stop(&w->progress);
	loop_timer_stop(&w->deadline);
	for (size_t i = 0; i < w->n; i++)
		remote_free(w->workers[i].remote);
	return status;
}

int launcher_wait(int argc, char **argv)
{
	struct waiting w = {.timeout_s = TIMEOUT_S};
	struct err err = ERR_INIT;
	int status = parse_options(&w, argc, argv);
	if (status != 0)
		return status;
	if (read_hosts(&w, &err) < 0 || cluster_init(&w.cluster, &err) < 0)
		status = launcher_fail(EXIT_USAGE, "wait: %s", err.msg);
	else if (loop_new(&w.loop, &err) < 0 || net_new(w.loop, &w.net, &err) < 0)
		status = launcher_fail(EXIT_FAILURE, "wait: %s", err.msg);
	else
		status = wait_for_all(&w);
	net_free(w.net);
	loop_free(w.loop);
	cluster_done(&w.cluster);
	hostfile_free(w.hosts, w.hosts ? w.n : 0);
	free(w.workers);
	free(w.text);
	return status;
}
