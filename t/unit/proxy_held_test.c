/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held, on its way from the process that runs the jobs to the one that shows the page: the
 * newest of it as JSON, what is taken of that, and what isn't.
 */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "proxy/internal.h"
#include "proxy/held.h"

#define MANY 1000

static char uids[MANY][16];

static struct proxy_held held_at(size_t i, const char *message)
{
	snprintf(uids[i], sizeof(uids[i]), "uid-%zu", i);
	return (struct proxy_held){
		.uid = uids[i],
		.ns = "team-a",
		.kind = "IPUJob",
		.name = "train",
		.ipus = 16,
		.since_ms = 1700000000000 + (int64_t)i * 1000,
		.reason = "Suspended",
		.message = message,
		.plain = "it asks for no IPUs",
	};
}

/* ---- there and back ---- */

static size_t n_seen;
static struct proxy_held first; /* borrowed of the proxy's document */

static void see(void *arg, const struct proxy_held *held)
{
	(void)arg;
	if (n_seen++ == 0)
		first = *held;
}

/* What is told of so many, and what the other process makes of it. Returns how many bytes it was.
 */
static size_t tell(struct proxy *p, size_t n, const char *message, size_t max_bytes,
		   size_t *ret_more)
{
	static struct proxy_newest newest;
	struct buf json = BUF_INIT(1 << 20);
	struct err err = ERR_INIT;
	size_t len;

	newest.n = 0;
	for (size_t i = 0; i < n; i++) {
		struct proxy_held held = held_at(i * 7 % n, message); /* in no order */

		proxy_newest_take(&newest, &held);
	}
	proxy_newest_write(&newest, max_bytes, &json);
	len = json.len;
	json_doc_free(p->told);
	p->told = NULL;
	ok(told_parse(buf_str(&json), &p->told, &err) == 0, "it's taken: %s", err.msg);
	n_seen = 0;
	*ret_more = 0;
	ok(told_each(p, see, NULL, ret_more), "it's known");
	buf_done(&json);
	return len;
}

static void test_there_and_back(void)
{
	struct proxy p = {0};
	char words[1000];
	size_t more, len;

	row_begin("there and back");
	ok(!told_each(&p, see, NULL, &more), "nothing is known before");
	tell(&p, 0, "", 60000, &more);
	is_uint(n_seen + more, 0, "none");
	tell(&p, 3, "first line\n\tsecond \x7f", 60000, &more);
	is_uint(n_seen, 3, "all three");
	is_uint(more, 0, "and no more");
	is_str(first.uid, "uid-2", "the newest first");
	is_str(first.message, "first line  second  ", "lines become one");
	ok(strcmp(first.ns, "team-a") == 0 && strcmp(first.name, "train") == 0 &&
		   strcmp(first.kind, "IPUJob") == 0 && strcmp(first.reason, "Suspended") == 0 &&
		   strcmp(first.plain, "it asks for no IPUs") == 0,
	   "whose it is, and why");
	ok(first.ipus == 16 && first.since_ms == 1700000002000, "how large, and since when");
	row_end();

	row_begin("more than there is room for");
	memset(words, '"', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	memcpy(words + PROXY_HELD_WORDS - 4, "\xc3\xa4", 2); /* ä, where it's cut */
	len = tell(&p, MANY, words, 60000, &more);
	ok(len <= 60000, "%zu bytes", len);
	ok(n_seen >= 60 && n_seen < PROXY_HELD_NEWEST, "%zu are told", n_seen);
	is_uint(n_seen + more, MANY, "all are counted");
	is_str(first.uid, "uid-999", "the newest");
	ok(strlen(first.message) <= PROXY_HELD_WORDS && strstr(first.message, "…"),
	   "words are cut, and say so");
	tell(&p, MANY, "short", 1 << 20, &more);
	is_uint(n_seen, PROXY_HELD_NEWEST, "no more than are shown");
	tell(&p, MANY, "short", 40, &more);
	is_uint(more, MANY, "without room the number alone");
	json_doc_free(p.told);
	row_end();
}

/* ---- what isn't taken ---- */

#define OWNER "\"owner\":{\"kind\":\"IPUJob\",\"namespace\":\"a\",\"name\":\"b\",\"uid\":\"c\"}"
#define REST                                                                                       \
	"\"ipus\":1,\"since\":\"2026-01-01T00:00:00Z\",\"reason\":\"R\",\"message\":\"\",\"plain\":\"\""

static const struct {
	const char *body, *says; /* NULL: it's fine */
} bodies[] = {
	{"{\"held\":0,\"items\":[]}", NULL},
	{"{\"held\":1,\"items\":[{" OWNER "," REST "}]}", NULL},
	{"{\"held\":7,\"items\":[{" OWNER "," REST "}]}", NULL},
	{"{\"held\":0,\"items\":[{" OWNER "," REST "}]}", "held counts all"},
	{"", "must be a JSON object"},
	{"[]", "must be a JSON object, not"},
	{"{\"items\":[]}", "held is missing"},
	{"{\"held\":0}", "items is missing"},
	{"{\"held\":-1,\"items\":[]}", "held must be from 0"},
	{"{\"held\":0,\"items\":{}}", "items must be a list"},
	{"{\"held\":0,\"items\":[],\"more\":1}", "more isn't a member"},
	{"{\"held\":1,\"items\":[1]}", "each of items must be an object"},
	{"{\"held\":1,\"items\":[{" REST "}]}", "items.owner is missing"},
	{"{\"held\":1,\"items\":[{" OWNER "}]}", "items.ipus is missing"},
	{"{\"held\":1,\"items\":[{" OWNER "," REST ",\"x\":1}]}", "items.x isn't a member"},
	{"{\"held\":1,\"items\":[{\"owner\":{\"kind\":\"IPUJob\",\"namespace\":\"A\",\"name\":\"b\","
	 "\"uid\":\"c\"}," REST "}]}",
	 "owner.namespace"},
	{"{\"held\":1,\"items\":[{" OWNER ",\"ipus\":1,\"since\":\"now\",\"reason\":\"R\","
	 "\"message\":\"\",\"plain\":\"\"}]}",
	 ""},
	{"{\"held\":1,\"items\":[{" OWNER ",\"ipus\":1,\"since\":\"2026-01-01T00:00:00Z\","
	 "\"reason\":\"R\",\"message\":\"a\\u0000b\",\"plain\":\"\"}]}",
	 "control character"},
};

static void test_bodies(void)
{
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct json_doc *doc = NULL;
		struct err err = ERR_INIT;
		int got = told_parse(str_of(bodies[i].body), &doc, &err);

		row_begin("%s", bodies[i].body);
		is_int(got, bodies[i].says ? -1 : 0, "taken or not");
		ok(!bodies[i].says || strstr(err.msg, bodies[i].says), "%s", err.msg);
		json_doc_free(doc);
		row_end();
	}
}

int main(void)
{
	test_there_and_back();
	test_bodies();
	return done_testing();
}
