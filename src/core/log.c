/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: made in one buffer on the stack, written by one write(2). A line is at most
 * LINE_SIZE bytes, which a pipe takes whole; a longer message is cut, with an ellipsis.
 * Uses clock and str.
 */
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/str.h"
#include "core/trace.h"

#define LINE_SIZE 4096 /* PIPE_BUF: what goes into a pipe in one piece */
#define ELLIPSIS  "\xe2\x80\xa6"

static enum log_level max_level = LOG_INFO;
static enum log_format line_format = LOG_TEXT;
static int log_fd = STDERR_FILENO;
static unsigned long left_out; /* by the limit that was asked last; for the next line */

static const struct {
	const char *text, *json;
	int priority; /* of syslog(3), which journald understands */
} levels[] = {
	[LOG_FATAL] = {"FATAL", "fatal", 2}, [LOG_ERROR] = {"ERROR", "error", 3},
	[LOG_WARN] = {"WARN ", "warn", 4},   [LOG_INFO] = {"INFO ", "info", 6},
	[LOG_DEBUG] = {"DEBUG", "debug", 7}, [LOG_TRACE] = {"TRACE", "trace", 7},
};

void log_init(enum log_level level, enum log_format format, int fd)
{
	log_set_level(level);
	line_format = format;
	log_fd = fd;
	left_out = 0;
}

void log_set_level(enum log_level level)
{
	max_level = level < LOG_FATAL ? LOG_FATAL : level > LOG_TRACE ? LOG_TRACE : level;
}

bool log_on(enum log_level level)
{
	return level <= max_level;
}

struct line {
	char p[LINE_SIZE];
	size_t len;
	size_t end; /* where to stop: room for what must come behind is kept free */
	bool cut;
};

static void put(struct line *l, const char *p, size_t len)
{
	if (l->cut || len > l->end - l->len) {
		l->cut = true;
		return;
	}
	memcpy(l->p + l->len, p, len);
	l->len += len;
}

static void putz(struct line *l, const char *z)
{
	put(l, z, strlen(z));
}

/* One character or one bad byte at the beginning of s; returns how many bytes of s it took. */
static size_t put_escaped(struct line *l, struct str s)
{
	size_t n = str_utf8_first(s);
	unsigned char c = (unsigned char)s.p[0];
	bool json = line_format == LOG_JSON;
	char esc[16];

	if (n == 0) {
		snprintf(esc, sizeof(esc), json ? "\\\\x%02x" : "\\x%02x", c);
		putz(l, esc);
		return 1;
	}
	if (json && (c == '"' || c == '\\')) {
		put(l, (char[]){'\\', (char)c}, 2);
	} else if (c == '\n') {
		putz(l, "\\n");
	} else if (c == '\t') {
		putz(l, "\\t");
	} else if (str_control_first(s) == 1) {
		snprintf(esc, sizeof(esc), json ? "\\u%04x" : "\\x%02x", c);
		putz(l, esc);
	} else if (str_control_first(s) == 2) {
		snprintf(esc, sizeof(esc), "\\u%04x", (unsigned char)s.p[1]);
		putz(l, esc);
	} else {
		put(l, s.p, n);
	}
	return n;
}

static void put_text(struct line *l, const char *z)
{
	struct str s = str_of(z);

	while (s.len > 0 && !l->cut) {
		size_t n = put_escaped(l, s);
		s.p += n;
		s.len -= n;
	}
}

/* Up to a part's own limit, so that a long object leaves room for the message. */
static void put_part(struct line *l, const char *z, size_t max)
{
	size_t end = l->end;

	if (l->len + max < l->end)
		l->end = l->len + max;
	put_text(l, z);
	l->end = end;
	if (l->cut) {
		l->cut = false;
		putz(l, ELLIPSIS);
	}
}

static void put_time(struct line *l)
{
	char time[CLOCK_RFC3339_SIZE];

	clock_format_micro(clock_wall_ms(), time);
	put(l, time, strlen("2024-03-01T10:00:00.123"));
	putz(l, "Z");
}

