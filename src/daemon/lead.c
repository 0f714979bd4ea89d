/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who acts: contends for the Lease, and makes the parts that act while it is held. Those that don't
 * lead follow: the same partition layer, which then only shows what the tracker says.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/rand.h"
#include "core/str.h"
#include "daemon/internal.h"

#define RELEASE_DEADLINE_MS 3000
#define SUPERSEDED_MS       2000
#define SUPERSEDED_MAX_MS   60000

/* ---- the parts ---- */

/* Requests are answered from what is current: until it has been read, a follower's view of before
 * goes on being shown. */
static void show_current(struct daemon *d)
{
	if (d->proxy) {
		proxy_set_leader(d->proxy, d->leading, NULL);
		proxy_set_partitions(d->proxy, d->partitions);
	}
	partitions_free(d->outgoing);
	d->outgoing = NULL;
}

static void on_partitions_synced(void *arg)
{
	struct daemon *d = arg;

	if (d->outgoing)
		show_current(d);
	if (d->jobs)
		job_controller_partitions_synced(d->jobs);
	if (d->pods)
		pod_controller_partitions_synced(d->pods);
}

static void on_partition_changed(const struct partition_owner *owner, void *arg)
{
	struct daemon *d = arg;

	if (d->proxy)
		proxy_partition_changed(d->proxy, owner);
	tell_changed(d, owner->uid, true);
	if (d->jobs)
		job_controller_partition_changed(d->jobs, owner);
	if (d->pods)
		pod_controller_partition_changed(d->pods, owner);
}

static void on_report(const char *reason, const char *object, const char *uid, const char *message,
		      void *arg)
{
	struct daemon *d = arg;
	struct kube_ref about = {
		.api_version = "v1", .kind = "ConfigMap", .ns = d->ns, .name = object, .uid = uid};
	bool normal = strcmp(reason, "TrackerTakenOver") == 0;

	kube_event(d->recorder, &about, normal ? KUBE_EVENT_NORMAL : KUBE_EVENT_WARNING, reason,
		   "%s", message);
}

/* Asked before every call that changes something on a controller. */
static bool may_act(void *arg)
{
	const struct daemon *d = arg;

	return !d->lease || kube_lease_held(d->lease);
}

/* Somebody has taken the tracker although this process leads: both were told to act without a
 * Lease, or people's hands were in it. */
static void on_superseded(void *arg)
{
	struct daemon *d = arg;

	loop_work_post(&d->yield_work);
}

static enum schedule_choice choice_of(const struct config *c)
{
	return strcmp(c->choice, "bestFit") == 0 ? SCHEDULE_BEST_FIT : SCHEDULE_FIRST_FIT;
}

static struct partitions *make_partitions(struct daemon *d)
{
	const struct config *c = d->config;
	struct partitions_config pc = {
		.ns = d->ns,
		.tracker_name = c->tracker,
		.times = partition_times_default,
		.choice = choice_of(c),
		.rules = &c->policy,
		.follow = !d->leading,
		.fleet_pending = !controllers_synced(d->controllers),
		.nodes_pending = d->leading && d->heed && c->heed_nodes,
		.on_report = on_report,
		.may_act = may_act,
		.on_superseded = on_superseded,
	};

	pc.times.call_ms = c->call_s * 1000;
	pc.times.window_ms = pc.times.call_ms;
	pc.times.active_ms = c->active_s * 1000;
	pc.times.grace_ms = c->remove_grace_s * 1000;
	pc.times.orphan_ms = c->orphan_s * 1000;
	return partitions_new(d->loop, d->kube, d->fleet, &pc, on_partitions_synced,
			      on_partition_changed, d);
}

static bool is_privileged(const struct config *c)
{
	return strcmp(c->privileged, "auto") == 0 ? c->host_network
						  : strcmp(c->privileged, "true") == 0;
}

static struct partition_service *service_of(const struct daemon *d)
{
	return d->remote ? partition_remote_service(d->remote) : partitions_service(d->partitions);
}

