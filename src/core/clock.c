/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of day and of deadlines, as the kernel, a test's shared page or a unit test says it;
 * and RFC 3339. A page is mapped until the process ends.
 * Uses err and str.
 */
#include "core/clock.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct clock_page) == 64, "another language writes this layout");

static struct clock_page *page; /* of the test that moves several processes */
static struct {
	bool frozen;
	int64_t mono_ms, wall_ms;
	int64_t offset_ms;
} own; /* of a unit test in this process: goes before the page */

/* The other side writes whenever it likes. */
static int64_t load(const int64_t *field)
{
	return (int64_t)le64toh((uint64_t)__atomic_load_n(field, __ATOMIC_ACQUIRE));
}

static int64_t real_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t offset_ms(void)
{
	return own.offset_ms + (page ? load(&page->offset_ms) : 0);
}

int64_t clock_mono_us(void)
{
	if (own.frozen)
		return own.mono_ms * 1000;
	if (page && load(&page->frozen) == 1)
		return load(&page->mono_ms) * 1000;
	return real_us(CLOCK_MONOTONIC) + offset_ms() * 1000;
}

int64_t clock_mono_ms(void)
{
	return clock_mono_us() / 1000;
}

int64_t clock_wall_ms(void)
{
	if (own.frozen)
		return own.wall_ms;
	if (page && load(&page->frozen) == 1)
		return load(&page->wall_ms);
	return real_us(CLOCK_REALTIME) / 1000 + offset_ms();
}

int clock_use_page(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_errno(err, errno, "clock page %s", path);
	if (fstat(fd, &st) < 0) {
		int errnum = errno;
		close(fd);
		return err_errno(err, errnum, "clock page %s", path);
	}
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(*page)) {
		close(fd);
		return err_set(err, ERR_INVALID, 0, "clock page %s: no file of %zu bytes", path,
			       sizeof(*page));
	}
	struct clock_page *map = mmap(NULL, sizeof(*map), PROT_READ, MAP_SHARED, fd, 0);
	int errnum = errno;
	close(fd);
	if (map == MAP_FAILED)
		return err_errno(err, errnum, "clock page %s", path);
	if (le64toh(map->magic) != CLOCK_PAGE_MAGIC) {
		munmap(map, sizeof(*map));
		return err_set(err, ERR_INVALID, 0, "clock page %s: wrong magic number", path);
	}
	if (page)
		munmap(page, sizeof(*page));
	page = map;
	return 0;
}

bool clock_is_page(void)
{
	return page != NULL;
}

void clock_freeze(int64_t mono_ms, int64_t wall_ms)
{
	own.frozen = true;
	own.mono_ms = mono_ms;
	own.wall_ms = wall_ms;
}

void clock_advance(int64_t ms)
{
	if (own.frozen) {
		own.mono_ms += ms;
		own.wall_ms += ms;
	} else {
		own.offset_ms += ms;
	}
}

void clock_unfreeze(void)
{
	own.frozen = false;
	own.offset_ms = 0;
}

#define DAY_MS   INT64_C(86400000)
#define FIRST_MS INT64_C(-62167219200000) /* 0000-01-01T00:00:00Z */
#define LAST_MS  INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* Days between 1970-01-01 and a date of the proleptic Gregorian calendar. Years begin in March
 * here, so that the day which comes and goes is a year's last. */
