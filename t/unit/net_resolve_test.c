/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver against a DNS server of the test's own on loopback, which answers from a table, or
 * doesn't.
 */
#include "net_test.h"

#include <arpa/inet.h>

/* --- The server. --- */

enum behaviour { ANSWER, SILENT, SERVFAIL };

static struct {
	int fd;
	struct loop_io io;
	enum behaviour behaviour;
	unsigned queries;
} dns;

static const struct {
	const char *name;
	const char *a[3];
	const char *aaaa[2];
} zone[] = {
	{"both.test", {"127.0.0.1"}, {"::1"}},
	{"four.test", {"127.0.0.1", "127.0.0.2", "127.0.0.3"}, {NULL}},
	{"empty.test", {NULL}, {NULL}},
};

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
	for (size_t i = 0; i < sizeof(zone) / sizeof(zone[0]) && dns.behaviour == ANSWER; i++) {
		if (!str_ieqz(str_of(name), zone[i].name))
			continue;
		r[3] = 0;
		const char *const *texts = family == AF_INET ? zone[i].a : zone[i].aaaa;
		for (size_t j = 0; j < (family == AF_INET ? 3u : 2u) && texts[j]; j++) {
			used += put_record(r + used, family, texts[j]);
			r[7]++;
		}
	}
	if (sendto(dns.fd, r, used, 0, &from.sa, from.len) < 0)
		bail_out("the DNS server can't send");
}

static void dns_start(void)
{
	struct net_addr addr;
	char text[NET_ADDR_TEXT];
	struct err err = ERR_INIT;
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

/* --- The asking side. --- */

struct asked {
	unsigned calls;
	char addrs[256]; /* "127.0.0.1:1 [::1]:1" */
	struct err err;
	struct op *cancels;
};

static void on_resolved(const struct net_addr *addrs, size_t n, const struct err *err, void *arg)
{
	struct asked *a = arg;
	char text[NET_ADDR_TEXT];
	a->calls++;
	a->err = err ? *err : (struct err)ERR_INIT;
	a->addrs[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		strcat(a->addrs, i ? " " : "");
		strcat(a->addrs, net_addr_format(&addrs[i], text));
	}
	op_cancel(a->cancels);
}

static struct op *ask(struct asked *a, const char *host, struct scope *scope)
{
	struct op *op =
		net_resolve_start(net, scope, host, 80, clock_mono_ms() + 5000, on_resolved, a);
	is_uint(a->calls, 0, "%s: doesn't call back before it returns", host);
	return op;
}

static void test_answers(void)
{
	static const struct {
		const char *host, *addrs;
		enum err_kind kind;
		const char *msg;
	} rows[] = {
		{"127.0.0.1", "127.0.0.1:80", ERR_NONE, NULL},
		{"::1", "[::1]:80", ERR_NONE, NULL},
		{"[::1]", "[::1]:80", ERR_NONE, NULL},
		{"four.test", "127.0.0.1:80 127.0.0.2:80 127.0.0.3:80", ERR_NONE, NULL},
		{"nosuch.test", "", ERR_NOT_FOUND, "no such host: nosuch.test"},
		{"empty.test", "", ERR_NOT_FOUND, "empty.test"},
		{"", "", ERR_INVALID, "no host is named"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct asked a = {0};
		row_begin("\"%s\"", rows[i].host);
		ask(&a, rows[i].host, NULL);
		ok(PUMP(a.calls > 0), "an answer");
		if (strcmp(rows[i].host, "four.test") == 0)
			is_uint(strlen(a.addrs), strlen(rows[i].addrs), "all addresses");
		else
			is_str(a.addrs, rows[i].addrs, "addresses");
		is_int(a.err.kind, rows[i].kind, "kind of error");
		if (rows[i].msg)
			has_str(a.err.msg, rows[i].msg, "message");
	}
	row_end();
	struct asked both = {0};
	ask(&both, "both.test", NULL);
	ok(PUMP(both.calls > 0) && strstr(both.addrs, "127.0.0.1:80") &&
		   strstr(both.addrs, "[::1]:80"),
	   "both families (%s)", both.addrs);
	unsigned queries = dns.queries;
	struct asked local = {0};
	ask(&local, "localhost", NULL);
	ok(PUMP(local.calls > 0) && strstr(local.addrs, "127.0.0.1:80"), "localhost");
	is_uint(dns.queries, queries, "without asking a server");
	struct asked longest = {0};
	char host[400];
	memset(host, 'a', sizeof(host));
	host[sizeof(host) - 1] = '\0';
	ask(&longest, host, NULL);
	ok(PUMP(longest.calls > 0) && longest.err.kind == ERR_INVALID, "a name too long");
}

static void test_trouble(void)
{
	struct asked a = {0};
	dns.behaviour = SERVFAIL;
	ask(&a, "both.test", NULL);
	ok(PUMP(a.calls > 0), "a failing server: an answer");
	is_int(a.err.kind, ERR_UNAVAILABLE, "which may be better later (%s)", a.err.msg);

	struct asked silent = {0};
	unsigned queries = dns.queries;
	dns.behaviour = SILENT;
	ask(&silent, "both.test", NULL);
	ok(PUMP(dns.queries > queries), "a silent server is asked");
	settle();
	is_uint(silent.calls, 0, "and waited for");
	clock_advance(4999);
	settle();
	is_uint(silent.calls, 0, "until the deadline");
	clock_advance(1);
	settle();
	is_uint(silent.calls, 1, "which ends it");
	is_int(silent.err.kind, ERR_TIMEOUT, "as a time-out (%s)", silent.err.msg);
	settle();
	is_uint(silent.calls, 1, "once");
	dns.behaviour = ANSWER;
}

static void test_cancel(void)
{
	struct asked a = {0}, b = {0}, c = {0};
	op_cancel(ask(&a, "127.0.0.1", NULL));
	op_cancel(ask(&a, "both.test", NULL));
	settle();
	is_uint(a.calls, 0, "cancelled at once");

	unsigned queries = dns.queries;
	dns.behaviour = SILENT;
	struct op *op = ask(&a, "both.test", NULL);
	PUMP(dns.queries > queries);
	op_cancel(op);
	op_cancel(op);
	settle();
	is_uint(a.calls, 0, "cancelled while waiting, twice");
	dns.behaviour = ANSWER;

	struct scope scope;
	scope_init(&scope);
	b.cancels = ask(&c, "four.test", &scope);
	op = ask(&b, "127.0.0.1", &scope);
	PUMP(b.calls > 0);
	settle();
	is_uint(c.calls, 0, "cancelled by another one's callback");
	ask(&c, "four.test", &scope);
	scope_cancel(&scope);
	settle();
	is_uint(c.calls, 0, "cancelled by their scope");
	struct asked self = {0};
	self.cancels = ask(&self, "127.0.0.1", NULL);
	ok(PUMP(self.calls == 1), "cancelling itself within its callback is harmless");
}

int main(void)
{
	test_begin();
	dns_start();
	test_answers();
	test_trouble();
	test_cancel();
	loop_io_stop(&dns.io);
	close(dns.fd);
	test_end();
	return done_testing();
}
