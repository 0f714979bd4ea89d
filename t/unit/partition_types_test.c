/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifiers of partitions, and the tracker's form of an entry.
 */
#include <string.h>

#include "core/intern.h"
#include "core/map.h"
#include "core/str.h"
#include "partition/types.h"
#include "tap.h"

#define TEXT(z) ((char *)(uintptr_t)(z))

static void test_ids(void)
{
	static const struct {
		const char *name, *ns, *begins;
		uint32_t instance;
	} rows[] = {
		{"mnist-training", "default", "mnist-training-default-0-", 0},
		{"mnist-training", "default", "mnist-training-default-7-", 7},
		{"a", "b", "a-b-0-", 0},
		{"9lives", "x", "p9lives-x-0-", 0},
		{"a.b..c", "x", "a-b-c-x-0-", 0},
		{"a-very-long-name-that-goes-on-and-on-for-ever", "ns",
		 "a-very-long-name-that-g-0-", 0},
		{"twentythree-characters1", "ns", "twentythree-characters1-4294967295-",
		 4294967295},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct partition_owner o = {TEXT("IPUJob"), TEXT(rows[i].ns), TEXT(rows[i].name),
					    TEXT("b1e55ed0-0000-4000-8000-000000000001")};
		char id[PARTITION_ID_MAX + 1];
		size_t begins;

		row_begin("%s", rows[i].name);
		partition_id_make(&o, rows[i].instance, 1, id);
		begins = strcspn(rows[i].begins, "\n");
		ok(strlen(id) <= PARTITION_ID_MAX, "at most 36 characters: %s", id);
		if (i < 6)
			ok(strncmp(id, rows[i].begins, begins) == 0, "%s begins with %s", id,
			   rows[i].begins);
		ok(strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(id) &&
			   id[0] >= 'a' && id[0] <= 'z',
		   "only what is fit, a letter first");
		is_int(strspn(id + strlen(id) - 10, "0123456789abcdef"), 10,
		       "ten hex digits at the end");
		row_end();
	}
}

static void test_ids_differ(void)
{
	struct map *seen = map_new();
	static int one;
	int twice = 0;

	for (int owner = 0; owner < 10; owner++) {
		CLEANUP_FREE char *uid = xasprintf("uid-%d", owner);
		struct partition_owner o = {TEXT("IPUJob"), TEXT("ns"), TEXT("job"), uid};

		for (uint32_t instance = 0; instance < 10; instance++) {
			for (uint64_t incarnation = 0; incarnation < 10; incarnation++) {
				char id[PARTITION_ID_MAX + 1];

				partition_id_make(&o, instance, incarnation, id);
				twice += map_put(seen, str_of(id), &one) != NULL;
			}
		}
	}
	is_int(twice, 0, "another owner, instance or incarnation: another identifier");
	map_free(seen);
}

static struct partition_entry *sample(void)
{
	struct partition_entry *e = xcalloc(1, sizeof(*e));

	snprintf(e->id, sizeof(e->id), "job-ns-3-0123456789");
	e->ask = (struct partition_ask){
		.owner = {intern_z("IPUJob"), intern_z("ns"), intern_z("job"), intern_z("u-1")},
		.instance = 3,
		.ipus = 16,
		.options = {.gcds = 2,
			    .replicas = 4,
			    .sync_type = 3,
			    .routing_type = 2,
			    .reconfigurable = true,
			    .allocation = xstrdup("team-a")},
	};
	e->controller = intern_z("[fd00::7]:8090");
	e->phase = PARTITION_RESETTING;
	e->since_ms = 1709290000123;
	e->settle_ms = 1709290025123;
	e->active_ms = 1709290001000;
	e->limit_ms = 60000;
	e->ask.interactive = true;
	e->ask.attempt = 4294967295;
	e->ask.priority = -5;
	e->ask.deadline_ms = 3600000;
	e->ask.adopt = intern_z("mine-0-0123456789");
	e->ask.legacy = intern_z("p-job-ns-3");
	e->ask.node_labels = xstrdup("pod=a,x/y=b");
	e->ask.created_ms = 1709290000000;
	e->reason = xstrdup("a \"reason\"");
	return e;
}

static void test_round_trip(void)
{
	struct partition_entry *e = sample(), *back = NULL;
	struct buf out = BUF_INIT(4096);
	struct err err = ERR_INIT;

	ok(partition_entry_encode(e, &out, &err) == 0, "encodes");
	if (!ok(partition_entry_decode(e->id, buf_str(&out), &back, &err) == 0, "decodes: %s",
		err.msg))
		return;
	is_str(back->id, e->id, "id");
	is_str(back->ask.owner.kind, "IPUJob", "owner's kind");
	is_str(back->ask.owner.ns, "ns", "owner's namespace");
	is_str(back->ask.owner.name, "job", "owner's name");
	is_str(back->ask.owner.uid, "u-1", "owner's UID");
	is_int(back->ask.instance, 3, "instance");
	ok(partition_ask_same_need(&back->ask, &e->ask), "size and options");
	is_str(back->controller, e->controller, "controller");
	is_int(back->phase, e->phase, "phase");
	is_int(back->since_ms, e->since_ms, "since, to the millisecond");
	is_int(back->settle_ms, e->settle_ms, "settle, to the millisecond");
	is_int(back->active_ms, e->active_ms, "active");
	is_uint(back->ask.attempt, 4294967295, "attempt");
	is_int(back->ask.priority, -5, "priority");
	is_int(back->ask.deadline_ms, 3600000, "deadline");
	is_int(back->limit_ms, 60000, "policy's deadline");
	ok(back->ask.interactive, "a session");
	is_str(back->ask.adopt, "mine-0-0123456789", "to adopt");
	is_str(back->ask.legacy, "p-job-ns-3", "its older name");
	is_str(back->ask.node_labels, "pod=a,x/y=b", "its node's labels");
	is_int(back->ask.created_ms, e->ask.created_ms, "the owner's creation");
	is_str(back->reason, e->reason, "reason");
	partition_entry_free(e);
	partition_entry_free(back);
	buf_done(&out);
}

