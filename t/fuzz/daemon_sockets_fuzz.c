/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that the service manager has opened: taken are those that listen and have a name that the
 * roles know, else it's said what is wrong; and the environment is rid of them.
 * Input: LISTEN_FDS, a line; LISTEN_FDNAMES.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "daemon/internal.h"
#include "fuzz.h"

#define FIRST 3
#define LAST  6

/* A listening socket at each place that is free, one that doesn't listen at the last. */
static void open_some(void)
{
	static bool is_done;
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};

	for (int fd = FIRST; !is_done && fd <= LAST; fd++) {
		int made;

		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (made < 0 || bind(made, (struct sockaddr *)&any, sizeof(any)) < 0)
			return;
		if (fd < LAST)
			(void)listen(made, 1);
		if (made != fd) {
			(void)dup2(made, fd);
			close(made);
		}
	}
	is_done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str rest = fuzz_str(p, len), first = fuzz_line(&rest);
	CLEANUP_FREE char *count = str_dup(first), *names = str_dup(rest), *pid = NULL;
	struct config c = {.roles = ROLE_PROXY,
			   .proxy_listen = (char[]){":1"},
			   .proxy_tls_listen = (char[]){""},
			   .webhook_listen = (char[]){":2"},
			   .health_listen = (char[]){":3"},
			   .metrics_listen = (char[]){":4"}};
	struct sockets s = {.n = 0};
	struct err err = ERR_INIT;

	open_some();
	pid = xasprintf("%ld", (long)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", count, 1);
	setenv("LISTEN_FDNAMES", names, 1);
	if (sockets_take(&s, &c, &err) < 0)
		MUST(err.kind == ERR_INVALID && err.msg[0]);
	MUST(s.n <= SOCKETS_MAX);
	for (size_t i = 0; i < s.n; i++) {
		MUST(s.items[i].fd == FIRST + (int)i && sockets_has(&s, s.items[i].name));
		MUST(strcmp(s.items[i].name, "webhook") != 0 &&
		     strcmp(s.items[i].name, "partitions") != 0);
	}
	MUST(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
	return 0;
}
