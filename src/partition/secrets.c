/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each Secret is watched alone, by its name. A version that can't be used doesn't replace one that
 * can; a Secret that is deleted takes its values along. Owns all of it.
 */
#include "partition/secrets.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/list.h"
#include "core/log.h"
#include "core/str.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "loop/backoff.h"
#include "net/tls.h"

#define MAX_VALUE 4096 /* of user and access key: they travel with every call */

enum part { USER, ACCESS, CA, CERT, KEY, PARTS };

static const char *const part_keys[PARTS] = {SECRET_USER, SECRET_ACCESS, SECRET_CA, SECRET_CERT,
					     SECRET_KEY};

/* What a version of a Secret holds, and the TLS settings made of it. */
struct values {
	char *parts[PARTS]; /* terminated; NULL: not given */
	size_t lens[PARTS];
	struct tls_config *tls[2]; /* [insecure_skip_verify], made when first asked for */
};

struct secret {
	struct secrets *all;
	struct list link;
	char *name;
	struct kube_watch *watch; /* in scope */
	struct scope scope;
	struct loop_timer again; /* begins the watch anew, which reads the Secret once more */
	struct backoff backoff;
	bool needed, answered;
	bool there; /* this watch has seen it */
	struct values *good;
	struct err err; /* of the newest version, or of the watch; kind ERR_NONE: it's good */
};

struct secrets {
	struct kube_client *kube;
	char *ns;
	secrets_change_fn *cb;
	void *arg;
	struct list list;
	size_t n;
	struct values bare; /* of controllers without a Secret */
};

/* ---- values ---- */

static void values_done(struct values *v)
{
	for (int i = 0; i < PARTS; i++) {
		if (v->parts[i])
			str_wipe(v->parts[i], v->lens[i]);
		free(v->parts[i]);
	}
	tls_config_unref(v->tls[0]);
	tls_config_unref(v->tls[1]);
	*v = (struct values){0};
}

static void values_free(struct values *v)
{
	if (v)
		values_done(v);
	free(v);
}

static struct str part(const struct values *v, enum part i)
{
	return (struct str){v->parts[i], v->lens[i]};
}

static int make_tls(struct values *v, bool insecure, struct err *err)
{
	static const char *const alpn[] = {"h2", NULL};
	struct tls_client_opts opts = {
		.ca_pem = part(v, CA),
		.cert_pem = part(v, CERT),
		.key_pem = part(v, KEY),
		.alpn = alpn,
		.insecure_skip_verify = insecure,
	};

	if (v->tls[insecure])
		return 0;
	return tls_config_new_client(&opts, &v->tls[insecure], err);
}

static int take_part(struct values *v, enum part i, const struct json *data, struct err *err)
{
	const struct json *value = json_get(data, part_keys[i]);
	uint8_t *bytes;
	size_t len;

	if (json_type(value) != JSON_STRING)
		return 0;
	if (base64_decode(json_str(value), &bytes, &len, err) < 0)
		return err_wrap(err, "%s", part_keys[i]);
	if (i == USER || i == ACCESS) {
		/* An end of line is what `echo` and editors leave there. */
		while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
			bytes[--len] = '\0';
	}
	if (len == 0) {
		free(bytes);
		return 0;
	}
	v->parts[i] = (char *)bytes;
	v->lens[i] = len;
	return 0;
}

/* ASCII values of gRPC metadata: printable characters, no blank at either end. */
static int check_metadata(const struct values *v, enum part i, struct err *err)
{
	struct str s = part(v, i);

	if (s.len > MAX_VALUE)
		return err_set(err, ERR_INVALID, 0, "%s is longer than %d bytes", part_keys[i],
			       MAX_VALUE);
	for (size_t k = 0; k < s.len; k++) {
		bool edge = k == 0 || k == s.len - 1;

		if (s.p[k] < ' ' || s.p[k] > '~' || (edge && s.p[k] == ' '))
			return err_set(err, ERR_INVALID, 0,
				       "%s must be printable ASCII without blanks at its ends",
				       part_keys[i]);
	}
	return 0;
}

