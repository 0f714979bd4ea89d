/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seats: what owners ask of the proxy, what the tracker and the proxy say of it, and who is to be
 * told. Requests are remote_call.c's.
 */
#include "partition/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "net/tls.h"
#include "remote_impl.h"

#define MAX_BUSY      8 /* requests at a time */
#define SEAT_KEY_SIZE 300

/* ---- seats ---- */

static struct str seat_key(const char *uid, uint32_t instance, char ret_z[SEAT_KEY_SIZE])
{
	snprintf(ret_z, SEAT_KEY_SIZE, "%" PRIu32 "/%s", instance, uid);
	return str_of(ret_z);
}

static struct seat *find_seat(const struct partition_remote *r, const char *uid, uint32_t instance)
{
	char key[SEAT_KEY_SIZE];

	return map_get(r->seats, seat_key(uid, instance, key));
}

static struct keeper *find_keeper(const struct partition_remote *r, const char *uid)
{
	return map_get(r->keepers, str_of(uid));
}

static struct keeper *need_keeper(struct partition_remote *r, const char *uid)
{
	struct keeper *k = find_keeper(r, uid);
	size_t len = strlen(uid);

	if (k)
		return k;
	k = xcalloc(1, sizeof(*k) + len + 1);
	memcpy(k->uid, uid, len);
	list_init(&k->seats);
	map_put_borrowed(r->keepers, str_of(k->uid), k);
	return k;
}

static struct seat *need_seat(struct partition_remote *r, const struct partition_ask *ask)
{
	struct seat *s = find_seat(r, ask->owner.uid, ask->instance);
	char key[SEAT_KEY_SIZE];

	if (s)
		return s;
	s = xcalloc(1, sizeof(*s));
	s->r = r;
	partition_ask_copy(&s->ask, ask);
	s->backoff = (struct backoff)BACKOFF_INIT(1000, 60000);
	list_init(&s->due);
	list_init(&s->changed);
	s->keeper = need_keeper(r, ask->owner.uid);
	list_append(&s->keeper->seats, &s->link);
	map_put(r->seats, seat_key(ask->owner.uid, ask->instance, key), s);
	return s;
}

void seat_forget_status(struct seat *s)
{
	free(s->id);
	free(s->controller);
	free(s->host);
	free(s->label_key);
	free(s->label_value);
	s->id = s->controller = s->host = s->label_key = s->label_value = NULL;
	s->status = (struct partition_status){0};
	s->has_status = false;
}

static void free_seat(struct seat *s)
{
	char key[SEAT_KEY_SIZE];

	map_del(s->r->seats, seat_key(s->ask.owner.uid, s->ask.instance, key));
	list_unlink(&s->link);
	if (list_empty(&s->keeper->seats)) {
		map_del(s->r->keepers, str_of(s->keeper->uid));
		free(s->keeper);
	}
	list_unlink(&s->due);
	list_unlink(&s->changed);
	seat_forget_status(s);
	json_doc_free(s->files);
	partition_ask_done(&s->ask);
	free(s);
}

void seat_touch(struct seat *s)
{
	if (list_empty(&s->due))
		list_append(&s->r->due, &s->due);
	loop_work_post(&s->r->work);
}

void seat_changed(struct seat *s)
{
	if (list_empty(&s->changed))
		list_append(&s->r->changed, &s->changed);
	loop_work_post(&s->r->work);
}

/* ---- what isn't in the tracker ---- */

static void look_at(struct partition_remote *r, int64_t mono_ms)
{
	if (!loop_timer_active(&r->look_timer) || r->look_timer.at_ms > mono_ms)
		loop_timer_start_at(&r->look_timer, mono_ms);
}

static void look_later(struct seat *s)
{
	bool soon = s->status.state == PARTITION_STATE_CREATING ||
		    s->status.state == PARTITION_STATE_RESETTING;

	s->look_ms = clock_mono_ms() + (soon ? SEAT_SOON_MS : SEAT_LATE_MS);
	look_at(s->r, s->look_ms);
}

