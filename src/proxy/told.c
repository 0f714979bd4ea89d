/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page shows and isn't this process's to know: what is held, and Pods, as the process that
 * runs the jobs tells it (PUT /v1/held, /v1/pods/{part}), kept as it came for so long as it's said
 * to be so. Who follows gets it from here (GET). Nobody acts by it. Owned by the proxy. Uses
 * auth.c.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/clock.h"
#include "internal.h"
#include "kube/object.h"
#include "live.h"
#include "proxy/held.h"

#define MAX_COUNT INT64_C(1000000000)

static const struct ask_member told_members[] = {
	{"held", ASK_INTEGER, true, 0, MAX_COUNT},
	{"items", ASK_ARRAY, true, 0, PROXY_HELD_NEWEST},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member held_members[] = {
	{"owner", ASK_OBJECT, true, 0, 0},
	{"ipus", ASK_INTEGER, true, 0, MAX_COUNT},
	{"since", ASK_TEXT, true, 1, 64},
	{"reason", ASK_TEXT, true, 1, 63},
	{"message", ASK_TEXT, false, 0, PROXY_HELD_WORDS},
	{"plain", ASK_TEXT, true, 0, PROXY_HELD_WORDS},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member pods_members[] = {
	{"items", ASK_ARRAY, true, 0, MAX_COUNT},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member partition_members[] = {
	{"owner", ASK_TEXT, true, 1, UID_MAX},
	{"instance", ASK_INTEGER, true, 0, INSTANCE_MAX},
	{"pods", ASK_ARRAY, true, 0, MAX_COUNT},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member pod_members[] = {
	{"name", ASK_TEXT, true, 1, 253},
	{"phase", ASK_TEXT, true, 1, 63},
	{"node", ASK_TEXT, true, 0, 253},
	{NULL, ASK_TEXT, false, 0, 0},
};

static int check_object(const struct json *v, const char *what, struct err *err)
{
	if (json_type(v) == JSON_OBJECT)
		return 0;
	return err_set(err, ERR_INVALID, 0, "%s must be an object, not %s", what,
		       json_type_name(json_type(v)));
}

static int check_held(const struct json *item, struct err *err)
{
	int64_t since_ms;

	if (check_object(item, "each of items", err) < 0 ||
	    ask_check_members(item, "items.", held_members, err) < 0 ||
	    ask_check_owner(json_get(item, "owner"), false, err) < 0)
		return -1;
	return clock_parse(json_str(json_get(item, "since")), &since_ms, err);
}

static int check_pods(const struct json *item, struct err *err)
{
	struct json_iter it;

	if (check_object(item, "each of items", err) < 0 ||
	    ask_check_members(item, "items.", partition_members, err) < 0)
		return -1;
	if (!ask_is_uid(json_str(json_get(item, "owner"))))
		return err_set(err, ERR_INVALID, 0, "items.owner must be a metadata.uid");
	it = json_iter(json_get(item, "pods"));
	while (json_next(&it)) {
		if (check_object(it.value, "each of pods", err) < 0 ||
		    ask_check_members(it.value, "pods.", pod_members, err) < 0 ||
		    kube_check_name("pods.name", json_str(json_get(it.value, "name")), true, err) <
			    0)
			return -1;
	}
	return 0;
}

static int check(const struct json *root, unsigned which, struct err *err)
{
	const struct json *items = json_get(root, "items");
	struct json_iter it;

	if (check_object(root, "the body", err) < 0 ||
	    ask_check_members(root, "", which == 0 ? told_members : pods_members, err) < 0)
		return -1;
	if (which == 0 && json_int(json_get(root, "held"), 0) < (int64_t)json_len(items))
		return err_set(err, ERR_INVALID, 0, "held counts all, also those of items");
	it = json_iter(items);
	while (json_next(&it)) {
		if ((which == 0 ? check_held(it.value, err) : check_pods(it.value, err)) < 0)
			return -1;
	}
	return 0;
}

/* ---- what is kept ---- */

#define KEY_SIZE (UID_MAX + 16)

static struct str key_of(const char *uid, int64_t instance, char ret_z[KEY_SIZE])
{
	snprintf(ret_z, KEY_SIZE, "%" PRId64 "/%s", instance, uid);
	return str_of(ret_z);
}

static void drop(struct told_paper *paper)
{
	map_free(paper->items);
	json_doc_free(paper->doc);
	*paper = (struct told_paper){0};
}

int told_take(struct told *t, unsigned which, struct str body, struct err *err)
{
	struct told_paper *paper = &t->papers[which];
	CLEANUP_JSON struct json_doc *doc = NULL;
	char key[KEY_SIZE];
	struct json_iter it;

	if (json_parse(body, &doc, err) < 0)
		return err_wrap(err, "the body must be a JSON object");
	if (check(json_root(doc), which, err) < 0)
		return -1;
	drop(paper);
	paper->doc = doc;
	doc = NULL;
	hash_sha256(&body, 1, paper->digest);
	if (which == 0)
		return 0;
	paper->items = map_new();
	it = json_iter(json_get(json_root(paper->doc), "items"));
	while (json_next(&it)) {
		const char *uid = json_cstr(json_get(it.value, "owner"));

		map_put(paper->items, key_of(uid, json_int(json_get(it.value, "instance"), 0), key),
			(void *)(uintptr_t)it.value);
	}
	return 0;
}

void told_forget(struct proxy *p)
{
	loop_timer_stop(&p->told.timer);
	for (size_t i = 0; i < PARTITION_TOLD; i++)
		drop(&p->told.papers[i]);
	memset(p->follow.etags, 0, sizeof(p->follow.etags));
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct proxy *p = arg;

	(void)timer;
	told_forget(p);
	live_changed(p->live);
}

void told_keep(struct proxy *p)
{
	loop_timer_start_in(&p->told.timer, PROXY_HELD_TOLD_MS);
}

void told_init(struct proxy *p)
{
	loop_timer_init(&p->told.timer, p->loop, on_timer, p);
}

/* ---- for the page ---- */

static const char *text_of(const struct json *obj, const char *member)
{
	const char *z = json_cstr(json_get(obj, member));

	return z ? z : "";
}

static void tell_of(const struct json *item, proxy_held_fn *fn, void *fn_arg)
{
	const struct json *owner = json_get(item, "owner");
	struct proxy_held held = {
		.uid = text_of(owner, "uid"),
		.ns = text_of(owner, "namespace"),
		.kind = text_of(owner, "kind"),
		.name = text_of(owner, "name"),
		.ipus = json_int(json_get(item, "ipus"), 0),
		.reason = text_of(item, "reason"),
		.message = text_of(item, "message"),
		.plain = text_of(item, "plain"),
	};

	(void)clock_parse(json_str(json_get(item, "since")), &held.since_ms, NULL);
	fn(fn_arg, &held);
}

bool told_each(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more)
{
	struct proxy *p = arg;
	const struct json *root, *items;
	struct json_iter it;

	if (p->leading && p->helds && p->helds(p->pods_arg, fn, fn_arg, ret_more))
		return true;
	follow_want(p);
	if (!p->told.papers[0].doc)
		return false;
	root = json_root(p->told.papers[0].doc);
	items = json_get(root, "items");
	*ret_more = (size_t)json_int(json_get(root, "held"), 0) - json_len(items);
	it = json_iter(items);
	while (json_next(&it))
		tell_of(it.value, fn, fn_arg);
	return true;
}

void told_pods(void *arg, const struct partition_owner *owner, uint32_t instance, proxy_pod_fn *fn,
	       void *fn_arg)
{
	const struct proxy *p = arg;
	char key[KEY_SIZE];
	struct str name = key_of(owner->uid, instance, key);
	const struct json *item = NULL;
	struct json_iter it;

	if (p->leading && p->pods) {
		p->pods(p->pods_arg, owner, instance, fn, fn_arg);
		return;
	}
	for (size_t i = 1; i < PARTITION_TOLD && !item; i++)
		item = p->told.papers[i].items ? map_get(p->told.papers[i].items, name) : NULL;
	it = json_iter(json_get(item, "pods"));
	while (json_next(&it)) {
		const struct proxy_pod pod = {text_of(it.value, "name"), text_of(it.value, "phase"),
					      text_of(it.value, "node")};

		fn(fn_arg, &pod);
	}
}

/* ---- PUT, by the process that runs the jobs ---- */

/* False: it isn't for this process to take, or not from this caller, and it's answered. */
static bool may_tell(struct request *r)
{
	struct proxy *p = r->p;

	if (!r->caller.trusted) {
		request_problem(r, 403,
				"%s may not: what the page shows is told by accounts of "
				"proxy.controllerAccounts",
				r->caller.account);
		return false;
	}
	if (forward(r))
		return false;
	if (p->live && !p->helds)
		return true;
	request_problem(r, 404, "%s",
			p->live ? "this process knows by itself what is held"
				: "proxy.page is off: nobody looks at what is held");
	return false;
}

/* {"same": "…"}: is all as it was told last? What can't be read doesn't ask; where there's no
 * memory to read it, err tells. */
static bool is_same(const struct told *t, struct str body, bool *ret_asks, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	uint8_t digests[PARTITION_TOLD][32];
	const char *same;
	char sum[65];

	*ret_asks = json_parse(body, &doc, err) == 0 && json_get(json_root(doc), "same");
	if (!*ret_asks)
		return false;
	for (size_t i = 0; i < PARTITION_TOLD; i++)
		memcpy(digests[i], t->papers[i].digest, sizeof(digests[i]));
	partition_told_sum(digests, sum);
	same = json_cstr(json_get(json_root(doc), "same"));
	return same && strcmp(same, sum) == 0;
}

static void take(struct request *r, unsigned which)
{
	struct proxy *p = r->p;
	struct err err = ERR_INIT;

	if (told_take(&p->told, which, r->ex->body, &err) < 0) {
		request_refuse(r, &err);
		return;
	}
	told_keep(p);
	live_changed(p->live);
	request_reply(r, 204, NULL, 0, STR_NULL);
}

static void run_held(struct request *r)
{
	struct err err = ERR_INIT;
	bool asks;

	if (!may_tell(r))
		return;
	if (is_same(&r->p->told, r->ex->body, &asks, &err)) {
		told_keep(r->p);
		request_reply(r, 204, NULL, 0, STR_NULL);
	} else if (asks) {
		request_problem(r, 409,
				"this process has been told something else: tell all again");
	} else if (err_is_no_memory(&err)) {
		request_refuse(r, &err);
	} else {
		take(r, 0);
	}
}

static void run_pods(struct request *r)
{
	const char *text = http_exchange_param(r->ex, "part");
	int64_t part;

	if (str_to_int(str_of(text), 0, PARTITION_TOLD_PARTS - 1, &part, NULL) < 0)
		request_problem(r, 400, "the path's part must be a number from 0 to %d",
				PARTITION_TOLD_PARTS - 1);
	else if (may_tell(r))
		take(r, (unsigned)part + 1);
}

/* ---- GET, by a replica that follows ---- */

static void reply(struct request *r, struct str json)
{
	char etag[ETAG_SIZE];
	struct http_header field = {STR("ETag"), STR_NULL};

	etag_of(json, etag);
	field.value = str_of(etag);
	if (http_headers_has_tag(r->ex->headers, etag))
		request_reply(r, 304, &field, 1, STR_NULL);
	else
		request_reply(r, 200, &field, 1, json);
}

struct held_look {
	struct proxy *p;
	struct proxy_newest newest;
};

static void see_held(void *arg, const struct proxy_held *held)
{
	struct held_look *look = arg;

	if (!live_asks(look->p->partitions, held->uid))
		proxy_newest_take(&look->newest, held);
}

static void give_held(struct request *r)
{
	struct held_look look = {.p = r->p};
	struct buf json = BUF_INIT(FOLLOW_BYTES);
	struct err err;
	size_t more = 0;

	if (!told_each(r->p, see_held, &look, &more)) {
		request_unavailable(r, 1, "it isn't known yet: ask again");
		return;
	}
	if (proxy_newest_write(&look.newest, r->p->full, more, FOLLOW_BYTES, &json, &err) < 0)
		request_unavailable(r, 1, err.msg);
	else
		reply(r, buf_str(&json));
	buf_done(&json);
}

struct pods_look {
	struct proxy *p;
	struct proxy_pods pods;
};

static void see_entry(const struct partition_entry *e, void *arg)
{
	struct pods_look *look = arg;

	proxy_pods_of(&look->pods, e->ask.owner.uid, e->ask.instance);
	told_pods(look->p, &e->ask.owner, e->ask.instance, proxy_pods_take, &look->pods);
}

static void give_pods(struct request *r)
{
	struct pods_look look = {.p = r->p};
	struct buf json = BUF_INIT(FOLLOW_BYTES);
	struct err err;
	bool any;

	proxy_pods_begin(&look.pods, FOLLOW_BYTES);
	if (r->p->full)
		partitions_each_entry(r->p->partitions, see_entry, &look);
	if (proxy_pods_write(&look.pods, &json, &any, &err) < 0)
		request_unavailable(r, 1, err.msg);
	else
		reply(r, buf_str(&json));
	buf_done(&json);
}

static void give(struct request *r)
{
	if (forward(r))
		return;
	if (!r->p->live)
		request_problem(r, 404, "proxy.page is off: nobody looks at this");
	else if (r->endpoint == &endpoint_get_held)
		give_held(r);
	else
		give_pods(r);
}

static void refuse(struct request *r)
{
	request_problem(r, 403,
			"%s may not: what the page shows is told to replicas of this "
			"process and to accounts of proxy.controllerAccounts",
			r->caller.account);
}

static void on_own(void *arg, const struct err *err, const struct kube_identity *who)
{
	struct request *r = arg;

	if (err && err->kind != ERR_DENIED)
		request_unavailable(r, 1, "this process's own token can't be looked at now");
	else if (err || strcmp(who->username, r->caller.account) != 0)
		refuse(r);
	else
		give(r);
}

/* A replica has the account that this process itself has. */
static void run_get(struct request *r)
{
	char *token;

	if (r->caller.trusted) {
		give(r);
		return;
	}
	token = follow_read_token(r->p);
	if (token)
		kube_review_token_start(r->p->reviewer, str_of(token), on_own, r, &r->calls);
	else
		refuse(r);
	follow_drop_token(token);
}

const struct endpoint endpoint_held = {{"held", NULL}, false, false, NULL, run_held};
const struct endpoint endpoint_pods = {{"pods", NULL}, false, false, NULL, run_pods};
const struct endpoint endpoint_get_held = {{"held", NULL}, false, false, NULL, run_get};
const struct endpoint endpoint_get_pods = {{"pods", NULL}, false, false, NULL, run_get};
