/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy is told for those who look at its page: what is held (PUT /v1/held), and the Pods
 * of partitions (PUT /v1/pods/PART). Each paper once, and again when it has changed; that the proxy
 * still has them all is asked in one line. Nothing depends on it: what fails is told again later,
 * and nobody hears of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "remote_impl.h"

#define DEADLINE_MS 5000
#define CONNECT_MS  3000
#define AGAIN_MS    15000 /* is all known still? The proxy forgets after three of them */
#define FAILED_MS   5000
#define REFUSED_MS  60000          /* no page there, an older version, a smaller limit */
#define ALL         PARTITION_TOLD /* what `telling` is when it's asked whether all is known */

void partition_told_sum(const uint8_t digests[PARTITION_TOLD][32], char ret_z[65])
{
	struct str all = {(const char *)digests, (size_t)PARTITION_TOLD * 32};
	uint8_t sum[32];

	hash_sha256(&all, 1, sum);
	for (size_t i = 0; i < sizeof(sum); i++)
		snprintf(ret_z + 2 * i, 3, "%02x", sum[i]);
}

static void give(struct told_paper *paper, struct str json)
{
	char *text = str_dup(json);

	hash_sha256(&json, 1, paper->digest);
	free(paper->text);
	paper->text = text;
	paper->due = true;
}

/* The proxy has something else: what was never told here may be another process's, which is gone.
 */
static void tell_all_again(struct partition_remote *r)
{
	for (size_t i = 0; i < PARTITION_TOLD; i++) {
		if (!r->told.papers[i].text)
			give(&r->told.papers[i], STR("{\"items\":[]}"));
		r->told.papers[i].due = true;
	}
}

static void step(struct partition_remote *r);

/* For what it says: not for who says it, nor for when or how slowly. */
static bool is_refused(int status)
{
	return status >= 400 && status < 500 && status != 401 && status != 403 && status != 408 &&
	       status != 429;
}

static void on_told(void *arg, const struct http_response *response, const struct err *failure)
{
	struct partition_remote *r = arg;
	struct told_paper *paper = r->told.telling < ALL ? &r->told.papers[r->told.telling] : NULL;
	int64_t now_ms = clock_mono_ms();
	int status = failure ? 0 : response->head->status;

	r->told.busy = false;
	if (paper && status != 204)
		paper->due = true;
	if (status == 204) {
		r->told.again_ms = now_ms + AGAIN_MS;
	} else if (paper && is_refused(status)) {
		paper->not_before_ms = now_ms + REFUSED_MS; /* the others needn't wait for it */
	} else if (!paper && is_refused(status)) {
		tell_all_again(r);
	} else {
		r->told.not_before_ms = now_ms + FAILED_MS;
	}
	step(r);
}

static void tell(struct partition_remote *r, unsigned which)
{
	struct http_header headers[3] = {HTTP_H("Content-Type", "application/json")};
	struct http_request req = {
		.origin = r->origin,
		.method = HTTP_METHOD_PUT,
		.headers = headers,
		.n_headers = 1,
		.connect_ms = CONNECT_MS,
		.total_ms = DEADLINE_MS,
		.first_byte_ms = DEADLINE_MS,
		.max_body_bytes = 65536,
	};
	uint8_t digests[PARTITION_TOLD][32];
	char sum[65], same[96], target[32] = "/v1/held";

	if (which > 0 && which < ALL)
		snprintf(target, sizeof(target), "/v1/pods/%u", which - 1);
	req.target = str_of(target);
	if (which < ALL) {
		req.body = str_of(r->told.papers[which].text);
		r->told.papers[which].due = false;
	} else {
		for (size_t i = 0; i < PARTITION_TOLD; i++)
			memcpy(digests[i], r->told.papers[i].digest, sizeof(digests[i]));
		partition_told_sum(digests, sum);
		snprintf(same, sizeof(same), "{\"same\":\"%s\"}", sum);
		req.body = str_of(same);
	}
	partition_remote_read_token(r);
	if (r->authorization)
		headers[req.n_headers++] = (struct http_header){STR("Authorization"),
								str_of(r->authorization)};
	r->told.busy = true;
	r->told.telling = which;
	http_fetch_start(r->http, &req, on_told, r, &r->calls);
}

static bool can_tell(const struct partition_remote *r)
{
	return r->err.kind == ERR_NONE && (!r->secure || r->origin.tls) &&
	       (!r->may_act || r->may_act(r->arg));
}

/* Sends the one request that is due, or waits for when one is. */
static void step(struct partition_remote *r)
{
	int64_t now_ms = clock_mono_ms(), at_ms = INT64_MAX;
	unsigned which = ALL;

	if (r->told.busy || !r->told.papers[0].text)
		return;
	for (unsigned i = 0; i < PARTITION_TOLD; i++) {
		const struct told_paper *paper = &r->told.papers[i];

		if (!paper->due || paper->not_before_ms >= at_ms)
			continue;
		which = i;
		at_ms = paper->not_before_ms;
	}
	if (at_ms > now_ms && at_ms > r->told.again_ms) {
		which = ALL;
		at_ms = r->told.again_ms;
	}
	if (at_ms < r->told.not_before_ms)
		at_ms = r->told.not_before_ms;
	if (at_ms <= now_ms && !can_tell(r))
		at_ms = r->told.not_before_ms = now_ms + FAILED_MS;
	if (at_ms <= now_ms)
		tell(r, which);
	else
		loop_timer_start_at(&r->told.timer, at_ms);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	step(arg);
}

void partition_remote_tell(struct partition_remote *r, unsigned which, struct str json)
{
	struct told_paper *paper = &r->told.papers[which];

	if (paper->text && str_eqz(json, paper->text))
		return;
	give(paper, json);
	step(r);
}

void remote_tell_init(struct partition_remote *r)
{
	r->told.again_ms = INT64_MAX; /* first something is told */
	loop_timer_init(&r->told.timer, r->loop, on_timer, r);
}

void remote_tell_done(struct partition_remote *r)
{
	loop_timer_stop(&r->told.timer);
	for (size_t i = 0; i < PARTITION_TOLD; i++)
		free(r->told.papers[i].text);
}
