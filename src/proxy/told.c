/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held, as the process that runs the jobs tells it (PUT /v1/held): kept as it came, for so
 * long as it's told again. For the live page; nobody acts by it. Owned by the proxy. Uses auth.c.
 */
#include <inttypes.h>

#include "core/clock.h"
#include "internal.h"
#include "live.h"
#include "proxy/held.h"

#define MAX_COUNT INT64_C(1000000000)

static const struct ask_member told_members[] = {
	{"held", ASK_INTEGER, true, 0, MAX_COUNT},
	{"items", ASK_ARRAY, true, 0, PROXY_HELD_NEWEST},
	{NULL, ASK_TEXT, false, 0, 0},
};

static const struct ask_member item_members[] = {
	{"owner", ASK_OBJECT, true, 0, 0},
	{"ipus", ASK_INTEGER, true, 0, MAX_COUNT},
	{"since", ASK_TEXT, true, 1, 64},
	{"reason", ASK_TEXT, true, 1, 63},
	{"message", ASK_TEXT, true, 0, PROXY_HELD_WORDS},
	{"plain", ASK_TEXT, true, 0, PROXY_HELD_WORDS},
	{NULL, ASK_TEXT, false, 0, 0},
};

static int check_item(const struct json *item, struct err *err)
{
	int64_t since_ms;

	if (json_type(item) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "each of items must be an object");
	if (ask_check_members(item, "items.", item_members, err) < 0 ||
	    ask_check_owner(json_get(item, "owner"), err) < 0)
		return -1;
	return clock_parse(json_str(json_get(item, "since")), &since_ms, err);
}

int told_parse(struct str body, struct json_doc **ret, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	const struct json *root, *items;
	struct json_iter it;

	if (json_parse(body, &doc, err) < 0)
		return err_wrap(err, "the body must be a JSON object");
	root = json_root(doc);
	items = json_get(root, "items");
	if (json_type(root) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "the body must be a JSON object, not %s",
			       json_type_name(json_type(root)));
	if (ask_check_members(root, "", told_members, err) < 0)
		return -1;
	if (json_int(json_get(root, "held"), 0) < (int64_t)json_len(items))
		return err_set(err, ERR_INVALID, 0, "held counts all, also those of items");
	it = json_iter(items);
	while (json_next(&it)) {
		if (check_item(it.value, err) < 0)
			return -1;
	}
	*ret = doc;
	doc = NULL;
	return 0;
}

bool told_each(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more)
{
	const struct proxy *p = arg;
	const struct json *root, *items;
	struct json_iter it;

	if (!p->told)
		return false;
	root = json_root(p->told);
	items = json_get(root, "items");
	*ret_more = (size_t)json_int(json_get(root, "held"), 0) - json_len(items);
	it = json_iter(items);
	while (json_next(&it)) {
		const struct json *owner = json_get(it.value, "owner");
		struct proxy_held held = {
			.uid = json_cstr(json_get(owner, "uid")),
			.ns = json_cstr(json_get(owner, "namespace")),
			.kind = json_cstr(json_get(owner, "kind")),
			.name = json_cstr(json_get(owner, "name")),
			.ipus = json_int(json_get(it.value, "ipus"), 0),
			.reason = json_cstr(json_get(it.value, "reason")),
			.message = json_cstr(json_get(it.value, "message")),
			.plain = json_cstr(json_get(it.value, "plain")),
		};

		(void)clock_parse(json_str(json_get(it.value, "since")), &held.since_ms, NULL);
		fn(fn_arg, &held);
	}
	return true;
}

void told_forget(struct proxy *p)
{
	loop_timer_stop(&p->told_timer);
	json_doc_free(p->told);
	p->told = NULL;
}

static void on_told_timer(struct loop_timer *timer, void *arg)
{
	struct proxy *p = arg;

	(void)timer;
	told_forget(p);
	live_changed(p->live);
}

void told_init(struct proxy *p)
{
	loop_timer_init(&p->told_timer, p->loop, on_told_timer, p);
}

static void run_held(struct request *r)
{
	struct proxy *p = r->p;
	struct json_doc *doc;
	struct err err = ERR_INIT;

	if (!r->caller.trusted) {
		request_problem(r, 403,
				"%s may not: an account of proxy.controllerAccounts tells what is "
				"held",
				r->caller.account);
		return;
	}
	if (forward(r))
		return;
	if (!p->live || !p->takes_told) {
		request_problem(r, 404, "%s",
				p->live ? "this process knows by itself what is held"
					: "proxy.page is off: nobody looks at what is held");
		return;
	}
	if (told_parse(r->ex->body, &doc, &err) < 0) {
		request_problem(r, 400, "%s", err.msg);
		return;
	}
	told_forget(p);
	p->told = doc;
	loop_timer_start_in(&p->told_timer, PROXY_HELD_TOLD_MS);
	live_changed(p->live);
	request_reply(r, 204, NULL, 0, STR_NULL);
}

const struct endpoint endpoint_held = {{"held", NULL}, false, false, NULL, run_held};
