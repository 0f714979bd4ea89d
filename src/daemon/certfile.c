/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener's certificate from files: looked at once a minute, and taken into use when it has
 * changed and is good; until then the listener keeps what it has. Owns the settings. Uses net,
 * http.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"
#include "net/tls.h"

#define LOOK_MS   60000
#define MAX_BYTES ((size_t)1 << 20)

struct certfile {
	char *cert_path, *key_path;
	struct buf cert, key; /* as they were read last */
	struct tls_config *tls;
	struct http_server *server;
	struct loop_timer timer;
};

static int read_file(const char *path, struct buf *ret, struct err *err)
{
	FILE *f = fopen(path, "re");
	char piece[4096];
	int rc = 0;
	size_t n;

	if (!f)
		return err_errno(err, errno, "%s", path);
	while (rc == 0 && (n = fread(piece, 1, sizeof(piece), f)) > 0)
		rc = buf_append(ret, piece, n, err);
	if (rc < 0)
		err_wrap(err, "%s", path);
	else if (ferror(f))
		rc = err_set(err, ERR_IO, 0, "%s can't be read", path);
	fclose(f);
	return rc;
}

static void wipe(struct buf *b)
{
	if (b->p)
		str_wipe(b->p, b->len);
	buf_done(b);
}

/* Reads both files; *ret_tls stays NULL where nothing has changed. */
static int load(struct certfile *f, struct tls_config **ret_tls, struct err *err)
{
	struct buf cert = BUF_INIT(MAX_BYTES), key = BUF_INIT(MAX_BYTES);
	struct tls_server_opts opts = {0};
	int rc = 0;

	if (read_file(f->cert_path, &cert, err) < 0 || read_file(f->key_path, &key, err) < 0)
		goto fail;
	if (f->tls && str_eq(buf_str(&cert), buf_str(&f->cert)) &&
	    str_eq(buf_str(&key), buf_str(&f->key)))
		goto out;
	opts.cert_pem = buf_str(&cert);
	opts.key_pem = buf_str(&key);
	if (tls_config_new_server(&opts, ret_tls, err) < 0) {
		err_wrap(err, "%s, %s", f->cert_path, f->key_path);
		goto fail;
	}
	wipe(&f->cert);
	wipe(&f->key);
	f->cert = cert;
	f->key = key;
	return 0;
fail:
	rc = -1;
out:
	wipe(&cert);
	wipe(&key);
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
	buf_init(&f->cert, MAX_BYTES);
	buf_init(&f->key, MAX_BYTES);
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
	wipe(&f->cert);
	wipe(&f->key);
	free(f->cert_path);
	free(f->key_path);
	free(f);
}
