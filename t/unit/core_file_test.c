/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/file.h: all of a file and no more than its buffer takes, all of a text, and a file that is
 * replaced whole or not at all. Uses core.
 */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

#define LIMIT_BYTES ((size_t)100000)

static const struct {
	const char *name;
	size_t bytes, before; /* before: in the buffer already */
	enum err_kind kind;
} rows[] = {
	{"nothing", 0, 0, ERR_NONE},
	{"a little", 5, 0, ERR_NONE},
	{"behind what is there", 5, 3, ERR_NONE},
	{"many pieces", 90000, 0, ERR_NONE},
	{"exactly the limit", LIMIT_BYTES, 0, ERR_NONE},
	{"exactly what is left", LIMIT_BYTES - 3, 3, ERR_NONE},
	{"a byte over the limit", LIMIT_BYTES + 1, 0, ERR_LIMIT},
};

static void test_read(const char *path)
{
	static char bytes[LIMIT_BYTES + 1];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = BUF_INIT(LIMIT_BYTES);
		struct err err = ERR_INIT;
		int fd;

		row_begin("%s", rows[i].name);
		is_int(file_replace(path, (struct str){bytes, rows[i].bytes}, 0600, &err), 0,
		       "written");
		fd = open(path, O_RDONLY | O_CLOEXEC);
		buf_append(&out, "...", rows[i].before, NULL);
		is_int(file_read_all(fd, &out, &err), rows[i].kind ? -1 : 0, "result");
		is_int((long long)err.kind, (long long)rows[i].kind, "kind");
		if (!rows[i].kind && is_int((long long)out.len,
					    (long long)(rows[i].before + rows[i].bytes), "length"))
			ok(out.len == rows[i].before ||
				   memcmp(out.p + rows[i].before, bytes, rows[i].bytes) == 0,
			   "the same bytes");
		close(fd);
		buf_done(&out);
	}
	row_end();
}

static void test_failures(const char *dir)
{
	struct buf out = BUF_INIT(LIMIT_BYTES);
	struct err err = ERR_INIT;
	int ends[2], fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	is_int(file_read_all(fd, &out, &err), -1, "a folder can't be read");
	ok(err.kind == ERR_IO && err.code == EISDIR, "… and it's said why: %s", err.msg);
	close(fd);
	buf_done(&out);
	if (!is_int(pipe2(ends, O_CLOEXEC), 0, "a pipe"))
		return;
	signal(SIGPIPE, SIG_IGN);
	close(ends[0]);
	is_int(file_write_all(ends[1], STR("x"), &err), -1, "nobody reads the pipe");
	ok(err.kind == ERR_IO && err.code == EPIPE, "… and it's said why: %s", err.msg);
	close(ends[1]);
}

/* Of the last text only a part is taken at once. */
static void test_disk_is_full(const char *path, const char *next)
{
	static char bytes[5000];
	struct err err = ERR_INIT;
	struct rlimit before, small;
	struct stat st;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	small = before;
	small.rlim_cur = 1000;
	is_int(file_replace(path, STR("old"), 0600, &err), 0, "there is a file");
	setrlimit(RLIMIT_FSIZE, &small);
	int rc = file_replace(path, (struct str){bytes, sizeof(bytes)}, 0600, &err);
	setrlimit(RLIMIT_FSIZE, &before);
	is_int(rc, -1, "no room for another");
	ok(err.kind == ERR_IO && err.code == EFBIG && strstr(err.msg, path) != NULL,
	   "it's said which, and why: %s", err.msg);
	ok(stat(path, &st) == 0 && st.st_size == 3, "the old one is there as it was");
	ok(access(next, F_OK) < 0, "nothing is left beside it");
}

static void test_replace(const char *path, const char *next)
{
	struct err err = ERR_INIT;
	struct stat before, after;
	struct buf out = BUF_INIT(LIMIT_BYTES);
	int reader;

	umask(077);
	is_int(file_replace(path, STR("old"), 0644, &err), 0, "the first");
	is_int(stat(path, &before), 0, "it's there");
	is_int(before.st_mode & 0777, 0644, "its mode, whatever the umask is");
	reader = open(path, O_RDONLY | O_CLOEXEC);
	is_int(file_replace(path, STR("new"), 0600, &err), 0, "another in its place");
	is_int(stat(path, &after), 0, "it's there");
	is_int(after.st_mode & 0777, 0600, "with a mode of its own");
	is_int(file_read_all(reader, &out, &err), 0, "who has the old one open");
	ok(str_eqz(buf_str(&out), "old"), "… reads the old one to its end");
	close(reader);
	buf_done(&out);
	ok(access(next, F_OK) < 0, "nothing is left beside it");

	is_int(symlink(path, next), 0, "a link lies where the new one would be made");
	is_int(file_replace(path, STR("newer"), 0600, &err), -1, "it isn't followed");
	unlink(next);
	unlink(path);
	is_int(mkdir(path, 0700), 0, "a folder of that name");
	is_int(file_replace(path, STR("newer"), 0600, &err), -1, "can't be replaced");
	ok(err.kind == ERR_IO && strstr(err.msg, path) != NULL, "… which is named: %s", err.msg);
	ok(access(next, F_OK) < 0, "nothing is left beside it");
	rmdir(path);
}

int main(void)
{
	char dir[] = "/tmp/core_file_test.XXXXXX";

	if (!ok(mkdtemp(dir) != NULL, "a folder"))
		return done_testing();
	CLEANUP_FREE char *path = xasprintf("%s/file", dir);
	CLEANUP_FREE char *next = xasprintf("%s/file.new", dir);
	test_read(path);
	test_failures(dir);
	test_disk_is_full(path, next);
	test_replace(path, next);
	rmdir(dir);
	return done_testing();
}
