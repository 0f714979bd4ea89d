/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener's certificate from files, and what it's to be trusted by: looked at once a minute, and
 * taken into use when they have changed and are good; until then the listener keeps what it has.
 * Owns the settings. Uses net.
 */
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "kube/file.h"
#include "net/tls.h"

#define LOOK_MS 60000
/* Several files aren't replaced at one moment: so soon they are looked at once more. */
#define AGAIN_MS 2000

struct certfile {
	char *cert_path, *key_path, *ca_path; /* NULL: none */
	uint64_t cert_stamp, key_stamp;       /* of what is in use */
	struct tls_config *tls;
	char *ca_pem; /* NULL: none */
	certfile_fn *on_change;
	void *arg;
	struct loop_timer timer;
	bool failed;
};

static void wipe(char *p, size_t len)
{
	if (p)
		str_wipe(p, len);
	free(p);
}

/* Reads both files; *ret_tls stays as it is where nothing has changed. */
static int load(struct certfile *f, struct tls_config **ret_tls, struct err *err)
{
	char *cert = NULL, *key = NULL;
	size_t cert_len = 0, key_len = 0;
	uint64_t cert_stamp, key_stamp;
	struct tls_server_opts opts = {0};
	int rc = -1;

	if (!f->cert_path)
		return 0;
	if (kube_read_file(f->cert_path, &cert, &cert_len, &cert_stamp, err) < 0 ||
	    kube_read_file(f->key_path, &key, &key_len, &key_stamp, err) < 0)
		goto out;
	rc = 0;
	if (f->tls && cert_stamp == f->cert_stamp && key_stamp == f->key_stamp)
		goto out;
	opts.cert_pem = (struct str){cert, cert_len};
	opts.key_pem = (struct str){key, key_len};
	rc = tls_config_new_server(&opts, ret_tls, err);
	if (rc < 0) {
		err_wrap(err, "%s, %s", f->cert_path, f->key_path);
		goto out;
	}
	f->cert_stamp = cert_stamp;
	f->key_stamp = key_stamp;
out:
	wipe(cert, cert_len);
	wipe(key, key_len);
	return rc;
}

/* Whether the authorities' file has others than are in use; then they are. */
static int load_ca(struct certfile *f, bool *ret_changed, struct err *err)
{
	struct tls_client_opts opts = {0};
	struct tls_config *check;
	char *pem = NULL;
	size_t len = 0;

	*ret_changed = false;
	if (!f->ca_path)
		return 0;
	if (kube_read_file(f->ca_path, &pem, &len, NULL, err) < 0)
		return -1;
	if (f->ca_pem && strcmp(f->ca_pem, pem) == 0) {
		free(pem);
		return 0;
	}
	opts.ca_pem = (struct str){pem, len};
	if (!len || tls_config_new_client(&opts, &check, err) < 0) {
		free(pem);
		return len ? err_wrap(err, "%s", f->ca_path)
			   : err_set(err, ERR_INVALID, 0, "%s: is empty", f->ca_path);
	}
	tls_config_unref(check);
	free(f->ca_pem);
	f->ca_pem = pem;
	*ret_changed = true;
	return 0;
}

static const char *name_of(const struct certfile *f)
{
	return f->cert_path ? f->cert_path : f->ca_path;
}

static void take(struct certfile *f, struct tls_config *tls)
{
	struct tls_config *old = f->tls;

	if (tls)
		f->tls = tls;
	log_info("daemon", name_of(f), "%s",
		 tls ? "a new certificate is in use" : "other authorities count now");
	f->on_change(f->arg, old, f->tls);
	if (tls)
		tls_config_unref(old);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct certfile *f = arg;
	struct tls_config *tls = NULL;
	struct err err = ERR_INIT;
	bool new_ca = false, failed;

	failed = load(f, &tls, &err) < 0;
	if (!failed)
		failed = load_ca(f, &new_ca, &err) < 0;
	/* The first time it may be that they are just being replaced. */
	if (failed && f->failed)
		log_warn("daemon", name_of(f),
			 "a certificate can't be read again, the present one stays: %s", err.msg);
	loop_timer_start_in(timer, tls || new_ca || (failed && !f->failed) ? AGAIN_MS : LOOK_MS);
	f->failed = failed;
	if (tls || new_ca)
		take(f, tls);
}

int certfile_new(struct loop *loop, const char *cert_path, const char *key_path,
		 const char *ca_path, struct certfile **ret, struct err *err)
{
	struct certfile *f = xcalloc(1, sizeof(*f));
	bool new_ca;

	f->cert_path = cert_path ? xstrdup(cert_path) : NULL;
	f->key_path = key_path ? xstrdup(key_path) : NULL;
	f->ca_path = ca_path && ca_path[0] ? xstrdup(ca_path) : NULL;
	loop_timer_init(&f->timer, loop, on_timer, f);
	if (load(f, &f->tls, err) < 0 || load_ca(f, &new_ca, err) < 0) {
		certfile_free(f);
		return -1;
	}
	*ret = f;
	return 0;
}

struct tls_config *certfile_tls(const struct certfile *f)
{
	return f->tls;
}

struct str certfile_ca_pem(const struct certfile *f)
{
	return str_of(f->ca_pem);
}

void certfile_follow(struct certfile *f, certfile_fn *on_change, void *arg)
{
	f->on_change = on_change;
	f->arg = arg;
	loop_timer_start_in(&f->timer, LOOK_MS);
}

void certfile_look(struct certfile *f)
{
	if (f && f->on_change)
		loop_timer_start_in(&f->timer, 0);
}

void certfile_free(struct certfile *f)
{
	if (!f)
		return;
	loop_timer_stop(&f->timer);
	tls_config_unref(f->tls);
	free(f->cert_path);
	free(f->key_path);
	free(f->ca_path);
	free(f->ca_pem);
	free(f);
}
