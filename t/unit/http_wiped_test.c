/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies, which may hold Secrets and tokens, leave nothing in memory once they are done with:
 * client and server in one process, by HTTP/1.1, over TLS, and by HTTP/2.
 */
#include "http_test.h"
#include "wiped.h"

struct quiet { /* counts, and keeps nothing */
	struct http_call *call;
	size_t bytes;
	unsigned dones;
};

static void echo(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, NULL, NULL, 0, ex->body);
}

static void on_quiet(void *arg, const struct http_response *response, const struct err *err)
{
	struct quiet *q = arg;
	q->bytes = err ? 0 : response->body.len;
	q->dones++;
}

static void quiet_head(void *arg, const struct http_head *head)
{
	(void)head;
	http_call_pause(((struct quiet *)arg)->call);
}

static void quiet_body(void *arg, struct str piece)
{
	((struct quiet *)arg)->bytes += piece.len;
}

static void quiet_done(void *arg, const struct err *err)
{
	(void)err;
	((struct quiet *)arg)->dones++;
}

/* A Secret, a token: both ways, collected and in pieces that wait. */
struct row {
	const char *name;
	struct tls_config *server, *client;
};

static void test_wiped(const struct row *row)
{
	const struct http_client_config config = {.h2 = &http_h2};
	static const struct http_call_handler handler = {quiet_head, quiet_body, quiet_done};
	static char secret[41];
	const size_t len = 3000;
	struct quiet fetched = {0}, paused = {0};
	struct http_server *server;
	struct http_client *client;
	unsigned port;
	char *body = xrealloc(NULL, len);
	for (size_t i = 0; i < sizeof(secret) - 1; i++)
		secret[i] = (char)('A' + (i * 7 + i / 5 * 3 + strlen(row->name)) % 50);
	for (size_t i = 0; i < len; i++)
		body[i] = secret[i % (sizeof(secret) - 1)];
	server = http_server_new(net, NULL);
	if (http_server_listen(server, "127.0.0.1:0", row->server, echo, NULL, &port, NULL) < 0)
		bail_out("no port");
	client = http_client_new(net, &config);
	row_begin("%s", row->name);
	const struct http_request req = {
		.origin = {.host = "127.0.0.1", .port = port, .tls = row->client},
		.method = HTTP_METHOD_POST,
		.target = STR("/echo"),
		.body = {body, len}};
	http_fetch_start(client, &req, on_quiet, &fetched, NULL);
	PUMP(fetched.dones);
	is_uint(fetched.bytes, len, "an answer with a secret");
	paused.call = http_call_start(client, &req, &handler, &paused, NULL);
	settle();
	http_call_resume(paused.call);
	PUMP(paused.dones);
	is_uint(paused.bytes, len, "and one that has to wait");
	str_wipe(body, len);
	free(body);
	http_client_free(client);
	http_server_free(server);
	settle();
	if (!keeps_freed)
		is_uint(places(secret, sizeof(secret) - 1), 0, "places where it's left");
}

int main(void)
{
	static const char *const alpn[] = {"h2", NULL};
	struct test_tls tls;
	test_begin();
	test_tls_init(&tls);
	const struct tls_server_opts so = {.cert_pem = str_of(tls.server->cert_pem),
					   .key_pem = str_of(tls.server->key_pem),
					   .alpn = alpn};
	const struct tls_client_opts co = {.ca_pem = str_of(tls.ca->cert_pem), .alpn = alpn};
	struct row h2 = {.name = "HTTP/2"};
	if (tls_config_new_server(&so, &h2.server, NULL) < 0 ||
	    tls_config_new_client(&co, &h2.client, NULL) < 0)
		bail_out("no TLS");
	test_wiped(&(struct row){.name = "plain"});
	test_wiped(&(struct row){"over TLS", tls.for_server, tls.for_client});
	test_wiped(&h2);
	row_end();
	tls_config_unref(h2.server);
	tls_config_unref(h2.client);
	test_tls_done(&tls);
	test_end();
	return done_testing();
}
