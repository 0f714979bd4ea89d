/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of one seat to the proxy, one at a time: what is wanted is told, what is stale is asked
 * for, what isn't wanted is released until the proxy says that nothing is left. Level-triggered: an
 * answer that was lost is asked for again.
 */
#include "remote_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "kube/file.h"

#define DEADLINE_MS      15000
#define CONNECT_MS       3000 /* a Pod that is gone says nothing; its Service has others */
#define TOKEN_FRESH_MS   60000
#define RELEASE_AGAIN_MS 5000 /* while something is on its way out; news comes by the tracker */
#define REPLY_MAX_BYTES  ((size_t)1 << 20)
#define FILES_MAX_BYTES  ((size_t)4 << 20) /* what fills a ConfigMap, as JSON strings */

static enum seat_step next_step(const struct seat *s)
{
	if (s->leaving)
		return s->attempt_unknown ? SEAT_LOOK : SEAT_RELEASE;
	if (!s->wanted)
		return SEAT_NOTHING;
	if (!s->taken)
		return SEAT_ASK;
	if (s->stale)
		return SEAT_LOOK;
	return s->files_stale ? SEAT_FILES : SEAT_NOTHING;
}

/* ---- answers ---- */

/* The proxy itself doesn't answer: nobody is asked for a while. A replica that begins to lead says
 * that it should be asked again in a second, the least that Retry-After can say; it's ready much
 * sooner. Requests that were under way beside each other fail with each other: that's one failure,
 * however many they were. */
static void proxy_failed(struct partition_remote *r, int64_t asked_ms, const struct err *err)
{
	const struct err *why = err->retry_after_ms > 1000 ? err : NULL;

	if (r->err.kind == ERR_NONE)
		log_warn("partition", r->host, "the proxy can't be asked: %s", err->msg);
	r->err = *err;
	if (asked_ms <= r->failed_ms)
		return;
	r->failed_ms = clock_mono_ms();
	r->not_before_ms = r->failed_ms + backoff_next_ms(&r->backoff, why);
}

static void proxy_answers(struct partition_remote *r)
{
	if (r->err.kind != ERR_NONE)
		log_info("partition", r->host, "the proxy answers again");
	r->err = (struct err)ERR_INIT;
	backoff_reset(&r->backoff);
}

/* It answers, and says no to this one; or there's no memory to ask it, or for what it says. */
static void seat_refused(struct seat *s, const struct err *err)
{
	s->not_before_ms = clock_mono_ms() + backoff_next_ms(&s->backoff, err);
	if (err_is_no_memory(err))
		return;
	if (s->taken && s->has_status)
		return; /* only the look was: what is known stays so */
	seat_forget_status(s);
	s->status = (struct partition_status){.state = PARTITION_STATE_WAITING,
					      .why = PARTITION_WHY_REFUSED};
	snprintf(s->status.message, sizeof(s->status.message), "the proxy refuses: %.200s",
		 err->msg);
	s->has_status = true;
	seat_changed(s);
}

/* Also where the tracker still has something: an orphan, or what we haven't heard the end of. */
static void seat_is_free(struct seat *s)
{
	s->held = false;
	s->not_before_ms = 0;
	seat_forget_status(s);
	seat_changed(s);
}

static int take_reply(struct seat *s, struct str body, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (json_parse(body, &doc, err) < 0)
		return err_wrap(err, "the proxy's answer");
	return seat_take_status(s, json_root(doc), err);
}

/* What is released has been asked for with another attempt: that one is released too, as whoever
 * leads says so. */
static void take_attempt(struct seat *s, struct str body)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	const struct json *root;

	if (json_parse(body, &doc, NULL) < 0)
		return; /* it's looked at again */
	root = json_root(doc);
	s->leaving_attempt = (uint32_t)json_int(json_get(root, "wantedAttempt"),
						json_int(json_get(root, "attempt"), 0));
	s->attempt_unknown = false;
}

static void take_files(struct seat *s, struct str body)
{
	struct json_doc *doc;
	struct err err;

	if (json_parse(body, &doc, &err) < 0) {
		log_warn("partition", s->ask.owner.name, "the proxy's IPUoF configuration: %s",
			 err.msg);
		s->not_before_ms = clock_mono_ms() + backoff_next_ms(&s->backoff, NULL);
		return;
	}
	json_doc_free(s->files);
	s->files = doc;
	s->files_read = s->status.files;
	s->files_stale = false;
	seat_changed(s);
}

