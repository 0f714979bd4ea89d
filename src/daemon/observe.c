/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health and metrics: what the daemon says of itself. Gauges are brought up to date when they are
 * asked for, so that keeping them costs nothing in between.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/str.h"
#include "daemon/internal.h"

#define METRICS_LIMIT ((size_t)8 << 20)

/* ---- health ---- */

bool observe_is_ready(const struct daemon *d, struct err *why)
{
	if (d->stopping) {
		err_set(why, ERR_UNAVAILABLE, 0, "stopping");
		return false;
	}
	if (d->lease && kube_lease_error(d->lease)) {
		err_set(why, ERR_UNAVAILABLE, 0, "leadership: %s", kube_lease_error(d->lease)->msg);
		return false;
	}
	/* The API server needs whoever has the webhooks, whether the proxy is there or not. */
	if (d->remote && !d->webhook && partition_remote_error(d->remote)->kind != ERR_NONE) {
		err_set(why, ERR_UNAVAILABLE, 0, "proxy: %s",
			partition_remote_error(d->remote)->msg);
		return false;
	}
	if (d->controllers && controllers_check(d->controllers, why) < 0) {
		err_wrap(why, "proxy");
		return false;
	}
	if (d->partitions && !partitions_synced(d->partitions)) {
		err_set(why, ERR_UNAVAILABLE, 0,
			"proxy: the partition tracker hasn't been read yet");
		return false;
	}
	/* Nobody has led yet, and this one could: it's a matter of seconds. */
	if (!d->leading && d->lease && !kube_lease_holder(d->lease)[0]) {
		err_set(why, ERR_UNAVAILABLE, 0, "leadership: no process leads yet");
		return false;
	}
	if (d->cert && !cert_tls(d->cert)) {
		err_set(why, ERR_UNAVAILABLE, 0, "certificates: there is none yet");
		return false;
	}
	if (d->jobs && !job_controller_ready(d->jobs, why)) {
		err_wrap(why, "controller");
		return false;
	}
	if (d->pods && !pod_controller_ready(d->pods, why)) {
		err_wrap(why, "controller");
		return false;
	}
	return !d->webhook || webhook_ready(d->webhook, why);
}

static void handle_healthz(struct http_exchange *ex, void *arg)
{
	(void)arg;
	/* Whoever answers runs the loop: that it answers is the check. */
	http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok\n"));
}

static void handle_readyz(struct http_exchange *ex, void *arg)
{
	struct err why;

	if (observe_is_ready(arg, &why))
		http_reply(ex, 200, "text/plain; charset=utf-8", NULL, 0, STR("ok\n"));
	else
		http_reply_problem(ex, 503, "%s", why.msg);
}

