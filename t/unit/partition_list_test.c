/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of controllers as a text, by a table, and as a file that is followed: real folders, real
 * inotify, and what editors, Kubernetes' mounts and people do to them. Time is moved by hand.
 */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "partition/list_file.h"
#include "partition/list_text.h"

/* ---- texts ---- */

static const struct text_row {
	const char *text, *want; /* names with blanks between; NULL: refused */
	const char *says;        /* the one problem, or the error; NULL: none */
} text_rows[] = {
	{"", "", NULL},
	{"# nothing\n", "", NULL},
	{"a:8090:x=y\n", "a:8090", NULL},
	{"a:8090:x=y,b", "a:8090 b:8090", NULL},
	{"a:8090,\n  b:8091,\n", "a:8090 b:8091", NULL},
	{"[fd00::7]:8090:x=y,b\n", "[fd00::7]:8090 b:8090", NULL},
	{"b,[fd00::7]:8090:x=y\n", "b:8090 [fd00::7]:8090", NULL},
	{"'[fd00::7]:8090'", "[fd00::7]:8090", NULL},
	{"- a\n- b:8091:x=y\n", "a:8090 b:8091", NULL},
	{"[a, b]", "a:8090 b:8090", NULL},
	{"- address: a\n  selector: x=y\n- b\n", "a:8090 b:8090", NULL},
	{"controllers: a,b\n", "a:8090 b:8090", NULL},
	{"controllers:\n- a\n- address: b\n", "a:8090 b:8090", NULL},
	{"controllers:\n", "", NULL},
	{"{\"controllers\": [\"a\"]}", "a:8090", NULL},
	{"- a\n- b:99999\n- c\n", "a:8090 c:8090",
	 "list:2:3: \"b:99999\": port \"99999\" isn't a number from 1 to 65535"},
	{"controllers:\n  - a\n  - adress: b\n", "a:8090",
	 "list:3:5: \"entry 2 of the list\": there is no key \"adress\""},
	{"a,b:x:y", "a:8090", "list:1:1: \"b:x:y\": "},
	{"[fd00::7]:8090,b:0", "[fd00::7]:8090", "list: \"b:0\": port"},
	{"- a\n- a:8090\n", "a:8090",
	 "list:2:3: \"a:8090\": this controller is in the list already"},
	{"- 7\n", "", "list:1:3: \"entry 1 of the list\": an entry is a string or an object"},
	{"- {address: a, secretName: s, tls: false}\n", "",
	 "list: \"a:8090\": with tls: false, the keys of Secret s would go"},
	{"- {address: a, secretName: S_1}\n", "", "list: \"a:8090\": secretName "},
	{"- {address: a, secretName: s, ipuofConfig: api}\n", "a:8090", NULL},
	{"- {address: a, tls: true, ipuofConfig: api}\n", "a:8090", NULL},
	{"- a\n- [\n", NULL, "list:"},
	{"controlers: a\n", NULL, "list:1:1: there is no key \"controlers\", only \"controllers\""},
	{"controllers: 3\n", NULL, "list:1:14: the controllers are a string or a list, not "},
	{"controllers: {a: b}\n", NULL, "list:1:14: the controllers are a string or a list, not "},
	{"3", NULL, "list:1:1: the controllers are a string or a list, not "},
	{"- a\n---\n- b\n", NULL, "the list is one document, not several"},
	{"- a\n- \"\\x01\n", NULL, "list:"},
};

static void test_text(const struct text_row *r)
{
	struct vipu_address_list list;
	struct words problems = {0};
	struct err err = ERR_INIT;
	char names[256] = "";

	row_begin("text %zu", (size_t)(r - text_rows));
	if (list_text_parse("list", str_of(r->text), &list, &problems, &err) < 0) {
		ok(r->want == NULL, "taken: %s", err.msg);
		is_int(err.kind, ERR_INVALID, "kind");
		has_str(err.msg, r->says ? r->says : "?", "in words");
		return;
	}
	for (size_t i = 0; i < list.n; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? " " : "",
			 list.items[i].name);
	is_str(names, r->want ? r->want : "(refused)", "controllers");
	is_uint(problems.n, r->says ? 1 : 0, "problems");
	if (r->says && problems.n > 0)
		has_str(problems.items[0], r->says, "in words");
	vipu_address_list_done(&list);
	words_done(&problems);
}

