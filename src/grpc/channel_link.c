/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: one HTTP/2 connection of a channel, from connecting to its end, and the calls on it. The
 * channel owns it; it owns its transport. Its memory goes by the reaper.
 * Uses core, loop, net.
 */
#include "channel_link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/trace.h"
#include "reply.h"

#define LINGER_MS   1000
#define MAX_HEADERS 40

static const char *const state_names[] = {"connecting", "greeting", "ready", "draining", "ended"};

static void set_state(struct grpc_link *l, enum grpc_link_state state)
{
	log_trace("grpc", l->ch->authority, "link: %s -> %s", state_names[l->state],
		  state_names[state]);
	l->state = state;
}

/* ---- ends ---- */

static void free_link(void *link)
{
	free(link);
}

void grpc_link_end(struct grpc_link *l, unsigned linger_ms)
{
	if (l->state == GRPC_LINK_ENDED)
		return;
	if (l->ch->current == l)
		l->ch->current = NULL;
	if (l->connect)
		op_cancel(l->connect);
	l->connect = NULL;
	if (l->transport.session && linger_ms > 0)
		h2_session_goaway(l->transport.session, H2_NO_ERROR);
	h2_transport_end(&l->transport, linger_ms);
	loop_timer_stop(&l->timer);
	list_unlink(&l->place);
	set_state(l, GRPC_LINK_ENDED);
	loop_reap(l->ch->loop, l, free_link);
}

static bool is_done_draining(const struct grpc_link *l)
{
	return l->state == GRPC_LINK_DRAINING && list_empty(&l->calls);
}

void grpc_link_drain(struct grpc_link *l)
{
	if (l->ch->current == l)
		l->ch->current = NULL;
	if (l->state < GRPC_LINK_READY) {
		grpc_link_end(l, 0);
		return;
	}
	set_state(l, GRPC_LINK_DRAINING);
	h2_session_goaway(l->transport.session, H2_NO_ERROR);
	h2_transport_kick(&l->transport);
	if (is_done_draining(l))
		grpc_link_end(l, LINGER_MS);
}

bool grpc_link_was_sent(const struct grpc_link *l, const struct grpc_call *call)
{
	return h2_session_was_sent(l->transport.session, call->stream);
}

static void note_idle(struct grpc_link *l)
{
	if (list_empty(&l->calls))
		l->idle_since_ms = clock_mono_ms();
}

void grpc_link_drop(struct grpc_link *l, struct grpc_call *call)
{
	list_unlink(&call->place);
	call->on = NULL;
	note_idle(l);
	if (l->state == GRPC_LINK_ENDED)
		return;
	h2_session_reset(l->transport.session, call->stream, H2_CANCEL);
	h2_transport_kick(&l->transport);
	loop_work_post(&l->ch->work); /* a stream is free again */
	if (is_done_draining(l))
		grpc_link_end(l, LINGER_MS);
}

/* The connection is lost: what never left goes back to the queue, the rest may have been done. */
static void fail_calls(struct grpc_link *l, const struct err *why)
{
	struct grpc_channel *ch = l->ch;
	struct err err = ERR_INIT;

	LIST_FOREACH(pos, tmp, &l->calls) {
		struct grpc_call *call = CONTAINER_OF(pos, struct grpc_call, place);
		if (!grpc_link_was_sent(l, call))
			grpc_call_requeue(call);
	}
	err_set(&err, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, "the connection was lost: %s", why->msg);
	err.maybe_applied = true;
	grpc_channel_fail_calls(ch, &l->calls, &err);
}

void grpc_link_lose(struct grpc_link *l, const struct err *why)
{
	struct grpc_channel *ch = l->ch;
	bool worked = l->answered || l->state == GRPC_LINK_DRAINING;

	log_debug("grpc", ch->authority, "connection lost: %s", why->msg);
	/* Ended first, so that whoever is called back finds a channel without it. */
	grpc_link_end(l, l->transport.sound ? LINGER_MS : 0);
	if (!worked)
		grpc_channel_on_failure(ch, why);
	fail_calls(l, why);
}

/* ---- time ---- */

static void arm_timer(struct grpc_link *l)
{
	const struct grpc_channel_config *c = &l->ch->config;
	bool has_calls = !list_empty(&l->calls);
	int64_t at = INT64_MAX;

	if (l->state == GRPC_LINK_GREETING) {
		at = l->greet_by_ms;
	} else {
		if (!has_calls)
			at = l->idle_since_ms + c->idle_ms;
		if (l->ping_at_ms)
			at = l->ping_at_ms + c->keepalive_timeout_ms;
		else if ((has_calls || c->keepalive_without_calls) &&
			 l->transport.last_recv_ms + c->keepalive_ms < at)
			at = l->transport.last_recv_ms + c->keepalive_ms;
	}
	loop_timer_start_at(&l->timer, at);
}