static void on_look_timer(struct loop_timer *timer, void *arg)
{
	struct partition_remote *r = arg;
	struct map_iter it = MAP_ITER(r->seats);
	int64_t now_ms = clock_mono_ms();

	(void)timer;
	while (map_next(&it)) {
		struct seat *s = it.value;

		if (!s->wanted || !s->look_ms)
			continue;
		if (s->look_ms > now_ms) {
			look_at(r, s->look_ms);
			continue;
		}
		s->look_ms = 0; /* the answer sets it anew */
		s->stale = true;
		seat_touch(s);
	}
}

/* ---- what the proxy says ---- */

static char *text_of(const struct json *object, const char *key)
{
	struct str s = json_str(json_get(object, key));

	return s.len ? str_dup(s) : NULL;
}

static int take_state(struct str name, enum partition_state *ret, struct err *err)
{
	for (int k = PARTITION_STATE_NONE; k <= PARTITION_STATE_RELEASING; k++) {
		if (str_eqz(name, partition_state_name((enum partition_state)k))) {
			*ret = (enum partition_state)k;
			return 0;
		}
	}
	return err_set(err, ERR_PROTOCOL, 0, "the proxy's answer has no state that is known");
}

/* One that nobody can mean is 0. */
static uint32_t number_of(const struct json *object, const char *key, uint32_t max)
{
	int64_t n = json_int(json_get(object, key), 0);

	return n > 0 && n <= max ? (uint32_t)n : 0;
}

int seat_take_status(struct seat *s, const struct json *object, struct err *err)
{
	struct partition_status st = {0};
	struct str label = json_str(json_get(object, "label")), key, value;

	if (take_state(json_str(json_get(object, "state")), &st.state, err) < 0)
		return -1;
	/* A reason of a later version's is none that we could act on. */
	(void)partition_why_parse(json_str(json_get(object, "reason")), &st.why, NULL);
	snprintf(st.message, sizeof(st.message), "%.*s",
		 STR_ARG(json_str(json_get(object, "message"))));
	st.by_file = json_bool(json_get(object, "byFile"), false);
	st.deadline_ms = (int64_t)number_of(object, "limitSeconds", INT32_MAX) * 1000;
	st.draining = json_bool(json_get(object, "draining"), false);
	st.adopting = json_bool(json_get(object, "adopting"), false);
	st.adopted = json_bool(json_get(object, "adopted"), false);
	st.position = number_of(object, "position", UINT32_MAX);
	s->ask.attempt = number_of(object, "attempt", UINT32_MAX);
	st.wanted_attempt = json_get(object, "wantedAttempt")
				    ? number_of(object, "wantedAttempt", UINT32_MAX)
				    : s->ask.attempt;
	st.resets = number_of(object, "resets", UINT32_MAX);
	st.port = (uint16_t)number_of(object, "port", UINT16_MAX);
	st.files = strtoull(json_cstr(json_get(object, "files")) ?: "0", NULL, 16);
	(void)clock_parse(json_str(json_get(object, "since")), &st.since_ms, NULL);
	seat_forget_status(s);
	s->id = text_of(object, "id");
	s->controller = text_of(object, "controller");
	s->host = text_of(object, "host");
	if (str_cut(label, '=', &key, &value)) {
		s->label_key = str_dup(key);
		s->label_value = str_dup(value);
	}
	s->status = st;
	s->has_status = true;
	s->files_stale = st.files && st.files != s->files_read;
	look_later(s);
	seat_changed(s);
	return 0;
}

/* ---- what owners are told ---- */

