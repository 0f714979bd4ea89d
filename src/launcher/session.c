/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher session: the far end of remote execution, started by an exec in a worker. Runs one
 * command for the near end and ends all that descends from it when the near end wants that, goes
 * or falls silent. Owned by launcher_session's stack; uses loop and core.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "launcher/child.h"
#include "launcher/fdio.h"
#include "launcher/handover.h"
#include "launcher/launcher.h"
#include "launcher/tree.h"
#include "launcher/wire.h"
#include "loop/loop.h"

#define GREETING_MS   60000 /* the start follows the hello at once */
#define LAST_WORDS_MS 5000  /* what is queued for a near end that doesn't read */
#define KEEP_MS       30000 /* daemons without a near end: it may come again */
#define LOOK_S        0.05  /* while all is being ended */
/* Beyond the first no output is read: many small frames take more room than their credit says. */
#define OUT_HIGH_BYTES ((size_t)64 << 10)
#define OUT_MAX_BYTES  ((size_t)512 << 10)

enum state {
	GREETING, /* the hello is said; waits for the start */
	RUNNING,  /* the command runs, or its output is still open */
	LEFT,     /* that is over, but it left processes behind; the near end may be away */
	ENDING,   /* all of them were sent TERM */
	KILLING,  /* and KILL, until nothing is left */
	OVER,     /* nothing is left; what is queued for the near end goes out */
};

static const char *const state_names[] = {"greeting", "running", "left",
					  "ending",   "killing", "over"};

struct session {
	struct loop *loop;
	enum state state;
	struct fdio_in from_near;
	struct fdio_out to_near;
	struct wire_reader reader;
	bool near_is_gone;
	struct loop_io offers; /* of another connection, while there are only daemons */
	int listener, offered; /* where they come; the one that is in use; or -1 */
	char id[WIRE_ID_BYTES + 1];
	int64_t heard_ms, said_ms;
	uint32_t ping_ms, silence_ms, grace_ms;
	struct loop_timer ping, silence, grace;
	struct ev_timer look; /* real time: processes don't know a test's clock */
	struct loop_signal signals[5];

	pid_t pid; /* 0: not started, or reaped */
	int status;
	bool exited;
	struct fdio_out child_in;
	struct fdio_in child_out[WIRE_STREAMS]; /* [0] is unused */
	uint32_t credit[WIRE_STREAMS];          /* of output, that the near end gave us */
	uint32_t used;                          /* of input, not granted again yet */
	uint32_t in_flight;                     /* input that the near end may still send */
};

static void end_all(struct session *s, const char *why);
static void check_over(struct session *s);

static void set_state(struct session *s, enum state state)
{
	log_debug("session", NULL, "from %s to %s", state_names[s->state], state_names[state]);
	s->state = state;
}

/* ---- to the near end ---- */

static void drop_offered(struct session *s)
{
	if (s->offered >= 0)
		close(s->offered);
	s->offered = -1;
}

static void near_gone(struct session *s, const char *why)
{
	if (s->near_is_gone)
		return;
	s->near_is_gone = true;
	loop_timer_stop(&s->ping);
	loop_timer_stop(&s->silence);
	fdio_in_done(&s->from_near);
	fdio_out_done(&s->to_near);
	drop_offered(s);
	if (s->state == LEFT && s->listener >= 0) {
		loop_timer_start_in(&s->grace, KEEP_MS);
		return;
	}
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++)
		fdio_in_done(&s->child_out[i]);
	end_all(s, why);
	fdio_out_done(&s->child_in); /* behind the signal: the end of its input isn't its end */
}

/* Frames were appended to to_near's queue. */
static void said(struct session *s)
{
	s->said_ms = clock_mono_ms();
	fdio_out_kick(&s->to_near);
}

static void update_output(struct session *s)
{
	bool full = s->to_near.queue.len >= OUT_HIGH_BYTES;
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++)
		fdio_in_set_room(&s->child_out[i], full ? 0 : s->credit[i]);
}

static void on_written(struct fdio_out *out, size_t written, const struct err *err, void *arg)
{
	struct session *s = arg;
	(void)written;
	if (err)
		near_gone(s, "the near end reads no more");
	else if (s->state == OVER && out->queue.len == 0)
		loop_stop(s->loop, s->status);
	else
		update_output(s);
}

