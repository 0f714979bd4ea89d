/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens, certificates and plugins as they rotate, seen by a scripted API server.
 */
#include "kube_server.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "kube/client.h"
#include "wiped.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct seen {
	int calls;
	struct err err;
};

static void on_call(void *arg, const struct err *err, const struct kube_response *r)
{
	struct seen *s = arg;
	(void)r;
	s->calls++;
	s->err = err ? *err : (struct err)ERR_INIT;
}

static struct srv *srv;
static struct kube_config *config;
static struct kube_client *client;
static char dir[] = "/tmp/kube-cred-XXXXXX";

static void close_client(void)
{
	close_client_of(srv, client, config);
}

/* ---- files ---- */

static char *in_dir(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	CLEANUP_FREE char *path = in_dir(name);
	CLEANUP_FREE char *fresh = xasprintf("%s.new", path);
	FILE *f = fopen(fresh, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0 || chmod(fresh, mode) != 0 ||
	    rename(fresh, path) != 0)
		bail_out(path);
}

/* One GET; the answer's status is 200, or what the script says. Returns the error's kind. */
static enum err_kind get_x(struct seen *s)
{
	struct kube_request req = {.verb = KUBE_GET, .path = "/x"};
	*s = (struct seen){.calls = 0};
	kube_call_start(client, &req, on_call, s, NULL);
	if (!PUMP(s->calls > 0))
		diag("no answer");
	return s->err.kind;
}

static const struct srv_step fine[] = {
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
};
static const struct srv_step denied_then_fine[] = {
	{"GET /x", 401, NULL, "", SRV_WHOLE},
	{"GET /x", 200, NULL, "{}", SRV_WHOLE},
};

static void test_token_file(void)
{
	struct seen s;
	config = srv_config(srv, NULL);
	config->token.path = in_dir("token");
	write_file("token", "one\n", 0600);
	client = client_for(config, NULL);
	srv_script(srv, fine, 4, 0);
	get_x(&s);
	write_file("token", "two\n", 0600);
	get_x(&s);
	is_str(srv->log, "GET /x auth=Bearer one\nGET /x auth=Bearer one\n",
	       "not looked at for a minute");
	clock_advance(60000);
	get_x(&s);
	has_str(srv->log, "auth=Bearer two\n", "then read again");
	write_file("token", "three\n", 0600);
	srv_script(srv, denied_then_fine, 2, 0);
	is_int(get_x(&s), ERR_NONE, "401");
	is_str(srv->log, "GET /x auth=Bearer two\nGET /x auth=Bearer three\n",
	       "makes it be read at once");
	unlink(config->token.path);
	clock_advance(61000);
	srv_script(srv, fine, 2, 0);
	is_int(get_x(&s), ERR_NONE, "a file that is gone for a moment");
	write_file("token", "bad token\n", 0600);
	clock_advance(61000);
	is_int(get_x(&s), ERR_NONE, "a file that is no token");
	is_str(srv->log, "GET /x auth=Bearer three\nGET /x auth=Bearer three\n",
	       "the last good one is used");
	close_client();
}

/* No request has it: what the API server's part of the test hears would be kept. Its end is looked
 * for: what is freed without being wiped loses its beginning. */
static void test_wiped(void)
{
	static char token[] = "a-token-that-is-looked-for-in-memory";
	const char *end = token + strlen("a-token-that-is-");
	if (keeps_freed)
		return;
	config = srv_config(srv, NULL);
	config->token.path = in_dir("looked-for");
	int fd = open(config->token.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, token, sizeof(token) - 1) < 0 || close(fd) != 0)
		bail_out(config->token.path);
	client = client_for(config, NULL);
	is_uint(places(end, strlen(end)), 1, "a token is in memory once");
	close_client();
	is_uint(places(end, strlen(end)), 0, "... and wiped");
}

static struct tls_config *tls_for(const struct test_cert *cert, const struct test_cert *client_ca)
{
	struct err err = ERR_INIT;
	struct tls_config *c = NULL;
	struct tls_server_opts opts = {.cert_pem = str_of(cert->cert_pem),
				       .key_pem = str_of(cert->key_pem),
				       .client_ca_pem = str_of(client_ca->cert_pem)};
	if (tls_config_new_server(&opts, &c, &err) < 0)
		bail_out(err.msg);
	return c;
}

