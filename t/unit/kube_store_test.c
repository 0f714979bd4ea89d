/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store and what a watch knows: scripts of events, notes and lists as tables, and what the
 * owner was told; lookups by key, UID and index.
 */
#include "kube/store.h"

#include <sys/mman.h>

#include "core/intern.h"
#include "core/json.h"
#include "core/log.h"
#include "kube/known.h"
#include "kube/object.h"
#include "tap.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* The owner's projection: a value and whose it is. */
struct thing {
	int v;
	char owner[32];
	char name[32];
};

struct fixture {
	struct kube_store *store;
	char log[2000];
	int alive;
};

static int project(void *arg, const struct json *object, void **ret, struct err *err)
{
	struct fixture *f = arg;
	int64_t v = json_int(json_get(object, "v"), -1);
	if (v < 0)
		return err_set(err, ERR_INVALID, 0, "no v");
	struct thing *t = xcalloc(1, sizeof(*t));
	t->v = (int)v;
	snprintf(t->owner, sizeof(t->owner), "%.*s", STR_ARG(json_str(json_get(object, "owner"))));
	snprintf(t->name, sizeof(t->name), "%.*s", STR_ARG(kube_name(object)));
	f->alive++;
	*ret = t;
	return 0;
}

static void free_item(void *arg, void *item)
{
	struct fixture *f = arg;
	f->alive--;
	free(item);
}

static bool same(void *arg, const void *old, const void *item)
{
	(void)arg;
	return ((const struct thing *)old)->v == ((const struct thing *)item)->v;
}

__attribute__((format(printf, 2, 3))) static void say(struct fixture *f, const char *fmt, ...)
{
	size_t used = strlen(f->log);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->log + used, sizeof(f->log) - used, fmt, ap);
	va_end(ap);
}

static void on_change(void *arg, struct str key, const void *old, const void *item)
{
	struct fixture *f = arg;
	const struct thing *a = old, *b = item;
	if (!a)
		say(f, "+%.*s=%d ", STR_ARG(key), b->v);
	else if (!b)
		say(f, "-%.*s ", STR_ARG(key));
	else
		say(f, "%.*s:%d>%d ", STR_ARG(key), a->v, b->v);
	if (kube_store_get(f->store, key) != item)
		say(f, "BUT-THE-STORE-HAS-ANOTHER ");
}

static int log_fd;

/* What the store has logged since the last look: "!key(why)" for each line. */
static void say_logged(struct fixture *f)
{
	static const char level[] = " ERROR test",
			  words[] = ": can't be read, and what was known of it stays: ";
	char text[1000] = "", *save = NULL;

	if (pread(log_fd, text, sizeof(text) - 1, 0) < 0 || ftruncate(log_fd, 0) < 0 ||
	    lseek(log_fd, 0, SEEK_SET) < 0)
		bail_out("the log");
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *key = strstr(line, level), *why = strstr(line, words);

		if (!key || !why)
			bail_out(line);
		*why = '\0';
		key += strlen(level);
		say(f, "!%s(%s) ", *key ? key + 1 : key, why + strlen(words));
	}
}

static struct str by_owner(const void *item)
{
	return str_of(((const struct thing *)item)->owner);
}

static struct str by_name(const void *item)
{
	return str_of(((const struct thing *)item)->name);
}

static void setup(struct fixture *f, bool with_same)
{
	struct kube_store_ops ops = {
		.component = "test",
		.project = project,
		.free_item = free_item,
		.same = with_same ? same : NULL,
		.on_change = on_change,
		.index = {by_owner, by_name},
		.by_uid = true,
	};
	*f = (struct fixture){.alive = 0};
	f->store = kube_store_new(&ops, f);
}

/* Words: "+a.u1@5=7" (ADDED or MODIFIED: name, UID, version, v; v "x" is missing), "-a.u1@6"
 * (deleted),
 * "~a.u1@5=7" (noted), "?a" (there, but unreadable; "?": not even its name can be read), "[" and
 * "]" (a list begins, ends; "]9": of version 9), "/owner" behind v sets the owner. */