static void on_ping(struct loop_timer *timer, void *arg)
{
	struct session *s = arg;
	int64_t due_ms = s->said_ms + s->ping_ms;
	/* With something in the queue, what is missing isn't a sign of ours. */
	if (due_ms <= clock_mono_ms()) {
		if (s->to_near.queue.len == 0)
			wire_put(&s->to_near.queue, WIRE_PING, NULL);
		said(s);
		due_ms = s->said_ms + s->ping_ms;
	}
	loop_timer_start_at(timer, due_ms);
}

static void on_silence(struct loop_timer *timer, void *arg)
{
	struct session *s = arg;
	int64_t due_ms = s->heard_ms + s->silence_ms;
	if (due_ms <= clock_mono_ms())
		near_gone(s, "the near end fell silent");
	else
		loop_timer_start_at(timer, due_ms);
}

/* ---- the command's output and input ---- */

static void on_output(struct fdio_in *in, struct str bytes, void *arg)
{
	struct session *s = arg;
	enum wire_stream stream = in == &s->child_out[WIRE_STDOUT] ? WIRE_STDOUT : WIRE_STDERR;
	if (bytes.len == 0) {
		fdio_in_done(in);
		wire_put_close(&s->to_near.queue, stream, NULL);
		said(s);
		check_over(s);
		return;
	}
	s->credit[stream] -= (uint32_t)bytes.len;
	wire_put_data(&s->to_near.queue, stream, bytes, NULL);
	said(s);
	update_output(s);
}

static void on_input_written(struct fdio_out *out, size_t written, const struct err *err, void *arg)
{
	struct session *s = arg;
	if (err) {
		fdio_out_done(out);
		if (!s->near_is_gone) {
			wire_put_close(&s->to_near.queue, WIRE_STDIN, NULL);
			said(s);
		}
		return;
	}
	uint32_t due = wire_credit_due(&s->used, (uint32_t)written);
	if (due > 0 && !s->near_is_gone) {
		s->in_flight += due;
		wire_put_number(&s->to_near.queue, WIRE_CREDIT, WIRE_STDIN, due, NULL);
		said(s);
	}
}

static int take_input(struct session *s, struct str data, struct err *err)
{
	if (data.len > s->in_flight)
		return err_set(err, ERR_PROTOCOL, 0, "more input than it had credit for");
	s->in_flight -= (uint32_t)data.len;
	if (s->child_in.fd < 0 || s->child_in.close_when_empty)
		return 0; /* nobody reads it; the near end has been told, or said so itself */
	if (buf_append_str(&s->child_in.queue, data, err) < 0)
		return -1;
	fdio_out_kick(&s->child_in);
	return 0;
}

/* ---- the end ---- */

static void finish(struct session *s)
{
	set_state(s, OVER);
	loop_timer_stop(&s->grace);
	loop_timer_stop(&s->silence);
	loop_timer_stop(&s->ping);
	ev_timer_stop(loop_ev(s->loop), &s->look);
	if (s->near_is_gone) {
		loop_stop(s->loop, s->status);
		return;
	}
	fdio_in_done(&s->from_near);
	wire_put(&s->to_near.queue, WIRE_ENDED, NULL);
	said(s);
	loop_timer_start_in(&s->grace, LAST_WORDS_MS);
}

static bool output_is_open(const struct session *s)
{
	return s->child_out[WIRE_STDOUT].fd >= 0 || s->child_out[WIRE_STDERR].fd >= 0;
}

