/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List and watch against a scripted API server, as a table: what was told, what was asked; each row
 * whole and in pieces of one and of seven bytes, and cancelled at every step and in every callback.
 */
#include "kube_watch_rig.h"

#include "core/log.h"
#include "kube/store.h"

static const struct row rows[] = {
	{"a list, then events",
	 {{LIST_URL, 200, NULL, LIST("10", "", OBJ("a", "1", "5") "," OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("MODIFIED", OBJ("a", "1", "11")) EVENT("DELETED", OBJ("b", "2", "12"))
		   EVENT("ADDED", OBJ("c", "3", "13")),
	   SRV_STREAM}},
	 "[ +a.1@5 +b.2@6 ] S *a.1@11 -b.2@12o +c.3@13 "},
	{"an empty list",
	 {{LIST_URL, 200, NULL, LIST("10", "", ""), SRV_WHOLE}, HOLD("10")},
	 "[ ] S "},
	{"pages",
	 {{LIST_URL, 200, NULL, LIST("10", MORE("t1"), OBJ("a", "1", "5")), SRV_WHOLE},
	  {LIST_URL "&continue=t1", 200, NULL, LIST("10", MORE("t 2"), OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {LIST_URL "&continue=t%202", 200, NULL, LIST("10", "", OBJ("c", "3", "7")), SRV_WHOLE},
	  HOLD("10")},
	 "[ +a.1@5 +b.2@6 +c.3@7 ] S "},
	{"a token that expires between pages",
	 {{LIST_URL, 200, NULL, LIST("10", MORE("t1"), OBJ("a", "1", "5") "," OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {LIST_URL "&continue=t1", 410, NULL, STATUS("410", "Expired"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("b", "2", "16")), SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 +b.2@6 [ *b.2@16 -a.1@5 ] S "},
	{"a page that leads to itself is an error, and the list begins again",
	 {{LIST_URL, 200, NULL, LIST("10", MORE("t1"), OBJ("a", "1", "5")), SRV_WHOLE},
	  {LIST_URL "&continue=t1", 200, NULL, LIST("10", MORE("t1"), ""), SRV_WHOLE},
	  ONE_LIST,
	  HOLD("10")},
	 "[ +a.1@5 [ ] S "},
	{"a page that breaks off is asked for again",
	 {{LIST_URL, 200, NULL,
	   "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" OBJ("a", "1", "5") ",{\"meta",
	   SRV_CUT},
	  ONE_LIST,
	  HOLD("10")},
	 "[ +a.1@5 [ ] S "},
	{"a first page that breaks off: what has gone before the second is gone",
	 {{LIST_URL, 200, NULL, PART("10", "", OBJ("a", "1", "5") "," OBJ("b", "2", "6")), SRV_CUT},
	  {LIST_URL, 200, NULL, LIST("12", "", OBJ("b", "2", "6")), SRV_WHOLE},
	  HOLD("12")},
	 "[ +a.1@5 +b.2@6 [ -a.1@5 ] S "},
	{"a page that breaks off behind the token of the next",
	 {PAGE_1,
	  {LIST_URL "&continue=t1", 200, NULL, PART("10", MORE("t2"), OBJ("b", "2", "6")), SRV_CUT},
	  {LIST_URL "&continue=t1", 200, NULL, LIST("10", MORE("t2"), OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {LIST_URL "&continue=t2", 200, NULL, LIST("10", "", OBJ("c", "3", "7")), SRV_WHOLE},
	  HOLD("10")},
	 "[ +a.1@5 +b.2@6 +c.3@7 ] S "},
	{"a page that breaks off again and again: the pages before it aren't asked for again",
	 {PAGE_1,
	  {LIST_URL "&continue=t1", 200, NULL, PART("10", MORE("t2"), OBJ("b", "2", "6")), SRV_CUT},
	  {LIST_URL "&continue=t1", 0, NULL, NULL, SRV_RESET},
	  {LIST_URL "&continue=t1", 200, NULL, PART("10", MORE("t2"), OBJ("b", "2", "6")), SRV_CUT},
	  {LIST_URL "&continue=t1", 200, NULL, "{\"metadata\":{\"resourceVersion\":\"10\"",
	   SRV_STREAM_END},
	  {LIST_URL "&continue=t1", 200, NULL, LIST("10", MORE("t2"), OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {LIST_URL "&continue=t2", 502, NULL, "", SRV_WHOLE},
	  {LIST_URL "&continue=t2", 503, NULL, "", SRV_WHOLE},
	  {LIST_URL "&continue=t2", 200, NULL, LIST("10", "", OBJ("c", "3", "7")), SRV_WHOLE},
	  HOLD("10")},
	 "[ +a.1@5 +b.2@6 +c.3@7 ] S "},
	{"what can't be read in a page that breaks off is said once",
	 {PAGE_1,
	  {LIST_URL "&continue=t1", 200, NULL,
	   PART("10", "", "{x}," LARGE("b", "2", "6") "," OBJ("c", "3", "7") "," NO_UID("f", "8")),
	   SRV_CUT},
	  {LIST_URL "&continue=t1", 200, NULL, PART("10", "", "{x}"), SRV_CUT},
	  {LIST_URL "&continue=t1", 200, NULL,
	   LIST("10", MORE("t2"),
		"{x}," LARGE("b", "2", "6") "," OBJ("c", "3", "7") "," NO_UID("f", "8") "," LARGE(
			"d", "4", "6")),
	   SRV_WHOLE},
	  {LIST_URL "&continue=t2", 200, NULL, LIST("10", "", LARGE("e", "5", "6")), SRV_WHOLE},
	  HOLD("10")},
	 "[ +a.1@5 !/(protocol) !n/b(limit) +c.3@7 !n/f(protocol) !n/d(limit) !n/e(limit) ] S "},
	{"a token that expires while its page is asked for again: all of it anew",
	 {PAGE_1,
	  {LIST_URL "&continue=t1", 200, NULL, PART("10", MORE("t2"), OBJ("b", "2", "6")), SRV_CUT},
	  {LIST_URL "&continue=t1", 0, NULL, NULL, SRV_RESET},
	  {LIST_URL "&continue=t1", 410, NULL,
	   "{\"kind\":\"Status\",\"metadata\":{\"continue\":\"t9\"},\"code\":410,"
	   "\"reason\":\"Expired\"}",
	   SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("b", "2", "6") "," OBJ("c", "3", "17")),
	   SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 +b.2@6 [ +c.3@17 -a.1@5 ] S "},
	{"a token that the server can't take: all of it anew",
	 {PAGE_1,
	  {LIST_URL "&continue=t1", 200, NULL, PART("10", MORE("t2"), OBJ("b", "2", "6")), SRV_CUT},
	  {LIST_URL "&continue=t1", 504, NULL, STATUS("504", "Timeout"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("3", MORE("t1"), OBJ("b", "2", "2")), SRV_WHOLE},
	  {LIST_URL "&continue=t1", 400, NULL, STATUS("400", "BadRequest"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("4", "", OBJ("b", "2", "2")), SRV_WHOLE},
	  HOLD("4")},
	 "[ +a.1@5 +b.2@6 [ *b.2@2 [ -a.1@5 ] S "},
	{"bookmarks, and resumption from them",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, EVENT("MODIFIED", OBJ("a", "1", "11")) BOOKMARK("30"),
	   SRV_STREAM_END},
	  {WATCH_URL("30"), 200, NULL, EVENT("MODIFIED", OBJ("a", "1", "31")), SRV_STREAM}},
	 "[ +a.1@5 ] S *a.1@11 *a.1@31 "},
	{"the server closes in the middle of a line",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, EVENT("MODIFIED", OBJ("a", "1", "11")) "{\"type\":\"MODI",
	   SRV_CUT},
	  {WATCH_URL("11"), 200, NULL, EVENT("MODIFIED", OBJ("a", "1", "12")), SRV_STREAM}},
	 "[ +a.1@5 ] S *a.1@11 *a.1@12 "},
	{"reset",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, EVENT("MODIFIED", OBJ("a", "1", "11")), SRV_RESET},
	  {"GET /api/v1/pods?labelSelector=l&resourceVersion=1", 200, NULL,
	   EVENT("DELETED", OBJ("a", "1", "12")), SRV_STREAM}},
	 NULL},
	{"reset before an answer",
	 {ONE_LIST,
	  {WATCH_URL("10"), 0, NULL, NULL, SRV_RESET},
	  {WATCH_URL("10"), 0, NULL, NULL, SRV_RESET},
	  {WATCH_URL("10"), 0, NULL, NULL, SRV_RESET},
	  {WATCH_URL("10"), 200, NULL, EVENT("ADDED", OBJ("b", "2", "11")), SRV_STREAM}},
	 NULL},
	{"410 in an event: a new list finds what vanished and what is new",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("ADDED", OBJ("b", "2", "11")) EVENT("ERROR", STATUS("410", "Expired")),
	   SRV_STREAM},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("b", "2", "11") "," OBJ("c", "3", "15")),
	   SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 ] S +b.2@11 [ +c.3@15 -a.1@5 ] S "},
	{"410 as the answer to a watch",
	 {ONE_LIST,
	  {WATCH_URL("10"), 410, NULL, STATUS("410", "Gone"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("a", "9", "15")), SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 ] S [ -a.1@5 +a.9@15 ] S "},
	{"a version from the future",
	 {ONE_LIST,
	  {WATCH_URL("10"), 504, NULL, STATUS("504", "Timeout"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("3", "", OBJ("a", "1", "2")), SRV_WHOLE},
	  HOLD("3")},
	 "[ +a.1@5 ] S [ *a.1@2 ] S "},
	{"another ERROR event: on from where we were",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("ADDED", OBJ("b", "2", "11")) EVENT("ERROR", STATUS("500", "InternalError")),
	   SRV_STREAM},
	  HOLD("11")},
	 "[ +a.1@5 ] S +b.2@11 "},
	{"lines that are garbage",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, EVENT("ADDED", OBJ("b", "2", "12")) "garbage\n\n[]\n{}\n",
	   SRV_STREAM},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("a", "1", "15") "," OBJ("b", "2", "12")),
	   SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 ] S +b.2@12 !/(protocol) !/(protocol) !/(protocol) [ *a.1@15 ] S "},
	{"an event of an unknown type is passed over",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("DANCE", OBJ("z", "9", "11")) EVENT("ADDED", OBJ("b", "2", "12")), SRV_STREAM}},
	 "[ +a.1@5 ] S !n/z(protocol) +b.2@12 "},
	{"an event without its object",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, "{\"type\":\"MODIFIED\"}\n", SRV_STREAM},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("a", "1", "15")), SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 ] S !/(protocol) [ *a.1@15 ] S "},
	{"an event that breaks off: what it said is asked for at once",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"na\n",
	   SRV_STREAM},
	  {LIST_URL, 200, NULL, LIST("20", "", ""), SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 ] S !/(protocol) [ -a.1@5 ] S "},
	{"what couldn't be read is asked for again when the watch ends",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, EVENT("ADDED", OBJ("b", "2", "12")) "garbage\n",
	   SRV_STREAM_END},
	  {LIST_URL, 200, NULL, LIST("20", "", OBJ("a", "1", "15") "," OBJ("b", "2", "12")),
	   SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 ] S +b.2@12 !/(protocol) [ *a.1@15 ] S "},
	{"an object without a UID",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("ADDED", "{\"metadata\":{\"name\":\"q\",\"resourceVersion\":\"11\"}}")
		   EVENT("ADDED", OBJ("b", "2", "12")),
	   SRV_STREAM}},
	 "[ +a.1@5 ] S !/q(protocol) +b.2@12 "},
	{"a line that is too long is named and passed over, also after a reconnect",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("MODIFIED", LARGE("a", "1", "11")) EVENT("ADDED", OBJ("b", "2", "12")),
	   SRV_STREAM_END},
	  HOLD("12")},
	 "[ +a.1@5 ] S !n/a(limit) +b.2@12 "},
	{"something too large is deleted",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("DELETED", LARGE("a", "1", "11")) EVENT("DELETED", LARGE("c", "3", "12")),
	   SRV_STREAM_END},
	  HOLD("12")},
	 "[ +a.1@5 ] S -a.1@11 !n/c(limit) "},
	{"in a list, the too large and the too deep don't blind the rest",
	 {{LIST_URL, 200, NULL,
	   LIST("10", "",
		LARGE("a", "1", "5") ",{" META("d", "4", "5") ",\"x\":" DEEP DEEP_END
							      "}," OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  HOLD("10")},
	 NULL},
	{"what became unreadable hasn't vanished",
	 {{LIST_URL, 200, NULL, LIST("10", "", OBJ("a", "1", "5") "," OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {WATCH_URL("10"), 410, NULL, STATUS("410", "Gone"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("20", "", LARGE("a", "1", "15")), SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 +b.2@6 ] S [ !n/a(limit) -b.2@6 ] S "},
	{"with one that can't be named, nothing is called vanished",
	 {{LIST_URL, 200, NULL, LIST("10", "", OBJ("a", "1", "5") "," OBJ("b", "2", "6")),
	   SRV_WHOLE},
	  {WATCH_URL("10"), 410, NULL, STATUS("410", "Gone"), SRV_WHOLE},
	  {LIST_URL, 200, NULL, LIST("20", "", "7"), SRV_WHOLE},
	  HOLD("20")},
	 "[ +a.1@5 +b.2@6 ] S [ !/(protocol) ] S "},
	{"429 and 503 to a list",
	 {{LIST_URL, 429, "Retry-After: 1\r\n", STATUS("429", "TooManyRequests"), SRV_WHOLE},
	  {LIST_URL, 503, "Retry-After: 2\r\n", "busy", SRV_WHOLE},
	  ONE_LIST,
	  HOLD("10")},
	 "[ +a.1@5 ] S "},
	{"429 to a watch",
	 {ONE_LIST,
	  {WATCH_URL("10"), 429, "Retry-After: 1\r\n", STATUS("429", "TooManyRequests"), SRV_WHOLE},
	  HOLD("10")},
	 "[ +a.1@5 ] S "},
	{"500 again and again",
	 {{LIST_URL, 500, NULL, "", SRV_WHOLE},
	  {LIST_URL, 500, NULL, "<html>", SRV_WHOLE},
	  {LIST_URL, 500, NULL, STATUS("500", "InternalError"), SRV_WHOLE},
	  ONE_LIST,
	  HOLD("10")},
	 "[ [ [ [ +a.1@5 ] S "},
	{"an answer that is no list",
	 {{LIST_URL, 200, NULL, "{\"kind\":\"Pod\"}", SRV_WHOLE},
	  {LIST_URL, 200, NULL, "<html>", SRV_WHOLE},
	  ONE_LIST,
	  HOLD("10")},
	 "[ [ [ +a.1@5 ] S "},
	{"401, then well",
	 {{LIST_URL, 401, NULL, STATUS("401", "Unauthorized"), SRV_WHOLE},
	  ONE_LIST,
	  {WATCH_URL("10"), 401, NULL, STATUS("401", "Unauthorized"), SRV_WHOLE},
	  HOLD("10")},
	 "[ +a.1@5 ] S "},
	{"a server that ends each watch at once isn't asked at once again",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL, NULL, SRV_STREAM_END},
	  {WATCH_URL("10"), 200, NULL, NULL, SRV_STREAM_END},
	  {WATCH_URL("10"), 200, NULL, EVENT("ADDED", OBJ("b", "2", "11")), SRV_STREAM}},
	 "[ +a.1@5 ] S +b.2@11 "},
	{"the same object again",
	 {ONE_LIST,
	  {WATCH_URL("10"), 200, NULL,
	   EVENT("ADDED", OBJ("a", "1", "5")) EVENT("ADDED", OBJ("a", "1", "11"))
		   EVENT("DELETED", OBJ("z", "9", "12")) EVENT("MODIFIED", OBJ("b", "2", "13")),
	   SRV_STREAM}},
	 "[ +a.1@5 ] S *a.1@11 +b.2@13 "},
};

/* What a reset connection lost may differ; what counts is where it ends. */
static const char *want_of(const struct row *row, const char *got)
{
	if (row->want)
		return row->want;
	if (strcmp(row->name, "reset") == 0)
		return strstr(got, "*a") ? "[ +a.1@5 ] S *a.1@11 -a.1@12o "
					 : "[ +a.1@5 ] S -a.1@12o ";
	if (strcmp(row->name, "reset before an answer") == 0)
		return "[ +a.1@5 ] S +b.2@11 ";
	return "[ !n/a(limit) !n/d(limit) +b.2@6 ] S ";
}

static void test_rows(void)
{
	static const size_t pieces[] = {0, 1, 7};
	for (size_t i = 0; i < SIZE(rows); i++) {
		for (size_t p = 0; p < SIZE(pieces); p++) {
			struct watcher x;
			struct kube_watch_status st;
			row_begin("%s, pieces of %zu", rows[i].name, pieces[p]);
			begin(&rows[i], pieces[p], &x, 0);
			RUN_UNTIL(strcmp(x.log, want_of(&rows[i], x.log)) == 0 &&
					  srv->next == srv->n_steps &&
					  (kube_watch_status(x.w, &st),
					   st.state == KUBE_WATCH_WATCHING),
				  10);
			run(20, 10);
			is_str(x.log, want_of(&rows[i], x.log), "what was told");
			is_uint(srv->surprises, 0, "what was asked");
			kube_watch_status(x.w, &st);
			is_int(st.state, KUBE_WATCH_WATCHING, "it watches");
			ok(st.synced && st.failures == 0 && st.err.kind == ERR_NONE, "all is well");
			end(&x);
		}
	}
	row_end();
}

/* Cancelled after each number of turns: nothing comes any more, and nothing leaks. */
static void test_cancel(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		unsigned late = 0;
		for (unsigned turns = 0; turns < 40; turns++) {
			struct watcher x;
			begin(&rows[i], 16, &x, 0);
			run(turns, 100);
			kube_watch_cancel(x.w);
			unsigned callbacks = x.callbacks;
			kube_watch_cancel(x.w);
			run(3, 1000);
			late += x.callbacks != callbacks;
			x.w = NULL;
			end(&x);
		}
		is_uint(late, 0, "cancelled between turns: %s", rows[i].name);
		late = 0;
		for (unsigned at = 1; at < 25; at++) {
			struct watcher x;
			begin(&rows[i], 0, &x, at);
			RUN_UNTIL(x.callbacks >= at || srv->next == srv->n_steps, 100);
			run(5, 1000);
			late += x.callbacks > at;
			if (x.callbacks >= at)
				x.w = NULL;
			end(&x);
		}
		is_uint(late, 0, "cancelled within callbacks: %s", rows[i].name);
	}
}

/* How often a watch asked for a list in ten minutes, in each of which it can't read a few events.
 */
static void test_garbage(void)
{
	static const struct row row = {
		"garbage",
		{ONE_LIST, {WATCH_URL("10"), 200, NULL, BOOKMARK("10"), SRV_STREAM}},
		NULL};
	struct watcher x;
	struct kube_watch_status st;
	begin(&row, 0, &x, 0);
	srv->any_order = true;
	for (int i = 0; i < 600; i++) {
		RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WATCHING), 10);
		srv_push(srv, i % 2 ? "garbage\n" : BOOKMARK("10"), SRV_STREAM);
		run(4, 0);
		clock_advance(1000);
	}
	kube_watch_status(x.w, &st);
	ok(st.lists > 5 && st.lists < 20, "a few lists: %u", (unsigned)st.lists);
	srv->any_order = false;
	end(&x);
}

/* A connection that was lost without a word, in a clock that stands in between. */
static void test_lost(void)
{
	static const struct row row = {"lost", {ONE_LIST, HOLD("10"), HOLD("10")}, NULL};
	struct watcher x;
	struct kube_watch_status st;
	begin(&row, 0, &x, 0);
	RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WATCHING), 10);
	for (int i = 0; i < 14; i++) {
		clock_advance(10000);
		run(8, 0);
	}
	is_uint(srv->next, 2, "140 s without a word");
	for (int i = 0; i < 3; i++) {
		clock_advance(10000);
		run(8, 0);
	}
	is_uint(srv->next, 3, "170 s: another one");
	kube_watch_status(x.w, &st);
	is_uint(st.failures, 0, "it's no failure");
	end(&x);
}

