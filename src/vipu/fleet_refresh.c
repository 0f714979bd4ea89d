/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at one controller: its version, its IPUs and its partitions asked for at once; all must
 * answer, else it isn't reachable and the last view stays as it was. A look soon after another asks
 * for partitions alone: where many come and go it's the IPUs that would cost the controller most.
 * The member owns what is gathered.
 * Uses core, loop, grpc.
 */
#include "fleet_member.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/rand.h"

#define EXPECTED_MS 5000 /* so long a new controller may be without what it's asked with */

/* ---- when ---- */

static int64_t least_jittered(int64_t ms)
{
	return ms - ms / 10;
}

/* A tenth more or less, so that many replicas don't ask in step. */
static int64_t jittered(int64_t ms)
{
	return least_jittered(ms) + (int64_t)rand_below((uint64_t)(ms / 5 + 1));
}

static void schedule_next(struct fleet_member *m)
{
	const struct vipu_fleet_options *o = &m->fleet->options;

	/* One that doesn't answer is asked in the quick rhythm too: people mend it. */
	bool quick = m->fleet->waiting > 0 || m->c.reach != VIPU_REACH_YES;
	loop_timer_start_in(&m->timer, jittered(quick ? o->urgent_ms : o->idle_ms));
}

void fleet_member_schedule(struct fleet_member *m)
{
	int64_t soon = clock_mono_ms() + jittered(m->fleet->options.urgent_ms);

	if (m->unanswered == 0 && (!loop_timer_active(&m->timer) || m->timer.at_ms > soon))
		loop_timer_start_at(&m->timer, soon);
}

/* ---- the verdict ---- */

static bool same_ipus(const struct vipu_partition *a, const struct vipu_partition *b)
{
	if (a->n_ipus != b->n_ipus)
		return false;
	return a->n_ipus == 0 || memcmp(a->ipus, b->ipus, a->n_ipus * sizeof(*a->ipus)) == 0;
}

static bool same_partitions(const struct vipu_partitions *a, const struct vipu_partitions *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct vipu_partition *x = &a->items[i], *y = &b->items[i];
		if (strcmp(x->id, y->id) != 0 || x->ready != y->ready || !same_ipus(x, y))
			return false;
	}
	return true;
}

static void set_reach(struct fleet_member *m, enum vipu_reach reach)
{
	if (m->c.reach == reach)
		return;
	m->c.reach = reach;
	m->c.since_ms = clock_mono_ms();
}

static void take_answers(struct fleet_member *m)
{
	struct vipu_controller *c = &m->c;
	bool changed = c->reach != VIPU_REACH_YES ||
		       (m->asks_all && (c->machines.n_ipus != m->machines.n_ipus ||
					c->machines.n != m->machines.n)) ||
		       !same_partitions(&c->partitions, &m->partitions);

	if (c->reach != VIPU_REACH_YES)
		log_info("vipu", c->name, "controller answers version=%s ipus=%zu partitions=%zu",
			 c->version, m->machines.n_ipus, m->partitions.n);
	if (m->asks_all) {
		vipu_machines_done(&c->machines);
		c->machines = m->machines;
		m->machines = (struct vipu_machines){0};
		m->all_ms = m->asked_ms;
	}
	vipu_partitions_done(&c->partitions);
	c->partitions = m->partitions;
	m->partitions = (struct vipu_partitions){0};
	vipu_layout_done(&c->layout);
	vipu_layout_make(c->machines.n_ipus, &c->partitions, &c->layout);
	vipu_capacity_of_layout(c->machines.n_ipus, &c->partitions, &c->layout, &c->capacity);
	set_reach(m, VIPU_REACH_YES);
	c->reason[0] = '\0';
	c->reason_kind = ERR_NONE;
	c->failing_since_ms = 0;
	c->fresh_ms = m->asked_ms;
	if (changed)
		fleet_member_changed(m);
}

/* The controller's words, and where people can mend it: who waits reads them in a job's status. */
static void describe_failure(const struct vipu_controller *c, const struct err *failure,
			     char ret_z[sizeof(c->reason)])
{
	const char *secret = c->address.secret_name;
	bool denied = failure->code == GRPC_UNAUTHENTICATED ||
		      failure->code == GRPC_PERMISSION_DENIED;

	if (denied && failure->kind == ERR_DENIED && secret[0])
		snprintf(ret_z, sizeof(c->reason),
			 "%.100s: look at userId and accessKey of Secret %.100s", failure->msg,
			 secret);
	else if (denied && failure->kind == ERR_DENIED)
		snprintf(ret_z, sizeof(c->reason),
			 "%.140s: it wants a user id and an access key, by secretName",
			 failure->msg);
	else if (secret[0] && strstr(failure->msg, "certificate"))
		snprintf(ret_z, sizeof(c->reason), "%.130s: look at ca.crt of Secret %.90s",
			 failure->msg, secret);
	else
		snprintf(ret_z, sizeof(c->reason), "%s", failure->msg);
}

/* What it's asked with is being read: that's no trouble yet. */
static bool is_early(const struct fleet_member *m)
{
	return m->expected && m->c.reach == VIPU_REACH_UNKNOWN &&
	       clock_mono_ms() - m->c.since_ms < EXPECTED_MS;
}

