/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the partitions' port's end-points do, once it's known who asks and that they may. Owns
 * nothing. Uses the partition layer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/log.h"
#include "internal.h"

#define MAX_WAITING       256 /* requests that wait for a change */
#define MAX_WAITING_OWNER 8   /* of them, for one owner */
#define MAX_WAIT_S        60

/* One line for what changes something. */
static void log_change(const struct request *r, const struct partition_owner *o, const char *uid,
		       uint32_t instance, const char *what)
{
	CLEANUP_FREE char *object = o ? xasprintf("%s/%s", o->ns, o->name) : NULL;

	if (o)
		log_info("proxy", object, "%s: owner=%s/%s instance=%u caller=%s peer=%s", what,
			 o->kind, object, (unsigned)instance, r->caller.account, r->ex->peer);
	else
		log_info("proxy", NULL, "%s: owner=%s instance=%u caller=%s peer=%s", what, uid,
			 (unsigned)instance, r->caller.account, r->ex->peer);
}

static struct http_header etag_field(const char *etag)
{
	return (struct http_header){STR("ETag"), str_of(etag)};
}

/* Why status_text couldn't tell it: only what isn't there is told to be so. */
static void not_told(struct request *r, const struct err *err)
{
	if (err->kind == ERR_NOT_FOUND)
		request_problem(r, 404, "%s", err->msg);
	else
		request_unavailable(r, 1, err->msg);
}

static void reply_status(struct request *r, int status)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	char etag[ETAG_SIZE];
	struct err err;

	if (status_text(r->p->partitions, r->uid, r->instance, &text, etag, &err) < 0) {
		not_told(r, &err);
	} else {
		const struct http_header field = etag_field(etag);

		request_reply(r, status, &field, 1, buf_str(&text));
	}
	buf_done(&text);
}

/* ---- POST /v1/partitions ---- */

struct before {
	const struct partition_ask *ask;
	bool conflicts; /* another owner has this UID */
	bool asked;     /* this instance */
	bool same_need;
	uint32_t attempt; /* that is asked for */
	enum partition_state state;
};

static bool same_owner(const struct partition_owner *a, const struct partition_owner *b)
{
	return strcmp(a->kind, b->kind) == 0 && strcmp(a->ns, b->ns) == 0 &&
	       strcmp(a->name, b->name) == 0;
}

static void look_before(const struct partition_ask *ask, const struct partition_status *status,
			void *arg)
{
	struct before *b = arg;

	if (!same_owner(&ask->owner, &b->ask->owner))
		b->conflicts = true;
	if (ask->instance != b->ask->instance)
		return;
	b->state = status->state;
	b->asked = status->ask != NULL;
	b->same_need = b->asked && partition_ask_same_need(status->ask, b->ask);
	b->attempt = status->wanted_attempt;
}

static bool is_json(const struct request *r)
{
	struct str type = http_headers_get(r->ex->headers, "content-type"), rest;

	if (!type.p)
		return true;
	str_cut(type, ';', &type, &rest);
	return str_ieqz(str_trim(type), "application/json");
}

static bool is_there(enum partition_state state)
{
	return state == PARTITION_STATE_ACTIVE || state == PARTITION_STATE_FAILED;
}

static void reply_asked(struct request *r, bool created)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	char etag[ETAG_SIZE], location[sizeof(r->uid) + 64];
	struct err err;

	snprintf(location, sizeof(location), "/v1/partitions/%s/%u", r->uid, (unsigned)r->instance);
	if (status_text(r->p->partitions, r->uid, r->instance, &text, etag, &err) < 0) {
		if (err.kind == ERR_NOT_FOUND)
			request_problem(r, 500, "what was asked for isn't there");
		else
			request_unavailable(r, 1, err.msg);
	} else {
		const struct http_header fields[] = {etag_field(etag),
						     {STR("Location"), str_of(location)}};

		request_reply(r, created ? 201 : 200, fields, created ? 2 : 1, buf_str(&text));
	}
	buf_done(&text);
}