/* As long as bookmarks come, the watch lives until its time and a margin are over. */
static void test_silence(void)
{
	static const struct row row = {
		"silence", {ONE_LIST, HOLD("10"), HOLD("10"), HOLD("10")}, NULL};
	struct watcher x;
	struct kube_watch_status st;
	begin(&row, 0, &x, 0);
	RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WATCHING), 10);
	is_uint(srv->next, 2, "it watches");
	for (int i = 0; i < 25; i++) {
		clock_advance(10000);
		if (i % 14 == 0)
			srv_push(srv, BOOKMARK("10"), SRV_STREAM);
		run(8, 0);
	}
	is_uint(srv->next, 2, "after 250 s with two bookmarks it still waits");
	for (int i = 0; i < 40; i++) {
		clock_advance(10000);
		run(8, 0);
		kube_watch_status(x.w, &st); /* not between the first and the second */
		if (i % 6 == 0 && st.state == KUBE_WATCH_WATCHING)
			srv_push(srv, BOOKMARK("10"), SRV_STREAM);
		run(8, 0);
	}
	is_uint(srv->next, 3, "after 650 s it's another one");
	is_str(x.log, "[ +a.1@5 ] S ", "and nothing was told");
	kube_watch_status(x.w, &st);
	is_uint(st.failures, 0, "it's no failure");
	end(&x);
}