struct job_pod_settings daemon_pod_settings(const struct config *c)
{
	return (struct job_pod_settings){
		.host_network = c->host_network,
		.privileged = is_privileged(c),
		.dns_policy = strcmp(c->dns_policy, "auto") == 0 ? NULL : c->dns_policy,
		.rdma = job_rdma_of(c->host_network, c->rdma_network, c->rdma_resource,
				    c->rdma_amount, c->ipc_lock),
		.launcher_image = c->launcher_image,
		.launcher_pull = strcmp(c->launcher_pull, "auto") == 0 ? NULL : c->launcher_pull,
		.mpi_interface = c->mpi_interface[0] ? c->mpi_interface : NULL,
		.worker_wait_s = (unsigned)c->worker_wait_s,
	};
}

static struct job_timing job_timing(const struct config *c)
{
	return (struct job_timing){
		.backoff_ms = c->backoff_s * 1000,
		.backoff_max_ms = c->backoff_max_s * 1000,
		.start_deadline_ms = c->start_deadline_s * 1000,
		.unreachable_ms = c->unreachable_s * 1000,
		.ranks_end_ms = c->ranks_end_s * 1000,
	};
}

void lead_reload(struct daemon *d)
{
	const struct config *c = d->config;
	struct job_pod_settings pods = daemon_pod_settings(c);
	struct job_timing timing = job_timing(c);

	if (d->partitions)
		partitions_set_policy(d->partitions, &c->policy, choice_of(c));
	if (d->outgoing)
		partitions_set_policy(d->outgoing, &c->policy, choice_of(c));
	if (d->jobs)
		job_controller_set(d->jobs, &pods, &timing);
	if (d->pods)
		pod_controller_set(d->pods, timing.unreachable_ms);
}

static void on_job_changed(void *arg, const char *uid, bool of_pod)
{
	struct daemon *d = arg;

	if (d->proxy && of_pod)
		proxy_pods_changed(d->proxy);
	tell_changed(d, uid, of_pod);
}

static void on_pod_changed(void *arg)
{
	tell_changed(arg, NULL, false);
}

struct pod_taker {
	proxy_pod_fn *fn;
	void *arg;
};

static void pass_pod(const struct job_pod *pod, void *arg)
{
	const struct pod_taker *to = arg;
	const struct proxy_pod same = {pod->name, job_pod_phase_name(pod->phase),
				       pod->node ? pod->node : ""};

	to->fn(to->arg, &same);
}

void lead_pods(void *arg, const struct partition_owner *owner, uint32_t instance, proxy_pod_fn *fn,
	       void *fn_arg)
{
	const struct daemon *d = arg;
	struct pod_taker to = {fn, fn_arg};

	if (d->jobs)
		job_controller_each_pod(d->jobs, owner, instance, pass_pod, &to);
}

struct held_taker {
	proxy_held_fn *fn;
	void *arg;
};

static void pass_held(const struct held_taker *to, struct proxy_held whose,
		      const struct job_held *held)
{
	whose.ipus = held->ipus;
	whose.since_ms = held->since_ms;
	whose.reason = held->reason;
	whose.message = held->message;
	whose.plain = held->plain;
	to->fn(to->arg, &whose);
}

static void pass_held_job(const struct job *job, const struct job_held *held, void *arg)
{
	pass_held(arg,
		  (struct proxy_held){
			  .uid = job->uid, .ns = job->ns, .kind = JOB_KIND, .name = job->name},
		  held);
}

static void pass_held_pod(const struct pod *pod, const struct job_held *held, void *arg)
{
	pass_held(arg,
		  (struct proxy_held){
			  .uid = pod->uid, .ns = pod->ns, .kind = POD_KIND, .name = pod->name},
		  held);
}

bool lead_helds_until(const struct daemon *d, proxy_held_fn *fn, void *fn_arg, int64_t *due_ms)
{
	struct held_taker to = {fn, fn_arg};

	return d->jobs && job_controller_each_held(d->jobs, pass_held_job, &to, due_ms) &&
	       pod_controller_each_held(d->pods, pass_held_pod, &to, due_ms);
}

