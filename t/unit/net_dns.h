/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DNS server on loopback within the test's loop: it answers from the test's zone, or doesn't.
 * Included once, behind net_test.h.
 */
#ifndef IPU_T_UNIT_NET_DNS_H
#define IPU_T_UNIT_NET_DNS_H

#include <arpa/inet.h>

struct dns_name {
	const char *name;
	const char *a[3];
	const char *aaaa[2];
};

enum behaviour { ANSWER, SILENT, SERVFAIL };

static struct {
	int fd;
	struct loop_io io;
	enum behaviour behaviour;
	unsigned queries;
	const struct dns_name *zone;
	size_t n_zone;
} dns;

static size_t put_record(unsigned char *p, int family, const char *text)
{
	size_t len = family == AF_INET ? 4 : 16;
	/* The question's name, type, class IN, 60 s, length. */
	unsigned char head[] = {0xc0, 12, 0, family == AF_INET ? 1 : 28, 0, 1, 0, 0, 0, 60, 0, 0};
	head[11] = (unsigned char)len;
	memcpy(p, head, sizeof(head));
	inet_pton(family, text, p + sizeof(head));
	return sizeof(head) + len;
}

/* Reads the question's name; returns where its type begins. */
static size_t read_name(const unsigned char *p, size_t len, char *ret_name, size_t size)
{
	size_t pos = 12, used = 0;
	while (pos < len && p[pos] != 0) {
		size_t n = p[pos++];
		for (; n > 0 && pos < len && used + 2 < size; n--)
			ret_name[used++] = (char)p[pos++];
		ret_name[used++] = '.';
	}
	ret_name[used > 0 ? used - 1 : 0] = '\0';
	return pos + 1;
}

static void on_query(struct loop_io *io, int revents, void *arg)
{
	unsigned char q[512], r[512] = {0};
	char name[256];
	struct net_addr from = {.len = sizeof(from.ss)};
	(void)io, (void)revents, (void)arg;
	ssize_t len = recvfrom(dns.fd, q, sizeof(q), 0, &from.sa, &from.len);
	dns.queries++;
	if (len < 17 || dns.behaviour == SILENT)
		return;
	size_t at = read_name(q, (size_t)len, name, sizeof(name));
	int family = q[at + 1] == 28 ? AF_INET6 : AF_INET;
	size_t used = at + 4;
	memcpy(r, q, used);
	r[2] = 0x84;
	r[3] = dns.behaviour == SERVFAIL ? 2 : 3;
	r[8] = r[9] = r[10] = r[11] = 0;
	for (size_t i = 0; i < dns.n_zone && dns.behaviour == ANSWER; i++) {
		if (!str_ieqz(str_of(name), dns.zone[i].name))
			continue;
		r[3] = 0;
		const char *const *texts = family == AF_INET ? dns.zone[i].a : dns.zone[i].aaaa;
		for (size_t j = 0; j < (family == AF_INET ? 3u : 2u) && texts[j]; j++) {
			used += put_record(r + used, family, texts[j]);
			r[7]++;
		}
	}
	if (sendto(dns.fd, r, used, 0, &from.sa, from.len) < 0)
		bail_out("the DNS server can't send");
}

static void dns_start(const struct dns_name *zone, size_t n_zone)
{
	struct net_addr addr;
	char text[NET_ADDR_TEXT];
	struct err err = ERR_INIT;
	dns.zone = zone;
	dns.n_zone = n_zone;
	net_addr_parse("127.0.0.1", 0, &addr);
	dns.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (dns.fd < 0 || bind(dns.fd, &addr.sa, addr.len) < 0 ||
	    getsockname(dns.fd, &addr.sa, &addr.len) < 0)
		bail_out("no UDP socket");
	loop_io_init(&dns.io, loop, dns.fd, on_query, NULL);
	loop_io_watch(&dns.io, EV_READ);
	if (net_set_dns_servers(net, net_addr_format(&addr, text), &err) < 0)
		bail_out(err.msg);
}

static void dns_stop(void)
{
	loop_io_stop(&dns.io);
	close(dns.fd);
}

#endif