static void test_certificates(void)
{
	struct seen s;
	struct test_cert *ca = cert_new(&(struct cert_spec){.subject = "CN=ca", .is_ca = true},
					NULL);
	struct test_cert *ca2 = cert_new(&(struct cert_spec){.subject = "CN=ca2", .is_ca = true},
					 NULL);
	struct cert_spec server_spec = {
		.subject = "CN=api", .dns = {"api.test"}, .ip4 = {127, 0, 0, 1}};
	struct test_cert *server = cert_new(&server_spec, ca),
			 *server2 = cert_new(&server_spec, ca2);
	struct test_cert *me = cert_new(&(struct cert_spec){.subject = "CN=first"}, ca);
	struct test_cert *me2 = cert_new(&(struct cert_spec){.subject = "CN=second"}, ca);
	srv = srv_new(tls_for(server, ca));
	write_file("ca", ca->cert_pem, 0600);
	write_file("cert", me->cert_pem, 0600);
	write_file("key", me->key_pem, 0600);
	config = srv_config(srv, NULL);
	config->ca.path = in_dir("ca");
	config->cert.path = in_dir("cert");
	config->key.path = in_dir("key");
	client = client_for(config, NULL);
	srv_script(srv, fine, 4, 0);
	is_int(get_x(&s), ERR_NONE, "over TLS: %s", s.err.msg);
	is_str(srv->log, "GET /x subject=CN=first\n", "with our certificate");

	write_file("cert", me2->cert_pem, 0600);
	clock_advance(60000);
	is_int(get_x(&s), ERR_NONE, "a certificate without its key, in the middle of a rotation");
	write_file("key", me2->key_pem, 0600);
	clock_advance(6000);
	is_int(get_x(&s), ERR_NONE, "and now the key");
	is_str(srv->log,
	       "GET /x subject=CN=first\nGET /x subject=CN=first\nGET /x subject=CN=second\n",
	       "the new one is shown as soon as it's whole");

	struct tls_config *other = tls_for(server2, ca);
	net_listener_set_tls(srv->listener, other);
	tls_config_unref(other);
	for (size_t i = 0; i < SRV_CONNS; i++)
		srv_drop(&srv->conns[i], false);
	settle();
	is_int(get_x(&s), ERR_DENIED, "a server of another authority");
	has_str(s.err.msg, "certificate of 127.0.0.1:", "in words");
	ok(!s.err.maybe_applied, "nothing was sent");
	write_file("ca", ca2->cert_pem, 0600);
	clock_advance(60000);
	is_int(get_x(&s), ERR_NONE, "trusted once the authority's file has changed: %s", s.err.msg);
	close_client();

	struct err err = ERR_INIT;
	config = srv_config(srv, NULL);
	config->ca.data = xstrdup("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
	config->ca.len = strlen(config->ca.data);
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = config};
	client = NULL;
	is_int(kube_client_new(&opts, &client, &err), -1, "an authority that can't be read");
	is_int(err.kind, ERR_INVALID, "a person must mend it");
	has_str(err.msg, "the test: ", "names the configuration");
	close_client();
	srv_free(srv);
	struct test_cert *all[] = {ca, ca2, server, server2, me, me2};
	for (size_t i = 0; i < SIZE(all); i++)
		cert_free(all[i]);
}

/* A plugin that counts its runs, and says what is in the file "answer". */
static struct kube_exec_config *plugin(void)
{
	struct kube_exec_config *e = xcalloc(1, sizeof(*e));
	e->api_version = xstrdup("client.authentication.k8s.io/v1");
	e->command = in_dir("plugin");
	e->args = xcalloc(1, sizeof(*e->args));
	e->env = xcalloc(2, sizeof(*e->env));
	e->env[0] = xasprintf("DIR=%s", dir);
	e->info = xstrdup("{}");
	return e;
}

static unsigned plugin_runs(void)
{
	CLEANUP_FREE char *path = in_dir("runs");
	struct stat st;
	return stat(path, &st) == 0 ? (unsigned)st.st_size : 0;
}

#define CRED(status)                                                                                         \
	"{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":" status \
	"}"

