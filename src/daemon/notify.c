/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service manager is told (sd_notify(3), the protocol on the wire): that the process runs,
 * reads its configuration again, ends; one line for `systemctl status`; and that the loop turns.
 * What couldn't be sent is sent with the next look. Owns the socket.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/str.h"
#include "daemon/internal.h"

#define LOOK_MS       1000
#define BEAT_AGAIN_MS 100 /* after a sign of life that couldn't be sent */
#define STATUS_SIZE   512

enum state { STATE_STARTING, STATE_RUNNING, STATE_STOPPING };

struct notify {
	struct daemon *d;
	int sock;
	int64_t watchdog_ms; /* between two signs of life; 0: nobody waits for them */
	int64_t beat_ms;     /* when the next one is due */
	struct loop_timer timer;
	enum state state, told; /* what is so, and what the manager knows */
	char status[STATUS_SIZE];
	char problem[STATUS_SIZE]; /* of the last reload; "" */
};

/* ---- the socket ---- */

/* "@name" is of the abstract namespace, anything else but an absolute path is none of ours. */
static int open_socket(const char *path, int *ret_fd, struct err *err)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	int fd;

	if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(addr.sun_path))
		return err_set(err, ERR_INVALID, 0,
			       "NOTIFY_SOCKET: \"%.100s\": must be an absolute path or @NAME",
			       path);
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, errno, "NOTIFY_SOCKET");
	if (connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0) {
		int errnum = errno;

		close(fd);
		return err_errno(err, errnum, "NOTIFY_SOCKET: %s", path);
	}
	*ret_fd = fd;
	return 0;
}

static bool say(struct notify *n, const char *text)
{
	return send(n->sock, text, strlen(text), MSG_NOSIGNAL) >= 0;
}

/* ---- the status ---- */

static size_t put_role(const struct daemon *d, char *z, size_t size)
{
	const char *holder = d->lease ? kube_lease_holder(d->lease) : "";

	if (d->leading)
		return (size_t)snprintf(z, size, "leads");
	if (d->lease)
		return (size_t)snprintf(z, size, holder[0] ? "follows %.64s" : "follows nobody yet",
					holder);
	if (d->config->roles & (ROLE_CONTROLLER | ROLE_PROXY)) /* another has taken the tracker */
		return (size_t)snprintf(z, size, "follows");
	return (size_t)snprintf(z, size, "%s%s%s", d->webhook ? "answers webhooks" : "",
				d->webhook && d->node ? ", " : "",
				d->node ? "tells of its node" : "");
}

static size_t put_jobs(const struct daemon *d, char *z, size_t size)
{
	size_t counts[JOB_STAGES], all = 0, len;

	if (!d->jobs)
		return 0;
	job_controller_count(d->jobs, counts);
	for (size_t i = 0; i < JOB_STAGES; i++)
		all += counts[i];
	len = (size_t)snprintf(z, size, "; jobs: %zu", all);
	for (int i = 0; i < JOB_STAGES; i++) {
		const char *word = job_stage_word((enum job_condition_type)i);

		if (counts[i] && len < size)
			len += (size_t)snprintf(z + len, size - len, ", %zu %c%s", counts[i],
						word[0] | 0x20, word + 1);
	}
	return len < size ? len : size - 1;
}

/* One line of UTF-8, or the manager takes none of it: whatever a peer's message holds, and wherever
 * it was cut. */
static void make_plain(char *z)
{
	while (*z) {
		size_t n = str_utf8_first(str_of(z));

		if (n == 0 || (unsigned char)*z < 0x20 || *z == 0x7f)
			*z = ' ';
		z += n ? n : 1;
	}
}

static void make_status(const struct notify *n, char z[STATUS_SIZE])
{
	const struct daemon *d = n->d;
	struct err why = ERR_INIT;
	size_t len;

	if (n->state == STATE_STOPPING) {
		snprintf(z, STATUS_SIZE, "stopping");
		return;
	}
	len = put_role(d, z, STATUS_SIZE);
	len += put_jobs(d, z + len, STATUS_SIZE - len);
	if (health_is_ready(d, &why))
		len += (size_t)snprintf(z + len, STATUS_SIZE - len, "; ready");
	else
		len += (size_t)snprintf(z + len, STATUS_SIZE - len, "; not ready: %.180s", why.msg);
	if (n->problem[0] && len < STATUS_SIZE)
		snprintf(z + len, STATUS_SIZE - len, "; %.250s", n->problem);
	make_plain(z);
}