/* A Pod that asks for itself is on a node already, which its token names. */
static int add_node_labels(const struct request *r, struct partition_ask *ask, struct err *err)
{
	struct proxy *p = r->p;
	const struct proxy_caller *c = &r->caller;

	if (!p->node_labels || !c->node_name || !c->pod_uid ||
	    strcmp(c->pod_uid, ask->owner.uid) != 0)
		return 0;
	return p->node_labels(p->node_labels_arg, c->node_name, &ask->node_labels, err);
}

/* has_attempt: else it goes on with the one that is asked for. */
static void ask_for(struct request *r, struct partition_ask *ask, bool has_attempt, bool reset)
{
	struct before before = {.ask = ask};
	struct err err = ERR_INIT;

	if (forward(r))
		return;
	if (add_node_labels(r, ask, &err) < 0) {
		request_unavailable(r, 1, err.msg);
		return;
	}
	partitions_each_of(r->p->partitions, ask->owner.uid, look_before, &before);
	if (before.conflicts) {
		request_problem(r, 409,
				"owner.uid belongs to an owner of another kind, namespace or name: "
				"send the owner as it was sent first");
		return;
	}
	snprintf(r->uid, sizeof(r->uid), "%s", ask->owner.uid);
	r->instance = ask->instance;
	if (!has_attempt)
		ask->attempt = before.attempt;
	partition_ensure(r->p->partitions, ask);
	if (before.same_need && ask->attempt != before.attempt)
		log_change(r, &ask->owner, NULL, ask->instance, "asked for by another attempt");
	if (!before.same_need)
		log_change(r, &ask->owner, NULL, ask->instance,
			   before.asked ? "asked for otherwise" : "asked for");
	if (reset && before.same_need && is_there(before.state)) {
		log_change(r, &ask->owner, NULL, ask->instance, "asked to reset");
		partition_reset(r->p->partitions, r->uid, r->instance);
	}
	reply_asked(r, !before.asked);
}

static void run_ask(struct request *r)
{
	struct partition_ask ask = {0};
	struct err err = ERR_INIT;
	bool reset, has_attempt;

	if (!is_json(r)) {
		request_problem(r, 415, "the body must be JSON: Content-Type: application/json");
		return;
	}
	if (!request_flag(r, "reset", &reset))
		return;
	if (ask_parse(r->ex->body, &ask, &has_attempt, &err) < 0) {
		request_refuse(r, &err);
		return;
	}
	if (proxy_caller_check_ask(&r->caller, &ask, &err) < 0)
		request_problem(r, 403, "%s", err.msg);
	else if (reset && has_attempt)
		request_problem(r, 400,
				"reset=true is for owners that send no attempt: another "
				"attempt is a reset");
	else
		ask_for(r, &ask, has_attempt, reset);
	partition_ask_done(&ask);
}

/* ---- GET ---- */

static void list_all(struct request *r)
{
	struct err err = ERR_INIT;
	struct str text;

	if (!r->caller.trusted)
		request_problem(r, 403,
				"%s may not see all owners: name one, as ?uid=UID. The accounts of "
				"proxy.controllerAccounts may",
				r->caller.account);
	else if (view_get(r->p, VIEW_OWNERS, &text, &err) < 0)
		request_problem(r, 500, "%s", err.msg);
	else
		request_reply(r, 200, NULL, 0, text);
}

static void list_one(struct request *r, const char *uid)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	struct err err = ERR_INIT;
	size_t n;

	if (status_list(r->p->partitions, uid, &text, &n, &err) < 0)
		request_problem(r, 500, "%s", err.msg);
	else
		request_reply(r, 200, NULL, 0, buf_str(&text));
	buf_done(&text);
}

static void run_list(struct request *r)
{
	CLEANUP_FREE char *uid = NULL;

	if (!request_param(r, "uid", &uid))
		return;
	if (!uid)
		list_all(r);
	else if (!ask_is_uid(str_of(uid)))
		request_problem(r, 400, "uid must be an object's metadata.uid");
	else if (request_may(r, uid) && !forward(r)) /* held must be the leader's word */
		list_one(r, uid);
}

static void reply_unchanged(struct request *r)
{
	const struct http_header field = etag_field(r->etag);

	request_reply(r, 304, &field, 1, STR_NULL);
}

