/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit files and their drop-ins. Uses core.
 */
#include "units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_BYTES   ((size_t)256 << 10) /* of a file */
#define MAX_DROP_INS 256
#define PATH_BYTES   512

/* systemd's load path, the first counts most. */
static const char *const folders[] = {
	"/etc/systemd/system",     "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system", "/lib/systemd/system",
};

static void set_path(char ret[NODE_TEXT_SIZE], const char *path)
{
	size_t len = strnlen(path, NODE_TEXT_SIZE - 1);

	memcpy(ret, path, len);
	ret[len] = '\0';
}

/* ---- limits ---- */

/* Decimal digits off the front; false: none, or too many. */
static bool take_digits(struct str *s, uint64_t *ret)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; i < s->len && s->p[i] >= '0' && s->p[i] <= '9'; i++) {
		if (__builtin_mul_overflow(n, UINT64_C(10), &n) ||
		    __builtin_add_overflow(n, (uint64_t)(s->p[i] - '0'), &n))
			return false;
	}
	s->p += i;
	s->len -= i;
	*ret = n;
	return i > 0;
}

static bool take_char(struct str *s, char c)
{
	if (s->len == 0 || s->p[0] != c)
		return false;
	s->p++;
	s->len--;
	return true;
}

/* The digits behind a point; none is 0. */
static double take_fraction(struct str *s)
{
	double place = 0.1, fraction = 0;

	while (s->len > 0 && s->p[0] >= '0' && s->p[0] <= '9') {
		fraction += (s->p[0] - '0') * place;
		place /= 10;
		s->p++;
		s->len--;
	}
	return fraction;
}