static void play(struct fixture *f, const char *script)
{
	CLEANUP_FREE char *copy = xstrdup(script);
	char *save = NULL;
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		char name[16], uid[16], version[32], v[16] = "1", owner[16] = "";
		if (w[0] == '[' || w[0] == ']') {
			kube_store_relist(f->store, w[0] == ']', str_of(w + 1));
			continue;
		}
		if (w[0] == '?') {
			struct err bad = ERR_INIT;
			err_set(&bad, ERR_PROTOCOL, 0, "bad");
			kube_store_bad(f->store, STR("n"), str_of(w + 1), &bad);
			say_logged(f);
			continue;
		}
		if (sscanf(w + 1, "%15[^.].%15[^@]@%31[^=]=%15[^/]/%15s", name, uid, version, v,
			   owner) < 3)
			bail_out(w);
		CLEANUP_FREE char *text = xasprintf(
			"{\"metadata\":{\"name\":\"%s\",\"namespace\":\"n\",\"uid\":\"%s\","
			"\"resourceVersion\":\"%s\"}"
			"%s%s%s%s%s}",
			name, uid, version, v[0] == 'x' ? "" : ",\"v\":", v[0] == 'x' ? "" : v,
			owner[0] ? ",\"owner\":\"" : "", owner, owner[0] ? "\"" : "");
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct err err = ERR_INIT;
		if (json_parse(str_of(text), &doc, &err) < 0)
			bail_out(text);
		const struct json *o = json_root(doc);
		char key[KUBE_KEY_SIZE];
		struct kube_watch_event ev = {
			.type = w[0] == '-' ? KUBE_DELETED : KUBE_MODIFIED,
			.object = o,
			.ns = kube_namespace(o),
			.name = kube_name(o),
			.key = kube_object_key(o, key),
			.uid = kube_uid(o),
			.version = kube_version(o),
		};
		if (w[0] == '~')
			kube_store_note(f->store, o);
		else
			kube_store_event(f->store, &ev);
		say_logged(f);
	}
}