/* The time is up: the state as it is, which is what it was. */
static void on_wait_over(struct loop_timer *timer, void *arg)
{
	struct request *r = arg;
	struct buf text = BUF_INIT(REPLY_LIMIT);
	char etag[ETAG_SIZE];

	(void)timer;
	if (r->conditional &&
	    status_text(r->p->partitions, r->uid, r->instance, &text, etag, NULL) == 0 &&
	    strcmp(etag, r->etag) == 0)
		reply_unchanged(r);
	else
		reply_status(r, 200);
	buf_done(&text);
}

void rest_look(struct request *r)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	char etag[ETAG_SIZE];

	if (!partitions_synced(r->p->partitions))
		request_unavailable(r, 1, NOT_READ);
	else if (r->p->stopping)
		on_wait_over(&r->timer, r);
	else if (status_text(r->p->partitions, r->uid, r->instance, &text, etag, NULL) < 0 ||
		 strcmp(etag, r->etag) != 0)
		reply_status(r, 200);
	buf_done(&text);
}

static bool may_wait(const struct request *r)
{
	size_t n = 0;

	LIST_FOREACH(pos, tmp, &r->p->waiting)
		n += strcmp(CONTAINER_OF(pos, struct request, waiting)->uid, r->uid) == 0;
	return !r->p->stopping && r->p->n_waiting < MAX_WAITING && n < MAX_WAITING_OWNER;
}

static void get_or_wait(struct request *r, int64_t wait_s)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	bool conditional = http_headers_has(r->ex->headers, "if-none-match");
	int64_t wait_ms = wait_s * 1000;
	struct err err;

	if (wait_ms > r->p->wait_ms)
		wait_ms = r->p->wait_ms;
	if (status_text(r->p->partitions, r->uid, r->instance, &text, r->etag, &err) < 0) {
		not_told(r, &err);
	} else if (conditional && !http_headers_has_tag(r->ex->headers, r->etag)) {
		reply_status(r, 200);
	} else if (wait_ms > 0 && may_wait(r)) {
		r->conditional = conditional;
		list_append(&r->p->waiting, &r->waiting);
		r->p->n_waiting++;
		log_debug("proxy", r->ex->peer,
			  "a request waits for a change: owner=%s instance=%u seconds=%u", r->uid,
			  (unsigned)r->instance, (unsigned)(wait_ms / 1000));
		loop_timer_init(&r->timer, r->p->loop, on_wait_over, r);
		loop_timer_start_in(&r->timer, wait_ms);
	} else if (conditional) {
		reply_unchanged(r);
	} else {
		reply_status(r, 200);
	}
	buf_done(&text);
}

static void run_get(struct request *r)
{
	CLEANUP_FREE char *text = NULL;
	int64_t wait_s = 0;

	if (!request_param(r, "wait", &text))
		return;
	if (text && str_to_int(str_of(text), 0, MAX_WAIT_S, &wait_s, NULL) < 0)
		request_problem(r, 400, "wait must be a number of seconds from 0 to %d",
				MAX_WAIT_S);
	/* Whoever reads "active" here begins to use it: what follows may not have heard of a reset
	 * or a release that its leader has taken. */
	else if (!forward(r))
		get_or_wait(r, wait_s);
}

/* ---- DELETE ---- */

static bool is_held(const struct request *r)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	char etag[ETAG_SIZE];
	struct err err = ERR_INIT;

	(void)status_text(r->p->partitions, r->uid, r->instance, &text, etag, &err);
	buf_done(&text);
	return err.kind != ERR_NOT_FOUND;
}

/* The parameter attempt; -1: there is none. 400 and false where it's no attempt's number. */
static bool take_attempt(struct request *r, int64_t *ret)
{
	CLEANUP_FREE char *text = NULL;

	*ret = -1;
	if (!request_param(r, "attempt", &text))
		return false;
	if (!text || str_to_int(str_of(text), 0, UINT32_MAX, ret, NULL) == 0)
		return true;
	request_problem(r, 400, "attempt must be a number from 0 to %" PRIu32, UINT32_MAX);
	return false;
}

