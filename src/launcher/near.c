/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pumps bytes within the credit that each stream has, passes signals on, listens for the far end's
 * signs of life. Owned by near_run's stack. Uses loop, net and core.
 */
#include "launcher/near.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "launcher/fdio.h"
#include "launcher/launcher.h"
#include "loop/loop.h"

#define PING_MS    10000
#define SILENCE_MS 60000
#define GRACE_MS   10000
#define RESUME_MS  30000 /* as long as the far end keeps daemons without us */
#define RETELL_MS  5000  /* who has been told to end has mostly done so */

static const int forwarded[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
#define N_FORWARDED (sizeof(forwarded) / sizeof(forwarded[0]))

struct near {
	struct loop *loop;
	const struct near_opts *opts;
	struct remote *remote;
	struct fdio_in in;
	struct fdio_out out[WIRE_STREAMS]; /* [0] is unused */
	uint32_t credit;                   /* of input, that the far end gave us */
	uint32_t used[WIRE_STREAMS];       /* of output, not granted again yet */
	uint32_t in_flight[WIRE_STREAMS];  /* output that may still come */
	int64_t heard_ms, said_ms;
	struct loop_timer ping, silence;
	struct loop_signal signals[N_FORWARDED];
	bool started, exited;
	bool detached; /* the command's status has been handed on; this stays for its daemons */
	bool left;     /* only daemons are left */
	bool resuming; /* the connection was lost, another one is being made */
	char id[WIRE_ID_BYTES + 1]; /* the session's name, once there are only daemons */
	bool over;                  /* nothing comes any more */
	bool was_terminated;
	int status;
};

static void on_hello(struct remote *r, void *arg);
static void on_frame(struct remote *r, const struct wire_frame *frame, void *arg);
static void on_drain(struct remote *r, void *arg);
static void on_over(struct remote *r, const struct err *err, int exit_status, void *arg);
static const struct remote_handler near_handler = {on_hello, on_frame, on_drain, on_over};

static void said(struct near *n)
{
	n->said_ms = clock_mono_ms();
	remote_send(n->remote);
}

/* ---- the end ---- */

/* A second process of the same connection goes on without the first one's descriptors. */
static void detach(struct near *n)
{
	pid_t pid = fork();
	if (pid > 0)
		_exit(n->status);
	n->detached = true;
	if (pid < 0)
		return; /* then the caller waits for the daemons, too */
	setsid();
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	fdio_in_done(&n->in);
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++)
		fdio_out_done(&n->out[i]);
	if (chdir("/") == 0)
		ev_loop_fork(loop_ev(n->loop));
	else
		loop_stop(n->loop, n->status);
}

static bool output_waits(const struct near *n)
{
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++)
		if (n->out[i].fd >= 0 && n->out[i].queue.len > 0)
			return true;
	return false;
}

static void check_over(struct near *n)
{
	if (output_waits(n))
		return;
	if (n->over)
		loop_stop(n->loop, n->status);
	else if (n->left && !n->detached)
		detach(n);
}

static void set_over(struct near *n, int status)
{
	if (n->over)
		return;
	n->over = true;
	n->status = status;
	fdio_in_done(&n->in);
	loop_timer_stop(&n->ping);
	loop_timer_stop(&n->silence);
	check_over(n);
}

/* Nothing is on its way any more when there are only daemons: another connection will do. */
static bool resume(struct near *n)
{
	struct remote_opts opts = n->opts->remote;
	if (!n->left || n->resuming)
		return false;
	n->resuming = true;
	n->heard_ms = clock_mono_ms();
	opts.resume = n->id;
	opts.deadline_ms = n->heard_ms + (n->was_terminated ? RETELL_MS : RESUME_MS);
	struct net *net = remote_net(n->remote);
	remote_free(n->remote);
	n->remote = remote_new(net, &opts, &near_handler, n);
	return true;
}

static void lost(struct near *n, const struct err *why)
{
	if (resume(n))
		return;
	if (!n->exited)
		launcher_fail(NEAR_LOST, "%s", why->msg);
	set_over(n, n->exited ? n->status : NEAR_LOST);
}

/* ---- input and output ---- */

static void on_input(struct fdio_in *in, struct str bytes, void *arg)
{
	struct near *n = arg;
	struct buf *out = remote_out(n->remote);
	if (bytes.len == 0) {
		fdio_in_done(in);
		wire_put_close(out, WIRE_STDIN, NULL);
	} else {
		n->credit -= (uint32_t)bytes.len;
		wire_put_data(out, WIRE_STDIN, bytes, NULL);
	}
	said(n);
	if (remote_is_full(n->remote))
		fdio_in_set_room(in, 0);
}