/* What the command left runs as our children, or below them. */
static bool anything_left(void)
{
	siginfo_t info;
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static void on_offer(struct loop_io *io, int revents, void *arg);

static void listen_for_offers(struct session *s)
{
	struct err err = ERR_INIT;
	if (handover_listen(s->id, &s->listener, &err) < 0) {
		log_warn("session", NULL, "a lost connection will end its daemons: %s", err.msg);
		return;
	}
	loop_io_init(&s->offers, s->loop, s->listener, on_offer, s);
	loop_io_watch(&s->offers, EV_READ);
}

static void check_over(struct session *s)
{
	if (s->state == GREETING || s->state == OVER || !s->exited)
		return;
	/* Once nothing is left nobody can write to these any more: their ends will be seen. */
	if (output_is_open(s) && !s->near_is_gone)
		return;
	if (!anything_left()) {
		finish(s);
	} else if (s->state == RUNNING) {
		set_state(s, LEFT);
		listen_for_offers(s);
		wire_put_left(&s->to_near.queue, s->id, NULL);
		said(s);
	}
}

static void on_look(struct ev_loop *ev, struct ev_timer *timer, int revents)
{
	struct session *s = timer->data;
	(void)ev, (void)revents;
	/* What forked while it was being looked for, and what changed its session, is found. */
	if (s->state == KILLING) {
		tree_signal(getpid(), SIGKILL, NULL);
		if (s->pid > 0)
			kill(-s->pid, SIGKILL);
	}
}

static void on_grace(struct loop_timer *timer, void *arg)
{
	struct session *s = arg;
	(void)timer;
	if (s->state == OVER) {
		loop_stop(s->loop, s->status);
		return;
	}
	if (s->state == LEFT) {
		end_all(s, "nobody asks for its daemons");
		return;
	}
	set_state(s, KILLING);
	on_look(NULL, &s->look, 0);
}

static void end_all(struct session *s, const char *why)
{
	if (s->state == GREETING) {
		loop_stop(s->loop, EXIT_SUCCESS);
		return;
	}
	if (s->state == OVER) {
		loop_stop(s->loop, s->status);
		return;
	}
	if (s->state == ENDING || s->state == KILLING)
		return;
	log_debug("session", NULL, "ends what it started: %s", why);
	set_state(s, ENDING);
	if (tree_signal(getpid(), SIGTERM, NULL) < 0 && s->pid > 0)
		kill(-s->pid, SIGTERM);
	tree_signal(getpid(), SIGCONT, NULL);
	loop_timer_start_in(&s->grace, s->grace_ms);
	ev_timer_start(loop_ev(s->loop), &s->look);
	check_over(s);
}

static void reap(struct session *s)
{
	int wait_status;
	pid_t pid;
	while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
		if (pid != s->pid)
			continue;
		s->pid = 0;
		s->exited = true;
		s->status = child_exit_status(wait_status);
		if (!s->near_is_gone) {
			wire_put_number(&s->to_near.queue, WIRE_EXITED, WIRE_STDIN,
					(uint32_t)s->status, NULL);
			said(s);
		}
	}
	check_over(s);
}

static void on_signal(struct loop_signal *signal, int signum, void *arg)
{
	struct session *s = arg;
	(void)signal;
	if (signum == SIGCHLD)
		reap(s);
	else
		end_all(s, strsignal(signum));
}

/* ---- from the near end ---- */

static void fail_start(struct session *s, const struct err *why)
{
	s->status = why->code == ENOENT ? 127 : 126;
	wire_put_failed(&s->to_near.queue, (uint8_t)s->status, why->msg, NULL);
	said(s);
	set_state(s, OVER);
	loop_timer_start_in(&s->grace, LAST_WORDS_MS);
}

static void start(struct session *s, const struct wire_start *start)
{
	struct err err = ERR_INIT;
	struct child child;
	char **args, **env;
	wire_start_vectors(start, &args, &env);
	int status = child_start(args, env, &child, &err);
	free(args);
	free(env);
	s->ping_ms = start->ping_ms;
	s->silence_ms = start->silence_ms;
	s->grace_ms = start->grace_ms;
	if (status < 0) {
		fail_start(s, &err);
		return;
	}
	set_state(s, RUNNING);
	s->pid = child.pid;
	fdio_out_init(&s->child_in, s->loop, child.stdio[0], true, WIRE_WINDOW_BYTES,
		      on_input_written, s);
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++) {
		s->credit[i] = WIRE_WINDOW_BYTES;
		fdio_in_init(&s->child_out[i], s->loop, child.stdio[i], true, on_output, s);
	}
	update_output(s);
	wire_put_number(&s->to_near.queue, WIRE_STARTED, WIRE_STDIN, (uint32_t)child.pid, NULL);
	said(s);
	loop_timer_start_in(&s->ping, s->ping_ms);
	loop_timer_start_in(&s->silence, s->silence_ms);
}