/* The proxy has no ask of this one: what was asked here is asked for again, what others asked for
 * has been released by them. */
static void nobody_asks(struct seat *s)
{
	s->taken = false;
	if (s->sent_word == s->word && (!s->ours || s->ask.only_adopt))
		s->wanted = s->ours = false;
}

static void not_held(struct seat *s, enum seat_step step, bool news)
{
	if (step == SEAT_RELEASE || (s->leaving && s->attempt_unknown))
		s->leaving = s->attempt_unknown = false;
	else if (step == SEAT_LOOK && news)
		return; /* it's looked at again */
	else
		nobody_asks(s);
	s->stale = false;
	seat_is_free(s);
}

static void on_success(struct seat *s, enum seat_step step, const struct http_response *response)
{
	int64_t asked_ms = s->asked_ms;
	struct err err = ERR_INIT;

	backoff_reset(&s->backoff);
	s->not_before_ms = 0;
	if (step == SEAT_RELEASE && response->head->status == 204) {
		s->leaving = false;
		seat_is_free(s);
		return;
	}
	if (step == SEAT_RELEASE) {
		s->leaving = !s->wanted; /* asked for again: that's the next word */
		s->not_before_ms = s->leaving ? clock_mono_ms() + RELEASE_AGAIN_MS : 0;
		(void)take_reply(s, response->body, &err); /* for its words */
		return;
	}
	if (step == SEAT_FILES) {
		take_files(s, response->body);
		return;
	}
	if (step == SEAT_LOOK && s->leaving && s->attempt_unknown) {
		take_attempt(s, response->body);
		return;
	}
	/* Its keeper has spoken again meanwhile: this is about what it said before. */
	if (s->wanted && s->sent_word != s->word)
		return;
	if (take_reply(s, response->body, &err) < 0) {
		seat_refused(s, &err);
		return;
	}
	if (step == SEAT_LOOK && s->news_ms && !s->stale) {
		s->stale = asked_ms < s->news_ms + SEAT_ECHO_MS;
		s->not_before_ms = s->stale ? s->news_ms + SEAT_ECHO_MS : 0;
		s->news_ms = s->stale ? s->news_ms : 0;
	}
	s->taken = s->taken || step == SEAT_ASK;
	if (step == SEAT_LOOK && s->status.state == PARTITION_STATE_RELEASING)
		nobody_asks(s);
}

static void on_reply(void *arg, const struct http_response *response, const struct err *failure)
{
	struct seat *s = arg;
	enum seat_step step = s->calling;
	struct partition_remote *r = s->r;
	struct err err = ERR_INIT;
	bool news = s->stale;

	s->calling = SEAT_NOTHING;
	s->stale = s->stale || (step == SEAT_LOOK && (failure || response->head->status != 200));
	r->busy--;
	if (failure)
		err = *failure;
	else
		(void)http_response_check(response, HTTP_METHOD_GET, STR("partition"),
					  http_bearer_token(r->authorization), &err);
	if (failure || err.kind == ERR_UNAVAILABLE || err.kind == ERR_TIMEOUT ||
	    err.kind == ERR_BUSY || err.code == 401) {
		r->token_read_ms = err.code == 401 ? 0 : r->token_read_ms;
		proxy_failed(r, s->asked_ms, &err);
		seat_changed(s);
		seat_touch(s);
		return;
	}
	proxy_answers(r);
	if (err.kind == ERR_NONE) {
		on_success(s, step, response);
	} else if (step == SEAT_FILES) {
		/* It isn't active any more, or they haven't come yet: the status tells. */
		s->stale = true;
		s->not_before_ms = clock_mono_ms() + backoff_next_ms(&s->backoff, &err);
	} else if (step == SEAT_RELEASE && err.kind == ERR_CONFLICT) {
		s->attempt_unknown = true;
	} else if (err.kind == ERR_NOT_FOUND) {
		not_held(s, step, news);
	} else {
		seat_refused(s, &err);
	}
	if (!s->wanted)
		seat_changed(s); /* it may be the last that is heard of it */
	seat_touch(s);
}

/* ---- requests ---- */