void observe_handle_health(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, "/healthz", handle_healthz},
		{HTTP_METHOD_GET, "/readyz", handle_readyz},
		{0, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

/* ---- metrics ---- */

static struct {
	struct metric *build_info, *up, *capacity, *ipus, *partitions, *waiting, *jobs, *pods,
		*leader, *lag;
	struct metric *cpu, *resident, *virtual_bytes, *fds, *max_fds, *start;
} m;

static const char *const phase_labels[] = {"creating", "active", "resetting", "releasing",
					   "orphan"};

struct sums {
	const struct partitions *partitions;
	const char *controller;
	int64_t used;
	unsigned phases[5];
};

static void add_used(const struct partition_entry *e, void *arg)
{
	struct sums *s = arg;

	s->phases[e->phase]++;
	if (s->controller && strcmp(s->controller, e->controller) == 0 &&
	    partition_holds_ipus(s->partitions, e))
		s->used += e->ask.ipus;
}

static void set_ipus(const char *controller, const char *state, int64_t n)
{
	const char *values[] = {controller, state};

	metric_set(m.ipus, values, n > 0 ? (double)n : 0);
}

static void collect_fleet(const struct daemon *d)
{
	for (size_t i = 0; i < vipu_fleet_len(d->fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(d->fleet, i);
		struct sums s = {.partitions = d->partitions, .controller = c->name};
		const char *values[] = {c->name};

		partitions_each_entry(d->partitions, add_used, &s);
		metric_set(m.up, values, c->reach == VIPU_REACH_YES);
		metric_set(m.capacity, values, c->capacity.total_ipus);
		set_ipus(c->name, "used", s.used);
		set_ipus(c->name, "external", (int64_t)c->capacity.taken_ipus - s.used);
		set_ipus(c->name, "free", c->capacity.free_ipus);
	}
}

static void collect_pods(const struct daemon *d)
{
	size_t counts[POD_STAGES];

	pod_controller_count(d->pods, counts);
	for (int i = 0; i < POD_STAGES; i++) {
		const char *values[] = {pod_stage_name((enum pod_stage)i)};

		metric_set(m.pods, values, (double)counts[i]);
	}
}

static void collect_work(const struct daemon *d)
{
	static const char *const states[] = {"Pending",   "Running",   "Restarting",
					     "Suspended", "Completed", "Failed"};
	struct sums s = {0};
	size_t counts[JOB_STAGES];

	if (d->partitions) {
		partitions_each_entry(d->partitions, add_used, &s);
		for (size_t i = 0; i < 5; i++)
			metric_set(m.partitions, &phase_labels[i], s.phases[i]);
		metric_set(m.waiting, NULL, (double)partitions_waiting(d->partitions));
	}
	if (!d->jobs)
		return;
	job_controller_count(d->jobs, counts);
	for (size_t i = 0; i < JOB_STAGES; i++)
		metric_set(m.jobs, &states[i], (double)counts[i]);
	collect_pods(d);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the folder itself */
}

static void collect_process(void)
{
	struct rusage usage;
	struct rlimit limit;
	unsigned long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f) {
		if (fscanf(f, "%lu %lu", &pages, &resident) == 2) {
			double page = (double)sysconf(_SC_PAGESIZE);

			metric_set(m.virtual_bytes, NULL, (double)pages * page);
			metric_set(m.resident, NULL, (double)resident * page);
		}
		fclose(f);
	}
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;

		metric_add(m.cpu, NULL, seconds - metric_value(m.cpu, NULL));
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		metric_set(m.max_fds, NULL, (double)limit.rlim_cur);
	metric_set(m.fds, NULL, count_fds());
}

static void collect(void *arg)
{
	struct daemon *d = arg;
	const char *leases[] = {d->lease_name};

	if (d->partitions)
		collect_fleet(d);
	collect_work(d);
	collect_process();
	if (d->lease || d->leading)
		metric_set(m.leader, leases, d->leading);
	metric_set(m.lag, NULL, (double)loop_longest_turn_us(d->loop) / 1e6);
}

static struct metric *gauge(const char *name, const char *help, const char *const *labels)
{
	return metric_new(METRIC_GAUGE, name, help, labels, NULL, 0);
}

static void register_metrics(void)
{
	static const char *const by_version[] = {"version", NULL};
	static const char *const by_controller[] = {"controller", NULL};
	static const char *const by_place[] = {"controller", "state", NULL};
	static const char *const by_state[] = {"state", NULL};
	static const char *const by_lease[] = {"lease", NULL};

	m.build_info = gauge("ipu_operator_build_info", "1, with the version.", by_version);
	m.up = gauge("ipu_operator_controller_up", "1: the controller answered the last call.",
		     by_controller);
	m.capacity = gauge("ipu_operator_capacity_ipus", "IPUs that the controller lists.",
			   by_controller);
	m.ipus = gauge("ipu_operator_ipus",
		       "IPUs in partitions of the operator, in others, and in none.", by_place);
	m.partitions = gauge("ipu_operator_partitions", "Entries of the tracker.", by_state);
	m.waiting = gauge("ipu_operator_partitions_waiting", "Instances that wait for a partition.",
			  NULL);
	m.jobs = gauge("ipu_operator_jobs", "IPUJobs by what they are doing.", by_state);
	m.pods = gauge("ipu_operator_annotated_pods", "Annotated Pods by how far they are.",
		       by_state);
	m.leader = gauge("ipu_operator_leader", "1: this process holds the Lease, and acts.",
			 by_lease);
	m.lag = gauge("ipu_operator_loop_longest_turn_seconds",
		      "The longest turn of the loop since the last scrape.", NULL);
	m.cpu = metric_new(METRIC_COUNTER, "process_cpu_seconds_total", "CPU time.", NULL, NULL, 0);
	m.resident = gauge("process_resident_memory_bytes", "Memory.", NULL);
	m.virtual_bytes = gauge("process_virtual_memory_bytes", "Address space.", NULL);
	m.fds = gauge("process_open_fds", "Open descriptors.", NULL);
	m.max_fds = gauge("process_max_fds", "Most descriptors that may be open.", NULL);
	m.start = gauge("process_start_time_seconds", "Start, in seconds since 1970.", NULL);
}

void observe_start(struct daemon *d)
{
	static const char *const version[] = {PACKAGE_VERSION};

	register_metrics();
	metric_set(m.build_info, version, 1);
	metric_set(m.start, NULL, (double)clock_wall_ms() / 1000);
	metrics_on_collect(collect, d);
}

void observe_stop(struct daemon *d)
{
	metrics_off_collect(collect, d);
}

void observe_reply_metrics(struct http_exchange *ex)
{
	static const char text_type[] = "text/plain; version=0.0.4; charset=utf-8";
	static const char open_type[] =
		"application/openmetrics-text; version=1.0.0; charset=utf-8";
	enum metrics_format format = metrics_choose(http_headers_get(ex->headers, "accept"));
	struct buf out = BUF_INIT(METRICS_LIMIT);
	struct err err;

	if (metrics_write(&out, format, &err) < 0)
		http_reply_err(ex, &err);
	else
		http_reply(ex, 200, format == METRICS_OPEN ? open_type : text_type, NULL, 0,
			   buf_str(&out));
	buf_done(&out);
}
