/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's side of a supervised process: its pipes or terminal, and its end. Uses core and
 * loop.
 */
#include "sim/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "sim/supervisor.h"

/* With the heads of exec's channel and of a WebSocket frame before it that fills four TLS records.
 */
#define READ_BYTES ((64 << 10) - 5)

struct sim_task {
	struct loop *loop;
	const struct sim_task_handler *handler; /* NULL: detached */
	void *arg;
	pid_t pid;                 /* the supervisor's; 0: it has been waited for */
	int control, in, out, err; /* ours; -1: closed, or none. With a terminal in is out's copy */
	bool tty, freed, paused, close_in, full;
	bool has_status, told;
	int status;
	char *error;
	struct loop_io control_io, in_io, out_io, err_io;
	struct loop_work work; /* tells of the end */
};

/* ---- descriptors ---- */

static void close_fd(int *fd, struct loop_io *io)
{
	if (*fd < 0)
		return;
	if (io)
		loop_io_stop(io);
	close(*fd);
	*fd = -1;
}

static void tell_end(struct sim_task *t)
{
	if (!t->has_status || t->told || t->freed || t->out >= 0 || t->err >= 0)
		return;
	t->told = true;
	close_fd(&t->in, &t->in_io);
	if (t->handler)
		t->handler->on_end(t->status, t->error, t->arg);
}

static void on_work(struct loop_work *work, void *arg)
{
	(void)work;
	tell_end(arg);
}

static void on_output(struct loop_io *io, int revents, void *arg)
{
	struct sim_task *t = arg;
	bool is_err = io == &t->err_io;
	int *fd = is_err ? &t->err : &t->out;
	char bytes[READ_BYTES];
	ssize_t n = read(*fd, bytes, sizeof(bytes));

	(void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* A terminal that nobody has open any more says EIO. */
	if (n <= 0) {
		close_fd(fd, io);
		tell_end(t);
		return;
	}
	if (t->handler)
		t->handler->on_output(is_err ? SIM_STDERR : SIM_STDOUT,
				      (struct str){bytes, (size_t)n}, t->arg);
}

static void on_input(struct loop_io *io, int revents, void *arg)
{
	struct sim_task *t = arg;

	(void)revents;
	loop_io_stop(io);
	t->full = false;
	if (t->handler && t->handler->on_writable)
		t->handler->on_writable(t->arg);
}

/* ---- the supervisor's words ---- */

static void take_status(struct sim_task *t, int status)
{
	if (t->has_status)
		return;
	t->has_status = true;
	t->status = t->error              ? 128
		    : WIFEXITED(status)   ? WEXITSTATUS(status)
		    : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
					  : 255;
	loop_work_post(&t->work);
}

static void wait_for(struct sim_task *t)
{
	if (t->pid > 0)
		while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
			;
	t->pid = 0;
}

/* The supervisor has gone, and with it all that it has supervised. */
static void on_gone(struct sim_task *t)
{
	close_fd(&t->control, &t->control_io);
	wait_for(t);
	/* What ended without a word was killed. */
	take_status(t, SIGKILL);
}

static void on_control(struct loop_io *io, int revents, void *arg)
{
	struct sim_task *t = arg;
	struct supervisor_packet packet;
	ssize_t n = recv(t->control, &packet, sizeof(packet), MSG_DONTWAIT);

	(void)io, (void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(packet)) {
		on_gone(t);
	} else if (packet.word == SUPERVISOR_ENDED) {
		take_status(t, packet.value);
	} else {
		free(t->error);
		t->error = xstrdup(packet.word == SUPERVISOR_CANT_ENTER ? "its working directory"
				   : packet.value == ENOENT ? "executable file not found in $PATH"
							    : strerror(packet.value));
	}
}

static void say(struct sim_task *t, enum supervisor_word word)
{
	const struct supervisor_packet packet = {word, 0};
	if (t->control >= 0)
		(void)!send(t->control, &packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- beginning ---- */

struct ends { /* the process's side of what is opened */
	int control, in, out, err;
};

static int open_terminal(struct sim_task *t, struct ends *e, struct err *err)
{
	char name[64];

	t->out = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (t->out < 0 || grantpt(t->out) < 0 || unlockpt(t->out) < 0 ||
	    ptsname_r(t->out, name, sizeof(name)) != 0)
		return err_errno(err, errno, "a terminal");
	e->out = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	e->in = e->out < 0 ? -1 : fcntl(e->out, F_DUPFD_CLOEXEC, 3);
	e->err = e->out < 0 ? -1 : fcntl(e->out, F_DUPFD_CLOEXEC, 3);
	t->in = fcntl(t->out, F_DUPFD_CLOEXEC, 3);
	if (e->in < 0 || e->err < 0 || t->in < 0)
		return err_errno(err, errno, "a terminal");
	return 0;
}

static int open_pipe(int *ret_read, int *ret_write, bool reader_is_ours, struct err *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, errno, "a pipe");
	*ret_read = fds[0];
	*ret_write = fds[1];
	fcntl(reader_is_ours ? fds[0] : fds[1], F_SETFL, O_NONBLOCK);
	return 0;
}

static int open_ends(struct sim_task *t, const struct sim_task_opts *o, struct ends *e,
		     struct err *err)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_errno(err, errno, "a socket");
	t->control = fds[0];
	e->control = fds[1];
	if (o->tty)
		return open_terminal(t, e, err);
	if (open_pipe(&t->out, &e->out, true, err) < 0 ||
	    open_pipe(&t->err, &e->err, true, err) < 0)
		return -1;
	if (o->has_stdin)
		return open_pipe(&e->in, &t->in, false, err);
	e->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return e->in < 0 ? err_errno(err, errno, "/dev/null") : 0;
}

static void close_ends(struct ends *e)
{
	close_fd(&e->control, NULL);
	close_fd(&e->in, NULL);
	close_fd(&e->out, NULL);
	close_fd(&e->err, NULL);
}

static void watch(struct sim_task *t)
{
	loop_io_init(&t->control_io, t->loop, t->control, on_control, t);
	loop_io_watch(&t->control_io, EV_READ);
	if (t->in >= 0)
		loop_io_init(&t->in_io, t->loop, t->in, on_input, t);
	loop_io_init(&t->out_io, t->loop, t->out, on_output, t);
	loop_io_watch(&t->out_io, EV_READ);
	if (t->err < 0)
		return;
	loop_io_init(&t->err_io, t->loop, t->err, on_output, t);
	loop_io_watch(&t->err_io, EV_READ);
}

static void abandon(struct sim_task *t, struct ends *e)
{
	close_ends(e);
	close_fd(&t->control, NULL);
	close_fd(&t->in, NULL);
	close_fd(&t->out, NULL);
	close_fd(&t->err, NULL);
	free(t);
}

int sim_task_start(const struct sim_task_opts *o, const struct sim_task_handler *handler, void *arg,
		   struct sim_task **ret, struct err *err)
{
	struct sim_task *t = xcalloc(1, sizeof(*t));
	struct ends e = {-1, -1, -1, -1};

	t->loop = o->loop;
	t->handler = handler;
	t->arg = arg;
	t->tty = o->tty;
	t->control = t->in = t->out = t->err = -1;
	loop_work_init(&t->work, o->loop, on_work, t);
	if (open_ends(t, o, &e, err) < 0) {
		abandon(t, &e);
		return -1;
	}
	t->pid = fork();
	if (t->pid == 0)
		supervisor_run(&(struct supervisor_opts){e.control, e.in, e.out, e.err, o->argv,
							 o->env, o->dir, o->tty, o->ends_others});
	if (t->pid < 0) {
		err_errno(err, errno, "a process");
		abandon(t, &e);
		return -1;
	}
	close_ends(&e);
	watch(t);
	*ret = t;
	return 0;
}

/* ---- using it ---- */

size_t sim_task_write(struct sim_task *t, struct str data)
{
	if (t->in < 0 || t->close_in)
		return data.len;
	ssize_t n = data.len > 0 ? write(t->in, data.p, data.len) : 0;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* It reads no more: as a pipe's writer in a container, nobody minds. */
		close_fd(&t->in, &t->in_io);
		return data.len;
	}
	if (n < (ssize_t)data.len) {
		t->full = true;
		loop_io_watch(&t->in_io, EV_WRITE);
	}
	return n < 0 ? 0 : (size_t)n;
}