/* ---- telling ---- */

/* Level-triggered: what the manager doesn't know yet. */
static void tell(struct notify *n)
{
	static const char *const words[] = {"", "READY=1\n", "STOPPING=1\n"};
	char status[STATUS_SIZE], text[STATUS_SIZE + 64];

	make_status(n, status);
	if (n->told == n->state && strcmp(status, n->status) == 0)
		return;
	snprintf(text, sizeof(text), "%sSTATUS=%s\n", n->told == n->state ? "" : words[n->state],
		 status);
	if (!say(n, text))
		return;
	n->told = n->state;
	memcpy(n->status, status, sizeof(status));
}

/* None from a process that gets nowhere, which /healthz tells where nobody probes it. */
static bool sign_of_life(struct notify *n)
{
	struct err why;

	if (!health_is_stuck(n->d, &why))
		return say(n, "WATCHDOG=1\n");
	log_error("daemon", NULL, "no sign of life for systemd, which will start it again: %s",
		  why.msg);
	return true;
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct notify *n = arg;
	int64_t now_ms = clock_mono_ms(), next_ms = now_ms + LOOK_MS;

	if (n->state == STATE_STARTING)
		n->state = STATE_RUNNING;
	tell(n);
	/* Also while stopping: an end that hangs is one to be killed. A manager that takes none may
	 * be gone: that mustn't keep the loop busy. */
	if (n->watchdog_ms && now_ms >= n->beat_ms)
		n->beat_ms = now_ms + (sign_of_life(n) || n->watchdog_ms < BEAT_AGAIN_MS
					       ? n->watchdog_ms
					       : BEAT_AGAIN_MS);
	if (n->watchdog_ms && n->beat_ms < next_ms)
		next_ms = n->beat_ms;
	loop_timer_start_at(timer, next_ms);
}

void notify_reloading(struct notify *n)
{
	struct timespec ts;
	char text[96];

	if (!n)
		return;
	clock_gettime(CLOCK_MONOTONIC, &ts); /* the manager's clock, not a test's */
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n",
		 (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000);
	if (say(n, text))
		n->told = STATE_STARTING; /* READY is to be said again */
}

void notify_reloaded(struct notify *n, const struct err *problem)
{
	if (!n)
		return;
	snprintf(n->problem, sizeof(n->problem), "%s", problem ? problem->msg : "");
	tell(n);
}

void notify_stopping(struct notify *n)
{
	if (!n)
		return;
	n->state = STATE_STOPPING;
	tell(n);
}

/* ---- life ---- */

/* sd_watchdog_enabled(3): half of what is allowed, and only if it's this process that is meant. */
static int64_t watchdog_of_environment(void)
{
	const char *pid = getenv("WATCHDOG_PID"), *text = getenv("WATCHDOG_USEC");
	int64_t us;

	if (!text || (pid && strtol(pid, NULL, 10) != (long)getpid()) ||
	    str_to_int(str_of(text), 1, INT64_MAX / 2, &us, NULL) < 0)
		return 0;
	return us < 2000 ? 1 : us / 2000;
}

int notify_take(struct daemon *d, struct err *err)
{
	const char *path = getenv("NOTIFY_SOCKET");
	int64_t watchdog_ms = watchdog_of_environment();
	int fd = -1, rc = path && path[0] ? open_socket(path, &fd, err) : 0;

	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	(void)unsetenv("WATCHDOG_PID");
	if (fd < 0)
		return rc;
	d->notify = xcalloc(1, sizeof(*d->notify));
	d->notify->d = d;
	d->notify->sock = fd;
	d->notify->watchdog_ms = watchdog_ms;
	return 0;
}

void notify_start(struct notify *n)
{
	if (!n)
		return;
	loop_timer_init(&n->timer, n->d->loop, on_timer, n);
	loop_timer_start_in(&n->timer, 0);
}

void notify_free(struct notify *n)
{
	if (!n)
		return;
	if (n->timer.loop)
		loop_timer_stop(&n->timer);
	close(n->sock);
	free(n);
}
