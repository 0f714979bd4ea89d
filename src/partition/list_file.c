/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path is walked as the kernel does it, link by link, with a watch on each folder before its
 * entry is looked at; then the file is read. Whatever changes later on that way, a watch says so,
 * and the walk is made anew, with watches of its own. Owns the descriptors.
 */
#include "partition/list_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"

#define MAX_STEPS 128 /* folders and links on the way */
#define MAX_READS 16  /* of events in one turn */

/* Not IN_CREATE's contents, which come with IN_CLOSE_WRITE, nor IN_MODIFY, which is half of them.
 */
#define CHANGES                                                                                    \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB |        \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_MASK_ADD)
/* Of the folder itself, or of the queue: whatever it was, look again. */
#define UPHEAVALS (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT | IN_Q_OVERFLOW)

/* A name in a folder that the path leads through. */
struct step {
	int wd;
	char *name;
};

struct list_file {
	struct loop *loop;
	char *path;
	list_file_fn *cb;
	void *arg;
	int fd; /* of inotify; -1: none */
	struct loop_io io;
	struct loop_timer timer; /* a look is due */
	struct step steps[MAX_STEPS];
	size_t n_steps;
	bool watched; /* every folder on the way is */
	bool looked;
	struct err err; /* what the last look found: kind ERR_NONE is text */
	char *text;
	size_t len;
};

/* ---- the way ---- */

static void drop_watches(struct list_file *f)
{
	if (f->fd >= 0) {
		loop_io_stop(&f->io);
		close(f->fd);
	}
	f->fd = -1;
	for (size_t i = 0; i < f->n_steps; i++)
		free(f->steps[i].name);
	f->n_steps = 0;
}

static void watch_step(struct list_file *f, const char *folder, struct str name)
{
	int wd = f->fd < 0 ? -1 : inotify_add_watch(f->fd, folder, CHANGES);

	if (wd < 0) {
		f->watched = false;
		return;
	}
	f->steps[f->n_steps++] = (struct step){wd, str_dup(name)};
}

/* "/a/b" → "/a", "/a" → "/" */
static void go_up(char *folder)
{
	char *last = strrchr(folder, '/');

	last[last == folder ? 1 : 0] = '\0';
}

/* Follows a link: what it names, and the rest behind it, is what is left to walk. */
static int follow_link(const char *path, char *folder, char *rest)
{
	char target[PATH_MAX], joined[PATH_MAX];
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	int n;

	if (len <= 0)
		return -1;
	target[len] = '\0';
	n = snprintf(joined, sizeof(joined), "%s/%s", target, rest);
	if (n < 0 || (size_t)n >= sizeof(joined))
		return -1;
	if (target[0] == '/')
		memcpy(folder, "/", 2);
	memcpy(rest, joined, (size_t)n + 1);
	return 0;
}

/* Watches every folder that the path leads through, as far as it goes. */
static void walk(struct list_file *f)
{
	char folder[PATH_MAX] = "/", rest[PATH_MAX], path[PATH_MAX];
	size_t n = (size_t)snprintf(rest, sizeof(rest), "%s", f->path);

	f->watched = n < sizeof(rest);
	for (unsigned steps = 0; f->watched && steps < MAX_STEPS; steps++) {
		size_t skip = strspn(rest, "/");
		char *name = rest + skip;
		size_t len = strcspn(name, "/");
		struct str part = {name, len};
		struct stat st;

		if (len == 0)
			return;
		if (str_eqz(part, ".") || str_eqz(part, "..")) {
			if (len == 2)
				go_up(folder);
			memmove(rest, name + len, strlen(name + len) + 1);
			continue;
		}
		n = (size_t)snprintf(path, sizeof(path), "%s%s%.*s", folder, folder[1] ? "/" : "",
				     STR_ARG(part));
		if (n >= sizeof(path))
			break;
		watch_step(f, folder, part);
		memmove(rest, name + len, strlen(name + len) + 1);
		if (lstat(path, &st) < 0)
			return;
		if (S_ISLNK(st.st_mode)) {
			if (follow_link(path, folder, rest) < 0)
				break;
		} else if (S_ISDIR(st.st_mode)) {
			memcpy(folder, path, n + 1);
		} else {
			return;
		}
	}
	f->watched = false;
}

/* ---- the file ---- */