static void on_unanswered(void *arg, const struct err *err, const struct kube_response *response)
{
	(void)arg, (void)err, (void)response;
}

/* Where all that is sent to the API server is lost, events still come: they are no word. */
static void test_one_way(void)
{
	static const struct row row = {
		"one way",
		{ONE_LIST,
		 HOLD("10"),
		 {"GET /api/v1/namespaces/n/pods/a", 0, NULL, NULL, SRV_HANG}},
		NULL};
	const struct kube_request get = {
		.verb = KUBE_GET, .resource = &KUBE_PODS, .ns = "n", .name = "a"};
	struct kube_watch_status st;
	struct watcher x;
	struct scope scope;

	begin(&row, 0, &x, 0);
	RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WATCHING), 10);
	scope_init(&scope);
	kube_call_start(client, &get, on_unanswered, NULL, &scope);
	RUN_UNTIL(srv->next == 3, 0);
	clock_advance(1000);
	srv_push(srv, EVENT("MODIFIED", OBJ("a", "1", "11")), SRV_STREAM);
	run(5, 0);
	is_str(x.log, "[ +a.1@5 ] S *a.1@11 ", "an event comes");
	clock_advance(1500);
	is_int(kube_client_silence_ms(client), 2500, "what was asked isn't answered by that");
	scope_cancel(&scope);
	end(&x);
}