static void write_token(const char *token, int64_t lives_ms)
{
	char expires[CLOCK_RFC3339_SIZE];
	clock_format(clock_wall_ms() + lives_ms, expires);
	CLEANUP_FREE char *answer = xasprintf(
		CRED("{\"token\":\"%s\",\"expirationTimestamp\":\"%s\"}"), token, expires);
	write_file("answer", answer, 0600);
}

static void test_plugin(void)
{
	struct seen s, t;
	struct kube_exec_helper *helper = NULL;
	struct err err = ERR_INIT;
	write_file(
		"plugin",
		"#!/bin/sh\nprintf x >> $DIR/runs\ncat $DIR/answer || { echo log in first >&2; exit 1; }\n",
		0700);
	config = srv_config(srv, NULL);
	config->exec = plugin();
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = config};
	is_int(kube_client_new(&opts, &client, &err), -1, "without the helper");
	is_int(err.kind, ERR_INVALID, "refused");
	is_int(kube_exec_helper_fork(config, &helper, &err), 0, "forked");
	client = client_for(config, helper);
	is_uint(plugin_runs(), 0, "not before it's needed");

	srv_script(srv, fine, 4, 0);
	is_int(get_x(&s), ERR_DENIED, "a plugin that fails");
	has_str(s.err.msg, "ended with status 1: log in first", "in its own words");
	is_uint(srv->next, 0, "nothing was sent");
	get_x(&s);
	is_uint(plugin_runs(), 1, "it isn't run at once again");

	clock_advance(60000);
	write_token("one", 3600000);
	struct kube_request req = {.verb = KUBE_GET, .path = "/x"};
	t = (struct seen){.calls = 0};
	kube_call_start(client, &req, on_call, &t, NULL);
	is_int(get_x(&s), ERR_NONE, "the person has logged in: %s", s.err.msg);
	PUMP(t.calls > 0);
	is_int(t.err.kind, ERR_NONE, "the other call too");
	is_uint(plugin_runs(), 2, "one run for both");
	is_str(srv->log, "GET /x auth=Bearer one\nGET /x auth=Bearer one\n", "with its token");

	write_file("answer", CRED("{\"token\":\"two\"}"), 0600);
	get_x(&s);
	is_uint(plugin_runs(), 2, "while it's valid, it isn't asked");
	clock_advance(3600000);
	get_x(&s);
	is_uint(plugin_runs(), 3, "when it has expired, it is");
	has_str(srv->log, "auth=Bearer two\n", "the new token");

	write_file("answer", CRED("{\"token\":\"three\"}"), 0600);
	clock_advance(10000);
	srv_script(srv, denied_then_fine, 2, 0);
	is_int(get_x(&s), ERR_NONE, "401");
	is_str(srv->log, "GET /x auth=Bearer two\nGET /x auth=Bearer three\n",
	       "makes it run again");

	write_token("four", -3600000);
	clock_advance(10000);
	srv_script(srv, denied_then_fine, 2, 0);
	unsigned runs = plugin_runs();
	is_int(get_x(&s), ERR_NONE, "401, and a plugin whose clock is behind");
	is_uint(plugin_runs(), runs + 1, "one run is enough");
	has_str(srv->log, "auth=Bearer four\n", "and what it gave is tried");

	struct scope scope;
	scope_init(&scope);
	clock_advance(10000);
	srv_script(srv, denied_then_fine, 2, 0);
	t = (struct seen){.calls = 0};
	kube_call_start(client, &req, on_call, &t, &scope);
	settle();
	scope_cancel(&scope);
	settle();
	is_int(t.calls, 0, "cancelled while the plugin runs");
	settle();
	kube_client_free(client);
	client = NULL;
	kube_exec_helper_free(helper);
	close_client();
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	if (!mkdtemp(dir))
		bail_out("no folder for the test's files");
	srv = srv_new(NULL);
	test_token_file();
	test_wiped();
	test_plugin();
	srv_free(srv);
	test_certificates();
	test_end();
	CLEANUP_FREE char *clean = xasprintf("rm -rf '%s'", dir);
	if (system(clean) != 0)
		diag("%s stays", dir);
	return done_testing();
}
