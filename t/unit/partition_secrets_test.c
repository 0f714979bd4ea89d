/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access key of a controller's Secret is in memory while it's in use, and wiped when it isn't:
 * replaced, refused, deleted, no longer needed.
 */
#include "kube_server.h"

#include "core/log.h"
#include "partition/secrets.h"
#include "wiped.h"

/* Their ends are looked for: what is freed without being wiped loses its beginning. */
static const char *const access_keys[] = {
	"an-access-key-that-is-looked-for: the first",
	"an-access-key-that-is-looked-for: the second",
	"an-access-key-that-is-looked-for: and a bad one",
};
enum { FIRST, SECOND, BAD };

static struct test_cert *ca;

static void key_is_in_memory(int which, unsigned want, const char *what)
{
	const char *end = access_keys[which] + strlen("an-access-key-that-is-");

	if (!keeps_freed)
		is_uint(places(end, strlen(end)), want, "%s", what);
}

/* Without a user: it's refused. */
static char *secret_of(int which, const char *version)
{
	CLEANUP_FREE char *key = base64_encode(access_keys[which], strlen(access_keys[which]));
	CLEANUP_FREE char *pem = base64_encode(ca->cert_pem, strlen(ca->cert_pem));

	return xasprintf("{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":"
			 "\"vipu\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"%s\"},"
			 "\"data\":{%s\"accessKey\":\"%s\",\"ca.crt\":\"%s\"}}",
			 version, which == BAD ? "" : "\"userId\":\"bWU=\",", key, pem);
}

static unsigned changes;

static void on_change(void *arg)
{
	(void)arg;
	changes++;
}

/* An event of the watch that is open, and what is made of it. */
static void hear(struct srv *srv, const char *type, int which, const char *version)
{
	CLEANUP_FREE char *secret = secret_of(which, version);
	CLEANUP_FREE char *line = xasprintf("{\"type\":\"%s\",\"object\":%s}\n", type, secret);
	unsigned before = changes;

	srv_push(srv, line, SRV_STREAM);
	ok(RUN_UNTIL(changes > before, 10), "%s", type);
	settle();
}

static const char *access_in_use(struct secrets *secrets)
{
	struct secret_view view;
	const char *complaint;
	struct err err = ERR_INIT;

	return secrets_view(secrets, "vipu", false, &view, &complaint, &err) == 0 ? view.access
										  : NULL;
}

static void test_wiped(struct srv *srv)
{
	CLEANUP_FREE char *first = secret_of(FIRST, "4");
	CLEANUP_FREE char *list = xasprintf(
		"{\"kind\":\"SecretList\",\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[%s]}",
		first);
	const struct srv_step steps[] = {
		{"GET /api/v1/namespaces/ns/secrets", 200, NULL, list, SRV_WHOLE},
		{"GET /api/v1/namespaces/ns/secrets", 200, NULL, NULL, SRV_STREAM},
	};
	struct kube_config *config = srv_config(srv, NULL);
	struct kube_client *client = client_for(config, NULL);
	struct secrets *secrets = secrets_new(client, "ns", on_change, NULL);
	struct err err = ERR_INIT;

	srv_script(srv, steps, 2, 0);
	secrets_begin(secrets);
	if (secrets_need(secrets, "vipu", &err) < 0)
		bail_out(err.msg);
	secrets_end(secrets);
	ok(RUN_UNTIL(srv->next == 2 && access_in_use(secrets), 10), "a Secret is read");
	is_str(access_in_use(secrets), access_keys[FIRST], "its key");
	key_is_in_memory(FIRST, 1, "... is in memory once");

	hear(srv, "MODIFIED", SECOND, "6");
	is_str(access_in_use(secrets), access_keys[SECOND], "another key");
	key_is_in_memory(FIRST, 0, "... for which the first is wiped");
	hear(srv, "MODIFIED", SECOND, "7");
	key_is_in_memory(SECOND, 1, "the same once more is there once");
	hear(srv, "MODIFIED", BAD, "8");
	is_str(access_in_use(secrets), access_keys[SECOND], "one that isn't any good");
	key_is_in_memory(BAD, 0, "... is wiped at once");
	hear(srv, "DELETED", SECOND, "9");
	ok(!access_in_use(secrets), "one that is deleted");
	key_is_in_memory(SECOND, 0, "... is wiped");

	hear(srv, "ADDED", FIRST, "10");
	key_is_in_memory(FIRST, 1, "one that is made again");
	secrets_begin(secrets);
	secrets_end(secrets);
	settle();
	key_is_in_memory(FIRST, 0, "... and no longer needed, is wiped");
	is_uint(srv->surprises, 0, "no other requests");
	secrets_free(secrets);
	close_client_of(srv, client, config);
}

int main(void)
{
	ca = cert_new(&(struct cert_spec){.subject = "O=test,CN=CA", .is_ca = true}, NULL);
	log_set_level(LOG_FATAL);
	test_begin();
	struct srv *srv = srv_new(NULL);
	test_wiped(srv);
	srv_free(srv);
	test_end();
	cert_free(ca);
	return done_testing();
}