/* A sum of numbers with units that get smaller: "1G 512M", "1.5K", "4096". */
static int parse_size(struct str s, uint64_t *ret)
{
	static const struct {
		char suffix;
		unsigned shift;
	} units[] = {
		{'E', 60}, {'P', 50}, {'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}, {'B', 0}, {0, 0},
	};
	const size_t n_units = sizeof(units) / sizeof(units[0]);
	size_t unit = 0;
	uint64_t sum = 0;

	s = str_trim(s);
	do {
		uint64_t number, bytes;
		double fraction = 0;

		take_char(&s, '+');
		if (!take_digits(&s, &number))
			return -1;
		if (take_char(&s, '.'))
			fraction = take_fraction(&s);
		s = str_trim(s);
		while (unit < n_units && units[unit].suffix && !take_char(&s, units[unit].suffix))
			unit++;
		if (unit == n_units)
			return -1;
		if (number > UINT64_MAX >> units[unit].shift)
			return -1;
		bytes = (number << units[unit].shift) +
			(uint64_t)(fraction * (double)(UINT64_C(1) << units[unit].shift));
		if (__builtin_add_overflow(sum, bytes, &sum))
			return -1;
		unit++;
		s = str_trim(s);
	} while (s.len > 0);
	*ret = sum;
	return 0;
}

static int parse_limit_one(struct str s, uint64_t *ret)
{
	if (str_eqz(s, "infinity")) {
		*ret = FABRIC_UNLIMITED;
		return 0;
	}
	return parse_size(s, ret) < 0 || *ret == FABRIC_UNLIMITED ? -1 : 0;
}

int unit_parse_limit(struct str text, uint64_t *ret_soft_bytes)
{
	struct str soft, hard;
	uint64_t a, b;
	bool pair = str_cut(text, ':', &soft, &hard);

	if (parse_limit_one(soft, &a) < 0)
		return -1;
	if (pair && (parse_limit_one(hard, &b) < 0 || a > b))
		return -1;
	*ret_soft_bytes = a;
	return 0;
}

static int parse_ulimit_one(struct str s, uint64_t *ret)
{
	if (str_eqz(s, "-1") || str_eqz(s, "unlimited")) {
		*ret = FABRIC_UNLIMITED;
		return 0;
	}
	return take_digits(&s, ret) && s.len == 0 ? 0 : -1;
}

int unit_parse_ulimit(struct str text, uint64_t *ret_soft_bytes)
{
	struct str soft, hard;
	uint64_t a, b;
	bool pair = str_cut(text, ':', &soft, &hard);

	if (parse_ulimit_one(soft, &a) < 0 || (pair && (parse_ulimit_one(hard, &b) < 0 || a > b)))
		return -1;
	*ret_soft_bytes = a;
	return 0;
}

/* ---- a unit file ---- */

/* Blanks end a word; quotes are taken off where they enclose one. */
static struct str next_word(struct str *s)
{
	static const char blanks[] = " \t\n\r";
	size_t begin = 0, end;

	while (begin < s->len && strchr(blanks, s->p[begin]))
		begin++;
	for (end = begin; end < s->len && s->p[end] && !strchr(blanks, s->p[end]);)
		end++;
	struct str word = {s->p + begin, end - begin};
	end += end < s->len;
	s->p += end;
	s->len -= end;
	if (word.len >= 2 && (word.p[0] == '"' || word.p[0] == '\'') &&
	    word.p[word.len - 1] == word.p[0])
		word = (struct str){word.p + 1, word.len - 2};
	return word;
}

/* --default-ulimit memlock=-1:-1, with a blank or with "="; the last one counts, as for dockerd. */
static void read_command(struct str command, const char *path, struct unit_facts *facts)
{
	const struct str option = STR("--default-ulimit"), name = STR("memlock=");

	while (command.len > 0) {
		struct str word = next_word(&command), value;

		if (str_eq(word, option)) {
			value = next_word(&command);
		} else if (str_has_prefix(word, option) && word.p[option.len] == '=') {
			value = (struct str){word.p + option.len + 1, word.len - option.len - 1};
		} else {
			continue;
		}
		if (!str_has_prefix(value, name))
			continue;
		value = (struct str){value.p + name.len, value.len - name.len};
		if (unit_parse_ulimit(value, &facts->ulimit_bytes) < 0)
			continue;
		facts->sets_ulimit = true;
		set_path(facts->ulimit_file, path);
	}
}

static void read_setting(struct str key, struct str value, const char *path,
			 struct unit_facts *facts)
{
	if (str_eqz(key, "LimitMEMLOCK")) {
		if (unit_parse_limit(value, &facts->memlock_bytes) == 0) {
			facts->sets_memlock = true;
			set_path(facts->memlock_file, path);
		}
	} else if (str_eqz(key, "ExecStart")) {
		/* An empty one takes back those before it; a service has one that counts. */
		facts->sets_ulimit = false;
		facts->ulimit_file[0] = '\0';
		read_command(value, path, facts);
	}
}

/* The next line, with those joined that end in a backslash; comments between them are left out.
 * joined holds it until the next call. False at the end. */
static bool next_line(struct str *text, struct buf *joined, struct str *ret)
{
	bool continued = false;

	buf_clear(joined);
	while (text->len > 0) {
		struct str line, trimmed;

		str_cut(*text, '\n', &line, text);
		trimmed = str_trim(line);
		if (trimmed.len > 0 && (trimmed.p[0] == '#' || trimmed.p[0] == ';')) {
			if (continued)
				continue;
			*ret = STR_NULL;
			return true;
		}
		if (line.len > 0 && line.p[line.len - 1] == '\r')
			line.len--;
		continued = line.len > 0 && line.p[line.len - 1] == '\\';
		if (!continued && joined->len == 0) {
			*ret = trimmed;
			return true;
		}
		if (continued)
			line.len--;
		(void)buf_append_str(joined, line, NULL);
		if (!continued)
			break;
		(void)buf_append(joined, " ", 1, NULL);
	}
	*ret = str_trim(buf_str(joined));
	return joined->len > 0;
}

void unit_parse(struct str text, const char *path, struct unit_facts *facts)
{
	struct buf joined = BUF_INIT(UNIT_BYTES * 2);
	struct str line, key, value;
	bool service = false;

	while (next_line(&text, &joined, &line)) {
		if (line.len > 0 && line.p[0] == '[')
			service = str_eqz(line, "[Service]");
		else if (service && str_cut(line, '=', &key, &value))
			read_setting(str_trim(key), str_trim(value), path, facts);
	}
	buf_done(&joined);
}

/* ---- the load path ---- */

struct drop_in {
	char *name; /* without its folder, by which they are ordered */
	char *path;
};

struct drop_ins {
	struct drop_in *items;
	size_t n;
};

/* Of two with one name the first that is found counts. */
static void add_drop_in(struct drop_ins *all, const char *folder, const char *name)
{
	if (all->n == MAX_DROP_INS || !str_has_suffix(str_of(name), STR(".conf")))
		return;
	for (size_t i = 0; i < all->n; i++) {
		if (strcmp(all->items[i].name, name) == 0)
			return;
	}
	all->items[all->n++] = (struct drop_in){
		.name = xstrdup(name),
		.path = xasprintf("%s/%s", folder, name),
	};
}

/* Of all folders of the load path that have this name. */
static void add_folders(const struct files *files, struct drop_ins *all, struct str stem)
{
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char path[PATH_BYTES];
		const struct dirent *entry;

		snprintf(path, sizeof(path), "%s/%.*sservice.d", folders[i], STR_ARG(stem));
		DIR *dir = files_opendir(files, path);
		while (dir && (entry = readdir(dir)))
			add_drop_in(all, path, entry->d_name);
		if (dir)
			closedir(dir);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct drop_in *)a)->name, ((const struct drop_in *)b)->name);
}

