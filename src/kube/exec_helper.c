/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's end of the helper that runs credential plugins: runs in turn, deadlines on core's
 * clock, answers read by the loop. Owns the socket and the process. Uses core/ and loop/.
 */
#include "kube/exec_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/list.h"
#include "exec_child.h"
#include "http/message.h"

struct run {
	struct op op;
	struct kube_exec_helper *helper;
	struct list link;
	struct loop_timer timer;
	uint32_t seq;
	unsigned deadline_ms;
	kube_exec_done_fn *cb;
	void *arg;
};

struct kube_exec_helper {
	const struct kube_exec_config *exec; /* the configuration's */
	int sock;                            /* -1: the helper is gone */
	pid_t pid;
	struct loop *loop;
	struct loop_io io;
	struct buf in;
	struct list runs; /* the first is the one that was sent */
	uint32_t seq;     /* of the last one sent */
	bool busy;        /* its reply hasn't come */
};

int kube_exec_helper_fork(const struct kube_config *config, struct kube_exec_helper **ret,
			  struct err *err)
{
	int pair[2];
	if (!config->exec) {
		*ret = NULL;
		return 0;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, errno, "a socket for the credential plugin's helper");
	pid_t pid = fork();
	if (pid < 0) {
		int why = errno;
		close(pair[0]);
		close(pair[1]);
		return err_errno(err, why, "forking the credential plugin's helper");
	}
	if (pid == 0)
		kube_exec_child(pair[1], config->exec);
	close(pair[1]);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);

	struct kube_exec_helper *h = xcalloc(1, sizeof(*h));
	h->exec = config->exec;
	h->sock = pair[0];
	h->pid = pid;
	list_init(&h->runs);
	buf_init_secret(&h->in, KUBE_EXEC_MAX_OUTPUT_BYTES + KUBE_EXEC_STDERR_BYTES + 65536);
	*ret = h;
	return 0;
}

static void close_socket(struct kube_exec_helper *h)
{
	if (h->sock < 0)
		return;
	if (h->loop)
		loop_io_stop(&h->io);
	close(h->sock);
	h->sock = -1;
	h->busy = false;
}

void kube_exec_helper_free(struct kube_exec_helper *h)
{
	if (!h)
		return;
	close_socket(h); /* the helper sees that, takes its plugin along and ends */
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	buf_done(&h->in);
	free(h);
}

/* ---- runs ---- */

static bool send_ask(struct kube_exec_helper *h, enum kube_exec_ask ask, uint32_t seq)
{
	struct kube_exec_request req = {.ask = (uint32_t)ask, .seq = seq};
	/* Eight bytes, at most two of these unanswered: they always fit. */
	return send(h->sock, &req, sizeof(req), MSG_NOSIGNAL) == (ssize_t)sizeof(req);
}

static void gone(struct kube_exec_helper *h)
{
	close_socket(h);
	/* Each timer tells its run. */
	LIST_FOREACH(pos, tmp, &h->runs) {
		struct run *r = CONTAINER_OF(pos, struct run, link);
		loop_timer_start_in(&r->timer, 0);
	}
}

static void next_run(struct kube_exec_helper *h)
{
	if (h->busy || h->sock < 0 || list_empty(&h->runs))
		return;
	struct run *r = CONTAINER_OF(h->runs.next, struct run, link);
	r->seq = ++h->seq;
	h->busy = true;
	if (!send_ask(h, KUBE_EXEC_RUN, r->seq))
		gone(h);
}

/* Off the list; the helper is told where it works on it. */
static void detach(struct run *r)
{
	struct kube_exec_helper *h = r->helper;
	loop_timer_stop(&r->timer);
	list_unlink(&r->link);
	if (h->busy && r->seq == h->seq && h->sock >= 0 && !send_ask(h, KUBE_EXEC_CANCEL, r->seq))
		gone(h);
	loop_reap(h->loop, r, free);
}

static void finish(struct run *r, const struct err *err, struct str output)
{
	if (!op_end(&r->op))
		return;
	kube_exec_done_fn *cb = r->cb;
	void *arg = r->arg;
	detach(r);
	cb(arg, err, err ? NULL : output.p, err ? 0 : output.len);
}

static void on_cancel(struct op *op)
{
	detach(CONTAINER_OF(op, struct run, op));
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct run *r = arg;
	struct err err = ERR_INIT;
	(void)timer;
	if (r->helper->sock < 0)
		err_set(&err, ERR_UNAVAILABLE, 0,
			"the helper process that runs the credential plugin %s is gone: restart "
			"this program",
			r->helper->exec->command);
	else
		err_set(&err, ERR_TIMEOUT, 0, "the credential plugin %s didn't end within %u s",
			r->helper->exec->command, r->deadline_ms / 1000);
	finish(r, &err, STR_NULL);
}