void partition_remote_drop_token(struct partition_remote *r)
{
	if (r->authorization)
		str_wipe(r->authorization, strlen(r->authorization));
	free(r->authorization);
	r->authorization = NULL;
}

void partition_remote_read_token(struct partition_remote *r)
{
	int64_t now_ms = clock_mono_ms();
	struct err err;
	char *token;
	size_t len;

	if (!r->token_file[0] ||
	    (r->authorization && r->token_read_ms && now_ms - r->token_read_ms < TOKEN_FRESH_MS))
		return;
	if (kube_read_file(r->token_file, &token, &len, NULL, &err) < 0) {
		r->err = err;
		return;
	}
	partition_remote_drop_token(r);
	r->authorization = http_bearer(str_trim((struct str){token, len}));
	r->token_read_ms = now_ms;
	str_wipe(token, len);
	free(token);
}

static int write_ask(const struct seat *s, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	struct partition_ask ask = s->ask; /* borrowed */

	ask.attempt = s->attempt;
	partition_ask_encode(doc, root, &ask);
	return jmut_write(root, JSON_COMPACT, out, err);
}

static char *make_target(const struct seat *s, enum seat_step step)
{
	struct buf path = BUF_INIT(2048);
	char number[16], query[64] = "";
	struct err err;
	char *z;

	/* A release that is late must not take what has been asked for since. */
	if (step == SEAT_RELEASE)
		snprintf(query, sizeof(query), "?attempt=%" PRIu32 "%s", s->leaving_attempt,
			 s->abandoned ? "&abandon=true" : "");
	if (step == SEAT_ASK)
		return xstrdup("/v1/partitions");
	snprintf(number, sizeof(number), "%" PRIu32, s->ask.instance);
	(void)http_path_append(&path, &err, "v1", "partitions", s->ask.owner.uid, number,
			       step == SEAT_FILES ? "ipuof" : NULL, NULL);
	z = xasprintf("%.*s%s", STR_ARG(buf_str(&path)), query);
	buf_done(&path);
	return z;
}

static void send_step(struct seat *s, enum seat_step step)
{
	static const enum http_method methods[] = {[SEAT_ASK] = HTTP_METHOD_POST,
						   [SEAT_RELEASE] = HTTP_METHOD_DELETE,
						   [SEAT_LOOK] = HTTP_METHOD_GET,
						   [SEAT_FILES] = HTTP_METHOD_GET};
	struct partition_remote *r = s->r;
	CLEANUP_FREE char *target = make_target(s, step);
	struct buf body = BUF_INIT(65536);
	struct err err;
	struct http_header headers[3] = {HTTP_H("Accept", "application/json")};
	struct http_request req = {
		.origin = r->origin,
		.method = methods[step],
		.target = str_of(target),
		.headers = headers,
		.n_headers = 1,
		.connect_ms = CONNECT_MS,
		.total_ms = DEADLINE_MS,
		.first_byte_ms = DEADLINE_MS,
		.max_body_bytes = step == SEAT_FILES ? FILES_MAX_BYTES : REPLY_MAX_BYTES,
	};

	if (step == SEAT_ASK && write_ask(s, &body, &err) < 0) {
		buf_done(&body);
		seat_refused(s, &err);
		seat_touch(s);
		return;
	}
	partition_remote_read_token(r);
	if (r->authorization)
		headers[req.n_headers++] = (struct http_header){STR("Authorization"),
								str_of(r->authorization)};
	if (step == SEAT_ASK) {
		headers[req.n_headers++] = (struct http_header)HTTP_H("Content-Type",
								      "application/json");
		req.body = buf_str(&body);
		s->held = true; /* whatever becomes of it */
	}
	s->calling = step;
	s->sent_word = s->word;
	s->asked_ms = clock_mono_ms();
	s->stale = s->stale && step != SEAT_LOOK; /* news from here on is newer than the answer */
	r->busy++;
	if (r->err.kind != ERR_NONE)
		http_client_drop_idle(r->http); /* another connection may lead to another replica */
	http_fetch_start(r->http, &req, on_reply, s, &r->calls);
	buf_done(&body);
}

void seat_step(struct seat *s)
{
	enum seat_step step = next_step(s);

	if (!s->calling && step != SEAT_NOTHING)
		send_step(s, step);
}