static void on_output_written(struct fdio_out *out, size_t written, const struct err *err,
			      void *arg)
{
	struct near *n = arg;
	enum wire_stream stream = out == &n->out[WIRE_STDOUT] ? WIRE_STDOUT : WIRE_STDERR;
	uint32_t due = wire_credit_due(&n->used[stream], (uint32_t)written);
	if (err) {
		fdio_out_done(out);
		due = 0;
	}
	if (!n->over && err) {
		wire_put_close(remote_out(n->remote), stream, NULL);
		said(n);
	} else if (!n->over && due > 0) {
		n->in_flight[stream] += due;
		wire_put_number(remote_out(n->remote), WIRE_CREDIT, stream, due, NULL);
		said(n);
	}
	check_over(n);
}

static int take_output(struct near *n, const struct wire_frame *f, struct err *err)
{
	struct fdio_out *out = &n->out[f->stream];
	if (f->stream == WIRE_STDIN || f->data.len > n->in_flight[f->stream])
		return err_set(err, ERR_PROTOCOL, 0, "more output than it had credit for");
	n->in_flight[f->stream] -= (uint32_t)f->data.len;
	if (out->fd < 0)
		return 0;
	if (buf_append_str(&out->queue, f->data, err) < 0)
		return -1;
	fdio_out_kick(out);
	return 0;
}

static void open_standard(struct near *n)
{
	int fd;
	bool alone;
	n->in.fd = -1;
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++) {
		/* One that was closed before us takes nothing. */
		n->out[i].fd = -1;
		if (fdio_open_standard(i, true, &fd, &alone, NULL) == 0)
			fdio_out_init(&n->out[i], n->loop, fd, alone, WIRE_WINDOW_BYTES,
				      on_output_written, n);
		n->in_flight[i] = WIRE_WINDOW_BYTES;
	}
	n->credit = WIRE_WINDOW_BYTES;
}

static void begin_input(struct near *n)
{
	int fd;
	bool alone;
	if (n->opts->no_input || fdio_open_standard(STDIN_FILENO, false, &fd, &alone, NULL) < 0) {
		wire_put_close(remote_out(n->remote), WIRE_STDIN, NULL);
		return;
	}
	fdio_in_init(&n->in, n->loop, fd, alone, on_input, n);
	fdio_in_set_room(&n->in, n->credit);
}

/* ---- time and signals ---- */

static void on_ping(struct loop_timer *timer, void *arg)
{
	struct near *n = arg;
	int64_t due_ms = n->said_ms + PING_MS;
	if (due_ms <= clock_mono_ms()) {
		if (!remote_is_full(n->remote))
			wire_put(remote_out(n->remote), WIRE_PING, NULL);
		said(n);
		due_ms = n->said_ms + PING_MS;
	}
	loop_timer_start_at(timer, due_ms);
}

static void on_silence(struct loop_timer *timer, void *arg)
{
	struct near *n = arg;
	struct err err = ERR_INIT;
	int64_t due_ms = n->heard_ms + SILENCE_MS;
	if (due_ms > clock_mono_ms()) {
		loop_timer_start_at(timer, due_ms);
		return;
	}
	err_set(&err, ERR_TIMEOUT, 0, "%s: no sign of life for %d s", remote_host(n->remote),
		SILENCE_MS / 1000);
	lost(n, &err);
	if (!n->over)
		loop_timer_start_in(timer, SILENCE_MS);
}

static void on_signal(struct loop_signal *signal, int signum, void *arg)
{
	struct near *n = arg;
	bool ends = signum == SIGTERM || signum == SIGHUP;
	bool insists = ends && n->was_terminated;
	(void)signal;
	if (n->over)
		return;
	if (!n->started) {
		if (signum != SIGCONT && signum != SIGTSTP)
			set_over(n, 128 + signum);
		return;
	}
	n->was_terminated = n->was_terminated || ends;
	if (n->resuming && ends) {
		if (insists)
			set_over(n, n->status);
		return;
	}
	/* Daemons aren't in the command's process group; and who insists wants an end. */
	if (ends && (n->detached || insists))
		wire_put(remote_out(n->remote), WIRE_END, NULL);
	else
		wire_put_number(remote_out(n->remote), WIRE_SIGNAL, WIRE_STDIN, (uint32_t)signum,
				NULL);
	said(n);
}