static int read_file(const char *path, struct buf *out, struct err *err)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	int rc = -1;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(err, ERR_NOT_FOUND, errno, "%s: there is no such file", path);
	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	if (fstat(fd, &st) < 0)
		err_errno(err, errno, "%s", path);
	else if (!S_ISREG(st.st_mode))
		err_set(err, ERR_INVALID, 0, "%s: isn't a file", path);
	else if (file_read_all(fd, out, err) < 0)
		err_wrap(err, "%s", path);
	else
		rc = 0;
	close(fd);
	return rc;
}

static bool is_news(const struct list_file *f, const struct err *err, struct str text)
{
	if (!f->looked || f->err.kind != err->kind)
		return true;
	if (err->kind != ERR_NONE)
		return strcmp(f->err.msg, err->msg) != 0;
	return !str_eq(text, (struct str){f->text, f->len});
}

static void on_events(struct loop_io *io, int revents, void *arg);

static void look(struct list_file *f)
{
	struct buf text = BUF_INIT(LIST_FILE_MAX_BYTES);
	struct err err = ERR_INIT;
	bool news;

	drop_watches(f);
	f->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	walk(f);
	if (f->fd >= 0) {
		loop_io_init(&f->io, f->loop, f->fd, on_events, f);
		loop_io_watch(&f->io, EV_READ);
	}
	if (!f->watched) {
		if (!f->looked)
			log_warn("partition", f->path,
				 "the way to this file can't be watched whole: it's read every "
				 "%d s",
				 LIST_FILE_POLL_MS / 1000);
		loop_timer_start_in(&f->timer, LIST_FILE_POLL_MS);
	}
	if (read_file(f->path, &text, &err) < 0)
		buf_clear(&text);
	news = is_news(f, &err, buf_str(&text));
	if (news) {
		free(f->text);
		f->text = str_dup(buf_str(&text));
		f->len = buf_str(&text).len;
		f->err = err;
		f->looked = true;
	}
	buf_done(&text);
	if (news)
		f->cb(f->arg, f->err.kind == ERR_NONE ? NULL : &f->err,
		      (struct str){f->text, f->len});
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	look(arg);
}

/* ---- what changes ---- */

static bool concerns(const struct list_file *f, const struct inotify_event *e)
{
	if (e->mask & UPHEAVALS)
		return true;
	for (size_t i = 0; i < f->n_steps; i++) {
		if (f->steps[i].wd == e->wd && e->len > 0 && strcmp(f->steps[i].name, e->name) == 0)
			return true;
	}
	return false;
}

static bool take_events(const struct list_file *f, const char *bytes, size_t len)
{
	bool ours = false;

	for (size_t at = 0; at + sizeof(struct inotify_event) <= len;) {
		const struct inotify_event *e = (const void *)(bytes + at);

		ours = ours || concerns(f, e);
		at += sizeof(*e) + e->len;
	}
	return ours;
}

static void on_events(struct loop_io *io, int revents, void *arg)
{
	struct list_file *f = arg;
	_Alignas(struct inotify_event) char bytes[8192];
	bool ours = false;

	(void)io, (void)revents;
	for (unsigned i = 0; i < MAX_READS; i++) {
		ssize_t n = read(f->fd, bytes, sizeof(bytes));

		if (n <= 0)
			break;
		ours = take_events(f, bytes, (size_t)n) || ours;
	}
	/* One that is due sooner stays: however often it changes, it's looked at. */
	if (ours && (!loop_timer_active(&f->timer) ||
		     f->timer.at_ms > clock_mono_ms() + LIST_FILE_QUIET_MS))
		loop_timer_start_in(&f->timer, LIST_FILE_QUIET_MS);
}

/* ---- begin and end ---- */

static char *absolute(const char *path)
{
	char here[PATH_MAX];

	if (path[0] == '/' || !getcwd(here, sizeof(here)))
		return xstrdup(path);
	return xasprintf("%s/%s", here, path);
}

struct list_file *list_file_new(struct loop *loop, const char *path, list_file_fn *cb, void *arg)
{
	struct list_file *f = xcalloc(1, sizeof(*f));

	f->loop = loop;
	f->path = absolute(path);
	f->cb = cb;
	f->arg = arg;
	f->fd = -1;
	loop_timer_init(&f->timer, loop, on_timer, f);
	loop_timer_start_in(&f->timer, 0);
	return f;
}

void list_file_free(struct list_file *f)
{
	if (!f)
		return;
	loop_timer_stop(&f->timer);
	drop_watches(f);
	free(f->path);
	free(f->text);
	free(f);
}