static void test_bad_entries(void)
{
	static const struct {
		const char *what, *json, *says;
	} rows[] = {
		{"no JSON", "{", "job-1: "},
		{"nothing in it", "{}", "must all be there"},
		{"an unknown member", "{\"colour\":\"red\"}", "\"colour\" isn't known"},
		{"an unknown phase", "{\"phase\":\"dreaming\"}", "phase \"dreaming\" isn't known"},
		{"a size of 0", "{\"ipus\":0}", "ipus is missing or out of range"},
		{"a size in quotes", "{\"ipus\":\"4\"}", "ipus is missing or out of range"},
		{"a bad time", "{\"since\":\"noon\"}", "since"},
		{"an owner without UID",
		 "{\"owner\":{\"kind\":\"a\",\"namespace\":\"b\",\"name\":\"c\"}}",
		 "owner.uid is missing"},
		{"an unknown option", "{\"options\":{\"speed\":1}}", "options.speed isn't known"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct partition_entry *e = NULL;
		struct err err = ERR_INIT;

		row_begin("%s", rows[i].what);
		is_int(partition_entry_decode("job-1", str_of(rows[i].json), &e, &err), -1,
		       "refused");
		ok(!e, "nothing is handed out");
		ok(strstr(err.msg, rows[i].says) != NULL, "says \"%s\": %s", rows[i].says, err.msg);
		row_end();
	}
}

/* A newer version may know more to wait for: its record, with the place in the queue, counts. */
static void test_reason_of_another_version(struct partition_wait *w)
{
	struct partition_wait back;
	struct buf out = BUF_INIT(4096);
	struct err err = ERR_INIT;
	char *at;

	w->why = PARTITION_WHY_NO_NODE;
	partition_wait_encode(w, &out, NULL);
	buf_append(&out, "", 1, NULL);
	at = strstr(out.p, "\"reason\":\"NoReadyNode\"");
	if (!ok(at != NULL, "the reason by its name"))
		bail_out(out.p);
	memcpy(at + strlen("\"reason\":\""), "Another", strlen("Another"));
	if (ok(partition_wait_decode(str_of(out.p), &back, &err) == 0, "is read: %s", err.msg)) {
		is_int(back.why, PARTITION_WHY_NO_ROOM, "as one that waits for IPUs");
		is_int(back.since_ms, w->since_ms, "since");
		partition_wait_done(&back);
	}
	buf_done(&out);
}

static void test_waits(void)
{
	struct partition_entry *e = sample();
	struct partition_wait w = {.since_ms = 1709290000123, .why = PARTITION_WHY_NO_ROOM}, back;
	char key[PARTITION_WAIT_KEY_SIZE], other[PARTITION_WAIT_KEY_SIZE];
	char owner[PARTITION_OWNER_KEY_SIZE];
	struct buf out = BUF_INIT(4096);
	struct err err = ERR_INIT;

	partition_owner_key("uid-1", owner);
	is_str(owner, "503964b2d106405c",
	       "an owner's key is what sha256sum says of doc/design/page.md's rule");
	partition_wait_key("u-1", 3, key);
	partition_wait_key("u-1", 4, other);
	ok(strcmp(key, other) != 0, "another instance, another key");
	is_int(strlen(key), PARTITION_WAIT_KEY_SIZE - 4, "20 characters: %s", key);
	ok(partition_is_wait_key(str_of(key)) && !partition_is_wait_key(str_of(e->id)),
	   "a key of a wait is no identifier");
	partition_ask_copy(&w.ask, &e->ask);
	for (int failed = 0; failed < 2; failed++) {
		w.failed = failed;
		buf_clear(&out);
		ok(partition_wait_encode(&w, &out, &err) == 0, "encodes");
		if (!ok(partition_wait_decode(buf_str(&out), &back, &err) == 0, "decodes: %s",
			err.msg))
			continue;
		ok(back.failed == failed, "failed or waiting");
		is_int(back.since_ms, w.since_ms, "since");
		is_int(back.why, w.why, "why");
		ok(partition_ask_same_need(&back.ask, &e->ask), "what is asked for");
		is_str(back.ask.owner.uid, "u-1", "by whom");
		partition_wait_done(&back);
	}
	test_reason_of_another_version(&w);
	is_int(partition_wait_decode(STR("{\"phase\":\"waiting\"}"), &back, &err), -1,
	       "nothing in it");
	is_int(partition_wait_decode(STR("{\"phase\":\"dreaming\"}"), &back, &err), -1,
	       "an unknown phase");
	partition_wait_done(&w);
	partition_entry_free(e);
	buf_done(&out);
}

static void test_stems(void)
{
	static const struct {
		const char *id;
		size_t stem;
	} rows[] = {
		{"bert-default-0-0123456789", 15},
		{"bert-0-0123456789", 7},
		{"0123456789", 0},
		{"x0123456789", 1},
		{"x012345678", 0},
		{"x012345678g", 0},
		{"p-bert-default-0", 0},
		{"", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_uint(partition_id_stem(rows[i].id), rows[i].stem, "the stem of \"%s\"",
			rows[i].id);
}

int main(void)
{
	test_waits();
	test_ids();
	test_ids_differ();
	test_stems();
	test_round_trip();
	test_bad_entries();
	return done_testing();
}