/* States and errors, for readiness and for words to people. */
static void test_status(void)
{
	static const struct row row = {
		"status",
		{{LIST_URL, 403, NULL,
		  "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":\"pods is forbidden\"}",
		  SRV_WHOLE},
		 ONE_LIST,
		 HOLD("10")},
		NULL};
	struct watcher x;
	struct kube_watch_status st;
	begin(&row, 0, &x, 0);
	kube_watch_status(x.w, &st);
	ok(st.state == KUBE_WATCH_LISTING && !st.synced && st.heard_ms == -1, "the beginning");
	RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WAITING), 10);
	is_int(st.err.kind, ERR_DENIED, "the kind of its error");
	is_str(st.err.msg, "pods is forbidden", "in the server's words");
	is_uint(st.failures, 1, "counted");
	ok(!st.synced, "not synced");
	is_str(kube_watch_state_name(st.state), "waiting", "its name");
	RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WATCHING), 10);
	ok(st.synced && st.failures == 0 && st.err.kind == ERR_NONE && st.objects == 1 &&
		   st.lists == 1,
	   "well again");
	net_listener_close(srv->listener);
	srv->listener = NULL;
	srv_push(srv, "", SRV_RESET);
	RUN_UNTIL((kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WAITING && st.failures > 2),
		  100);
	is_int(st.err.kind, ERR_UNAVAILABLE, "the server is gone");
	ok(st.synced && st.objects == 1, "what is known stays");
	end(&x);
}

