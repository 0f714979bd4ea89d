/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica that follows runs no jobs: what is held, and Pods, it asks of the one that leads (GET
 * /v1/held, /v1/pods), while somebody looks at its page. What it hears is kept as what is told
 * (told.c). Uses http's client.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "internal.h"
#include "kube/file.h"
#include "live.h"
#include "net/net.h"

#define AGAIN_MS    2000
#define FAILED_MS   5000
#define DEADLINE_MS 5000
#define CONNECT_MS  2000

static void ask(struct proxy *p, unsigned which);

/* There is somebody to ask, who isn't this process. */
static bool has_leader(const struct proxy *p)
{
	return !p->leading && p->leader && p->http && p->peer_tls;
}

/* It was told to who leads, not to this one: who tells is asked for it anew if this one leads. */
static bool take(struct proxy *p, unsigned which, const struct http_response *response)
{
	struct str etag = http_headers_get(&response->head->headers, "etag");

	if (response->head->status == 304)
		return true;
	if (response->head->status != 200 || told_take(&p->told, which, response->body, NULL) < 0)
		return false;
	memset(p->told.papers[which].digest, 0, sizeof(p->told.papers[which].digest));
	/* One that can't be kept: what it was of is gone, and isn't to be asked for any more. */
	snprintf(p->follow.etags[which], ETAG_SIZE, "%.*s",
		 etag.len < ETAG_SIZE ? (int)etag.len : 0, etag.p ? etag.p : "");
	live_changed(p->live);
	return true;
}

static void on_answer(void *arg, const struct http_response *response, const struct err *err)
{
	struct proxy *p = arg;
	bool good = !p->leading && !err && take(p, p->follow.asking, response);

	p->follow.busy = false;
	p->follow.not_before_ms = clock_mono_ms() + (good ? AGAIN_MS : FAILED_MS);
	if (!good)
		return;
	told_keep(p);
	/* It may have answered while it gave its Lease back. */
	if (p->follow.asking == 0 && p->full && has_leader(p))
		ask(p, 1);
}

char *follow_read_token(const struct proxy *p)
{
	char *text, *token;
	size_t len;

	if (!p->token_file[0] || kube_read_file(p->token_file, &text, &len, NULL, NULL) < 0)
		return NULL;
	token = str_dup(str_trim((struct str){text, len}));
	follow_drop_token(text);
	return token;
}

void follow_drop_token(char *token)
{
	if (token)
		str_wipe(token, strlen(token));
	free(token);
}

static void ask(struct proxy *p, unsigned which)
{
	char *token = follow_read_token(p);
	char *authorization = token ? http_bearer(str_of(token)) : NULL;
	struct http_header fields[] = {
		{STR("Authorization"), str_of(authorization)},
		{STR(FORWARD_MARK), STR("1")},
		{STR("If-None-Match"), str_of(p->follow.etags[which])},
	};
	struct http_request request = {
		.origin = {.tls = p->peer_tls, .server_name = p->peer_name},
		.method = HTTP_METHOD_GET,
		.target = str_of(which ? "/v1/pods" : "/v1/held"),
		.headers = fields,
		.n_headers = p->follow.etags[which][0] ? 3 : 2,
		.connect_ms = CONNECT_MS,
		.total_ms = DEADLINE_MS,
		.first_byte_ms = DEADLINE_MS,
		.max_body_bytes = FOLLOW_BYTES,
	};
	char host[NET_HOST_SIZE];
	uint16_t port;

	p->follow.not_before_ms = clock_mono_ms() + FAILED_MS;
	if (authorization && net_split_host_port(p->leader, 0, host, &port, NULL) == 0) {
		request.origin.host = host;
		request.origin.port = port;
		p->follow.busy = true;
		p->follow.asking = which;
		http_fetch_start(p->http, &request, on_answer, p, &p->follow.calls);
	}
	follow_drop_token(authorization);
	follow_drop_token(token);
}

void follow_want(struct proxy *p)
{
	if (has_leader(p) && !p->follow.busy && clock_mono_ms() >= p->follow.not_before_ms)
		ask(p, 0);
}

void follow_init(struct proxy *p)
{
	scope_init(&p->follow.calls);
}

void follow_stop(struct proxy *p)
{
	scope_cancel(&p->follow.calls);
	p->follow.busy = false;
}