#define MAX_NAME 512

static void make_text(struct line *l, enum log_level level, const char *component,
		      const char *object, const char *msg)
{
	if (line_format == LOG_JOURNALD)
		put(l, (char[]){'<', (char)('0' + levels[level].priority), '>'}, 3);
	put_time(l);
	putz(l, " ");
	putz(l, levels[level].text);
	putz(l, " ");
	put_part(l, component, MAX_NAME);
	if (object) {
		putz(l, " ");
		put_part(l, object, MAX_NAME);
	}
	putz(l, ": ");
	put_part(l, msg, LINE_SIZE);
}

static void make_json(struct line *l, enum log_level level, const char *component,
		      const char *object, const char *msg)
{
	putz(l, "{\"time\":\"");
	put_time(l);
	putz(l, "\",\"level\":\"");
	putz(l, levels[level].json);
	putz(l, "\",\"component\":\"");
	put_part(l, component, MAX_NAME);
	if (object) {
		putz(l, "\",\"object\":\"");
		put_part(l, object, MAX_NAME);
	}
	putz(l, "\",\"msg\":\"");
	put_part(l, msg, LINE_SIZE);
}

/* What comes behind the message, also behind one that is cut; in JSON it ends the message. */
static void make_tail(char *z, size_t size, unsigned long repeats)
{
	const struct trace *t = trace_current();
	bool json = line_format == LOG_JSON;
	size_t len = 0;

	z[0] = '\0';
	if (repeats)
		len += (size_t)snprintf(z, size, " suppressed=%lu", repeats);
	if (json)
		len += (size_t)snprintf(z + len, size - len, "\"");
	if (t)
		snprintf(z + len, size - len,
			 json ? ",\"trace_id\":\"%s\",\"span_id\":\"%s\""
			      : " trace_id=%s span_id=%s",
			 trace_id(t), trace_span(t));
}

void log_msg(enum log_level level, const char *component, const char *object, const char *fmt, ...)
{
	int errnum = errno;
	unsigned long repeats = left_out;
	char msg[LINE_SIZE];
	struct line l = {.len = 0};
	char tail[192];
	va_list ap;

	left_out = 0;
	if (level < LOG_FATAL || level > LOG_TRACE || !log_on(level))
		return;
	errno = errnum; /* for %m */
	va_start(ap, fmt);
	if (vsnprintf(msg, sizeof(msg), fmt, ap) < 0)
		snprintf(msg, sizeof(msg), "(a message that couldn't be formatted)");
	va_end(ap);
	/* A character that the buffer's end cut isn't a bad byte. */
	size_t len = strlen(msg);
	if (len == sizeof(msg) - 1) {
		struct str s = {msg, len};
		msg[str_utf8_cut(s, len - 4)] = '\0';
	}

	make_tail(tail, sizeof(tail), repeats);
	l.end = sizeof(l.p) - strlen(tail) - strlen(ELLIPSIS "}\n");
	if (line_format == LOG_JSON)
		make_json(&l, level, component, object, msg);
	else
		make_text(&l, level, component, object, msg);
	l.end = sizeof(l.p);
	if (l.cut) {
		l.cut = false;
		putz(&l, ELLIPSIS);
	}
	putz(&l, tail);
	putz(&l, line_format == LOG_JSON ? "}\n" : "\n");
	/* What a full or closed descriptor doesn't take is lost: nobody is left to be told. */
	while (write(log_fd, l.p, l.len) < 0 && errno == EINTR)
		;
	errno = errnum;
}

bool log_limit_ok(struct log_limit *limit, unsigned interval_ms)
{
	long long now_ms = clock_mono_ms();

	if (now_ms < limit->next_ms) {
		limit->suppressed++;
		return false;
	}
	limit->next_ms = now_ms + interval_ms;
	left_out = limit->suppressed;
	limit->suppressed = 0;
	return true;
}
