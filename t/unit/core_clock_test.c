/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/clock.h: frozen and moved time, the shared page, RFC 3339.
 * Uses core.
 */
#include "core/clock.h"

#include <fcntl.h>
#include <time.h>

#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_real(void)
{
	int64_t mono = clock_mono_ms(), us = clock_mono_us();
	int64_t wall = clock_wall_ms();

	ok(us / 1000 - mono >= 0 && us / 1000 - mono < 10000, "both monotonic clocks agree");
	ok(wall / 1000 - (int64_t)time(NULL) >= -10 && wall / 1000 - (int64_t)time(NULL) <= 10,
	   "the wall clock is the system's");
	clock_advance(3600000);
	ok(clock_mono_ms() - mono >= 3600000 && clock_wall_ms() - wall >= 3600000,
	   "an hour later without waiting");
	clock_unfreeze();
	ok(clock_mono_ms() - mono < 3600000, "and back");
}

static void test_frozen(void)
{
	clock_freeze(1000, 1709287200123);
	is_int(clock_mono_ms(), 1000, "frozen");
	is_int(clock_mono_us(), 1000000, "microseconds");
	is_int(clock_wall_ms(), 1709287200123, "wall");
	clock_advance(250);
	is_int(clock_mono_ms(), 1250, "moved");
	is_int(clock_wall_ms(), 1709287200373, "wall too");
	clock_unfreeze();
	ok(clock_wall_ms() != 1709287200373, "running again");
}

static int write_page(const char *path, const struct clock_page *page, size_t len)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, page, len) != (ssize_t)len)
		bail_out("can't write the page");
	return fd;
}

static void put_page(int fd, const struct clock_page *page)
{
	if (pwrite(fd, page, sizeof(*page), 0) != (ssize_t)sizeof(*page))
		bail_out("can't write the page");
}

static void test_page(void)
{
	char path[] = "/tmp/core-clock-XXXXXX";
	struct clock_page page = {
		.magic = CLOCK_PAGE_MAGIC, .frozen = 1, .mono_ms = 5000, .wall_ms = 9};
	struct err e = ERR_INIT;
	int fd = mkstemp(path);

	if (fd < 0)
		bail_out("mkstemp");
	close(fd);
	ok(!clock_is_page(), "no page yet");
	is_int(clock_use_page("/nonexistent/page", &e), -1, "a missing page");
	is_int(e.kind, ERR_IO, "kind");
	close(write_page(path, &page, 63));
	is_int(clock_use_page(path, &e), -1, "a page that is too short");
	is_int(e.kind, ERR_INVALID, "kind");
	page.magic++;
	close(write_page(path, &page, sizeof(page)));
	is_int(clock_use_page(path, &e), -1, "another magic number");
	page.magic--;
	ok(!clock_is_page(), "none of them is used");
	is_mem(&page, 8, "\0IPUCLK1", 8, "the magic number's bytes");

	fd = write_page(path, &page, sizeof(page));
	is_int(clock_use_page(path, &e), 0, "mapped");
	ok(clock_is_page(), "in use");
	is_int(clock_mono_ms(), 5000, "its time");
	is_int(clock_wall_ms(), 9, "its time of day");
	page.mono_ms += 70000;
	put_page(fd, &page);
	is_int(clock_mono_ms(), 75000, "moved by the writer");
	page.frozen = 0;
	put_page(fd, &page);
	int64_t mono = clock_mono_ms(), wall = clock_wall_ms();
	page.offset_ms = 600000;
	put_page(fd, &page);
	ok(clock_mono_ms() - mono >= 600000 && clock_wall_ms() - wall >= 600000,
	   "an offset to the real clocks");
	clock_freeze(1, 2);
	is_int(clock_mono_ms(), 1, "this process's own frozen time goes first");
	clock_unfreeze();
	close(fd);
	unlink(path);
}