static void fill_status(const struct seat *s, struct partition_status *ret)
{
	const struct err *err = &s->r->err;

	*ret = s->status;
	ret->ask = s->wanted ? &s->ask : NULL;
	ret->wanted_attempt = !s->wanted                  ? 0
			      : s->taken && s->has_status ? s->status.wanted_attempt
							  : s->attempt;
	ret->id = s->id;
	ret->controller = s->controller;
	ret->host = s->host;
	ret->label_key = s->label_key;
	ret->label_value = s->label_value;
	if (s->files_stale)
		ret->files = 0; /* they come */
	if (!s->wanted) {
		ret->state = s->held ? PARTITION_STATE_RELEASING : PARTITION_STATE_NONE;
		ret->id = NULL;
	} else if (!s->has_status || ret->state == PARTITION_STATE_RELEASING) {
		ret->state = PARTITION_STATE_WAITING;
		ret->why = PARTITION_WHY_STARTING;
		ret->id = NULL;
		snprintf(ret->message, sizeof(ret->message),
			 "the proxy hasn't answered to what is asked for");
	} else if (s->ask.attempt != ret->wanted_attempt && ret->state == PARTITION_STATE_ACTIVE) {
		ret->state = PARTITION_STATE_RESETTING; /* what is there is for another run */
	}
	if (err->kind != ERR_NONE && ret->state != PARTITION_STATE_ACTIVE) {
		ret->why = PARTITION_WHY_PROXY;
		snprintf(ret->message, sizeof(ret->message), "the proxy can't be asked: %.200s",
			 err->msg);
	}
}

static void tell(struct partition_remote *r)
{
	struct list now = LIST_INIT(now);

	LIST_FOREACH(pos, tmp, &r->changed) {
		list_unlink(pos);
		list_append(&now, pos);
	}
	while (!list_empty(&now)) {
		struct seat *s = CONTAINER_OF(now.next, struct seat, changed);
		struct partition_owner who;

		list_unlink(&s->changed);
		partition_owner_copy(&who, &s->ask.owner);
		if (!s->wanted && !s->leaving && !s->held && !s->calling && s->keys == 0)
			free_seat(s);
		r->on_change(&who, r->arg);
		partition_owner_done(&who);
	}
}

/* ---- asking ---- */

static void ask_due(struct partition_remote *r)
{
	int64_t now_ms = clock_mono_ms(), next_ms = 0;
	struct list later = LIST_INIT(later);

	if (r->may_act && !r->may_act(r->arg))
		return; /* whoever leads now speaks for the owners */
	if (r->secure && !r->origin.tls && !list_empty(&r->due)) {
		err_set(&r->err, ERR_UNAVAILABLE, 0, "its certificate authority isn't known yet");
		return;
	}
	while (!list_empty(&r->due) && r->busy < MAX_BUSY && now_ms >= r->not_before_ms) {
		struct seat *s = CONTAINER_OF(r->due.next, struct seat, due);

		list_unlink(&s->due);
		if (now_ms >= s->not_before_ms) {
			seat_step(s);
			continue;
		}
		list_append(&later, &s->due);
		if (!next_ms || s->not_before_ms < next_ms)
			next_ms = s->not_before_ms;
	}
	while (!list_empty(&later)) {
		struct list *pos = later.next;

		list_unlink(pos);
		list_append(&r->due, pos);
	}
	if (!list_empty(&r->due) && now_ms < r->not_before_ms)
		next_ms = r->not_before_ms;
	if (next_ms)
		loop_timer_start_at(&r->timer, next_ms);
}

/* All that was in the tracker has been asked about: now it's known what there is. */
static void look_synced(struct partition_remote *r)
{
	struct map_iter it = MAP_ITER(r->seats);

	if (r->synced || !tracker_is_synced(r->tracker))
		return;
	while (map_next(&it)) {
		const struct seat *s = it.value;

		if (s->wanted && !s->has_status)
			return;
	}
	r->synced = true;
	r->on_synced(r->arg);
}

static void run(struct loop_work *work, void *arg)
{
	struct partition_remote *r = arg;

	(void)work;
	ask_due(r);
	look_synced(r);
	tell(r);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct partition_remote *r = arg;

	(void)timer;
	loop_work_post(&r->work);
}

/* ---- the tracker ---- */