bool lead_helds(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more)
{
	int64_t due_ms = 0;

	(void)ret_more; /* it tells of all */
	return lead_helds_until(arg, fn, fn_arg, &due_ms);
}

static struct job_controller *make_jobs(struct daemon *d)
{
	const struct config *c = d->config;
	struct job_controller_opts opts = {
		.loop = d->loop,
		.kube = d->kube,
		.recorder = d->recorder,
		.partitions = service_of(d),
		.pods = daemon_pod_settings(c),
		.timing = job_timing(c),
		.on_change = on_job_changed,
		.on_change_arg = d,
	};

	return job_controller_new(&opts);
}

static struct pod_controller *make_pods(struct daemon *d)
{
	struct pod_controller_opts opts = {
		.loop = d->loop,
		.kube = d->kube,
		.recorder = d->recorder,
		.partitions = service_of(d),
		.unreachable_ms = d->config->unreachable_s * 1000,
		.on_change = on_pod_changed,
		.on_change_arg = d,
	};

	return pod_controller_new(&opts);
}

char *daemon_proxy_url(const struct daemon *d)
{
	return d->config->proxy_url[0]
		       ? xstrdup(d->config->proxy_url)
		       : xasprintf("https://ipu-operator-vipu-proxy.%s.svc:443", d->ns);
}

/* Without the role proxy: partitions are another process's. */
static void make_remote(struct daemon *d)
{
	const struct config *c = d->config;
	CLEANUP_FREE char *url = daemon_proxy_url(d);
	struct partition_remote_config rc = {
		.url = url,
		.tls = d->proxy_trust,
		.token_file = c->proxy_token,
		.ns = d->ns,
		.tracker_name = c->tracker,
		.may_act = may_act,
	};
	struct err err;

	if (partition_remote_new(d->net, d->kube, &rc, on_partitions_synced, on_partition_changed,
				 d, &d->remote, &err) < 0)
		log_error("daemon", NULL, "%s", err.msg); /* config.c has checked it */
}

/* Whether there is anything to lead in: the webhooks alone are served by every replica alike. */
static bool acts(const struct config *c)
{
	return (c->roles & (ROLE_CONTROLLER | ROLE_PROXY)) != 0;
}

static void drop_parts(struct daemon *d)
{
	job_controller_free(d->jobs);
	d->jobs = NULL;
	pod_controller_free(d->pods);
	d->pods = NULL;
	partition_remote_free(d->remote);
	d->remote = NULL;
	partitions_free(d->partitions);
	d->partitions = NULL;
}

/* As leading says. What was under way is given up: whoever goes on presumes that it takes effect.
 */
static void remake_parts(struct daemon *d)
{
	bool was_following = d->following;

	if (!acts(d->config))
		return;
	observe_fleet_led(d->observe_fleet);
	advert_led(d);
	heed_led(d);
	d->following = !d->leading;
	loop_timer_stop(&d->return_timer);
	if (!(d->config->roles & ROLE_PROXY)) {
		drop_parts(d);
		if (d->leading)
			make_remote(d);
	} else if (d->leading && was_following && !d->outgoing &&
		   partitions_synced(d->partitions)) {
		d->outgoing = d->partitions;
		d->partitions = make_partitions(d);
	} else {
		drop_parts(d);
		d->partitions = make_partitions(d);
		show_current(d);
	}
	if (d->leading && (d->config->roles & ROLE_CONTROLLER)) {
		d->tell.told = 0;
		d->jobs = make_jobs(d);
		d->pods = make_pods(d);
	}
}

/* Follows for a while. Not at once again, or two would take it from each other for ever. */
static void on_yield(struct loop_work *work, void *arg)
{
	struct daemon *d = arg;
	int64_t pause_ms = backoff_next_ms(&d->superseded, NULL);

	(void)work;
	if (!d->leading)
		return;
	log_warn("daemon", NULL,
		 "another process acts although this one leads: it follows for %" PRId64 " ms",
		 pause_ms);
	d->leading = false;
	remake_parts(d);
	loop_timer_start_in(&d->return_timer, pause_ms);
}