static const struct {
	const char *name, *script, *want;
	bool with_same;
} rows[] = {
	{"life", "+a.1@1=1 +a.1@2=2 -a.1@3", "+n/a=1 n/a:1>2 -n/a ", false},
	{"the same version again", "+a.1@1=1 +a.1@1=1", "+n/a=1 ", false},
	{"a change that isn't worth telling", "+a.1@1=1 +a.1@2=1 +a.1@3=2", "+n/a=1 n/a:1>2 ",
	 true},
	{"replaced", "+a.1@1=1 +a.2@5=2", "+n/a=1 -n/a +n/a=2 ", false},
	{"a deletion of an earlier one", "+a.2@5=1 -a.1@6", "+n/a=1 ", false},
	{"a deletion of nothing", "-a.1@6", "", false},
	{"bad from the beginning", "+a.1@1=x", "!n/a(no v) ", false},
	{"bad later: the old stays", "+a.1@1=1 +a.1@2=x +a.1@3=3", "+n/a=1 !n/a(no v) n/a:1>3 ",
	 false},
	{"bad, then deleted", "+a.1@1=1 +a.1@2=x -a.1@3", "+n/a=1 !n/a(no v) -n/a ", false},
	{"noted, then watched", "~a.1@5=1 +a.1@5=1", "+n/a=1 ", false},
	{"older news after a note", "+a.1@4=1 ~a.1@9=3 +a.1@7=2 +a.1@9=3 +a.1@10=4",
	 "+n/a=1 n/a:1>3 n/a:3>4 ", false},
	{"an older note", "+a.1@9=3 ~a.1@7=2", "+n/a=3 ", false},
	{"a note of one made again", "+a.1@4=1 ~a.2@9=2 +a.1@5=1 -a.1@6 +a.2@9=2",
	 "+n/a=1 -n/a +n/a=2 ", false},
	{"a note of one that the watch has seen go", "+a.1@5=1 -a.1@8 ~a.1@6=2", "+n/a=1 -n/a ",
	 false},
	{"a note of one that the watch has seen go, and another come",
	 "+a.1@5=1 -a.1@8 +a.2@9=3 ~a.1@6=2", "+n/a=1 -n/a +n/a=3 ", false},
	{"a note of one that another has come after, which a list told",
	 "+a.1@5=1 [ +a.2@9=3 ] ~a.1@6=2", "+n/a=1 -n/a +n/a=3 ", false},
	{"a note that the watch is past", "+b.2@9=1 ~a.1@7=1 ~c.3@10=1", "+n/b=1 +n/c=1 ", false},
	{"noted and deleted before the watch saw it", "[ ] ~a.1@5=1 [ ]", "+n/a=1 -n/a ", false},
	{"noted while a list is made", "[ ~a.1@5=1 ]", "+n/a=1 ", false},
	{"noted while a list is made, which is younger and lacks it", "[ ~a.1@5=1 +b.2@6=1 ]9",
	 "+n/a=1 +n/b=1 -n/a ", false},
	{"noted while a list is made, which is older", "[ ~a.1@5=1 ]4", "+n/a=1 ", false},
	{"noted while a list is made that has it", "[ ~a.1@5=1 +a.1@4=1 ]4 +a.1@5=1", "+n/a=1 ",
	 false},
	{"a note that came after a list that lacks it", "+a.1@5=1 [ +b.2@6=1 ]9 ~a.1@7=2 ~c.3@10=1",
	 "+n/a=1 +n/b=1 -n/a +n/c=1 ", false},
	{"noted while a list is made, gone by the next", "[ ~a.1@5=1 ] [ ]", "+n/a=1 -n/a ", false},
	{"noted and listed", "~a.1@5=1 [ +a.1@5=1 ]", "+n/a=1 ", false},
	{"noted and listed, gone by the next", "~a.1@5=1 [ +a.1@5=1 ] [ ]", "+n/a=1 -n/a ", false},
	{"a watched one that a list lacks", "+a.1@1=1 [ ]", "+n/a=1 -n/a ", false},
	{"a list that has all", "[ +a.1@1=1 +b.2@2=2 ] [ +a.1@1=1 +b.2@2=2 ]", "+n/a=1 +n/b=2 ",
	 false},
	{"what vanished", "[ +a.1@1=1 +b.2@2=2 +c.3@3=3 ] [ +b.2@2=2 ]",
	 "+n/a=1 +n/b=2 +n/c=3 -n/a -n/c ", false},
	{"a list that broke off and began anew", "[ +a.1@1=1 ] [ +a.1@1=1 [ +b.2@2=2 ]",
	 "+n/a=1 +n/b=2 -n/a ", false},
	{"seen by the watch in between", "[ +a.1@1=1 ] +b.2@2=2 +a.1@3=3 [ +a.1@3=3 +b.2@2=2 ]",
	 "+n/a=1 +n/b=2 n/a:1>3 ", false},
	{"another under its name in a list", "[ +a.1@1=1 ] [ +a.2@5=2 ]", "+n/a=1 -n/a +n/a=2 ",
	 false},
	{"unreadable isn't vanished", "[ +a.1@1=1 +b.2@2=2 ] [ ?a ]",
	 "+n/a=1 +n/b=2 !n/a(bad) -n/b ", false},
	{"unreadable for the owner isn't vanished", "[ +a.1@1=1 ] [ +a.1@2=x ] [ ]",
	 "+n/a=1 !n/a(no v) -n/a ", false},
	{"what has no name may be any of them", "[ +a.1@1=1 ] [ ? ] +b.2@9=2 [ +b.2@9=2 ]",
	 "+n/a=1 !(bad) +n/b=2 -n/a ", false},
	{"versions that aren't numbers", "+a.1@b=1 +a.1@a=2 +a.1@a=3", "+n/a=1 n/a:1>2 ", false},
	{"a number after none", "+a.1@b=1 ~a.1@7=2 +a.1@6=3", "+n/a=1 n/a:1>2 ", false},
	{"the server was set back to an older state", "[ +a.1@9=3 ]9 [ +a.1@5=1 ]6 +a.1@7=2",
	 "+n/a=3 n/a:3>1 n/a:1>2 ", false},
	{"... and what is written then", "[ +a.1@9=3 ]9 [ +a.1@5=1 ]6 ~b.2@8=1",
	 "+n/a=3 n/a:3>1 +n/b=1 ", false},
	{"a list that is older than a note", "~a.1@9=3 [ +a.1@7=2 ]8 +a.1@8=4 +a.1@9=3 +a.1@10=5",
	 "+n/a=3 n/a:3>5 ", false},
	{"versions of more digits than a number has",
	 "+a.1@99999999999999999999=1 +a.1@99999999999999999999=2 +a.1@100000000000000000000=3",
	 "+n/a=1 n/a:1>3 ", false},
};

