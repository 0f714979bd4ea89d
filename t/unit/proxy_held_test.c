/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held, on its way from the process that runs the jobs to the one that shows the page: the
 * newest of it as JSON, what is taken of that, and what isn't; and Pods, likewise.
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
static bool names = true;

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
	ok(proxy_newest_write(&newest, names, 0, max_bytes, &json, &err) == 0, "it's written");
	len = json.len;
	ok(told_take(&p->told, 0, buf_str(&json), &err) == 0, "it's taken: %s", err.msg);
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
	row_end();

	row_begin("without names");
	names = false;
	tell(&p, 1, "the Pod secret-name", 60000, &more);
	is_uint(n_seen, 1, "it's told");
	ok(!first.name[0] && !first.message[0] && strcmp(first.plain, "it asks for no IPUs") == 0,
	   "and nobody is named");
	names = true;
	told_forget(&p);
	ok(!told_each(&p, see, NULL, &more), "what is forgotten isn't known");
	row_end();
}

/* ---- Pods ---- */

static char pods_said[400];

static void say_pod(void *arg, const struct proxy_pod *pod)
{
	size_t len = strlen(pods_said);

	(void)arg;
	snprintf(pods_said + len, sizeof(pods_said) - len, "%s %s %s;", pod->name, pod->phase,
		 pod->node);
}

static const char *pods_of(struct proxy *p, const char *uid, uint32_t instance)
{
	const struct partition_owner owner = {.uid = (char *)(uintptr_t)uid};

	pods_said[0] = '\0';
	told_pods(p, &owner, instance, say_pod, NULL);
	return pods_said;
}

static void take_pods(struct proxy_pods *to, const char *uid, uint32_t instance, size_t n)
{
	char name[32];

	proxy_pods_of(to, uid, instance);
	for (size_t i = 0; i < n; i++) {
		const struct proxy_pod pod = {name, "Running", i % 2 ? "" : "node-1"};

		snprintf(name, sizeof(name), "%s-%zu", uid, i);
		proxy_pods_take(to, &pod);
	}
}

static void test_pods(void)
{
	struct proxy p = {0};
	struct proxy_pods to;
	struct buf json = BUF_INIT(1 << 20);
	struct err err = ERR_INIT;
	bool any;

	row_begin("Pods");
	is_str(pods_of(&p, "a", 0), "", "none is known before");
	proxy_pods_begin(&to, 60000);
	take_pods(&to, "a", 0, 2);
	take_pods(&to, "none", 0, 0);
	take_pods(&to, "a", 1, 1);
	ok(proxy_pods_write(&to, &json, &any, &err) == 0 && any, "there are some");
	ok(told_take(&p.told, 3, buf_str(&json), &err) == 0, "they are taken: %s", err.msg);
	is_str(pods_of(&p, "a", 0), "a-0 Running node-1;a-1 Running ;", "of one instance");
	is_str(pods_of(&p, "a", 1), "a-0 Running node-1;", "of another one");
	is_str(pods_of(&p, "none", 0), "", "of none");
	proxy_pods_begin(&to, 1000);
	take_pods(&to, "b", 0, 1000);
	ok(proxy_pods_write(&to, &json, &any, &err) == 0 && any && json.len <= 1000 &&
		   json.len > 500,
	   "%zu bytes", json.len);
	proxy_pods_begin(&to, 1000);
	ok(proxy_pods_write(&to, &json, &any, &err) == 0 && !any, "there are none");
	ok(told_take(&p.told, 3, buf_str(&json), &err) == 0, "that is taken: %s", err.msg);
	is_str(pods_of(&p, "a", 0), "", "and they are gone");
	told_forget(&p);
	buf_done(&json);
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
	{"[]", "must be an object, not"},
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

#define PODS(pods) "{\"items\":[{\"owner\":\"u\",\"instance\":0,\"pods\":" pods "}]}"

static const struct {
	const char *body, *says;
} pods_bodies[] = {
	{"{\"items\":[]}", NULL},
	{PODS("[]"), NULL},
	{PODS("[{\"name\":\"p\",\"phase\":\"Running\",\"node\":\"\"}]"), NULL},
	{"{\"held\":0,\"items\":[]}", "held isn't a member"},
	{"{\"items\":[7]}", "each of items must be an object"},
	{"{\"items\":[{\"owner\":\"u\",\"pods\":[]}]}", "items.instance is missing"},
	{"{\"items\":[{\"owner\":\"a/b\",\"instance\":0,\"pods\":[]}]}", "items.owner"},
	{PODS("{}"), "items.pods must be a list"},
	{PODS("[7]"), "each of pods must be an object"},
	{PODS("[{\"name\":\"p\"}]"), "pods.phase is missing"},
	{PODS("[{\"name\":\"A b\",\"phase\":\"R\",\"node\":\"\"}]"), "pods.name"},
};

static void test_body(unsigned which, const char *body, const char *says)
{
	struct proxy p = {0};
	struct err err = ERR_INIT;

	row_begin("%s", body);
	is_int(told_take(&p.told, which, str_of(body), &err), says ? -1 : 0, "taken or not");
	ok(!says || strstr(err.msg, says), "%s", err.msg);
	told_forget(&p);
	row_end();
}

static void test_bodies(void)
{
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		test_body(0, bodies[i].body, bodies[i].says);
	for (size_t i = 0; i < sizeof(pods_bodies) / sizeof(pods_bodies[0]); i++)
		test_body(1, pods_bodies[i].body, pods_bodies[i].says);
}

int main(void)
{
	test_there_and_back();
	test_pods();
	test_bodies();
	return done_testing();
}