/* ---- files ---- */

static struct loop *loop;
static char folder[64];
static struct list_file *file;
static unsigned news;
static struct err last;
static char text[64];

static void on_news(void *arg, const struct err *err, struct str s)
{
	(void)arg;
	news++;
	last = err ? *err : (struct err)ERR_INIT;
	snprintf(text, sizeof(text), "%.*s", err ? 1 : (int)s.len, err ? "-" : s.p ? s.p : "");
}

static char *in(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *z = paths[next++ % 4];

	snprintf(z, sizeof(paths[0]), "%s/%s", folder, name);
	return z;
}

static void put_file(const char *name, const char *s)
{
	FILE *f = fopen(in(name), "we");

	if (!f)
		bail_out(name);
	fputs(s, f);
	fclose(f);
}

static void must(int rc, const char *what)
{
	if (rc < 0)
		bail_out(what);
}

/* What was found by now. */
static bool finds(const char *want)
{
	for (int i = 0; i < 100; i++) {
		loop_turn(loop, 0);
		clock_advance(10);
	}
	if (strcmp(text, want) != 0)
		diag("found %s, %s", text, last.msg);
	return strcmp(text, want) == 0;
}

static void begin(const char *name)
{
	row_begin("%s", name);
	snprintf(folder, sizeof(folder), "/tmp/ipu-list-XXXXXX");
	if (!mkdtemp(folder))
		bail_out("no temporary folder");
	news = 0;
	text[0] = '\0';
}

static void follow(const char *name)
{
	file = list_file_new(loop, in(name), on_news, NULL);
	is_uint(news, 0, "never before it returns");
}

static void end(void)
{
	CLEANUP_FREE char *command = xasprintf("rm -rf %s", folder);

	list_file_free(file);
	file = NULL;
	must(system(command), "rm"); /* NOLINT: a folder of our own */
	loop_turn(loop, 0);
	row_end();
}

static void test_edits(void)
{
	int fd;

	begin("edits");
	put_file("list", "1");
	follow("list");
	ok(finds("1"), "at the start");
	put_file("list", "2");
	ok(finds("2"), "in place");
	put_file("list", "2");
	is_uint(news, 2, "two news");
	ok(finds("2") && news == 2, "written again, the same: no news");
	put_file("new", "3");
	must(rename(in("new"), in("list")), "rename");
	ok(finds("3"), "renamed over");
	must(rename(in("list"), in("list~")), "rename");
	put_file("list", "4");
	ok(finds("4"), "as vi does: moved away, written anew");
	is_uint(news, 4, "and nobody saw it missing");
	must(rename(in("list"), in("list~")), "rename");
	ok(finds("-"), "moved away");
	is_int(last.kind, ERR_NOT_FOUND, "it isn't there");
	must(link(in("list~"), in("list")), "link");
	ok(finds("4"), "linked");
	must(unlink(in("list")), "unlink");
	ok(finds("-"), "removed");
	must(symlink("list~", in("list")), "symlink");
	ok(finds("4"), "linked symbolically");
	put_file("list~", "5");
	ok(finds("5"), "what the link names is written");
	put_file("other", "x");
	ok(finds("5") && news == 9, "another file is no news: %u", news);
	fd = open(in("list~"), O_WRONLY | O_TRUNC | O_CLOEXEC);
	must(fd, "open");
	must((int)write(fd, "half", 4), "write");
	ok(finds("5"), "half written: not yet");
	must((int)write(fd, "+half", 5), "write");
	close(fd);
	ok(finds("half+half"), "closed: now");
	end();
}