/* ---- replies ---- */

static struct str last_line(struct str s)
{
	s = str_trim(s);
	for (size_t i = s.len; i > 0; i--)
		if (s.p[i - 1] == '\n')
			return (struct str){s.p + i, s.len - i};
	return s;
}

static void explain(const struct kube_exec_config *exec, const struct kube_exec_reply *reply,
		    struct str errors, struct err *err)
{
	/* Which may be what it was answered, or was about to say. */
	struct str line = http_without_token(last_line(errors), STR_NULL);
	int len = line.len > 120 ? 120 : (int)line.len;
	const char *text = line.p ? line.p : "";
	if (reply->outcome == KUBE_EXEC_CANT_START)
		err_set(err, ERR_INVALID, reply->code,
			"the credential plugin %s can't be started: %s%s%.120s", exec->command,
			strerror(reply->code), exec->install_hint ? "; " : "",
			exec->install_hint ? exec->install_hint : "");
	else if (reply->outcome == KUBE_EXEC_TOO_MUCH)
		err_set(err, ERR_LIMIT, 0, "the credential plugin %s wrote more than %zu bytes",
			exec->command, KUBE_EXEC_MAX_OUTPUT_BYTES);
	else if (WIFSIGNALED(reply->code))
		err_set(err, ERR_INVALID, 0,
			"the credential plugin %s was killed by signal %d%s%.*s", exec->command,
			WTERMSIG(reply->code), len ? ": " : "", len, text);
	else
		err_set(err, ERR_INVALID, WEXITSTATUS(reply->code),
			"the credential plugin %s ended with status %d%s%.*s", exec->command,
			WEXITSTATUS(reply->code), len ? ": " : "", len, text);
}

static bool take_reply(struct kube_exec_helper *h)
{
	struct kube_exec_reply reply;
	struct err err = ERR_INIT;
	if (h->in.len < sizeof(reply))
		return false;
	memcpy(&reply, h->in.p, sizeof(reply));
	size_t whole = sizeof(reply) + (size_t)reply.out_len + reply.err_len;
	if (h->in.len < whole)
		return false;
	struct str out = {h->in.p + sizeof(reply), reply.out_len};
	struct str errors = {out.p + out.len, reply.err_len};
	bool is_current = reply.seq == h->seq;
	h->busy = h->busy && !is_current;
	LIST_FOREACH(pos, tmp, &h->runs) {
		struct run *r = CONTAINER_OF(pos, struct run, link);
		if (r->seq != reply.seq)
			continue;
		bool well = reply.outcome == KUBE_EXEC_EXITED && WIFEXITED(reply.code) &&
			    WEXITSTATUS(reply.code) == 0;
		if (!well)
			explain(h->exec, &reply, errors, &err);
		finish(r, well ? NULL : &err, out);
		break;
	}
	str_wipe(h->in.p, whole); /* others may be behind it */
	buf_consume(&h->in, whole);
	next_run(h);
	return true;
}

static void on_readable(struct loop_io *io, int revents, void *arg)
{
	struct kube_exec_helper *h = arg;
	(void)io;
	(void)revents;
	for (int budget = 32; budget > 0; budget--) {
		char *p;
		if (buf_reserve(&h->in, 16384, &p, NULL) < 0) {
			gone(h);
			return;
		}
		ssize_t n = recv(h->sock, p, 16384, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			gone(h);
			return;
		}
		buf_commit(&h->in, (size_t)n);
	}
	while (h->sock >= 0 && take_reply(h))
		;
}

struct op *kube_exec_start(struct kube_exec_helper *h, struct loop *loop, unsigned deadline_ms,
			   kube_exec_done_fn *cb, void *arg, struct scope *scope)
{
	struct run *r = xcalloc(1, sizeof(*r));
	r->helper = h;
	r->deadline_ms = deadline_ms ? deadline_ms : KUBE_EXEC_DEADLINE_MS;
	r->cb = cb;
	r->arg = arg;
	op_begin(&r->op, scope, on_cancel);
	loop_timer_init(&r->timer, loop, on_deadline, r);
	list_append(&h->runs, &r->link);
	if (!h->loop && h->sock >= 0) {
		loop_io_init(&h->io, loop, h->sock, on_readable, h);
		loop_io_watch(&h->io, EV_READ);
	}
	h->loop = loop;
	loop_timer_start_in(&r->timer, h->sock < 0 ? 0 : r->deadline_ms);
	next_run(h);
	return &r->op;
}