static void keep_alive(struct grpc_link *l, int64_t now)
{
	const struct grpc_channel_config *c = &l->ch->config;
	struct err why = ERR_INIT;

	if (l->ping_at_ms && now - l->ping_at_ms >= c->keepalive_timeout_ms) {
		err_set(&why, ERR_TIMEOUT, 0, "%s doesn't answer a PING", l->ch->authority);
		grpc_link_lose(l, &why);
		return;
	}
	bool wanted = !list_empty(&l->calls) || c->keepalive_without_calls;
	if (!l->ping_at_ms && wanted && now - l->transport.last_recv_ms >= c->keepalive_ms) {
		l->ping_at_ms = now;
		h2_session_ping(l->transport.session);
		h2_transport_kick(&l->transport);
	}
	arm_timer(l);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct grpc_link *l = arg;
	int64_t now = clock_mono_ms();
	struct err why = ERR_INIT;
	(void)timer;

	if (l->state == GRPC_LINK_GREETING) {
		err_set(&why, ERR_TIMEOUT, 0, "%s was connected, but didn't begin to speak HTTP/2",
			l->ch->authority);
		grpc_link_lose(l, &why);
		return;
	}
	if (list_empty(&l->calls) && now - l->idle_since_ms >= l->ch->config.idle_ms) {
		grpc_link_end(l, LINGER_MS);
		return;
	}
	keep_alive(l, now);
}

/* ---- what the server says ---- */

static struct grpc_call *find_call(const struct grpc_link *l, int32_t stream)
{
	LIST_FOREACH(pos, tmp, &l->calls) {
		struct grpc_call *call = CONTAINER_OF(pos, struct grpc_call, place);
		if (call->stream == stream)
			return call;
	}
	return NULL;
}

static void on_message(struct grpc_link *l, struct grpc_call *call)
{
	const struct h2_message *msg = h2_session_message(l->transport.session, call->stream);
	int32_t stream = call->stream;
	struct str reply = STR_NULL;
	struct err err = ERR_INIT;

	l->answered = true;
	grpc_channel_on_answer(l->ch);
	int rc = msg ? grpc_reply_judge(msg, &reply, &err) : 0;
	list_unlink(&call->place);
	note_idle(l);
	loop_work_post(&l->ch->work);
	/* The message is the session's, which lives to the end of the turn whatever is done here.
	 */
	grpc_call_finish(call, rc < 0 ? &err : NULL, reply);
	if (l->state == GRPC_LINK_ENDED)
		return;
	h2_session_release(l->transport.session, stream);
	h2_transport_kick(&l->transport);
}

static void on_reset(struct grpc_link *l, struct grpc_call *call, const struct h2_event *ev)
{
	struct err err = ERR_INIT;

	loop_work_post(&l->ch->work);
	if (ev->code == H2_REFUSED_STREAM && !ev->by_peer) { /* a GOAWAY left it out */
		grpc_call_requeue(call);
		note_idle(l);
		return;
	}
	grpc_reply_reset(ev, &err);
	list_unlink(&call->place);
	note_idle(l);
	grpc_call_finish(call, &err, STR_NULL);
}

static void on_event(void *arg, const struct h2_event *ev)
{
	struct grpc_link *l = arg;
	struct grpc_call *call = find_call(l, ev->stream);

	switch (ev->type) {
	case H2_EVENT_SETTINGS:
		if (l->state == GRPC_LINK_GREETING)
			set_state(l, GRPC_LINK_READY);
		grpc_channel_on_ready(l->ch);
		break;
	case H2_EVENT_MESSAGE:
		if (call)
			on_message(l, call);
		break;
	case H2_EVENT_RESET:
		if (call)
			on_reset(l, call, ev);
		break;
	case H2_EVENT_GOAWAY:
		log_debug("grpc", l->ch->authority, "GOAWAY: %s code=%" PRIu32 " last_stream=%d",
			  ev->text, ev->code, ev->last_stream);
		if (l->ch->current == l)
			l->ch->current = NULL;
		if (!l->answered && list_empty(&l->calls)) {
			struct err why = ERR_INIT;
			err_set(&why, ERR_UNAVAILABLE, 0, "%s sent GOAWAY before any call",
				l->ch->authority);
			grpc_link_lose(l, &why);
			return;
		}
		set_state(l, GRPC_LINK_DRAINING);
		loop_work_post(&l->ch->work);
		break;
	default: /* a PONG; or of responses in pieces, for which nothing here asks */
		break;
	}
	if (l->state == GRPC_LINK_ENDED)
		return;
	l->ping_at_ms = 0; /* it lives */
	if (is_done_draining(l))
		grpc_link_end(l, LINGER_MS);
	else
		arm_timer(l);
}

