/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TAP output for unit tests, which are one C file each: checks print "ok" or "not ok" lines and
 * return whether they passed; main ends with `return done_testing();`. Uses the C library alone.
 * A test that runs longer than TAP_DEADLINE_S (default 600, real time) ends with a failure.
 */
#ifndef IPU_T_UNIT_TAP_H
#define IPU_T_UNIT_TAP_H

#include <errno.h> /* program_invocation_short_name */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>

#ifndef TAP_DEADLINE_S
#define TAP_DEADLINE_S 600
#endif

struct tap_state_ {
	unsigned run, failed, planned;
	char row[128]; /* the table's row that the checks are about, or "" */
};
static struct tap_state_ tap_;

static inline void tap_expired_(int signo)
{
	const char *const words[] = {"\nBail out! ", program_invocation_short_name,
				     ": the test's deadline passed\n"};
	ssize_t written = 0;

	(void)signo;
	for (size_t i = 0; i < 3 && written >= 0; i++)
		written = write(STDOUT_FILENO, words[i], strlen(words[i]));
	_exit(written < 0 ? 98 : 99);
}

__attribute__((constructor)) static void tap_start_(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGALRM, tap_expired_);
	alarm(TAP_DEADLINE_S);
}

/* A line that the reader of a failure sees. */
__attribute__((format(printf, 1, 2))) static inline void diag(const char *fmt, ...)
{
	va_list args;
	fflush(stdout);
	fputs("# ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

/* A line that only `prove -v` shows. */
__attribute__((format(printf, 1, 2))) static inline void note(const char *fmt, ...)
{
	va_list args;
	fputs("# ", stdout);
	va_start(args, fmt);
	vfprintf(stdout, fmt, args);
	va_end(args);
	fputc('\n', stdout);
}

/* Names the table's row for the checks that follow, until the next row or row_end. */
__attribute__((format(printf, 1, 2))) static inline void row_begin(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(tap_.row, sizeof(tap_.row), fmt, args);
	va_end(args);
}

static inline void row_end(void)
{
	tap_.row[0] = '\0';
}

__attribute__((format(printf, 4, 0))) static inline bool
tap_check_(bool pass, const char *file, int line, const char *fmt, va_list args)
{
	char name[512];
	vsnprintf(name, sizeof(name), fmt, args);
	/* '#' would begin a directive, a line break would end the check's line. */
	for (char *c = name; *c; c++)
		if (*c == '#' || *c == '\n' || *c == '\r')
			*c = ' ';
	tap_.run++;
	printf("%s %u - %s%s%s\n", pass ? "ok" : "not ok", tap_.run, tap_.row,
	       tap_.row[0] ? ": " : "", name);
	if (!pass) {
		tap_.failed++;
		diag("failed: %s%s%s (%s:%d)", tap_.row, tap_.row[0] ? ": " : "", name, file, line);
	}
	return pass;
}

__attribute__((format(printf, 4, 5))) static inline bool tap_ok_(bool pass, const char *file,
								 int line, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	tap_check_(pass, file, line, fmt, args);
	va_end(args);
	return pass;
}

__attribute__((format(printf, 5, 6))) static inline bool
tap_is_int_(intmax_t got, intmax_t want, const char *file, int line, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	bool pass = tap_check_(got == want, file, line, fmt, args);
	va_end(args);
	if (!pass)
		diag("      got %" PRIdMAX ", want %" PRIdMAX, got, want);
	return pass;
}

__attribute__((format(printf, 5, 6))) static inline bool
tap_is_uint_(uintmax_t got, uintmax_t want, const char *file, int line, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	bool pass = tap_check_(got == want, file, line, fmt, args);
	va_end(args);
	if (!pass)
		diag("      got %" PRIuMAX ", want %" PRIuMAX, got, want);
	return pass;
}

static inline void tap_show_(const char *what, const char *bytes, size_t len)
{
	char text[400];
	size_t used = 0;
	for (size_t i = 0; bytes && i < len && used + 8 < sizeof(text); i++) {
		unsigned char c = (unsigned char)bytes[i];
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 c < ' ' || c > '~' ? "\\x%02x" : "%c", c);
	}
	text[used] = '\0';
	if (bytes)
		diag("     %s \"%s\" (%zu bytes)", what, text, len);
	else
		diag("     %s NULL", what);
}

__attribute__((format(printf, 7, 8))) static inline bool
tap_is_mem_(const void *got, size_t got_len, const void *want, size_t want_len, const char *file,
	    int line, const char *fmt, ...)
{
	bool same = !got == !want && got_len == want_len &&
		    (got_len == 0 || !got || memcmp(got, want, got_len) == 0);
	va_list args;
	va_start(args, fmt);
	bool pass = tap_check_(same, file, line, fmt, args);
	va_end(args);
	if (!pass) {
		tap_show_(" got", (const char *)got, got_len);
		tap_show_("want", (const char *)want, want_len);
	}
	return pass;
}

__attribute__((format(printf, 5, 6))) static inline bool
tap_has_str_(const char *got, const char *part, const char *file, int line, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	bool pass = tap_check_(got && strstr(got, part), file, line, fmt, args);
	va_end(args);
	if (!pass) {
		tap_show_(" got", got, got ? strlen(got) : 0);
		tap_show_("part", part, strlen(part));
	}
	return pass;
}

static inline size_t tap_len_(const char *s)
{
	return s ? strlen(s) : 0;
}

/* The checks. Each takes a printf format and its arguments last: the check's name. Values are
 * looked at once; got and want of is_str may be NULL. */
#define ok(cond, ...)           tap_ok_((cond), __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...)  tap_is_int_((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define is_uint(got, want, ...) tap_is_uint_((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define is_mem(got, got_len, want, want_len, ...)                                                  \
	tap_is_mem_((got), (got_len), (want), (want_len), __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, want, ...)  tap_is_str_((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define has_str(got, part, ...) tap_has_str_((got), (part), __FILE__, __LINE__, __VA_ARGS__)
#define pass(...)               tap_ok_(true, __FILE__, __LINE__, __VA_ARGS__)
#define fail(...)               tap_ok_(false, __FILE__, __LINE__, __VA_ARGS__)

#define tap_is_str_(got, want, file, line, ...)                                                    \
	__extension__({                                                                            \
		const char *tap_got_ = (got);                                                      \
		const char *tap_want_ = (want);                                                    \
		tap_is_mem_(tap_got_, tap_len_(tap_got_), tap_want_, tap_len_(tap_want_), file,    \
			    line, __VA_ARGS__);                                                    \
	})

/* Counts as checks that passed, and says why they weren't made. */
static inline void skip(unsigned count, const char *why)
{
	while (count-- > 0)
		printf("ok %u # SKIP %s\n", ++tap_.run, why);
}

/* For a whole file: `return skip_all("no IPv6 here");` before any check. */
static inline int skip_all(const char *why)
{
	printf("1..0 # SKIP %s\n", why);
	return EXIT_SUCCESS;
}

/* Says before the first check how many there will be; done_testing compares. */
static inline void plan_tests(unsigned count)
{
	tap_.planned = count;
	printf("1..%u\n", count);
}

/* The rest makes no sense: ends the whole test run. */
__attribute__((noreturn)) static inline void bail_out(const char *why)
{
	printf("Bail out! %s\n", why);
	fflush(stdout);
	_exit(255);
}

/* main's last line. */
static inline int done_testing(void)
{
	if (tap_.planned == 0)
		printf("1..%u\n", tap_.run);
	if (tap_.planned != 0 && tap_.planned != tap_.run)
		diag("planned %u checks, made %u", tap_.planned, tap_.run);
	if (tap_.run == 0)
		diag("no check was made");
	if (tap_.failed > 0)
		diag("%u of %u checks failed", tap_.failed, tap_.run);
	fflush(stdout);
	return tap_.failed == 0 && tap_.run > 0 && (tap_.planned == 0 || tap_.planned == tap_.run)
		       ? EXIT_SUCCESS
		       : EXIT_FAILURE;
}

#endif
