/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel: the queue of calls, when to connect, back-off, and how calls end. It owns its links
 * (channel_link.c) and the memory of its calls, which goes by the reaper.
 * Uses core, loop, net.
 */
#include "grpc/channel.h"

#include <stdlib.h>

#include "channel_link.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/trace.h"
#include "net/tls.h"

#define MAX_ATTEMPTS 4
#define LINGER_MS    1000

/* ---- calls ---- */

static void free_call(void *p)
{
	struct grpc_call *call = p;

	free(call->path);
	free(call->frame);
	trace_unref(call->trace);
	free(call);
}

/* Out of whatever list it's in. */
static void unplace(struct grpc_call *call)
{
	if (!call->on && !list_empty(&call->place))
		call->ch->n_queued--;
	list_unlink(&call->place);
}

static void retire(struct grpc_call *call)
{
	unplace(call);
	loop_timer_stop(&call->timer);
	loop_reap(call->ch->loop, call, free_call);
}

void grpc_call_finish(struct grpc_call *call, const struct err *err, struct str reply)
{
	struct trace *before;

	if (!op_end(&call->op))
		return;
	retire(call);
	before = trace_enter(call->trace);
	call->cb(call->arg, err, reply);
	trace_leave(before);
}

static void cancel_call(struct op *op)
{
	struct grpc_call *call = CONTAINER_OF(op, struct grpc_call, op);

	if (call->on)
		grpc_link_drop(call->on, call);
	retire(call);
}

static void on_deadline(struct loop_timer *timer, void *arg)
{
	struct grpc_call *call = arg;
	struct err err = ERR_INIT;
	bool sent = call->on && grpc_link_was_sent(call->on, call);
	(void)timer;

	err_set(&err, ERR_TIMEOUT, GRPC_DEADLINE_EXCEEDED, "no answer from %s in time%s",
		call->ch->authority, sent ? "" : " (the request was never sent)");
	err.maybe_applied = sent;
	if (call->on)
		grpc_link_drop(call->on, call);
	grpc_call_finish(call, &err, STR_NULL);
}

/* Among those that wait, by when it was started: one that comes back is older than most. */
static void enqueue(struct grpc_call *call)
{
	struct grpc_channel *ch = call->ch;
	struct list *next = ch->queue.next;

	call->on = NULL;
	call->stream = 0;
	if (call->attempts == 0)
		next = &ch->queue;
	while (next != &ch->queue && CONTAINER_OF(next, struct grpc_call, place)->seq < call->seq)
		next = next->next;
	list_append(next, &call->place);
	ch->n_queued++;
	loop_work_post(&ch->work);
}

void grpc_call_requeue(struct grpc_call *call)
{
	list_unlink(&call->place);
	if (call->attempts < MAX_ATTEMPTS) {
		enqueue(call);
		return;
	}
	call->on = NULL;
	list_append(&call->ch->refused, &call->place);
	call->ch->n_queued++;
	loop_work_post(&call->ch->work);
}

struct op *grpc_call_start(struct grpc_channel *ch, const char *path, struct str request,
			   unsigned deadline_ms, grpc_call_fn *cb, void *arg, struct scope *scope)
{
	struct grpc_call *call = xcalloc(1, sizeof(*call));

	call->ch = ch;
	call->seq = ch->n_started++;
	call->path = xstrdup(path);
	call->trace = trace_ref(trace_current());
	call->frame_len = GRPC_FRAME_HEADER_BYTES + request.len;
	call->frame = xcalloc(1, call->frame_len);
	grpc_frame_header(request.len, (uint8_t *)call->frame);
	if (request.len > 0)
		memcpy(call->frame + GRPC_FRAME_HEADER_BYTES, request.p, request.len);
	call->cb = cb;
	call->arg = arg;
	call->deadline_ms = clock_mono_ms() + deadline_ms;
	op_begin(&call->op, scope, cancel_call);
	loop_timer_init(&call->timer, ch->loop, on_deadline, call);
	loop_timer_start_at(&call->timer, call->deadline_ms);
	if (ch->n_queued < ch->config.max_queued) {
		list_init(&call->place);
		enqueue(call);
	} else {
		list_append(&ch->refused, &call->place);
		ch->n_queued++;
		loop_work_post(&ch->work);
	}
	return &call->op;
}