/* ---- the far end ---- */

static void on_hello(struct remote *r, void *arg)
{
	static const struct wire_start start = {
		.ping_ms = PING_MS, .silence_ms = SILENCE_MS, .grace_ms = GRACE_MS};
	struct near *n = arg;
	struct err err = ERR_INIT;
	n->heard_ms = clock_mono_ms();
	n->resuming = false;
	if (n->started) {
		/* It was told to end when it could tell nobody, or nobody who heard it. */
		if (n->was_terminated) {
			wire_put(remote_out(r), WIRE_END, NULL);
			said(n);
		}
		return;
	}
	n->started = true;
	if (wire_put_start(remote_out(r), &start, n->opts->args, n->opts->env, &err) < 0) {
		lost(n, &err);
		return;
	}
	begin_input(n);
	said(n);
	loop_timer_start_in(&n->ping, PING_MS);
	loop_timer_start_in(&n->silence, SILENCE_MS);
}

static int take_frame(struct near *n, const struct wire_frame *f, struct err *err)
{
	switch (f->type) {
	case WIRE_DATA:
		return take_output(n, f, err);
	case WIRE_CLOSE:
		if (f->stream == WIRE_STDIN)
			fdio_in_done(&n->in);
		else
			fdio_out_finish(&n->out[f->stream]);
		return 0;
	case WIRE_CREDIT:
		if (f->stream != WIRE_STDIN)
			break;
		if (wire_credit_add(&n->credit, f->n, err) < 0)
			return -1;
		if (n->in.fd >= 0 && !remote_is_full(n->remote))
			fdio_in_set_room(&n->in, n->credit);
		return 0;
	case WIRE_EXITED:
		n->exited = true;
		n->status = (int)f->n;
		return 0;
	case WIRE_FAILED:
		launcher_fail(NEAR_LOST, "%s: %.*s", remote_host(n->remote), STR_ARG(f->data));
		set_over(n, (int)f->n);
		return 0;
	case WIRE_LEFT:
		n->left = true;
		memcpy(n->id, f->data.p, WIRE_ID_BYTES);
		check_over(n);
		return 0;
	case WIRE_ENDED:
		set_over(n, n->status);
		return 0;
	case WIRE_STARTED:
	case WIRE_PING:
		return 0;
	default:
		break;
	}
	return err_set(err, ERR_PROTOCOL, 0, "a frame of type %d isn't for this end", f->type);
}

static void on_frame(struct remote *r, const struct wire_frame *frame, void *arg)
{
	struct near *n = arg;
	struct err err = ERR_INIT;
	if (n->over)
		return;
	n->heard_ms = clock_mono_ms();
	if (take_frame(n, frame, &err) == 0)
		return;
	err_wrap(&err, "%s", remote_host(r));
	lost(n, &err);
}

static void on_drain(struct remote *r, void *arg)
{
	struct near *n = arg;
	(void)r;
	if (n->in.fd >= 0)
		fdio_in_set_room(&n->in, n->credit);
}

/* Frames told it all where they came; else the exec's own status is what is left. */
static void on_over(struct remote *r, const struct err *err, int exit_status, void *arg)
{
	struct near *n = arg;
	struct err none = ERR_INIT;
	(void)r;
	if (n->over)
		return;
	err_set(&none, ERR_UNAVAILABLE, 0, "%s: the session ended with status %d and said nothing",
		remote_host(n->remote), exit_status);
	lost(n, err ? err : &none);
}

int near_run(struct net *net, const struct near_opts *opts)
{
	struct near n = {.loop = net_loop(net), .opts = opts};
	for (size_t i = 0; i < N_FORWARDED; i++)
		loop_signal_start(&n.signals[i], n.loop, forwarded[i], on_signal, &n);
	loop_timer_init(&n.ping, n.loop, on_ping, &n);
	loop_timer_init(&n.silence, n.loop, on_silence, &n);
	open_standard(&n);
	n.remote = remote_new(net, &opts->remote, &near_handler, &n);
	int status = loop_run(n.loop);
	remote_free(n.remote);
	loop_timer_stop(&n.ping);
	loop_timer_stop(&n.silence);
	fdio_in_done(&n.in);
	for (int i = WIRE_STDOUT; i < WIRE_STREAMS; i++)
		fdio_out_done(&n.out[i]);
	for (size_t i = 0; i < N_FORWARDED; i++)
		loop_signal_stop(&n.signals[i]);
	return status;
}