static int check_pair(const struct values *v, enum part a, enum part b, struct err *err)
{
	if (!v->parts[a] == !v->parts[b])
		return 0;
	return err_set(err, ERR_INVALID, 0, "it has %s and no %s", part_keys[v->parts[a] ? a : b],
		       part_keys[v->parts[a] ? b : a]);
}

static int read_values(const struct json *object, struct values *v, struct err *err)
{
	const struct json *data = json_get(object, "data");
	bool any = false;

	for (int i = 0; i < PARTS; i++) {
		if (take_part(v, (enum part)i, data, err) < 0)
			return -1;
		any = any || v->parts[i];
	}
	if (!any)
		return err_set(err, ERR_INVALID, 0,
			       "it has none of the keys " SECRET_USER ", " SECRET_ACCESS
			       ", " SECRET_CA ", " SECRET_CERT ", " SECRET_KEY);
	if (check_metadata(v, USER, err) < 0 || check_metadata(v, ACCESS, err) < 0 ||
	    check_pair(v, USER, ACCESS, err) < 0 || check_pair(v, CERT, KEY, err) < 0)
		return -1;
	/* One that looks at certificates, to find what is wrong with them now. */
	return make_tls(v, false, err);
}

static bool same_values(const struct values *a, const struct values *b)
{
	for (int i = 0; i < PARTS; i++) {
		if (!str_eq(part(a, (enum part)i), part(b, (enum part)i)))
			return false;
	}
	return true;
}

/* ---- one Secret ---- */

static void changed(struct secret *s)
{
	s->all->cb(s->all->arg);
}

static void set_missing(struct secret *s)
{
	values_free(s->good);
	s->good = NULL;
	err_set(&s->err, ERR_NOT_FOUND, 0, "Secret %s/%s isn't there", s->all->ns, s->name);
}

/* There was no memory to read it: no event of its own says when there is. */
static void read_again(struct secret *s, const struct err *err)
{
	loop_timer_start_in(&s->again, backoff_next_ms(&s->backoff, err));
}

static void take_object(struct secret *s, const struct json *object)
{
	struct values *v = xcalloc(1, sizeof(*v));
	struct err err = ERR_INIT;

	s->answered = true;
	if (read_values(object, v, &err) < 0) {
		err_wrap(&err, "Secret %s/%s", s->all->ns, s->name);
		s->err = err;
		values_free(v);
		if (err_is_no_memory(&err))
			read_again(s, &err);
		return;
	}
	backoff_reset(&s->backoff);
	s->err = (struct err)ERR_INIT;
	if (s->good && same_values(s->good, v)) {
		values_free(v); /* the TLS settings stay the same object: no new connections */
		return;
	}
	if (s->good)
		log_info("partition", s->name,
			 "the Secret has changed: it counts from the next "
			 "call on");
	values_free(s->good);
	s->good = v;
}

static void on_event(void *arg, const struct kube_watch_event *event)
{
	struct secret *s = arg;

	s->there = event->type != KUBE_DELETED;
	if (!s->there)
		set_missing(s);
	else
		take_object(s, event->object);
	if (s->answered)
		changed(s);
}

static void on_synced(void *arg)
{
	struct secret *s = arg;

	if (s->there || (s->answered && s->err.kind == ERR_NOT_FOUND))
		return;
	s->answered = true;
	set_missing(s);
	changed(s);
}

/* Its bytes came, but not as JSON. */
static void on_bad(void *arg, struct str ns, struct str name, const struct err *err)
{
	struct secret *s = arg;

	(void)ns;
	(void)name;
	s->there = true;
	read_again(s, err);
}

/* Why it can't be read yet; later on what was read goes on to serve. */
static void on_state(void *arg)
{
	struct secret *s = arg;
	struct kube_watch_status st;

	kube_watch_status(s->watch, &st);
	if (s->answered || st.err.kind == ERR_NONE)
		return;
	s->err = st.err;
	err_wrap(&s->err, "Secret %s/%s can't be read", s->all->ns, s->name);
	changed(s);
}