void sim_task_close_stdin(struct sim_task *t)
{
	static const char end_of_input = 4;

	if (t->in < 0 || t->close_in)
		return;
	if (t->tty)
		(void)!write(t->in, &end_of_input, 1);
	else
		close_fd(&t->in, &t->in_io);
	t->close_in = true;
}

void sim_task_pause(struct sim_task *t, bool on)
{
	if (t->paused == on || t->freed)
		return;
	t->paused = on;
	if (t->out >= 0)
		loop_io_watch(&t->out_io, on ? 0 : EV_READ);
	if (t->err >= 0)
		loop_io_watch(&t->err_io, on ? 0 : EV_READ);
}

void sim_task_terminate(struct sim_task *t)
{
	say(t, SUPERVISOR_TERMINATE);
}

void sim_task_kill(struct sim_task *t)
{
	say(t, SUPERVISOR_KILL);
}

void sim_task_resize(struct sim_task *t, unsigned columns, unsigned rows)
{
	const struct winsize size = {.ws_row = (unsigned short)rows,
				     .ws_col = (unsigned short)columns};
	if (t->tty && t->out >= 0)
		ioctl(t->out, TIOCSWINSZ, &size);
}

void sim_task_detach(struct sim_task *t)
{
	t->handler = NULL;
	sim_task_pause(t, false);
	sim_task_close_stdin(t);
}

bool sim_task_is_gone(const struct sim_task *t)
{
	return t->control < 0;
}

static void task_reap(void *p)
{
	struct sim_task *t = p;
	free(t->error);
	free(t);
}

void sim_task_free(struct sim_task *t)
{
	if (!t || t->freed)
		return;
	t->freed = true;
	t->handler = NULL;
	loop_work_cancel(&t->work);
	close_fd(&t->control, &t->control_io);
	close_fd(&t->in, &t->in_io);
	close_fd(&t->out, &t->out_io);
	close_fd(&t->err, &t->err_io);
	wait_for(t);
	loop_reap(t->loop, t, task_reap);
}
