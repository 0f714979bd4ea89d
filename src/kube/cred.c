/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials and their rotation. A file that can't be read any more leaves the old ones in force,
 * because kubelets replace files in steps. Owns the current TLS settings and token, and wipes them.
 */
#include "cred.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/list.h"
#include "core/log.h"
#include "exec_config.h"
#include "http/message.h"
#include "loop/backoff.h"

#define RETRY_STAT_MS 5000  /* after a file that couldn't be read */
#define EARLY_MS      60000 /* a plugin's credentials are renewed so long before they expire */
#define EXEC_PAUSE_MS 5000  /* a 401 makes the plugin run again only so long after its last run */

struct waiter {
	struct op op;
	struct list link;
	struct kube_cred *cred;
	kube_cred_fn *cb;
	void *arg;
};

struct kube_cred {
	struct loop *loop;
	const struct kube_config *config;
	struct kube_exec_helper *helper;

	struct tls_config *tls;
	char *authorization;
	unsigned generation;

	uint64_t stamps[4]; /* of ca, cert, key and token when they were read */
	int64_t next_stat_ms;
	struct log_limit quiet;

	struct kube_exec_credential plugin; /* what it gave last */
	bool have_plugin, stale;            /* stale: refused with 401 */
	int64_t ran_ms;
	struct op *running;
	struct list waiters;
	struct backoff backoff;
	int64_t not_before_ms; /* after a failed run */
	struct err failure;
};

/* ---- files ---- */

struct loaded {
	char *p; /* NULL: not given */
	size_t len;
	bool owned;
};

static void loaded_done(struct loaded *l)
{
	if (!l->owned)
		return;
	str_wipe(l->p, l->len);
	free(l->p);
}

static int load(const struct kube_material *m, struct loaded *ret, uint64_t *ret_stamp,
		struct err *err)
{
	*ret = (struct loaded){.p = m->data, .len = m->len};
	if (m->data || !m->path)
		return 0;
	if (kube_read_file(m->path, &ret->p, &ret->len, ret_stamp, err) < 0)
		return -1;
	ret->owned = true;
	return 0;
}

static struct str loaded_str(const struct loaded *l)
{
	return (struct str){l->p, l->len};
}

static int make_tls(struct kube_cred *c, struct tls_config **ret, uint64_t stamps[4],
		    struct err *err)
{
	static const char *const alpn[] = {"h2", "http/1.1", NULL};
	const char *const *offered = c->config->http1 ? alpn + 1 : alpn;
	const struct kube_config *cfg = c->config;
	struct loaded ca = {.p = NULL}, cert = {.p = NULL}, key = {.p = NULL};
	int rc = 0;
	if (load(&cfg->ca, &ca, &stamps[0], err) < 0 ||
	    load(&cfg->cert, &cert, &stamps[1], err) < 0 ||
	    load(&cfg->key, &key, &stamps[2], err) < 0) {
		rc = -1;
	} else {
		struct tls_client_opts opts = {
			.ca_pem = loaded_str(&ca),
			.cert_pem = loaded_str(&cert),
			.key_pem = loaded_str(&key),
			.alpn = offered,
			.insecure_skip_verify = cfg->insecure,
		};
		if (!cert.p && c->have_plugin && c->plugin.cert) {
			opts.cert_pem = str_of(c->plugin.cert);
			opts.key_pem = str_of(c->plugin.key);
		}
		rc = tls_config_new_client(&opts, ret, err);
	}
	loaded_done(&ca);
	loaded_done(&cert);
	loaded_done(&key);
	return rc;
}

/* The token as it should be sent; *ret NULL: none. */
static int read_token(struct kube_cred *c, char **ret, uint64_t *ret_stamp, struct err *err)
{
	const struct kube_material *m = &c->config->token;
	CLEANUP_FREE char *bytes = NULL;
	struct err why = ERR_INIT;
	size_t len = 0;
	struct str token = {m->data, m->len};
	if (m->path) {
		int rc = kube_read_file(m->path, &bytes, &len, ret_stamp, &why);
		if (rc < 0 && !m->data)
			return err_copy(err, &why);
		if (rc == 0)
			token = str_trim((struct str){bytes, len});
	} else if (c->have_plugin && c->plugin.token) {
		token = str_of(c->plugin.token);
	}
	int rc = 0;
	*ret = NULL;
	if (token.p && !kube_is_token(token))
		rc = err_set(err, ERR_INVALID, 0, "%s holds no token", m->path ? m->path : "token");
	else if (token.p)
		*ret = http_bearer(token);
	if (bytes)
		str_wipe(bytes, len);
	return rc;
}

