/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener's certificate from files: looked at once a minute, and taken into use when it has
 * changed and is good; until then the listener keeps what it has. Owns the settings. Uses net,
 * http.
 */
#include <stdlib.h>

#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "kube/file.h"
#include "net/tls.h"

#define LOOK_MS 60000

struct certfile {
	char *cert_path, *key_path;
	uint64_t cert_stamp, key_stamp; /* of what is in use */
	struct tls_config *tls;
	struct http_server *server;
	struct loop_timer timer;
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

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct certfile *f = arg;
	struct tls_config *tls = NULL;
	struct err err = ERR_INIT;

	if (load(f, &tls, &err) < 0) {
		log_warn("daemon", f->cert_path,
			 "a certificate can't be read again, the present one stays: %s", err.msg);
	} else if (tls) {
		http_server_switch_tls(f->server, f->tls, tls);
		tls_config_unref(f->tls);
		f->tls = tls;
		log_info("daemon", f->cert_path, "a new certificate is in use");
	}
	loop_timer_start_in(timer, LOOK_MS);
}

int certfile_new(struct loop *loop, const char *cert_path, const char *key_path,
		 struct certfile **ret, struct err *err)
{
	struct certfile *f = xcalloc(1, sizeof(*f));

	f->cert_path = xstrdup(cert_path);
	f->key_path = xstrdup(key_path);
	loop_timer_init(&f->timer, loop, on_timer, f);
	if (load(f, &f->tls, err) < 0) {
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

void certfile_follow(struct certfile *f, struct http_server *server)
{
	f->server = server;
	loop_timer_start_in(&f->timer, LOOK_MS);
}

void certfile_free(struct certfile *f)
{
	if (!f)
		return;
	loop_timer_stop(&f->timer);
	tls_config_unref(f->tls);
	free(f->cert_path);
	free(f->key_path);
	free(f);
}
