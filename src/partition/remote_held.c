/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held, told to the proxy for those who look at its page (PUT /v1/held). Nothing depends on
 * it: what fails is told again later, and nobody hears of it.
 */
#include <string.h>

#include "core/clock.h"
#include "remote_impl.h"

#define DEADLINE_MS 5000
#define CONNECT_MS  3000
#define AGAIN_MS    15000 /* what hasn't changed; the proxy forgets it after three of them */
#define FAILED_MS   5000
#define UNKNOWN_MS  60000 /* the proxy has no page, or is of an older version */

static void on_told(void *arg, const struct http_response *response, const struct err *failure)
{
	struct partition_remote *r = arg;
	int64_t now_ms = clock_mono_ms();
	int status = failure ? 0 : response->head->status;

	r->held.busy = false;
	r->held.again_ms = now_ms + AGAIN_MS;
	if (status == 204)
		return;
	r->held.again_ms = 0;
	r->held.not_before_ms = now_ms + (status == 404 || status == 405 ? UNKNOWN_MS : FAILED_MS);
}

void partition_remote_tell_held(struct partition_remote *r, struct str json)
{
	struct http_header headers[3] = {HTTP_H("Content-Type", "application/json")};
	struct http_request req = {
		.origin = r->origin,
		.method = HTTP_METHOD_PUT,
		.target = STR("/v1/held"),
		.headers = headers,
		.n_headers = 1,
		.body = json,
		.connect_ms = CONNECT_MS,
		.total_ms = DEADLINE_MS,
		.first_byte_ms = DEADLINE_MS,
		.max_body_bytes = 65536,
	};
	int64_t now_ms = clock_mono_ms();
	uint8_t digest[sizeof(r->held.digest)];

	hash_sha256(&json, 1, digest);
	if (r->held.busy || now_ms < r->held.not_before_ms || r->err.kind != ERR_NONE ||
	    (now_ms < r->held.again_ms && memcmp(digest, r->held.digest, sizeof(digest)) == 0) ||
	    (r->secure && !r->origin.tls) || (r->may_act && !r->may_act(r->arg)))
		return;
	memcpy(r->held.digest, digest, sizeof(digest));
	partition_remote_read_token(r);
	if (r->authorization)
		headers[req.n_headers++] = (struct http_header){STR("Authorization"),
								str_of(r->authorization)};
	r->held.busy = true;
	http_fetch_start(r->http, &req, on_told, r, &r->calls);
}