static void on_return(struct loop_timer *timer, void *arg)
{
	struct daemon *d = arg;

	(void)timer;
	d->leading = !d->lease || kube_lease_held(d->lease);
	if (d->leading)
		remake_parts(d);
}

/* ---- the Lease ---- */

static void on_gained(void *arg)
{
	struct daemon *d = arg;

	log_info("daemon", NULL, "leads: lease=%s", d->lease_name);
	d->leading = true;
	remake_parts(d);
}

static void on_lost(void *arg)
{
	struct daemon *d = arg;

	log_warn("daemon", NULL, "doesn't lead any more: lease=%s", d->lease_name);
	d->leading = false;
	remake_parts(d);
}

static void on_holder(void *arg, const char *identity, const char *address)
{
	struct daemon *d = arg;

	if (d->leading || !d->proxy)
		return;
	proxy_set_leader(d->proxy, false, address[0] ? address : NULL);
	log_info("daemon", NULL, "follows: lease=%s holder=%s", d->lease_name,
		 identity[0] ? identity : "nobody");
}

/* Of one process at a time: a name alone could be that of a second one on the same node. */
static void make_identity(const struct config *c, char *z, size_t size)
{
	char host[128] = "ipu-operator";

	(void)gethostname(host, sizeof(host) - 1);
	if (c->lease_identity[0])
		snprintf(z, size, "%s", c->lease_identity);
	else
		snprintf(z, size, "%s_%016llx", host, (unsigned long long)rand_u64());
}

static int contend(struct daemon *d, struct err *err)
{
	static const struct kube_lease_ops ops = {
		.on_gained = on_gained, .on_lost = on_lost, .on_holder = on_holder};
	const struct config *c = d->config;
	char identity[KUBE_LEASE_WORD_SIZE];
	struct kube_lease_opts opts = {
		.ns = d->ns,
		.name = d->lease_name,
		.identity = identity,
		.address = c->advertise[0] ? c->advertise : NULL,
	};

	make_identity(c, identity, sizeof(identity));
	return kube_lease_start(d->kube, &opts, &ops, d, &d->lease, err);
}

/* ---- life ---- */

int lead_start(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;

	loop_work_init(&d->yield_work, d->loop, on_yield, d);
	loop_timer_init(&d->return_timer, d->loop, on_return, d);
	d->superseded = (struct backoff)BACKOFF_INIT(SUPERSEDED_MS, SUPERSEDED_MAX_MS);
	d->lease_name = xasprintf("%s-%s", c->lease_prefix,
				  c->roles & ROLE_PROXY ? "partitions" : "controller");
	d->leading = !c->lease_enabled && acts(c);
	remake_parts(d);
	return c->lease_enabled && acts(c) ? contend(d, err) : 0;
}

static void on_released(void *arg, const struct err *err)
{
	struct daemon *d = arg;

	if (err)
		log_warn("daemon", NULL, "the Lease couldn't be given back: %s", err->msg);
	d->lease_given_back = true;
	daemon_stopped_a_part(d);
}

void lead_give_back(struct daemon *d)
{
	d->leading = false;
	remake_parts(d); /* first: whoever gives back a Lease has stopped acting */
	/* Also one that isn't held: it mustn't be taken by a process that is on its way out. */
	if (d->lease) {
		int64_t stop_ms = daemon_stop_ms(d);

		kube_lease_release(d->lease,
				   stop_ms < RELEASE_DEADLINE_MS ? (unsigned)stop_ms
								 : RELEASE_DEADLINE_MS,
				   on_released, d);
		return;
	}
	d->lease_given_back = true;
	daemon_stopped_a_part(d);
}

void lead_stop(struct daemon *d)
{
	kube_lease_free(d->lease);
	d->lease = NULL;
	if (d->return_timer.loop) {
		loop_work_cancel(&d->yield_work);
		loop_timer_stop(&d->return_timer);
	}
	drop_parts(d);
	partitions_free(d->outgoing);
	free(d->lease_name);
}