/* For "k3s-agent.service": its own folders, then those of "k3s-.service.d" and "service.d". */
static struct drop_ins find_drop_ins(const struct files *files, const char *name)
{
	struct drop_ins all = {.items = xcalloc(MAX_DROP_INS, sizeof(*all.items))};
	struct str stem = str_of(name);

	stem.len -= str_has_suffix(stem, STR("service")) ? strlen("service") : 0;
	add_folders(files, &all, stem);
	while (stem.len > 0) {
		if (stem.p[--stem.len] == '-' && stem.len > 0) {
			char dashed[PATH_BYTES];

			snprintf(dashed, sizeof(dashed), "%.*s-.", STR_ARG(stem));
			add_folders(files, &all, str_of(dashed));
		}
	}
	add_folders(files, &all, STR_NULL);
	qsort(all.items, all.n, sizeof(*all.items), by_name);
	return all;
}

static void read_one(const struct files *files, const char *path, struct unit_facts *facts)
{
	struct buf text = BUF_INIT(UNIT_BYTES);

	if (files_read(files, path, &text) == 0)
		unit_parse(buf_str(&text), path, facts);
	buf_done(&text);
}

/* An empty file, or a link to /dev/null, hides those behind it on the load path. */
static bool read_unit_file(const struct files *files, const char *path, struct unit_facts *facts,
			   bool *ret_masked)
{
	struct buf text = BUF_INIT(UNIT_BYTES);
	bool there = files_read(files, path, &text) == 0;

	*ret_masked = (there && text.len == 0) || files_link_to(files, path, "/dev/null");
	if (there && text.len > 0) {
		facts->installed = true;
		set_path(facts->file, path);
		unit_parse(buf_str(&text), path, facts);
	}
	buf_done(&text);
	return facts->installed;
}

void unit_read(const struct files *files, const char *name, struct unit_facts *ret)
{
	bool masked = false;

	*ret = (struct unit_facts){0};
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]) && !masked; i++) {
		char path[PATH_BYTES];

		snprintf(path, sizeof(path), "%s/%s", folders[i], name);
		if (read_unit_file(files, path, ret, &masked))
			break;
	}
	if (!ret->installed)
		return;
	struct drop_ins all = find_drop_ins(files, name);
	for (size_t i = 0; i < all.n; i++) {
		read_one(files, all.items[i].path, ret);
		free(all.items[i].name);
		free(all.items[i].path);
	}
	free(all.items);
}
