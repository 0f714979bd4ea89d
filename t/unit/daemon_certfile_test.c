/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A key's file is read and read again, and its text is wiped each time: whether it's taken, is the
 * one that is known, or no good.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cert/set.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "daemon/internal.h"
#include "wiped.h"

static char dir[] = "/tmp/daemon-certfile-XXXXXX";
static char *cert_path, *key_path;
static struct loop *loop;
static struct cert_set made[2];
static unsigned own[2]; /* places of their keys' text that are the test's */
static unsigned taken;

/* A part from the middle: what is freed without being wiped loses its beginning. */
static unsigned places_of(size_t i)
{
	return places(made[i].tls_key + 80, 40);
}

static void no_key_is_left(const char *what)
{
	for (size_t i = 0; i < 2 && !keeps_freed; i++)
		is_uint(places_of(i), own[i], "%s: the text of key %zu is wiped", what, i);
}

static void write_files(const char *cert_pem, const char *key_pem)
{
	struct err err = ERR_INIT;

	if (file_replace(cert_path, str_of(cert_pem), 0600, &err) < 0 ||
	    file_replace(key_path, str_of(key_pem), 0600, &err) < 0)
		bail_out(err.msg);
}

static void on_change(void *arg, const struct tls_config *from, struct tls_config *to)
{
	(void)arg;
	taken += from != to;
}

/* A look at the files a minute later, and once more. */
static void look(const char *what, unsigned want)
{
	unsigned before = taken;

	for (int i = 0; i < 2; i++) {
		clock_advance(60000);
		loop_turn(loop, 0);
	}
	is_uint(taken - before, want, "%s", what);
	no_key_is_left(what);
}

static void test_wiped(void)
{
	struct err err = ERR_INIT;
	struct certfile *f = NULL;

	write_files(made[0].tls, made[0].tls_key);
	is_int(certfile_new(loop, cert_path, key_path, NULL, &f, &err), 0, "files that are good");
	no_key_is_left("read");
	certfile_follow(f, on_change, NULL);
	look("no others", 0);
	write_files(made[1].tls, made[1].tls_key);
	look("others", 1);
	write_files(made[0].tls, made[1].tls_key);
	look("another's key", 0);
	unlink(cert_path);
	look("a key without its certificate", 0);
	certfile_free(f);

	write_files("no certificate", made[1].tls_key);
	is_int(certfile_new(loop, cert_path, key_path, NULL, &f, &err), -1, "files that are bad");
	no_key_is_left("refused");
}

static void make(struct cert_set *ret)
{
	const struct cert_set none = {0};
	struct cert_policy policy = {0};
	struct cert_names names = {0};
	struct cert_judgement j;
	struct err err = ERR_INIT;

	cert_policy_fill(&policy);
	if (cert_names_add(&names, STR("localhost"), &err) < 0)
		bail_out(err.msg);
	cert_judge(&none, &names, &policy, clock_wall_ms(), &j);
	if (cert_renew(&none, &j, &names, &policy, clock_wall_ms(), ret, &err) < 0)
		bail_out(err.msg);
	cert_names_done(&names);
}

int main(void)
{
	struct err err = ERR_INIT;

	log_set_level(LOG_FATAL);
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	if (!mkdtemp(dir))
		bail_out("no folder for the test's files");
	cert_path = xasprintf("%s/tls.crt", dir);
	key_path = xasprintf("%s/tls.key", dir);
	for (size_t i = 0; i < 2; i++)
		make(&made[i]);
	for (size_t i = 0; i < 2 && !keeps_freed; i++)
		own[i] = places_of(i);
	test_wiped();
	unlink(cert_path);
	unlink(key_path);
	rmdir(dir);
	free(cert_path);
	free(key_path);
	for (size_t i = 0; i < 2; i++)
		cert_set_done(&made[i]);
	loop_free(loop);
	return done_testing();
}