static void run_release(struct request *r)
{
	struct partition_status status;
	int64_t attempt;
	bool abandon;

	if (!request_flag(r, "abandon", &abandon) || !take_attempt(r, &attempt) || forward(r))
		return;
	partition_get_status(r->p->partitions, r->uid, r->instance, &status);
	if (status.ask && attempt >= 0 && attempt != status.wanted_attempt) {
		request_problem(r, 409, "attempt %" PRIu32 " is asked for by now: look at it first",
				status.wanted_attempt);
		return;
	}
	if (status.ask)
		log_change(r, &status.ask->owner, NULL, r->instance, "released");
	if (abandon)
		partition_abandon(r->p->partitions, r->uid, r->instance);
	else
		partition_release(r->p->partitions, r->uid, r->instance);
	/* An orphan is shown and keeps nobody waiting. */
	if (partition_held(r->p->partitions, r->uid) > 0 && is_held(r))
		reply_status(r, 202);
	else
		request_reply(r, 204, NULL, 0, STR_NULL);
}

static void run_release_all(struct request *r)
{
	struct buf text = BUF_INIT(REPLY_LIMIT);
	struct err err = ERR_INIT;
	uint32_t any;
	bool abandon;
	size_t n;

	if (!request_flag(r, "abandon", &abandon) || forward(r))
		return;
	if (partition_asked_from(r->p->partitions, r->uid, 0, &any, 1) > 0)
		log_change(r, NULL, r->uid, any, "all released");
	if (abandon)
		partition_abandon_all(r->p->partitions, r->uid);
	else
		partition_release_all(r->p->partitions, r->uid);
	if (status_list(r->p->partitions, r->uid, &text, &n, &err) < 0)
		request_problem(r, 500, "%s", err.msg);
	else if (partition_held(r->p->partitions, r->uid) == 0)
		request_reply(r, 204, NULL, 0, STR_NULL);
	else
		request_reply(r, 202, NULL, 0, buf_str(&text));
	buf_done(&text);
}

/* ---- reset and IPUoF configuration ---- */

static void run_reset(struct request *r)
{
	struct partition_status status;

	if (forward(r))
		return;
	partition_get_status(r->p->partitions, r->uid, r->instance, &status);
	if (status.state == PARTITION_STATE_NONE) {
		request_problem(r, 404, NOT_HELD);
		return;
	}
	if (!status.ask) {
		request_problem(r, 409,
				"it's on its way out: ask for another by POST /v1/partitions");
		return;
	}
	if (is_there(status.state)) {
		log_change(r, &status.ask->owner, NULL, r->instance, "asked to reset");
		partition_reset(r->p->partitions, r->uid, r->instance);
	}
	reply_status(r, 202);
}

static void run_ipuof(struct request *r)
{
	struct partition_status status;

	if (forward(r))
		return;
	partition_get_status(r->p->partitions, r->uid, r->instance, &status);
	if (status.state == PARTITION_STATE_NONE)
		request_problem(r, 404, NOT_HELD);
	else if (status.state != PARTITION_STATE_ACTIVE)
		request_problem(r, 409,
				"the partition is %s: its configuration is there once it's active "
				"(GET /v1/partitions/%s/%u?wait=60 waits for a change)",
				partition_state_name(status.state), r->uid, (unsigned)r->instance);
	else
		ipuof_fetch(r, &status);
}

static const char *const params_ask[] = {"reset", NULL};
static const char *const params_list[] = {"uid", NULL};
static const char *const params_get[] = {"wait", NULL};
static const char *const params_release[] = {"abandon", "attempt", NULL};
static const char *const params_release_all[] = {"abandon", NULL};

const struct endpoint endpoint_ask = {{"ask", NULL}, false, false, params_ask, run_ask};
const struct endpoint endpoint_list = {{"list", NULL}, false, false, params_list, run_list};
const struct endpoint endpoint_get = {{"status", NULL}, true, true, params_get, run_get};
const struct endpoint endpoint_release = {
	{"release", NULL}, true, true, params_release, run_release};
const struct endpoint endpoint_release_all = {
	{"release", NULL}, true, false, params_release_all, run_release_all};
const struct endpoint endpoint_reset = {{"reset", NULL}, true, true, NULL, run_reset};
const struct endpoint endpoint_ipuof = {{"ipuof", NULL}, true, true, NULL, run_ipuof};