static void heard_of(struct partition_remote *r, const char *key, const struct partition_ask *ask,
		     bool serves)
{
	struct seat *s = need_seat(r, ask);

	if (!map_put(r->keys, str_of(key), s))
		s->keys++;
	s->held = true;
	/* Somebody asked: this end in an earlier life, or another one. The proxy knows whether that
	 * still counts. */
	if (serves && !s->ours && !s->leaving) {
		s->wanted = s->taken = true;
		partition_ask_done(&s->ask);
		partition_ask_copy(&s->ask, ask);
		s->attempt = ask->attempt;
	}
	s->stale = true;
	s->news_ms = clock_mono_ms();
	s->not_before_ms = 0;
	seat_touch(s);
	seat_changed(s);
}

static void heard_end(struct partition_remote *r, const char *key)
{
	struct seat *s = map_del(r->keys, str_of(key));

	if (!s)
		return;
	s->keys--;
	if (s->keys == 0 && !s->wanted && !s->leaving && !s->calling)
		s->held = false;
	s->stale = true;
	s->news_ms = clock_mono_ms();
	s->not_before_ms = 0;
	seat_touch(s);
	seat_changed(s);
}

/* What can't be read is the proxy's to mend, but what there is no memory for is told again. */
static int unread(struct partition_remote *r, const char *key, const struct err *why,
		  struct err *err)
{
	if (err_is_no_memory(why))
		return err_copy(err, why);
	tracker_reject(r->tracker, key, why);
	return 0;
}

static int on_found(void *arg, const char *key, struct str json, struct err *err)
{
	struct partition_remote *r = arg;
	struct partition_entry *e;
	struct partition_wait w;
	struct err why;

	if (partition_is_wait_key(str_of(key))) {
		if (partition_wait_decode(json, &w, &why) < 0)
			return unread(r, key, &why, err);
		heard_of(r, key, &w.ask, true);
		partition_wait_done(&w);
		return 0;
	}
	if (partition_entry_decode(key, json, &e, &why) < 0)
		return unread(r, key, &why, err);
	/* An orphan keeps nobody: what becomes of it is the proxy's. */
	if (e->phase == PARTITION_ORPHAN)
		heard_end(r, key);
	else
		heard_of(r, key, &e->ask, e->phase != PARTITION_RELEASING);
	partition_entry_free(e);
	return 0;
}

static void on_gone(void *arg, const char *key)
{
	heard_end(arg, key);
}

static void on_tracker_synced(void *arg)
{
	struct partition_remote *r = arg;

	loop_work_post(&r->work);
}

static void on_tracker_error(void *arg)
{
	(void)arg; /* it's the proxy that acts on it */
}

/* ---- the interface ---- */

static struct partition_remote *of(const struct partition_service *s)
{
	return CONTAINER_OF((struct partition_service *)(uintptr_t)s, struct partition_remote,
			    service);
}

static bool synced(const struct partition_service *service)
{
	return of(service)->synced;
}

/* Others may have asked for another run there than its keeper here. */
static bool is_asked(const struct seat *s, uint32_t attempt)
{
	return s->attempt == attempt &&
	       (!s->taken || !s->has_status || s->status.wanted_attempt == attempt);
}

/* What the proxy said counts on, as far as it was about this; nothing is freed that a caller may
 * have borrowed. */
static void take_ask(struct seat *s, const struct partition_ask *ask)
{
	uint32_t attempt = s->ask.attempt;

	s->has_status = s->has_status && partition_ask_same_need(&s->ask, ask);
	partition_ask_done(&s->ask);
	partition_ask_copy(&s->ask, ask);
	s->attempt = ask->attempt;
	if (s->has_status)
		s->ask.attempt = attempt;
}

static void ensure(struct partition_service *service, const struct partition_ask *ask)
{
	struct partition_remote *r = of(service);
	struct seat *s = need_seat(r, ask);

	/* It's known, or about to be told: after a refusal not sooner than that allows. */
	if (s->wanted && partition_ask_same_need(&s->ask, ask) && is_asked(s, ask->attempt) &&
	    s->ask.priority == ask->priority && s->ask.deadline_ms == ask->deadline_ms &&
	    s->ask.interactive == ask->interactive) {
		s->ours = true;
		return;
	}
	take_ask(s, ask);
	s->wanted = s->ours = true;
	s->taken = s->abandoned = false;
	s->word++;
	s->not_before_ms = 0;
	seat_touch(s);
	seat_changed(s);
}