static int64_t days_of_date(int64_t year, int month, int day)
{
	year -= month <= 2;
	int64_t era = (year >= 0 ? year : year - 399) / 400;
	int64_t of_era = year - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of_days(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
	days += 719468;
	int64_t era = (days >= 0 ? days : days - 146096) / 146097;
	int64_t of_era = days - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;

	*ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (int)(month < 10 ? month + 3 : month - 9);
	*ret_year = (int)(year + era * 400 + (*ret_month <= 2));
}

/* What a year of four digits can't say is moved to the nearest that it can. Returns the rest in
 * milliseconds. */
static int format_seconds(int64_t wall_ms, char ret_z[CLOCK_RFC3339_SIZE])
{
	int year, month, day;

	if (wall_ms < FIRST_MS)
		wall_ms = FIRST_MS;
	if (wall_ms > LAST_MS)
		wall_ms = LAST_MS;
	int64_t of_day = wall_ms % DAY_MS;
	if (of_day < 0)
		of_day += DAY_MS;
	date_of_days((wall_ms - of_day) / DAY_MS, &year, &month, &day);
	int s = (int)(of_day / 1000);
	snprintf(ret_z, CLOCK_RFC3339_SIZE, "%04u-%02u-%02uT%02u:%02u:%02uZ",
		 (unsigned)year % 10000, (unsigned)month % 100, (unsigned)day % 100,
		 (unsigned)s / 3600 % 100, (unsigned)s / 60 % 60, (unsigned)s % 60);
	return (int)(of_day % 1000);
}

void clock_format(int64_t wall_ms, char ret_z[CLOCK_RFC3339_SIZE])
{
	format_seconds(wall_ms, ret_z);
}

void clock_format_micro(int64_t wall_ms, char ret_z[CLOCK_RFC3339_SIZE])
{
	int ms = format_seconds(wall_ms, ret_z);
	size_t at = strlen("2024-03-01T10:00:00");

	snprintf(ret_z + at, CLOCK_RFC3339_SIZE - at, ".%03d000Z", ms);
}

static void write_age(char z[CLOCK_AGE_SIZE], int64_t large, char unit, int64_t small,
		      char small_unit)
{
	if (small)
		snprintf(z, CLOCK_AGE_SIZE, "%" PRId64 "%c%" PRId64 "%c", large, unit, small,
			 small_unit);
	else
		snprintf(z, CLOCK_AGE_SIZE, "%" PRId64 "%c", large, unit);
}

/* The smaller unit is left out where it is 0, or where it says little beside the larger one. */
void clock_format_age(int64_t ms, char ret_z[CLOCK_AGE_SIZE])
{
	int64_t s = ms < 0 ? 0 : ms / 1000, m = s / 60, h = m / 60, d = h / 24, y = d / 365;

	if (s < 120)
		write_age(ret_z, s, 's', 0, 0);
	else if (h < 3)
		write_age(ret_z, m, 'm', m < 10 ? s % 60 : 0, 's');
	else if (h < 48)
		write_age(ret_z, h, 'h', h < 8 ? m % 60 : 0, 'm');
	else if (y < 2)
		write_age(ret_z, d, 'd', d < 8 ? h % 24 : 0, 'h');
	else
		write_age(ret_z, y, 'y', y < 8 ? d % 365 : 0, 'd');
}

static bool take_digits(struct str *s, int n, int *ret)
{
	*ret = 0;
	if (s->len < (size_t)n)
		return false;
	for (int i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		*ret = *ret * 10 + (s->p[i] - '0');
	}
	s->p += n;
	s->len -= (size_t)n;
	return true;
}

static bool take_one_of(struct str *s, const char *chars, char *ret)
{
	if (s->len == 0 || s->p[0] == '\0' || !strchr(chars, s->p[0]))
		return false;
	if (ret)
		*ret = s->p[0];
	s->p++;
	s->len--;
	return true;
}

static int days_in_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

static bool take_date(struct str *s, int64_t *ret_days)
{
	int year, month, day;

	if (!take_digits(s, 4, &year) || !take_one_of(s, "-", NULL) || !take_digits(s, 2, &month) ||
	    !take_one_of(s, "-", NULL) || !take_digits(s, 2, &day))
		return false;
	if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
		return false;
	*ret_days = days_of_date(year, month, day);
	return true;
}

/* hh:mm:ss with a fraction of any length, of which the milliseconds count. */
static bool take_time(struct str *s, int64_t *ret_ms)
{
	int hour, minute, second, ms = 0, digit;

	if (!take_digits(s, 2, &hour) || !take_one_of(s, ":", NULL) ||
	    !take_digits(s, 2, &minute) || !take_one_of(s, ":", NULL) ||
	    !take_digits(s, 2, &second))
		return false;
	if (hour > 23 || minute > 59 || second > 60) /* 60: a leap second */
		return false;
	if (take_one_of(s, ".", NULL)) {
		if (!take_digits(s, 1, &digit))
			return false;
		int scale = 100;
		do {
			ms += digit * scale;
			scale /= 10;
		} while (take_digits(s, 1, &digit));
	}
	*ret_ms = ((hour * INT64_C(60) + minute) * 60 + second) * 1000 + ms;
	return true;
}

static bool take_offset(struct str *s, int64_t *ret_ms)
{
	char sign;
	int hour, minute;

	*ret_ms = 0;
	if (take_one_of(s, "Zz", NULL))
		return true;
	if (!take_one_of(s, "+-", &sign) || !take_digits(s, 2, &hour) ||
	    !take_one_of(s, ":", NULL) || !take_digits(s, 2, &minute) || hour > 23 || minute > 59)
		return false;
	*ret_ms = (hour * INT64_C(60) + minute) * 60000 * (sign == '-' ? -1 : 1);
	return true;
}

int clock_parse(struct str s, int64_t *ret_wall_ms, struct err *err)
{
	struct str left = s;
	int64_t days, ms, offset;

	if (!take_date(&left, &days) || !take_one_of(&left, "Tt", NULL) || !take_time(&left, &ms) ||
	    !take_offset(&left, &offset) || left.len > 0)
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" isn't a time of RFC 3339",
			       s.len > 64 ? 64 : (int)s.len, s.p ? s.p : "");
	*ret_wall_ms = days * DAY_MS + ms - offset;
	return 0;
}