static void take_failure(struct fleet_member *m)
{
	struct vipu_controller *c = &m->c;
	char reason[sizeof(c->reason)];
	bool changed;

	vipu_machines_done(&m->machines);
	vipu_partitions_done(&m->partitions);
	if (is_early(m))
		return;
	describe_failure(c, &m->failure, reason);
	changed = c->reach != VIPU_REACH_NO || strcmp(c->reason, reason) != 0;
	if (changed)
		log_warn("vipu", c->name, "controller doesn't answer: %s", reason);
	set_reach(m, VIPU_REACH_NO);
	if (c->failing_since_ms == 0)
		c->failing_since_ms = m->asked_ms;
	memcpy(c->reason, reason, sizeof(reason));
	c->reason_kind = m->failure.kind;
	if (changed)
		fleet_member_changed(m);
}

static void begin_look(struct fleet_member *m);

/* All questions have been answered, one way or the other. */
static void conclude(struct fleet_member *m)
{
	bool failed = m->failure.kind != ERR_NONE;
	struct err failure = m->failure;
	struct list served = LIST_INIT(served);

	if (failed)
		take_failure(m);
	else
		take_answers(m);
	while (!list_empty(&m->served)) {
		struct list *first = m->served.next;
		list_unlink(first);
		list_append(&served, first);
	}
	if (m->again || !list_empty(&m->later))
		begin_look(m);
	else
		schedule_next(m);
	while (!list_empty(&served)) {
		struct fleet_refresh *r = CONTAINER_OF(served.next, struct fleet_refresh, place);
		/* The member may go in any of the callbacks; its memory stays for this turn. */
		if (m->gone)
			fleet_refresh_gone(r);
		else
			fleet_refresh_end(r, failed ? &failure : NULL, &m->c);
	}
}

static void note_answer(struct fleet_member *m, const struct err *err)
{
	if (err && m->failure.kind == ERR_NONE)
		m->failure = *err;
	if (--m->unanswered == 0)
		conclude(m);
}

/* ---- the questions ---- */

static void on_version(void *arg, const struct err *err, const char *version)
{
	struct fleet_member *m = arg;

	if (!err && strcmp(m->c.version, version) != 0) {
		free(m->c.version);
		m->c.version = xstrdup(version);
	}
	/* An old controller may lack this one. */
	note_answer(m, err && err->kind == ERR_UNSUPPORTED ? NULL : err);
}

static void on_agents(void *arg, const struct err *err, struct vipu_agents *got)
{
	struct fleet_member *m = arg;
	struct err bad;

	if (!err && vipu_machines_take(got, &m->machines, &bad) < 0)
		err = &bad;
	note_answer(m, err);
}

static void on_partitions(void *arg, const struct err *err, struct vipu_partitions *got)
{
	struct fleet_member *m = arg;

	if (!err) {
		m->partitions = *got;
		*got = (struct vipu_partitions){0};
	}
	note_answer(m, err);
}

static void begin_look(struct fleet_member *m)
{
	unsigned call_ms = m->fleet->options.call_ms;
	struct vipu_client *client = m->c.client;

	loop_timer_stop(&m->timer);
	m->asked_ms = clock_mono_ms();
	m->failure = (struct err)ERR_INIT;
	m->again = false;
	m->asks_all = m->c.reach != VIPU_REACH_YES ||
		      m->asked_ms - m->all_ms >= least_jittered(m->fleet->options.urgent_ms);
	m->unanswered = m->asks_all ? 3 : 1;
	while (!list_empty(&m->later)) {
		struct list *first = m->later.next;
		list_unlink(first);
		list_append(&m->served, first);
	}
	grpc_channel_retry_now(vipu_client_channel(client));
	if (m->asks_all) {
		vipu_get_version_start(client, call_ms, on_version, m, &m->calls);
		vipu_list_ipu_attributes_start(client, NULL, 0, call_ms, on_agents, m, &m->calls);
	}
	/* All partitions that the user may see, whatever their allocation: they're taken. */
	vipu_list_partitions_start(client, NULL, call_ms, on_partitions, m, &m->calls);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	begin_look(arg);
}

void fleet_member_ask(struct fleet_member *m)
{
	if (m->unanswered == 0)
		begin_look(m);
	else
		m->again = true;
}

void fleet_member_await(struct fleet_member *m, struct fleet_refresh *r)
{
	list_append(&m->later, &r->place);
	if (m->unanswered == 0)
		begin_look(m);
}

/* ---- begin and end ---- */

void fleet_member_init(struct fleet_member *m)
{
	scope_init(&m->calls);
	list_init(&m->served);
	list_init(&m->later);
	loop_timer_init(&m->timer, m->fleet->loop, on_timer, m);
	begin_look(m);
}

static void end_waiting(struct list *waiting)
{
	while (!list_empty(waiting))
		fleet_refresh_gone(CONTAINER_OF(waiting->next, struct fleet_refresh, place));
}

void fleet_member_done(struct fleet_member *m)
{
	m->gone = true;
	loop_timer_stop(&m->timer);
	scope_cancel(&m->calls);
	vipu_machines_done(&m->machines);
	vipu_partitions_done(&m->partitions);
	end_waiting(&m->served);
	end_waiting(&m->later);
}

static void free_address(void *p)
{
	vipu_address_done(p);
	free(p);
}

void fleet_member_set_address(struct fleet_member *m, struct vipu_address *fresh)
{
	struct vipu_address *old = xcalloc(1, sizeof(*old));

	/* Users may be reading the old strings in this turn. */
	*old = m->c.address;
	loop_reap(m->fleet->loop, old, free_address);
	m->c.address = *fresh;
	m->c.name = m->c.address.name;
}