static void test_scripts(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		struct fixture f;
		setup(&f, rows[i].with_same);
		play(&f, rows[i].script);
		is_str(f.log, rows[i].want, "%s", rows[i].name);
		is_uint(kube_store_len(f.store), (size_t)f.alive, "%s: an item for each entry",
			rows[i].name);
		kube_store_free(f.store);
		is_int(f.alive, 0, "%s: all freed", rows[i].name);
	}
}

static void list_index(struct fixture *f, unsigned index, const char *value, char *out, size_t size)
{
	struct kube_store_iter it = kube_store_iter_index(f->store, index, str_of(value));
	out[0] = '\0';
	while (kube_store_next(&it)) {
		size_t used = strlen(out);
		snprintf(out + used, size - used, "%.*s ", STR_ARG(it.key));
	}
}

static void test_lookups(void)
{
	struct fixture f;
	char out[200];
	unsigned n = 0;
	setup(&f, false);
	play(&f, "+a.1@1=1/x +b.2@2=2/x +c.3@3=3/y +d.4@4=4");
	is_int(((struct thing *)kube_store_get(f.store, STR("n/b")))->v, 2, "by key");
	is_int(((struct thing *)kube_store_by_uid(f.store, STR("3")))->v, 3, "by UID");
	ok(!kube_store_get(f.store, STR("n/z")) && !kube_store_by_uid(f.store, STR("9")),
	   "not there");
	list_index(&f, 0, "x", out, sizeof(out));
	is_str(out, "n/a n/b ", "by index");
	list_index(&f, 1, "c", out, sizeof(out));
	is_str(out, "n/c ", "by the other index");
	list_index(&f, 0, "", out, sizeof(out));
	is_str(out, "", "an empty value isn't in the index");
	list_index(&f, 3, "x", out, sizeof(out));
	is_str(out, "", "there is no such index");
	play(&f, "+a.1@5=1/y -b.2@6 +d.4@7=1/y");
	list_index(&f, 0, "x", out, sizeof(out));
	is_str(out, "", "moved and deleted");
	list_index(&f, 0, "y", out, sizeof(out));
	is_str(out, "n/c n/a n/d ", "moved here");
	play(&f, "+c.9@8=1/y");
	ok(!kube_store_by_uid(f.store, STR("3")), "the old UID is gone");
	ok(kube_store_by_uid(f.store, STR("9")) != NULL, "the new one is there");
	struct kube_store_iter it = kube_store_iter(f.store);
	while (kube_store_next(&it))
		n += it.item != NULL && it.key.len > 0 && it.uid.len > 0;
	is_uint(n, 3, "all of them");
	ok(!kube_store_is_synced(f.store) && !kube_store_get_watch(f.store),
	   "no watch, not synced");
	kube_store_free(f.store);
	is_int(f.alive, 0, "all freed");
	is_uint(intern_len(), 0, "... and the indexes' words");
	kube_store_free(NULL);
}