static void on_lost(void *arg, const struct err *why)
{
	grpc_link_lose(arg, why);
}

/* ---- beginning ---- */

static void on_connected(struct net_conn *conn, const struct err *err, void *arg)
{
	static const struct h2_transport_ops ops = {on_event, on_lost};
	struct grpc_link *l = arg;
	struct h2_limits limits = {
		.body_bytes = l->ch->config.message_bytes + GRPC_FRAME_HEADER_BYTES,
	};
	struct err why = ERR_INIT;

	l->connect = NULL;
	if (!conn) {
		grpc_link_lose(l, err);
		return;
	}
	const char *alpn = net_conn_alpn(conn);
	if (net_conn_is_tls(conn) && (!alpn || strcmp(alpn, "h2") != 0)) {
		net_conn_close(conn);
		err_set(&why, ERR_PROTOCOL, 0, "%s doesn't offer HTTP/2 (ALPN h2)",
			l->ch->authority);
		grpc_link_lose(l, &why);
		return;
	}
	h2_transport_start(&l->transport, conn, h2_session_new(H2_CLIENT, &limits), &ops, l);
	set_state(l, GRPC_LINK_GREETING);
	arm_timer(l);
}

struct grpc_link *grpc_link_new(struct grpc_channel *ch)
{
	struct grpc_link *l = xcalloc(1, sizeof(*l));

	l->ch = ch;
	l->state = GRPC_LINK_CONNECTING;
	l->idle_since_ms = clock_mono_ms();
	l->greet_by_ms = l->idle_since_ms + ch->config.connect_timeout_ms;
	list_init(&l->calls);
	list_append(&ch->links, &l->place);
	loop_timer_init(&l->timer, ch->loop, on_timer, l);
	struct net_connect_opts opts = {
		.host = ch->host,
		.port = ch->config.port,
		.tls = ch->config.tls,
		.server_name = ch->server_name,
		.deadline_ms = l->greet_by_ms,
	};
	l->connect = net_connect_start(ch->net, NULL, &opts, on_connected, l);
	return l;
}

/* ---- requests ---- */

static size_t fill_headers(const struct grpc_channel *ch, const struct grpc_call *call,
			   const char *timeout, char parent[TRACE_PARENT_SIZE],
			   struct h2_header headers[MAX_HEADERS])
{
	const struct h2_header fixed[] = {
		{STR(":method"), STR("POST")},
		{STR(":scheme"), ch->config.tls ? STR("https") : STR("http")},
		{STR(":path"), str_of(call->path)},
		{STR(":authority"), str_of(ch->authority)},
		{STR("te"), STR("trailers")},
		{STR("grpc-timeout"), str_of(timeout)},
		{STR("content-type"), STR("application/grpc")},
		{STR("user-agent"), str_of(ch->user_agent)},
	};
	size_t n = sizeof(fixed) / sizeof(fixed[0]);

	memcpy(headers, fixed, sizeof(fixed));
	for (size_t i = 0; i < ch->n_metadata && n < MAX_HEADERS; i++)
		headers[n++] = (struct h2_header){str_of(ch->metadata[i].name),
						  str_of(ch->metadata[i].value), true};
	if (call->trace && n + 2 <= MAX_HEADERS) {
		trace_write(call->trace, parent);
		headers[n++] = (struct h2_header){STR("traceparent"), str_of(parent)};
		if (trace_state(call->trace)[0])
			headers[n++] = (struct h2_header){STR("tracestate"),
							  str_of(trace_state(call->trace))};
	}
	return n;
}

bool grpc_link_is_stuck(const struct grpc_link *l)
{
	return l->state == GRPC_LINK_READY && list_empty(&l->calls) &&
	       h2_session_room(l->transport.session) == 0;
}

bool grpc_link_submit(struct grpc_link *l, struct grpc_call *call)
{
	struct h2_header headers[MAX_HEADERS];
	char timeout[GRPC_TIMEOUT_SIZE], parent[TRACE_PARENT_SIZE];
	struct err err = ERR_INIT;

	if (h2_session_room(l->transport.session) == 0)
		return false;
	grpc_timeout_format(call->deadline_ms - clock_mono_ms(), timeout);
	size_t n = fill_headers(l->ch, call, timeout, parent, headers);
	if (h2_session_request(l->transport.session, headers, n,
			       (struct str){call->frame, call->frame_len}, &call->stream,
			       &err) < 0) {
		log_debug("grpc", l->ch->authority, "a call can't start now: %s", err.msg);
		return false;
	}
	l->ch->n_queued--;
	list_unlink(&call->place);
	list_append(&l->calls, &call->place);
	call->on = l;
	call->attempts++;
	h2_transport_kick(&l->transport);
	arm_timer(l);
	return true;
}