/* An ERROR event says what was sent. */
static void test_own_token(void)
{
	static const struct row row = {
		"an ERROR event with our token",
		{ONE_LIST,
		 {WATCH_URL("10"), 200, NULL,
		  EVENT("ERROR", "{\"kind\":\"Status\",\"code\":403,"
				 "\"message\":\"not for " TOKEN "\"}"),
		  SRV_STREAM}},
		NULL,
	};
	struct watcher x;
	struct kube_watch_status st;
	begin(&row, 0, &x, 0);
	RUN_UNTIL((kube_watch_status(x.w, &st), st.failures > 0), 10);
	is_int(st.err.kind, ERR_DENIED, "%s", row.name);
	is_str(st.err.msg, "not for", "which isn't told");
	end(&x);
}

/* ---- a store on top ---- */

static int project(void *arg, const struct json *object, void **ret, struct err *err)
{
	(void)arg;
	(void)object;
	(void)err;
	*ret = xcalloc(1, 1);
	return 0;
}

static void free_item(void *arg, void *item)
{
	(void)arg;
	free(item);
}

static void test_store(void)
{
	static const struct row row = {
		"store",
		{ONE_LIST,
		 {WATCH_URL("10"), 200, NULL, EVENT("ADDED", OBJ("b", "2", "11")), SRV_STREAM}},
		NULL};
	static const struct kube_store_ops ops = {
		.component = "test", .project = project, .free_item = free_item, .by_uid = true};
	struct kube_watch_opts opts = {
		.resource = &KUBE_PODS, .label_selector = "l", .page_limit = 2};
	struct kube_store *store = kube_store_new(&ops, NULL);
	srv_script(srv, row.steps, 2, 0);
	config = srv_config(srv, NULL);
	client = client_for(config, NULL);
	kube_store_watch(store, client, &opts);
	kube_store_watch(store, client, &opts);
	ok(!kube_store_is_synced(store), "not yet");
	ok(RUN_UNTIL(kube_store_len(store) == 2, 10), "filled");
	ok(kube_store_is_synced(store), "synced");
	ok(kube_store_get(store, STR("n/b")) && kube_store_by_uid(store, STR("1")), "found");
	kube_store_free(store);
	struct watcher none = {.w = NULL};
	end(&none);
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	rand_seed(11);
	srv = srv_new(NULL);
	test_rows();
	test_cancel();
	test_garbage();
	test_lost();
	test_silence();
	test_one_way();
	test_own_token();
	test_store();
	test_status(); /* closes the listener */
	srv_free(srv);
	test_end();
	return done_testing();
}
