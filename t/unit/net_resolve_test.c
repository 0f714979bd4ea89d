/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver against a DNS server of the test's own on loopback, which answers from a table, or
 * doesn't.
 */
#include "net_test.h"

#include "net_dns.h"

static const struct dns_name zone[] = {
	{"both.test", {"127.0.0.1"}, {"::1"}},
	{"four.test", {"127.0.0.1", "127.0.0.2", "127.0.0.3"}, {NULL}},
	{"empty.test", {NULL}, {NULL}},
};

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
	struct op *op = net_resolve_start(net, scope, host, 80, clock_mono_ms() + 5000, on_resolved,
					  a);
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
	dns_start(zone, sizeof(zone) / sizeof(zone[0]));
	test_answers();
	test_trouble();
	test_cancel();
	dns_stop();
	test_end();
	return done_testing();
}