static void drop_authorization(struct kube_cred *c)
{
	if (c->authorization)
		str_wipe(c->authorization, strlen(c->authorization));
	free(c->authorization);
	c->authorization = NULL;
}

/* Reads everything; on failure nothing changes. */
static int reload(struct kube_cred *c, struct err *err)
{
	uint64_t stamps[4] = {0};
	struct tls_config *tls = NULL;
	char *authorization;
	if (c->config->url.tls && make_tls(c, &tls, stamps, err) < 0)
		return -1;
	if (read_token(c, &authorization, &stamps[3], err) < 0) {
		tls_config_unref(tls);
		return -1;
	}
	/* Connections are shared by TLS settings: keep them where nothing but the token changed. */
	bool same_tls = c->tls && memcmp(stamps, c->stamps, 3 * sizeof(stamps[0])) == 0 &&
			!(c->have_plugin && c->plugin.cert);
	if (same_tls) {
		tls_config_unref(tls);
	} else {
		tls_config_unref(c->tls);
		c->tls = tls;
	}
	drop_authorization(c);
	c->authorization = authorization;
	memcpy(c->stamps, stamps, sizeof(stamps));
	c->generation++;
	return 0;
}

static bool files_changed(const struct kube_cred *c)
{
	const struct kube_material *const all[] = {&c->config->ca, &c->config->cert,
						   &c->config->key, &c->config->token};
	for (size_t i = 0; i < 4; i++) {
		uint64_t stamp;
		if (!all[i]->path || (all[i]->data && i != 3) ||
		    kube_stat_file(all[i]->path, &stamp) < 0)
			continue;
		if (stamp != c->stamps[i])
			return true;
	}
	return false;
}

static void look_at_files(struct kube_cred *c)
{
	struct err err = ERR_INIT;
	int64_t now = clock_mono_ms();
	if (now < c->next_stat_ms)
		return;
	c->next_stat_ms = now + KUBE_CRED_STAT_MS;
	if (!files_changed(c))
		return;
	if (reload(c, &err) == 0) {
		log_info("kube", NULL, "credentials changed and were read again");
		return;
	}
	c->next_stat_ms = now + RETRY_STAT_MS;
	if (log_limit_ok(&c->quiet, 60000))
		log_warn("kube", NULL, "changed credentials can't be read, the old ones stay: %s",
			 err.msg);
}

/* ---- the plugin ---- */

static void wake(struct kube_cred *c)
{
	/* One by one: a callback may cancel others, or wait anew. */
	struct list now = LIST_INIT(now);
	while (!list_empty(&c->waiters)) {
		struct list *first = c->waiters.next;
		list_unlink(first);
		list_append(&now, first);
	}
	while (!list_empty(&now)) {
		struct waiter *w = CONTAINER_OF(now.next, struct waiter, link);
		list_unlink(&w->link);
		if (!op_end(&w->op))
			continue;
		loop_reap(c->loop, w, free);
		w->cb(w->arg);
	}
}

static int take_plugin_output(struct kube_cred *c, struct str output, struct err *err)
{
	struct kube_exec_credential fresh, old = c->plugin;
	bool had = c->have_plugin;
	if (kube_exec_credential_parse(c->config->exec, output, &fresh, err) < 0)
		return -1;
	c->plugin = fresh;
	c->have_plugin = true;
	if (reload(c, err) < 0) {
		kube_exec_credential_done(&c->plugin);
		c->plugin = old;
		c->have_plugin = had;
		return err_wrap(err, "what the credential plugin gave");
	}
	kube_exec_credential_done(&old);
	return 0;
}

