/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What everything of this layer hangs on: the loop, the resolver's settings, the connections that
 * are saying goodbye. One a process; whoever wires the program owns it.
 */
#ifndef IPU_NET_NET_H
#define IPU_NET_NET_H

#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/err.h"
#include "loop/loop.h"

struct net;

/* Ignores SIGPIPE for the process, and readies c-ares and mbedTLS's PSA. */
int net_new(struct loop *loop, struct net **ret, struct err *err);
/* Before loop_free. Closes connections that were handed to net_conn_finish; all others, listeners
 * and operations must have ended. NULL is fine. */
void net_free(struct net *net);
struct loop *net_loop(struct net *net);

/* For tests and their tools, which bring their own: other DNS servers than /etc/resolv.conf's:
 * "127.0.0.1:5300,[::1]:53"; NULL goes back to it. */
int net_set_dns_servers(struct net *net, const char *csv, struct err *err);

struct net_addr {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_storage ss;
	};
	socklen_t len;
};

#define NET_ADDR_TEXT 72 /* "[fe80::1%eth0]:65535" and its NUL, with the longest of each */

/* "10.0.0.1:443", "[::1]:443"; others: "unix", "?". Returns ret_z. */
const char *net_addr_format(const struct net_addr *addr, char ret_z[NET_ADDR_TEXT]);
/* A numeric address without port, with or without brackets, with %zone: the form of "host".
 * -1 without an error filled when it's none (err isn't touched): then it's a name. */
int net_addr_parse(const char *host, uint16_t port, struct net_addr *ret);

/* "host:port", "[v6]:port", ":port" (empty host), "host" where def_port isn't 0. The host is
 * without brackets, at most 255 bytes; ERR_INVALID says what is wrong with it. */
#define NET_HOST_SIZE 256
int net_split_host_port(const char *text, uint16_t def_port, char ret_host[NET_HOST_SIZE],
			uint16_t *ret_port, struct err *err);

#endif
