/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhooks' registration: by which certificates they are trusted (the operator's own, or the
 * administrator's files), and the keeper of the API's objects, begun once the listener serves.
 */
#include <string.h>

#include "core/log.h"
#include "core/str.h"
#include "daemon/internal.h"

static void fill_bundle(void *arg, struct admission_bundle *ret)
{
	struct daemon *d = arg;

	if (d->webhook_files) {
		ret->known = true;
		ret->shared = true;
		ret->ca_pem = certfile_ca_pem(d->webhook_files);
	} else {
		ret->known = d->own_tls != NULL;
		ret->shared = cert_is_shared(d->cert);
		ret->ca_pem = cert_ca_pem(d->cert);
	}
}

/* Files without an authority: the administrator looks after the API's objects, unless they are
 * ours altogether. */
static bool is_kept(const struct daemon *d)
{
	return d->config->webhook_listen[0] &&
	       (!d->webhook_files || d->config->webhook_ca[0] || d->config->webhook_url[0]);
}

/* webhook.url; where the listener takes any port, and the URL names none, with the one that it got.
 */
static char *reachable_url(const struct daemon *d)
{
	const char *url = d->config->webhook_url;
	size_t end = strlen("https://");
	bool has_port = false;

	if (!url[0] || !str_has_suffix(str_of(d->config->webhook_listen), STR(":0")))
		return xstrdup(url);
	for (; url[end] && url[end] != '/'; end++)
		has_port = url[end] == ':' || (has_port && url[end] != ']');
	if (has_port)
		return xstrdup(url);
	return xasprintf("%.*s:%u%s", (int)end, url, webhook_port(d->webhook), url + end);
}

void register_changed(struct daemon *d)
{
	const struct config *c = d->config;
	CLEANUP_FREE char *url = reachable_url(d);
	struct admission_registration_opts opts = {
		.mutating = c->webhook_mutating,
		.validating = c->webhook_validating,
		.webhooks =
			{
				.url = url,
				.ns = d->ns,
				.scope = c->webhook_scope,
				.failure_policy = c->webhook_failure_policy,
				.timeout_s = (unsigned)c->webhook_timeout_s,
			},
		.bundle = fill_bundle,
		.bundle_arg = d,
		.lag_ms = d->webhook_files ? ADMISSION_FILE_LAG_MS : 0,
	};

	if (d->registration)
		admission_registration_changed(d->registration);
	else if (is_kept(d))
		d->registration = admission_registration_new(d->kube, &opts);
}

static void on_files(void *arg, const struct tls_config *from, struct tls_config *to)
{
	struct daemon *d = arg;
	struct err err = ERR_INIT;

	if (from != to && webhook_serve(d, to, &err) < 0)
		log_error("daemon", NULL, "%s", err.msg);
	register_changed(d);
}

int register_open(struct daemon *d, struct err *err)
{
	const struct config *c = d->config;

	if (!d->webhook || !c->webhook_cert[0])
		return 0;
	if (certfile_new(d->loop, c->webhook_cert, c->webhook_key, c->webhook_ca, &d->webhook_files,
			 err) < 0 ||
	    webhook_serve(d, certfile_tls(d->webhook_files), err) < 0)
		return -1;
	certfile_follow(d->webhook_files, on_files, d);
	register_changed(d);
	return 0;
}

bool register_ready(const struct daemon *d, struct err *why)
{
	if (!d->registration || admission_registration_ready(d->registration, why))
		return true;
	err_wrap(why, "webhook");
	return false;
}

bool register_fails_closed(const struct daemon *d)
{
	return d->registration && admission_registration_fails_closed(d->registration);
}

void register_again(struct daemon *d)
{
	if (!d->registration)
		return;
	admission_registration_free(d->registration);
	d->registration = NULL;
	register_changed(d);
}

void register_stop(struct daemon *d)
{
	admission_registration_free(d->registration);
	certfile_free(d->webhook_files);
}
