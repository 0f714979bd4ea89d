/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of the process and of what it acts on. Gauges are brought up to date when they are asked
 * for, so that keeping them costs nothing in between.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>
#include <errno.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/str.h"
#include "daemon/internal.h"

#define METRICS_LIMIT ((size_t)8 << 20)

static struct {
	struct metric *build_info, *jobs, *pods, *leader, *lag, *slow_turns;
	struct metric *cpu, *resident, *virtual_bytes, *fds, *max_fds, *start;
} m;

static void collect_pods(const struct daemon *d)
{
	size_t counts[POD_STAGES];

	pod_controller_count(d->pods, counts);
	for (int i = 0; i < POD_STAGES; i++) {
		const char *values[] = {pod_stage_name((enum pod_stage)i)};

		metric_set(m.pods, values, (double)counts[i]);
	}
}

static void collect_jobs(const struct daemon *d)
{
	size_t counts[JOB_STAGES];

	metric_clear(m.jobs);
	metric_clear(m.pods);
	if (!d->jobs) /* another process leads, and counts them */
		return;
	job_controller_count(d->jobs, counts);
	for (int i = 0; i < JOB_STAGES; i++) {
		const char *values[] = {job_stage_word((enum job_condition_type)i)};

		metric_set(m.jobs, values, (double)counts[i]);
	}
	collect_pods(d);
}

static unsigned count_fds(const struct rlimit *limit)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir) /* it takes one: there is none left */
		return errno == EMFILE ? (unsigned)limit->rlim_cur : 0;
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
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		metric_set(m.max_fds, NULL, (double)limit.rlim_cur);
		metric_set(m.fds, NULL, count_fds(&limit));
	}
}

static void collect(void *arg)
{
	struct daemon *d = arg;
	const char *leases[] = {d->lease_name};

	observe_fleet_collect(d->observe_fleet);
	collect_jobs(d);
	collect_process();
	if (d->lease || d->leading)
		metric_set(m.leader, leases, d->leading);
	metric_set(m.lag, NULL, (double)loop_longest_turn_us(d->loop) / 1e6);
	metric_add(m.slow_turns, NULL,
		   (double)loop_slow_turns(d->loop) - metric_value(m.slow_turns, NULL));
}

static struct metric *gauge(const char *name, const char *help, const char *const *labels)
{
	return metric_new(METRIC_GAUGE, name, help, labels, NULL, 0);
}

static void register_metrics(void)
{
	static const char *const by_version[] = {"version", NULL};
	static const char *const by_state[] = {"state", NULL};
	static const char *const by_lease[] = {"lease", NULL};

	m.build_info = gauge("ipu_operator_build_info", "1, with the version.", by_version);
	m.jobs = gauge("ipu_operator_jobs", "IPUJobs by what they are doing.", by_state);
	m.pods = gauge("ipu_operator_annotated_pods", "Annotated Pods by how far they are.",
		       by_state);
	m.leader = gauge("ipu_operator_leader", "1: this process holds the Lease, and acts.",
			 by_lease);
	m.lag = gauge("ipu_operator_loop_longest_turn_seconds",
		      "The longest turn of the loop since the last scrape.", NULL);
	m.slow_turns = metric_new(METRIC_COUNTER, "ipu_operator_loop_slow_turns_total",
				  "Turns of the loop longer than log.slowTurnMilliseconds.", NULL,
				  NULL, 0);
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
	d->observe_fleet = observe_fleet_new(d);
	metrics_on_collect(collect, d);
}

void observe_stop(struct daemon *d)
{
	metrics_off_collect(collect, d);
	observe_fleet_free(d->observe_fleet);
	d->observe_fleet = NULL;
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