static void release_seat(struct seat *s)
{
	if (!s->wanted)
		return;
	s->wanted = s->ours = s->taken = false;
	/* One that the proxy was never asked about holds nothing. */
	s->leaving = s->held;
	s->leaving_attempt = s->attempt;
	s->attempt_unknown = false;
	s->word++;
	s->not_before_ms = 0;
	seat_touch(s);
	seat_changed(s);
}

static void release(struct partition_service *service, const char *owner_uid, uint32_t instance)
{
	struct seat *s = find_seat(of(service), owner_uid, instance);

	if (s)
		release_seat(s);
}

static void release_all(struct partition_service *service, const char *owner_uid)
{
	const struct keeper *k = find_keeper(of(service), owner_uid);

	if (!k)
		return;
	LIST_FOREACH(pos, tmp, &k->seats)
		release_seat(CONTAINER_OF(pos, struct seat, link));
}

/* Its release is under way, or begins, and doesn't wait. */
static void abandon(struct partition_service *service, const char *owner_uid)
{
	const struct keeper *k = find_keeper(of(service), owner_uid);

	if (!k)
		return;
	LIST_FOREACH(pos, tmp, &k->seats) {
		struct seat *s = CONTAINER_OF(pos, struct seat, link);

		if (s->abandoned)
			continue;
		release_seat(s);
		s->abandoned = s->leaving = s->held;
		s->not_before_ms = 0;
		seat_touch(s);
	}
}

static void get_status(const struct partition_service *service, const char *owner_uid,
		       uint32_t instance, struct partition_status *ret)
{
	const struct seat *s = find_seat(of(service), owner_uid, instance);

	if (s)
		fill_status(s, ret);
	else
		*ret = (struct partition_status){.state = PARTITION_STATE_NONE};
}

static size_t held(const struct partition_service *service, const char *owner_uid)
{
	const struct keeper *k = find_keeper(of(service), owner_uid);
	size_t n = 0;

	if (!k)
		return 0;
	LIST_FOREACH(pos, tmp, &k->seats) {
		const struct seat *s = CONTAINER_OF(pos, struct seat, link);

		n += s->wanted || s->held;
	}
	return n;
}

static size_t asked_from(const struct partition_service *service, const char *owner_uid,
			 uint32_t from, uint32_t *ret, size_t max)
{
	const struct keeper *k = find_keeper(of(service), owner_uid);
	size_t n = 0;

	if (!k)
		return 0;
	LIST_FOREACH(pos, tmp, &k->seats) {
		const struct seat *s = CONTAINER_OF(pos, struct seat, link);

		if (n < max && s->wanted && s->ask.instance >= from)
			ret[n++] = s->ask.instance;
	}
	return n;
}

static size_t ipuof_files(const struct partition_service *service, const char *owner_uid,
			  uint32_t instance, partition_file_fn *fn, void *arg)
{
	const struct seat *s = find_seat(of(service), owner_uid, instance);
	struct json_iter it;
	size_t n = 0;

	if (!s || !s->files || s->files_stale || !s->status.files)
		return 0;
	for (it = json_iter(json_get(json_root(s->files), "files")); json_next(&it); n++) {
		CLEANUP_FREE char *name = str_dup(it.key);

		if (fn && json_cstr(it.value))
			fn(name, json_str(it.value), arg);
	}
	return n;
}

static int64_t began_ms(const struct partition_service *service)
{
	return tracker_began_ms(of(service)->tracker);
}

static void each(const struct partition_service *service, partitions_each_fn *fn, void *arg)
{
	struct map_iter it = MAP_ITER(of(service)->seats);

	while (map_next(&it)) {
		const struct seat *s = it.value;
		struct partition_status st;

		fill_status(s, &st);
		fn(&s->ask, &st, arg);
	}
}