/* ---- the channel's turn ---- */

static struct grpc_call *first_call(struct list *head)
{
	return list_empty(head) ? NULL : CONTAINER_OF(head->next, struct grpc_call, place);
}

static void fail_list(struct grpc_channel *ch, struct list *head, const struct err *err)
{
	struct grpc_call *call;

	while (!ch->freed && (call = first_call(head)))
		grpc_call_finish(call, err, STR_NULL);
}

void grpc_channel_fail_calls(struct grpc_channel *ch, struct list *calls, const struct err *err)
{
	/* On a list of the channel's own, so that freeing it in a callback cancels the others. */
	for (struct grpc_call *call; (call = first_call(calls));) {
		list_unlink(&call->place);
		list_append(&ch->failing, &call->place);
		call->on = NULL;
		ch->n_queued++;
	}
	fail_list(ch, &ch->failing, err);
}

static void fail_refused(struct grpc_channel *ch)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_UNAVAILABLE, GRPC_UNAVAILABLE,
		"too many calls wait for %s, or it refused one again and again", ch->authority);
	fail_list(ch, &ch->refused, &err);
}

/* Those that wait now; calls that are started meanwhile have their own turn. */
static void fail_queued(struct grpc_channel *ch)
{
	struct err why = ch->last_error;

	while (!list_empty(&ch->queue)) {
		struct list *first = ch->queue.next;
		list_unlink(first);
		list_append(&ch->failing, first);
	}
	fail_list(ch, &ch->failing, &why);
}

static void step(struct loop_work *work, void *arg)
{
	struct grpc_channel *ch = arg;
	struct grpc_call *call;
	(void)work;

	fail_refused(ch);
	if (ch->freed || list_empty(&ch->queue))
		return;
	if (!ch->current) {
		if (loop_timer_active(&ch->backoff_timer))
			fail_queued(ch);
		else
			ch->current = grpc_link_new(ch);
		return;
	}
	if (ch->current->state != GRPC_LINK_READY)
		return;
	while ((call = first_call(&ch->queue)) && grpc_link_submit(ch->current, call)) {
	}
	if (call && grpc_link_is_stuck(ch->current)) {
		struct err why = ERR_INIT;
		err_set(&why, ERR_UNAVAILABLE, 0, "%s lets no call begin", ch->authority);
		grpc_link_lose(ch->current, &why);
	}
}

void grpc_channel_on_ready(struct grpc_channel *ch)
{
	loop_work_post(&ch->work);
}

void grpc_channel_on_answer(struct grpc_channel *ch)
{
	backoff_reset(&ch->backoff);
}

void grpc_channel_on_failure(struct grpc_channel *ch, const struct err *why)
{
	int64_t delay_ms = backoff_next_ms(&ch->backoff, NULL);

	/* Whatever the resolver or the socket called it: to a caller it means that there's nobody.
	 * A name that isn't found must never look like a partition that isn't found. */
	err_set(&ch->last_error, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, "%s", why->msg);
	log_debug("grpc", ch->authority, "no connection: %s retry_ms=%lld", why->msg,
		  (long long)delay_ms);
	loop_timer_start_in(&ch->backoff_timer, delay_ms);
	loop_work_post(&ch->work);
}

static void on_backoff_over(struct loop_timer *timer, void *arg)
{
	struct grpc_channel *ch = arg;
	(void)timer;
	loop_work_post(&ch->work);
}

/* ---- the channel ---- */

static void drop_metadata(struct grpc_channel *ch)
{
	for (size_t i = 0; i < ch->n_metadata; i++) {
		char *value = (char *)(uintptr_t)ch->metadata[i].value;
		str_wipe(value, strlen(value));
		free(value);
		free((char *)(uintptr_t)ch->metadata[i].name);
	}
	free(ch->metadata);
	ch->metadata = NULL;
	ch->n_metadata = 0;
}

void grpc_channel_set_metadata(struct grpc_channel *ch, const struct grpc_metadata *metadata,
			       size_t n)
{
	struct grpc_metadata *copy = xcalloc(n ? n : 1, sizeof(*copy));

	for (size_t i = 0; i < n; i++) {
		copy[i].name = xstrdup(metadata[i].name);
		copy[i].value = xstrdup(metadata[i].value);
	}
	drop_metadata(ch);
	ch->metadata = copy;
	ch->n_metadata = n;
}