static void start_watch(struct secret *s)
{
	static const struct kube_watch_ops ops = {.on_event = on_event,
						  .on_synced = on_synced,
						  .on_bad = on_bad,
						  .on_state = on_state};
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", s->name);
	struct kube_watch_opts opts = {
		.resource = &KUBE_SECRETS, .ns = s->all->ns, .field_selector = selector};

	s->there = false;
	s->watch = kube_watch_start(s->all->kube, &opts, &ops, s, &s->scope);
}

static void on_again(struct loop_timer *timer, void *arg)
{
	struct secret *s = arg;

	(void)timer;
	scope_cancel(&s->scope);
	start_watch(s);
}

static void start_secret(struct secrets *all, const char *name)
{
	struct secret *s = xcalloc(1, sizeof(*s));

	s->all = all;
	s->name = xstrdup(name);
	s->needed = true;
	s->backoff = (struct backoff)BACKOFF_INIT(1000, 60000);
	err_set(&s->err, ERR_UNAVAILABLE, 0, "Secret %s/%s hasn't been read yet", all->ns, name);
	scope_init(&s->scope);
	loop_timer_init(&s->again, kube_client_loop(all->kube), on_again, s);
	list_append(&all->list, &s->link);
	all->n++;
	start_watch(s);
}

static void free_secret(struct secret *s)
{
	loop_timer_stop(&s->again);
	scope_cancel(&s->scope);
	list_unlink(&s->link);
	s->all->n--;
	values_free(s->good);
	free(s->name);
	free(s);
}

static struct secret *find(const struct secrets *all, const char *name)
{
	LIST_FOREACH(pos, tmp, &all->list) {
		struct secret *s = CONTAINER_OF(pos, struct secret, link);

		if (strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

/* ---- the interface ---- */

struct secrets *secrets_new(struct kube_client *kube, const char *ns, secrets_change_fn *cb,
			    void *arg)
{
	struct secrets *all = xcalloc(1, sizeof(*all));

	all->kube = kube;
	all->ns = xstrdup(ns);
	all->cb = cb;
	all->arg = arg;
	list_init(&all->list);
	return all;
}

void secrets_free(struct secrets *all)
{
	if (!all)
		return;
	LIST_FOREACH(pos, tmp, &all->list)
		free_secret(CONTAINER_OF(pos, struct secret, link));
	values_done(&all->bare);
	free(all->ns);
	free(all);
}

void secrets_begin(struct secrets *all)
{
	LIST_FOREACH(pos, tmp, &all->list)
		CONTAINER_OF(pos, struct secret, link)->needed = false;
}

int secrets_need(struct secrets *all, const char *name, struct err *err)
{
	struct secret *s = find(all, name);

	if (s) {
		s->needed = true;
		return 0;
	}
	if (all->n == SECRETS_MAX)
		return err_set(err, ERR_LIMIT, 0, "more than %d Secrets are named", SECRETS_MAX);
	start_secret(all, name);
	return 0;
}

void secrets_end(struct secrets *all)
{
	LIST_FOREACH(pos, tmp, &all->list) {
		struct secret *s = CONTAINER_OF(pos, struct secret, link);

		if (!s->needed)
			free_secret(s);
	}
}

int secrets_view(struct secrets *all, const char *name, bool insecure_skip_verify,
		 struct secret_view *ret, const char **ret_complaint, struct err *err)
{
	struct secret *s = name[0] ? find(all, name) : NULL;
	struct values *v = s ? s->good : &all->bare;

	*ret_complaint = NULL;
	if (name[0] && !s)
		return err_set(err, ERR_LIMIT, 0, "Secret %s isn't read: there are too many", name);
	if (!v)
		return err_copy(err, &s->err);
	if (make_tls(v, insecure_skip_verify, err) < 0)
		return -1;
	*ret = (struct secret_view){v->tls[insecure_skip_verify], v->parts[USER], v->parts[ACCESS]};
	if (s && s->err.kind != ERR_NONE)
		*ret_complaint = s->err.msg;
	return 0;
}
