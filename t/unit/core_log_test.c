/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/log.h: the three formats, escaping, cutting, limits.
 * Uses core.
 */
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>

#include "core/clock.h"
#include "core/str.h"
#include "core/trace.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int fds[2];
static char line[65536];

/* What was written since the last call; "" for nothing. */
static const char *written(void)
{
	ssize_t n = read(fds[0], line, sizeof(line) - 1);

	line[n > 0 ? n : 0] = '\0';
	return line;
}

static void test_formats(void)
{
	log_init(LOG_INFO, LOG_TEXT, fds[1]);
	log_info("partition", "default/job-a", "active id=%s ipus=%d", "p1", 4);
	is_str(written(),
	       "2024-03-01T10:00:00.123Z INFO  partition default/job-a: active id=p1 ipus=4\n",
	       "text");
	log_error("kube", NULL, "no answer");
	is_str(written(), "2024-03-01T10:00:00.123Z ERROR kube: no answer\n", "without object");
	log_init(LOG_INFO, LOG_JOURNALD, fds[1]);
	log_warn("kube", NULL, "slow");
	is_str(written(), "<4>2024-03-01T10:00:00.123Z WARN  kube: slow\n", "journald");
	log_init(LOG_INFO, LOG_JSON, fds[1]);
	log_info("partition", "default/job-a", "a \"b\" c=\\");
	is_str(written(),
	       "{\"time\":\"2024-03-01T10:00:00.123Z\",\"level\":\"info\",\"component\":\"partition\","
	       "\"object\":\"default/job-a\",\"msg\":\"a \\\"b\\\" c=\\\\\"}\n",
	       "JSON");
	log_msg(LOG_FATAL, "main", NULL, "gone");
	is_str(written(),
	       "{\"time\":\"2024-03-01T10:00:00.123Z\",\"level\":\"fatal\",\"component\":\"main\","
	       "\"msg\":\"gone\"}\n",
	       "JSON without object");
}

static void test_trace(void)
{
	struct trace *t = trace_parse(
			     STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
			     STR_NULL),
		     *before = trace_enter(t);
	CLEANUP_FREE char *text = xasprintf(
		"2024-03-01T10:00:00.123Z INFO  kube default/a: got id=1 trace_id=0af7651916cd43dd8448eb211c80319c "
		"span_id=%s\n",
		trace_span(t));
	CLEANUP_FREE char *json = xasprintf(
		"\"msg\":\"got id=1\",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\",\"span_id\":\"%s\"}\n",
		trace_span(t));

	log_init(LOG_INFO, LOG_TEXT, fds[1]);
	log_info("kube", "default/a", "got id=1");
	is_str(written(), text, "text within a trace");
	log_init(LOG_INFO, LOG_JSON, fds[1]);
	log_info("kube", "default/a", "got id=1");
	has_str(written(), json, "JSON within a trace");
	trace_leave(before);
	trace_unref(t);
	log_info("kube", "default/a", "got id=1");
	ok(!strstr(written(), "trace_id"), "not behind it");
}

static void test_levels(void)
{
	int evaluated = 0;

	for (int max = LOG_FATAL; max <= LOG_TRACE; max++) {
		log_init((enum log_level)max, LOG_TEXT, fds[1]);
		for (int level = LOG_FATAL; level <= LOG_TRACE; level++) {
			log_msg((enum log_level)level, "c", NULL, "x");
			is_int(written()[0] != '\0', level <= max, "level %d at %d", level, max);
			is_int(log_on((enum log_level)level), level <= max, "log_on");
		}
	}
	log_set_level(LOG_INFO);
	log_debug("c", NULL, "%d", ++evaluated);
	log_trace("c", NULL, "%d", ++evaluated);
	is_int(evaluated, 0, "arguments aren't evaluated when the level is off");
	log_set_level(LOG_TRACE);
	log_debug("c", NULL, "%d", ++evaluated);
	log_trace("c", NULL, "%d", ++evaluated);
	is_int(evaluated, 2, "and are when it's on");
	written();
	log_set_level((enum log_level)99);
	ok(log_on(LOG_TRACE), "a level that is too high is the highest");
	log_set_level((enum log_level)0);
	ok(log_on(LOG_FATAL) && !log_on(LOG_ERROR), "one that is too low is the lowest");
}