static void test_format(void)
{
	static const struct {
		int64_t ms;
		const char *seconds, *micro;
	} rows[] = {
		{0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"},
		{1709287200123, "2024-03-01T10:00:00Z", "2024-03-01T10:00:00.123000Z"},
		{1709164799999, "2024-02-28T23:59:59Z", "2024-02-28T23:59:59.999000Z"},
		{1709164800000, "2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"},
		{951782400000, "2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000000Z"},
		{-1, "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999000Z"},
		{4107542400000, "2100-03-01T00:00:00Z", "2100-03-01T00:00:00.000000Z"},
		{253402300799999, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999000Z"},
		{INT64_MAX, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999000Z"},
		{INT64_MIN, "0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000000Z"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char z[CLOCK_RFC3339_SIZE];
		int64_t back;
		clock_format(rows[i].ms, z);
		is_str(z, rows[i].seconds, "seconds");
		clock_format_micro(rows[i].ms, z);
		is_str(z, rows[i].micro, "microseconds");
		is_int(clock_parse(str_of(z), &back, NULL), 0, "read again");
		if (rows[i].ms != INT64_MAX && rows[i].ms != INT64_MIN)
			is_int(back, rows[i].ms, "the same");
	}

	/* Every day of two centuries goes round, and agrees with the C library's. */
	unsigned wrong = 0;
	for (int64_t day = -36525; day < 36525; day++) {
		char z[CLOCK_RFC3339_SIZE], libc[CLOCK_RFC3339_SIZE];
		time_t t = (time_t)(day * 86400 + 3661);
		struct tm tm;
		int64_t back = 0;
		clock_format((int64_t)t * 1000, z);
		strftime(libc, sizeof(libc), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
		wrong += strcmp(z, libc) != 0 || clock_parse(str_of(z), &back, NULL) < 0 ||
			 back != (int64_t)t * 1000;
	}
	is_uint(wrong, 0, "the days from 1870 to 2070");
}

static void test_parse(void)
{
	static const struct {
		const char *text;
		int64_t want; /* BAD: an error */
	} rows[] = {
#define BAD INT64_MIN
		{"2024-03-01T10:00:00Z", 1709287200000},
		{"2024-03-01t10:00:00z", 1709287200000},
		{"2024-03-01T10:00:00.1Z", 1709287200100},
		{"2024-03-01T10:00:00.123456789Z", 1709287200123},
		{"2024-03-01T10:00:00.9999999999999Z", 1709287200999},
		{"2024-03-01T12:30:00+02:30", 1709287200000},
		{"2024-03-01T05:00:00.500-05:00", 1709287200500},
		{"2024-03-01T10:00:00-00:00", 1709287200000},
		{"2016-12-31T23:59:60Z", 1483228800000},
		{"2024-02-29T00:00:00Z", 1709164800000},
		{"", BAD},
		{"2023-02-29T00:00:00Z", BAD},
		{"2100-02-29T00:00:00Z", BAD},
		{"2024-00-01T00:00:00Z", BAD},
		{"2024-13-01T00:00:00Z", BAD},
		{"2024-04-31T00:00:00Z", BAD},
		{"2024-04-00T00:00:00Z", BAD},
		{"2024-03-01T24:00:00Z", BAD},
		{"2024-03-01T10:60:00Z", BAD},
		{"2024-03-01T10:00:61Z", BAD},
		{"2024-03-01T10:00:00", BAD},
		{"2024-03-01T10:00:00.Z", BAD},
		{"2024-03-01T10:00:00Z ", BAD},
		{"2024-03-01 10:00:00Z", BAD},
		{"2024-3-01T10:00:00Z", BAD},
		{"2024-03-01T10:00Z", BAD},
		{"2024-03-01T10:00:00+24:00", BAD},
		{"2024-03-01T10:00:00+02:60", BAD},
		{"2024-03-01T10:00:00+0230", BAD},
		{"-024-03-01T10:00:00Z", BAD},
		{"20240301T100000Z", BAD},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err e = ERR_INIT;
		int64_t got = BAD;
		int r = clock_parse(str_of(rows[i].text), &got, &e);
		row_begin("\"%s\"", rows[i].text);
		is_int(r, rows[i].want == BAD ? -1 : 0, "result");
		is_int(got, rows[i].want, "time");
		is_int(e.kind, r < 0 ? ERR_INVALID : ERR_NONE, "kind");
	}
	row_end();
}

static void test_age(void)
{
	static const struct {
		int64_t s;
		const char *want;
	} rows[] = {
		{-5, "0s"},
		{0, "0s"},
		{119, "119s"},
		{120, "2m"},
		{303, "5m3s"},
		{600, "10m"},
		{659, "10m"},
		{179 * 60 + 59, "179m"},
		{180 * 60, "3h"},
		{7 * 3600 + 60, "7h1m"},
		{8 * 3600 + 60, "8h"},
		{47 * 3600, "47h"},
		{48 * 3600, "2d"},
		{52 * 3600, "2d4h"},
		{8 * 86400 + 3600, "8d"},
		{729 * 86400, "729d"},
		{INT64_C(731) * 86400, "2y1d"},
		{INT64_C(3000) * 86400, "8y"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char z[CLOCK_AGE_SIZE];

		row_begin("%" PRId64 " s", rows[i].s);
		clock_format_age(rows[i].s * 1000 + (rows[i].s >= 0 ? 999 : 0), z);
		is_str(z, rows[i].want, "age");
	}
	row_end();
}

int main(void)
{
	test_real();
	test_frozen();
	test_format();
	test_parse();
	test_page();
	test_age();
	return done_testing();
}