/* ---- what a watch knows ---- */

/* Words: "a.1@5" (seen), "-a.1" (removed), "[" (a list begins), "?a" (there, but unreadable), "]"
 * (what wasn't seen). */
static const struct {
	const char *name, *script, *want;
} known_rows[] = {
	{"added, modified, unchanged", "a.1@1 a.1@2 a.1@2 a.1@10", "A M = M "},
	{"replaced", "a.1@1 a.2@2", "A R(1@1) "},
	{"removed", "a.1@1 -a.1 -a.1 a.1@2", "A y n A "},
	{"removed under another UID", "a.1@1 -a.2 a.1@1", "A n = "},
	{"a list that has all", "[ a.1@1 b.2@2 ] [ a.1@1 b.2@2 ]", "A A = = "},
	{"what vanished", "[ a.1@1 b.2@2 c.3@3 ] [ b.2@2 ]",
	 "A A A = vanished:a(1@1) vanished:c(3@3) "},
	{"unreadable isn't vanished", "[ a.1@1 b.2@2 ] [ ?a ]", "A A vanished:b(2@2) "},
	{"a list that broke off and began anew", "[ a.1@1 ] [ a.1@1 [ b.2@2 ]",
	 "A = A vanished:a(1@1) "},
	{"seen by the watch in between", "[ a.1@1 ] b.2@2 a.1@3 [ a.1@3 b.2@2 ]", "A A M = = "},
	{"modified in a list", "[ a.1@1 ] [ a.1@22 ]", "A M "},
	{"an empty list", "[ a.1@1 ] [ ]", "A vanished:a(1@1) "},
};

static void play_known(struct kube_known *k, const char *word, char *out, size_t size)
{
	static const char *const changes[] = {"=", "A", "M", "R"};
	struct kube_known_old old;
	char name[16], uid[16] = "", version[16] = "";
	size_t used = strlen(out);
	struct str key;
	if (word[0] == '[') {
		kube_known_begin_list(k);
		return;
	}
	if (word[0] == ']') {
		while (kube_known_next_unseen(k, &key, &old)) {
			snprintf(out + used, size - used, "vanished:%.*s(%s@%s) ", STR_ARG(key),
				 old.uid, old.version);
			used = strlen(out);
		}
		return;
	}
	if (word[0] == '?') {
		kube_known_mark(k, str_of(word + 1));
		return;
	}
	bool removes = word[0] == '-';
	sscanf(word + removes, "%15[^.].%15[^@]@%15s", name, uid, version);
	if (removes) {
		bool was = kube_known_remove(k, str_of(name), str_of(uid));
		snprintf(out + used, size - used, "%s ", was ? "y" : "n");
		return;
	}
	enum kube_change c = kube_known_see(k, str_of(name), str_of(uid), str_of(version), &old);
	if (c == KUBE_CHANGE_REPLACED)
		snprintf(out + used, size - used, "R(%s@%s) ", old.uid, old.version);
	else
		snprintf(out + used, size - used, "%s ", changes[c]);
}

static void test_known(void)
{
	for (size_t i = 0; i < SIZE(known_rows); i++) {
		struct kube_known *k = kube_known_new();
		CLEANUP_FREE char *copy = xstrdup(known_rows[i].script);
		char out[500] = "", *save = NULL;
		for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
			play_known(k, w, out, sizeof(out));
		is_str(out, known_rows[i].want, "known, %s", known_rows[i].name);
		kube_known_free(k);
	}
}

int main(void)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	log_init(LOG_INFO, LOG_TEXT, log_fd);
	test_scripts();
	test_lookups();
	test_known();
	return done_testing();
}