static void on_plugin(void *arg, const struct err *failure, const char *output, size_t len)
{
	struct kube_cred *c = arg;
	struct err err = ERR_INIT;
	c->running = NULL;
	c->ran_ms = clock_mono_ms();
	if (failure)
		err = *failure;
	if (failure || take_plugin_output(c, (struct str){output, len}, &err) < 0) {
		c->failure = err;
		/* Nobody can mend it by asking again at once, but a login may end it. */
		c->failure.kind = err.kind == ERR_INVALID ? ERR_DENIED : err.kind;
		c->not_before_ms = c->ran_ms + backoff_next_ms(&c->backoff, NULL);
		log_warn("kube", NULL, "no credentials: %s", err.msg);
	} else {
		c->stale = false;
		c->failure = (struct err)ERR_INIT;
		backoff_reset(&c->backoff);
	}
	wake(c);
}

static bool plugin_is_good(const struct kube_cred *c, int64_t early_ms)
{
	return c->have_plugin && !c->stale &&
	       (c->plugin.expires_wall_ms == INT64_MAX ||
		c->plugin.expires_wall_ms - early_ms > clock_wall_ms());
}

static enum kube_cred_state look_at_plugin(struct kube_cred *c, struct err *err)
{
	if (!c->config->exec || plugin_is_good(c, EARLY_MS))
		return KUBE_CRED_READY;
	int64_t now = clock_mono_ms();
	/* What it has just given is used whatever it says of its end: it may live for less than the
	 * margin, or the clocks may differ, and running it again would change nothing. */
	if (c->have_plugin && !c->stale && now - c->ran_ms < EXEC_PAUSE_MS)
		return KUBE_CRED_READY;
	if (!c->running && now < c->not_before_ms) {
		if (plugin_is_good(c, 0))
			return KUBE_CRED_READY;
		err_copy(err, &c->failure);
		return KUBE_CRED_FAILED;
	}
	if (!c->running)
		c->running = kube_exec_start(c->helper, c->loop, 0, on_plugin, c, NULL);
	return KUBE_CRED_PENDING;
}

static void on_waiter_cancel(struct op *op)
{
	struct waiter *w = CONTAINER_OF(op, struct waiter, op);
	list_unlink(&w->link);
	loop_reap(w->cred->loop, w, free);
}

struct op *kube_cred_wait_start(struct kube_cred *c, kube_cred_fn *cb, void *arg,
				struct scope *scope)
{
	struct waiter *w = xcalloc(1, sizeof(*w));
	w->cred = c;
	w->cb = cb;
	w->arg = arg;
	op_begin(&w->op, scope, on_waiter_cancel);
	list_append(&c->waiters, &w->link);
	return &w->op;
}

/* ---- for the client ---- */

enum kube_cred_state kube_cred_get(struct kube_cred *c, struct kube_auth *ret, struct err *err)
{
	enum kube_cred_state state = look_at_plugin(c, err);
	if (state != KUBE_CRED_READY)
		return state;
	look_at_files(c);
	*ret = (struct kube_auth){
		.tls = c->tls,
		.authorization = str_of(c->authorization),
		.generation = c->generation,
	};
	return KUBE_CRED_READY;
}

struct str kube_cred_token(const struct kube_cred *c)
{
	return http_bearer_token(c->authorization);
}

void kube_cred_refused(struct kube_cred *c, unsigned generation)
{
	if (generation != c->generation)
		return;
	c->next_stat_ms = 0;
	if (c->config->exec && clock_mono_ms() - c->ran_ms >= EXEC_PAUSE_MS)
		c->stale = true;
}

int kube_cred_new(struct loop *loop, const struct kube_config *config,
		  struct kube_exec_helper *helper, struct kube_cred **ret, struct err *err)
{
	if (config->exec && !helper)
		return err_set(err, ERR_INVALID, 0,
			       "%s: its credential plugin needs the helper process",
			       config->source);
	struct kube_cred *c = xcalloc(1, sizeof(*c));
	c->loop = loop;
	c->config = config;
	c->helper = helper;
	c->backoff = (struct backoff)BACKOFF_INIT(1000, 60000);
	list_init(&c->waiters);
	if (reload(c, err) < 0) {
		kube_cred_free(c);
		err_wrap(err, "%s", config->source);
		if (err)
			err->kind = ERR_INVALID;
		return -1;
	}
	c->next_stat_ms = clock_mono_ms() + KUBE_CRED_STAT_MS;
	*ret = c;
	return 0;
}

void kube_cred_free(struct kube_cred *c)
{
	if (!c)
		return;
	op_cancel(c->running);
	tls_config_unref(c->tls);
	drop_authorization(c);
	kube_exec_credential_done(&c->plugin);
	free(c);
}