static void send_signal(struct session *s, int signum)
{
	static const int passed[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGKILL, SIGUSR1,  SIGUSR2,
				     SIGTERM, SIGCONT, SIGSTOP, SIGTSTP, SIGWINCH, SIGALRM};
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
		if (passed[i] != signum)
			continue;
		/* TSTP does nothing in a process group that no shell looks after. */
		signum = signum == SIGTSTP ? SIGSTOP : signum;
		if (s->pid > 0)
			kill(-s->pid, signum);
		else
			tree_signal(getpid(), signum, NULL);
		return;
	}
}

static int take_frame(struct session *s, const struct wire_frame *f, struct err *err)
{
	if ((f->type == WIRE_START) != (s->state == GREETING))
		return err_set(err, ERR_PROTOCOL, 0, "a frame of type %d isn't its turn", f->type);
	switch (f->type) {
	case WIRE_START:
		start(s, &f->start);
		return 0;
	case WIRE_DATA:
		if (f->stream != WIRE_STDIN)
			break;
		return take_input(s, f->data, err);
	case WIRE_CLOSE:
		if (f->stream == WIRE_STDIN) {
			if (s->child_in.cb)
				fdio_out_finish(&s->child_in);
		} else if (s->child_out[f->stream].fd >= 0) {
			fdio_in_done(&s->child_out[f->stream]);
			check_over(s);
		}
		return 0;
	case WIRE_CREDIT:
		if (f->stream == WIRE_STDIN)
			break;
		if (wire_credit_add(&s->credit[f->stream], f->n, err) < 0)
			return -1;
		update_output(s);
		return 0;
	case WIRE_SIGNAL:
		send_signal(s, (int)f->n);
		return 0;
	case WIRE_PING:
		return 0;
	case WIRE_END:
		end_all(s, "the near end asks for it");
		return 0;
	default:
		break;
	}
	return err_set(err, ERR_PROTOCOL, 0, "a frame of type %d isn't for this end", f->type);
}

static void on_near(struct fdio_in *in, struct str bytes, void *arg)
{
	struct session *s = arg;
	struct err err = ERR_INIT;
	struct wire_frame frame;
	int got = 0;
	if (bytes.len == 0) {
		near_gone(s, "the near end is gone");
		return;
	}
	fdio_in_set_room(in, SIZE_MAX);
	s->heard_ms = clock_mono_ms();
	if (wire_feed(&s->reader, bytes, &err) < 0)
		got = -1;
	while (got >= 0 && !s->near_is_gone && s->state != OVER &&
	       (got = wire_next(&s->reader, &frame, &err)) > 0)
		got = take_frame(s, &frame, &err);
	if (got < 0) {
		launcher_fail(EXIT_FAILURE, "session: %s", err.msg);
		near_gone(s, "the near end broke the protocol");
	}
}

/* The near end has lost its connection and comes by another: maybe before we know. */
static void on_offer(struct loop_io *io, int revents, void *arg)
{
	struct session *s = arg;
	struct err err = ERR_INIT;
	int fds[2], connection;
	(void)io, (void)revents;
	if (handover_accept(s->listener, fds, &connection, &err) < 0)
		return;
	if (s->state != LEFT || fdio_set_nonblocking(fds[0], &err) < 0 ||
	    fdio_set_nonblocking(fds[1], &err) < 0) {
		close(fds[0]);
		close(fds[1]);
		close(connection);
		return;
	}
	near_gone(s, "another connection");
	loop_timer_stop(&s->grace);
	s->near_is_gone = false;
	s->offered = connection;
	s->heard_ms = clock_mono_ms();
	wire_reader_done(&s->reader);
	wire_reader_init(&s->reader);
	fdio_in_init(&s->from_near, s->loop, fds[0], false, on_near, s);
	fdio_out_init(&s->to_near, s->loop, fds[1], false, OUT_MAX_BYTES, on_written, s);
	fdio_in_set_room(&s->from_near, SIZE_MAX);
	wire_put_hello(&s->to_near.queue, NULL);
	wire_put_left(&s->to_near.queue, s->id, NULL);
	said(s);
	loop_timer_start_in(&s->ping, s->ping_ms);
	loop_timer_start_in(&s->silence, s->silence_ms);
}