/* A volume of a ConfigMap: everything is a link through ..data, which is swapped. */
static void test_mount(void)
{
	begin("a mounted ConfigMap");
	must(mkdir(in("..one"), 0755), "mkdir");
	put_file("..one/list", "1");
	must(symlink("..one", in("..data")), "symlink");
	must(symlink("..data/list", in("list")), "symlink");
	follow("list");
	ok(finds("1"), "at the start");
	for (int i = 2; i < 5; i++) {
		char fresh[16], old[16], s[8];

		snprintf(fresh, sizeof(fresh), "..%d", i);
		snprintf(old, sizeof(old), "..%d/list", i);
		snprintf(s, sizeof(s), "%d", i);
		must(mkdir(in(fresh), 0755), "mkdir");
		put_file(old, s);
		must(symlink(fresh, in("..data_tmp")), "symlink");
		must(rename(in("..data_tmp"), in("..data")), "rename");
		ok(finds(s), "swapped: %s", s);
	}
	must(unlink(in("..one/list")), "unlink");
	must(rmdir(in("..one")), "rmdir");
	ok(finds("4") && news == 4, "the old folder goes: no news");
	end();
}

static void test_way(void)
{
	CLEANUP_FREE char *target = NULL;

	begin("the way there");
	follow("a/b/../b/list");
	ok(finds("-"), "nothing of it is there");
	is_int(last.kind, ERR_NOT_FOUND, "it isn't there");
	must(mkdir(in("a"), 0755), "mkdir");
	ok(finds("-"), "a folder");
	must(mkdir(in("a/b"), 0755), "mkdir");
	put_file("a/b/list", "1");
	ok(finds("1"), "all of it");
	is_uint(news, 2, "two news");
	must(rename(in("a"), in("c")), "rename");
	ok(finds("-"), "a folder on the way is moved");
	must(mkdir(in("d"), 0755), "mkdir");
	must(mkdir(in("d/b"), 0755), "mkdir");
	put_file("d/b/list", "2");
	target = xasprintf("%s/d", folder);
	must(symlink(target, in("a")), "symlink");
	ok(finds("2"), "linked elsewhere, absolutely");
	put_file("d/b/list", "3");
	ok(finds("3"), "and written there");
	must(unlink(in("a")), "unlink");
	must(symlink("c", in("a")), "symlink");
	ok(finds("1"), "linked elsewhere, relatively");
	must(unlink(in("a")), "unlink");
	must(symlink("a", in("a")), "symlink");
	ok(finds("-"), "in a circle");
	is_int(last.kind, ERR_IO, "which is an error");
	must(unlink(in("a")), "unlink");
	must(rename(in("c"), in("a")), "rename");
	clock_advance(LIST_FILE_POLL_MS);
	ok(finds("1"), "back again");
	end();
}

static void test_bad_files(void)
{
	CLEANUP_FREE char *large = xcalloc(1, LIST_FILE_MAX_BYTES + 2);

	begin("what is no file");
	must(mkdir(in("list"), 0755), "mkdir");
	follow("list");
	ok(finds("-"), "a folder");
	is_int(last.kind, ERR_INVALID, "isn't a file");
	must(rmdir(in("list")), "rmdir");
	must(mkfifo(in("list"), 0644), "mkfifo");
	ok(finds("-"), "a pipe: nobody waits for it");
	must(unlink(in("list")), "unlink");
	memset(large, 'x', LIST_FILE_MAX_BYTES + 1);
	put_file("list", large);
	ok(finds("-"), "too large");
	is_int(last.kind, ERR_LIMIT, "says so");
	put_file("list", "1");
	ok(finds("1"), "and a good one");
	end();
}

/* However often it changes, it's looked at. */
static void test_busy(void)
{
	begin("changes without end");
	put_file("list", "0");
	follow("list");
	ok(finds("0"), "at the start");
	for (int i = 0; i < 300; i++) {
		char s[8];

		snprintf(s, sizeof(s), "%d", i);
		put_file("list", s);
		loop_turn(loop, 0);
		clock_advance(10);
	}
	ok(news > 20 && news < 40, "300 changes in three seconds are %u news", news);
	ok(finds("299"), "the last one counts");
	end();
}

int main(void)
{
	struct err err = ERR_INIT;

	log_init(LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	clock_freeze(1000000, INT64_C(1717200000000));
	for (size_t i = 0; i < sizeof(text_rows) / sizeof(text_rows[0]); i++)
		test_text(&text_rows[i]);
	row_end();
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	test_edits();
	test_mount();
	test_way();
	test_bad_files();
	test_busy();
	loop_free(loop);
	return done_testing();
}