struct partition_service *partition_remote_service(struct partition_remote *r)
{
	return &r->service;
}

const struct err *partition_remote_error(const struct partition_remote *r)
{
	static const struct err none = ERR_INIT;
	bool asks = (!list_empty(&r->due) || r->busy > 0) && (!r->may_act || r->may_act(r->arg));

	/* Of an error that nobody waits behind, no request would find out that it's over. */
	return asks ? &r->err : &none;
}

void partition_remote_set_tls(struct partition_remote *r, struct tls_config *tls)
{
	struct tls_config *old = r->origin.tls;

	r->origin.tls = tls_config_ref(tls);
	tls_config_unref(old);
	http_client_drop_idle(r->http);
	loop_work_post(&r->work);
}

static void start_tracker(struct partition_remote *r, struct kube_client *kube,
			  const struct partition_remote_config *config)
{
	static const struct tracker_ops ops = {.on_synced = on_tracker_synced,
					       .on_found = on_found,
					       .on_gone = on_gone,
					       .on_error = on_tracker_error};
	struct tracker_opts opts = {.ns = config->ns, .name = config->tracker_name, .follow = true};

	r->tracker = tracker_new(kube, &opts, &ops, r);
}

int partition_remote_new(struct net *net, struct kube_client *kube,
			 const struct partition_remote_config *config,
			 partitions_synced_fn *on_synced, partitions_change_fn *on_change,
			 void *arg, struct partition_remote **ret, struct err *err)
{
	static const struct partition_service_ops ops = {
		.synced = synced,
		.ensure = ensure,
		.release = release,
		.release_all = release_all,
		.abandon = abandon,
		.get_status = get_status,
		.held = held,
		.asked_from = asked_from,
		.began_ms = began_ms,
		.each = each,
		.ipuof_files = ipuof_files,
	};
	struct partition_remote *r;
	struct http_url url;

	if (http_url_parse(str_of(config->url), &url, err) < 0)
		return err_wrap(err, "the proxy's URL \"%s\"", config->url);
	r = xcalloc(1, sizeof(*r));
	r->service.ops = &ops;
	r->loop = kube_client_loop(kube);
	r->http = http_client_new(net, NULL);
	r->host = xstrdup(url.host);
	r->server_name = xstrdup(config->server_name);
	r->token_file = xstrdup(config->token_file ? config->token_file : "");
	r->secure = url.tls;
	r->origin = (struct http_origin){.host = r->host,
					 .port = url.port,
					 .tls = url.tls ? tls_config_ref(config->tls) : NULL,
					 .server_name = r->server_name};
	r->on_synced = on_synced;
	r->on_change = on_change;
	r->may_act = config->may_act;
	r->arg = arg;
	r->backoff = (struct backoff)BACKOFF_INIT(250, 15000);
	r->seats = map_new();
	r->keepers = map_new();
	r->keys = map_new();
	list_init(&r->due);
	list_init(&r->changed);
	scope_init(&r->calls);
	loop_work_init(&r->work, r->loop, run, r);
	loop_timer_init(&r->timer, r->loop, on_timer, r);
	loop_timer_init(&r->look_timer, r->loop, on_look_timer, r);
	remote_tell_init(r);
	start_tracker(r, kube, config);
	*ret = r;
	return 0;
}

void partition_remote_free(struct partition_remote *r)
{
	struct map_iter it;

	if (!r)
		return;
	scope_cancel(&r->calls);
	loop_work_cancel(&r->work);
	loop_timer_stop(&r->timer);
	loop_timer_stop(&r->look_timer);
	remote_tell_done(r);
	tracker_free(r->tracker);
	it = (struct map_iter)MAP_ITER(r->seats);
	while (map_next(&it))
		free_seat(it.value);
	map_free(r->seats);
	map_free(r->keepers);
	map_free(r->keys);
	http_client_free(r->http);
	tls_config_unref(r->origin.tls);
	partition_remote_drop_token(r);
	free(r->host);
	free(r->server_name);
	free(r->token_file);
	free(r);
}