/* ---- setting up ---- */

static void on_greeting_over(struct loop_timer *timer, void *arg)
{
	struct session *s = arg;
	(void)timer;
	if (s->state == GREETING)
		near_gone(s, "the near end wants nothing");
}

static int open_near(struct session *s, struct err *err)
{
	int fds[2];
	bool alone[2];
	for (int i = 0; i < 2; i++)
		if (fdio_open_standard(i, i == 1, &fds[i], &alone[i], err) < 0)
			return err_wrap(err, "session: the near end");
	fdio_in_init(&s->from_near, s->loop, fds[0], alone[0], on_near, s);
	fdio_out_init(&s->to_near, s->loop, fds[1], alone[1], OUT_MAX_BYTES, on_written, s);
	wire_reader_init(&s->reader);
	return 0;
}

static void session_done(struct session *s)
{
	for (size_t i = 0; i < sizeof(s->signals) / sizeof(s->signals[0]); i++)
		loop_signal_stop(&s->signals[i]);
	for (int i = 0; i < WIRE_STREAMS; i++)
		fdio_in_done(&s->child_out[i]);
	fdio_out_done(&s->child_in);
	fdio_in_done(&s->from_near);
	fdio_out_done(&s->to_near);
	wire_reader_done(&s->reader);
	drop_offered(s);
	if (s->listener >= 0) {
		loop_io_stop(&s->offers);
		close(s->listener);
	}
	loop_timer_stop(&s->ping);
	loop_timer_stop(&s->silence);
	loop_timer_stop(&s->grace);
	ev_timer_stop(loop_ev(s->loop), &s->look);
	loop_free(s->loop);
}

static int resume(const char *id)
{
	struct err err = ERR_INIT;
	if (!wire_is_id(str_of(id)))
		return launcher_fail(EXIT_USAGE, "session: --resume: that is no session's name");
	if (handover_offer(id, &err) < 0)
		return launcher_fail(EXIT_FAILURE, "session: %s", err.msg);
	return EXIT_SUCCESS;
}

static int run_session(void)
{
	static const int signums[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
	struct session s = {.in_flight = WIRE_WINDOW_BYTES, .listener = -1, .offered = -1};
	struct loop_timer greeting;
	struct err err = ERR_INIT;
	memset(s.id, '0', WIRE_ID_BYTES); /* nobody's, until it has one */
	if (tree_adopt_orphans(&err) < 0 || loop_new(&s.loop, &err) < 0 || open_near(&s, &err) < 0)
		return launcher_fail(EXIT_FAILURE, "%s", err.msg);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(signums) / sizeof(signums[0]); i++)
		loop_signal_start(&s.signals[i], s.loop, signums[i], on_signal, &s);
	loop_timer_init(&s.ping, s.loop, on_ping, &s);
	loop_timer_init(&s.silence, s.loop, on_silence, &s);
	loop_timer_init(&s.grace, s.loop, on_grace, &s);
	loop_timer_init(&greeting, s.loop, on_greeting_over, &s);
	ev_timer_init(&s.look, on_look, LOOK_S, LOOK_S);
	s.look.data = &s;
	s.heard_ms = clock_mono_ms();
	for (int i = 0; i < WIRE_STREAMS; i++)
		s.child_out[i].fd = -1;
	s.child_in.fd = -1;
	wire_put_hello(&s.to_near.queue, NULL);
	said(&s);
	fdio_in_set_room(&s.from_near, SIZE_MAX);
	loop_timer_start_in(&greeting, GREETING_MS);
	int status = loop_run(s.loop);
	loop_timer_stop(&greeting);
	session_done(&s);
	return status;
}

int launcher_session(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--resume") == 0)
		return resume(argv[2]);
	if (argc != 1)
		return launcher_fail(EXIT_USAGE, "session: it takes no operands");
	return run_session();
}