static void test_escaping(void)
{
	static const struct {
		const char *msg, *text, *json;
	} rows[] = {
		{"plain äöü €", "plain äöü €", "plain äöü €"},
		{"a\nb\tc", "a\\nb\\tc", "a\\nb\\tc"},
		{"\x1b[31m\r\x01\x7f", "\\x1b[31m\\x0d\\x01\\x7f",
		 "\\u001b[31m\\u000d\\u0001\\u007f"},
		{"bad \xff\xc3(", "bad \\xff\\xc3(", "bad \\\\xff\\\\xc3("},
		{"csi \xc2\x9b!", "csi \\u009b!", "csi \\u009b!"},
		{"nbsp \xc2\xa0!", "nbsp \xc2\xa0!", "nbsp \xc2\xa0!"},
		{"\"q\" \\", "\"q\" \\", "\\\"q\\\" \\\\"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char want[512];
		log_init(LOG_INFO, LOG_TEXT, fds[1]);
		log_info("c", rows[i].msg, "%s", rows[i].msg);
		snprintf(want, sizeof(want), "2024-03-01T10:00:00.123Z INFO  c %s: %s\n",
			 rows[i].text, rows[i].text);
		is_str(written(), want, "text of row %zu", i);
		log_init(LOG_INFO, LOG_JSON, fds[1]);
		log_info("c", NULL, "%s", rows[i].msg);
		snprintf(want, sizeof(want), "\"msg\":\"%s\"}\n", rows[i].json);
		has_str(written(), want, "JSON of row %zu", i);
	}
}

static void test_long(void)
{
	static char msg[9000];

	for (int format = LOG_TEXT; format <= LOG_JOURNALD; format++) {
		for (const char *const *c = (const char *const[]){"x", "€", "\x01", "\xff", NULL};
		     *c; c++) {
			size_t len = 0, n = strlen(*c);
			for (; len + n < sizeof(msg); len += n)
				memcpy(msg + len, *c, n);
			msg[len] = '\0';
			log_init(LOG_INFO, (enum log_format)format, fds[1]);
			log_info("c", msg, "%s", msg);
			written();
			size_t got = strlen(line);
			ok(got > 4000 && got <= 4096, "a long line is cut: %zu bytes", got);
			ok(strchr(line, '\n') == line + got - 1, "it's one line");
			ok(str_is_utf8((struct str){line, got}), "of UTF-8");
			has_str(line, format == LOG_JSON ? "…\"}\n" : "…\n", "that says so");
		}
	}
	/* The last message that fits isn't cut. */
	log_init(LOG_INFO, LOG_TEXT, fds[1]);
	memset(msg, 'y', sizeof(msg));
	log_info("c", NULL, "%.*s", 4000, msg);
	written();
	ok(strlen(line) == 4035 && !strstr(line, "…"), "one that fits is whole: %zu", strlen(line));
}

static void test_limits(void)
{
	struct log_limit limit = {0};
	unsigned printed = 0;

	log_init(LOG_INFO, LOG_TEXT, fds[1]);
	for (int i = 0; i < 10; i++) {
		if (log_limit_ok(&limit, 1000)) {
			log_info("c", NULL, "again");
			printed++;
		}
		clock_advance(150);
	}
	is_uint(printed, 2, "twice in 1.35 s");
	is_str(written(),
	       "2024-03-01T10:00:00.123Z INFO  c: again\n"
	       "2024-03-01T10:00:01.173Z INFO  c: again suppressed=6\n",
	       "the second says how many were left out");
	log_info("c", NULL, "other");
	has_str(written(), "c: other\n", "another line doesn't");
	log_init(LOG_INFO, LOG_JSON, fds[1]);
	clock_advance(1000);
	ok(log_limit_ok(&limit, 1000), "a second later");
	log_info("c", NULL, "x");
	has_str(written(), "\"msg\":\"x suppressed=2\"}\n", "in JSON");
}

static void test_errno(void)
{
	log_init(LOG_INFO, LOG_TEXT, fds[1]);
	errno = ENOENT;
	log_info("c", NULL, "%m");
	int after = errno;
	is_int(after, ENOENT, "errno is kept");
	has_str(written(), "No such file or directory", "and seen by %%m");
	log_init(LOG_INFO, LOG_TEXT, -1);
	errno = ENOENT;
	log_info("c", NULL, "lost");
	after = errno;
	is_int(after, ENOENT, "errno is kept when writing fails");
}

int main(void)
{
	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
		bail_out("pipe");
	clock_freeze(0, 1709287200123);
	test_formats();
	test_trace();
	test_levels();
	test_escaping();
	test_long();
	clock_freeze(0, 1709287200123);
	test_limits();
	test_errno();
	return done_testing();
}
