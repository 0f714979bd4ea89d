/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners, and the sockets for them that the service manager has opened already
 * (sd_listen_fds(3)): these outlive the process, so that over a restart connections wait instead of
 * being refused.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

static const struct {
	const char *name, *key;
	unsigned roles; /* of which one is needed; 0: any */
} known[] = {
	{"proxy", "proxy.listen", ROLE_PROXY},
	{"partitions", "proxy.tlsListen", ROLE_PROXY},
	{"webhook", "webhook.listen", ROLE_WEBHOOK},
	{"health", "health.listen", 0},
	{"metrics", "metrics.listen", 0},
};
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

static const char *address_of(const struct config *c, size_t i)
{
	const char *const addresses[N_KNOWN] = {c->proxy_listen, c->proxy_tls_listen,
						c->webhook_listen, c->health_listen,
						c->metrics_listen};

	return addresses[i];
}

static int check_socket(int fd, struct str name, struct err *err)
{
	struct sockaddr_storage ss = {0};
	socklen_t len = sizeof(ss);
	int listening = 0;
	socklen_t size = sizeof(listening);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || !listening ||
	    getsockname(fd, (struct sockaddr *)&ss, &len) < 0 ||
	    (ss.ss_family != AF_INET && ss.ss_family != AF_INET6))
		return err_set(err, ERR_INVALID, 0,
			       "LISTEN_FDS: descriptor %d (\"%.*s\") must be a TCP socket that "
			       "listens: a socket unit with ListenStream=HOST:PORT and Accept=no",
			       fd, STR_ARG(name));
	return 0;
}

static int add(struct sockets *s, const struct config *c, int fd, struct str name, struct err *err)
{
	size_t i = 0;

	while (i < N_KNOWN && !str_eqz(name, known[i].name))
		i++;
	if (i == N_KNOWN)
		return err_set(
			err, ERR_INVALID, 0,
			"LISTEN_FDNAMES: \"%.*s\": must be proxy, partitions, webhook, health "
			"or metrics: FileDescriptorName= in the socket unit",
			STR_ARG(name));
	if (known[i].roles && !(c->roles & known[i].roles))
		return err_set(err, ERR_INVALID, 0,
			       "LISTEN_FDNAMES: \"%s\": there is a socket for it, but roles lacks "
			       "the role that would listen: add it, or disable the socket unit",
			       known[i].name);
	if (!address_of(c, i)[0])
		return err_set(err, ERR_INVALID, 0,
			       "LISTEN_FDNAMES: \"%s\": there is a socket for it, but %s is empty: "
			       "remove that, or disable the socket unit",
			       known[i].name, known[i].key);
	if (check_socket(fd, name, err) < 0)
		return -1;
	s->items[s->n++] = (struct socket_given){.name = known[i].name, .fd = fd};
	return 0;
}

static int take(struct sockets *s, const struct config *c, struct err *err)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	struct str names = str_of(getenv("LISTEN_FDNAMES")), name;
	int64_t n;

	if (!count || !pid || strtol(pid, NULL, 10) != (long)getpid())
		return 0;
	if (str_to_int(str_of(count), 0, SOCKETS_MAX, &n, NULL) < 0)
		return err_set(err, ERR_INVALID, 0, "LISTEN_FDS: must be from 0 to %d",
			       SOCKETS_MAX);
	/* All of them first: a credential plugin must not get those after a bad one either. */
	for (int fd = FIRST_FD; fd < FIRST_FD + (int)n; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	for (int fd = FIRST_FD; fd < FIRST_FD + (int)n; fd++) {
		str_cut(names, ':', &name, &names);
		if (add(s, c, fd, name, err) < 0)
			return -1;
	}
	return 0;
}

int sockets_take(struct sockets *s, const struct config *c, struct err *err)
{
	int rc = take(s, c, err);

	(void)unsetenv("LISTEN_PID");
	(void)unsetenv("LISTEN_FDS");
	(void)unsetenv("LISTEN_FDNAMES");
	(void)unsetenv("LISTEN_PIDFDID");
	return rc;
}

bool sockets_has(const struct sockets *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->items[i].name, name) == 0)
			return true;
	}
	return false;
}

static void said(const char *key, unsigned port, const char *whose)
{
	log_info("daemon", NULL, "%s: port=%u%s", key, port, whose);
}

int sockets_listen(struct sockets *s, const struct listen_at *at, unsigned *ret_port,
		   struct err *err)
{
	if (!at->addr[0])
		return 0;
	if (!sockets_has(s, at->name)) {
		if (http_server_listen(at->server, at->addr, at->tls, at->handler, at->arg,
				       ret_port, err) < 0)
			return err_wrap(err, "%s", at->key);
		said(at->key, *ret_port, "");
		return 0;
	}
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->items[i].name, at->name) != 0 || s->items[i].fd < 0)
			continue;
		if (http_server_listen_fd(at->server, s->items[i].fd, at->tls, at->handler, at->arg,
					  ret_port, err) < 0)
			return err_wrap(err, "%s", at->key);
		s->items[i].fd = -1;
		said(at->key, *ret_port, " (the service manager's socket)");
	}
	return 0;
}