static unsigned or_default(unsigned value, unsigned otherwise)
{
	return value ? value : otherwise;
}

struct grpc_channel *grpc_channel_new(struct net *net, const struct grpc_channel_config *config)
{
	struct grpc_channel *ch = xcalloc(1, sizeof(*ch));
	struct grpc_channel_config *c = &ch->config;
	bool is_v6 = strchr(config->host, ':') != NULL;

	ch->net = net;
	ch->loop = net_loop(net);
	*c = *config;
	c->tls = tls_config_ref(config->tls);
	c->message_bytes = c->message_bytes ? c->message_bytes : (size_t)4 << 20;
	c->connect_timeout_ms = or_default(c->connect_timeout_ms, 10000);
	c->keepalive_ms = or_default(c->keepalive_ms, 20000);
	c->keepalive_timeout_ms = or_default(c->keepalive_timeout_ms, 10000);
	c->idle_ms = or_default(c->idle_ms, 300000);
	c->max_queued = or_default(c->max_queued, 1000);
	ch->backoff = (struct backoff)BACKOFF_INIT(or_default(c->backoff_base_ms, 500),
						   or_default(c->backoff_max_ms, 15000));
	ch->host = xstrdup(config->host);
	ch->server_name = xstrdup(config->server_name);
	ch->authority = xasprintf(is_v6 ? "[%s]:%u" : "%s:%u", config->host, config->port);
	ch->user_agent = xstrdup(config->user_agent ? config->user_agent : "ipu-operator");
	grpc_channel_set_metadata(ch, config->metadata, config->n_metadata);
	list_init(&ch->queue);
	list_init(&ch->refused);
	list_init(&ch->failing);
	list_init(&ch->links);
	loop_work_init(&ch->work, ch->loop, step, ch);
	loop_timer_init(&ch->backoff_timer, ch->loop, on_backoff_over, ch);
	return ch;
}

static void free_channel(void *p)
{
	struct grpc_channel *ch = p;

	drop_metadata(ch);
	tls_config_unref(ch->config.tls);
	free(ch->host);
	free(ch->server_name);
	free(ch->authority);
	free(ch->user_agent);
	free(ch);
}

static void cancel_list(struct list *head)
{
	struct grpc_call *call;

	while ((call = first_call(head)))
		op_cancel(&call->op);
}

void grpc_channel_free(struct grpc_channel *ch)
{
	if (!ch || ch->freed)
		return;
	ch->freed = true;
	cancel_list(&ch->queue);
	cancel_list(&ch->refused);
	cancel_list(&ch->failing);
	while (!list_empty(&ch->links)) {
		struct grpc_link *l = CONTAINER_OF(ch->links.next, struct grpc_link, place);
		cancel_list(&l->calls);
		grpc_link_end(l, LINGER_MS);
	}
	loop_work_cancel(&ch->work);
	loop_timer_stop(&ch->backoff_timer);
	loop_reap(ch->loop, ch, free_channel);
}

enum grpc_channel_state grpc_channel_state(const struct grpc_channel *ch)
{
	if (!ch->current)
		return loop_timer_active(&ch->backoff_timer) ? GRPC_CHANNEL_BACKOFF
							     : GRPC_CHANNEL_IDLE;
	return ch->current->state == GRPC_LINK_READY ? GRPC_CHANNEL_READY : GRPC_CHANNEL_CONNECTING;
}

void grpc_channel_retry_now(struct grpc_channel *ch)
{
	loop_timer_stop(&ch->backoff_timer);
	loop_work_post(&ch->work);
}

void grpc_channel_set_tls(struct grpc_channel *ch, struct tls_config *tls, const char *server_name)
{
	struct tls_config *old = ch->config.tls;
	bool same_name = str_eq(str_of(ch->server_name), str_of(server_name));

	if (old == tls && same_name)
		return;
	ch->config.tls = tls_config_ref(tls);
	tls_config_unref(old);
	free(ch->server_name);
	ch->server_name = xstrdup(server_name);
	if (ch->current)
		grpc_link_drain(ch->current);
	grpc_channel_retry_now(ch);
}
