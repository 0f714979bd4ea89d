/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page asks the operator for, passed on, and the answer passed back piece by piece: who
 * doesn't read stops it being read. It is data, whatever the operator says; what isn't becomes a
 * problem document.
 */
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/list.h"
#include "ctl/ui.h"
#include "proxy/page.h"

#define MAX_STREAMS     32    /* tabs that look at once */
#define IDLE_MS         60000 /* the operator says something every 15 s */
#define MAX_WORDS_BYTES ((size_t)64 << 10)
#define MAX_ID_BYTES    40 /* of a snapshot or an event, in quotes or not */

struct ui_passes {
	struct ctl_link *link;
	unsigned streams;
};

struct pass {
	struct ui_passes *all;
	struct http_exchange *ex;
	struct ctl_stream stream;
	bool is_stream, is_begun;
	int status;       /* of the answer; 0: none yet */
	struct buf words; /* of one that isn't the page's */
};

/* What comes with an answer; policies are our own (page_fields). */
static const char *const back[] = {"Content-Encoding", "ETag", "Vary"};
#define N_BACK  (sizeof(back) / sizeof(back[0]))
#define N_THERE 4

static const char *type_of(bool is_stream)
{
	return is_stream ? "text/event-stream" : "application/json";
}

static size_t copy_field(const struct http_headers *from, const char *name, struct http_header *to)
{
	struct str value = http_headers_get(from, name);

	if (!value.p)
		return 0;
	*to = (struct http_header){str_of(name), value};
	return 1;
}

/* "EPOCH-N", in quotes or not: a script can't tell the operator anything by it. */
static bool is_id(struct str s)
{
	if (s.len > 2 && s.p[0] == '"' && s.p[s.len - 1] == '"')
		s = (struct str){s.p + 1, s.len - 2};
	if (s.len == 0 || s.len > MAX_ID_BYTES)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];

		if (c != '-' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
			return false;
	}
	return true;
}

/* What goes with a request. */
static size_t there(const struct http_headers *from, bool is_stream, struct http_header to[N_THERE])
{
	static const char *const ids[] = {"If-None-Match", "Last-Event-ID"};
	size_t n = copy_field(from, "Accept-Encoding", to);

	to[n++] = (struct http_header){STR("Accept"), str_of(type_of(is_stream))};
	for (size_t i = 0; i < 2; i++) {
		if (is_id(http_headers_get(from, ids[i])))
			n += copy_field(from, ids[i], &to[n]);
	}
	return n;
}

static void pass_free(struct pass *p)
{
	ctl_stream_cancel(&p->stream);
	if (p->is_stream)
		p->all->streams--;
	buf_done(&p->words);
	free(p);
}

/* ---- an answer that isn't the page's ---- */

static int status_of(const struct pass *p, const struct err *err)
{
	if (p->status == 403 || p->status == 404)
		return p->status;
	if (p->status)
		return p->status == 429 || p->status >= 500 ? 503 : 502;
	return err->kind == ERR_UNAVAILABLE || err->kind == ERR_TIMEOUT || err->kind == ERR_BUSY ||
			       err->kind == ERR_IO
		       ? 503
		       : 502;
}

/* err NULL: the status says it. */
static void reply_failure(struct pass *p, const struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct str words = STR_NULL;
	int status = status_of(p, err);

	http_exchange_on_abort(p->ex, NULL, NULL);
	if (p->words.len > 0 && json_parse(buf_str(&p->words), &doc, NULL) == 0)
		words = ctl_link_words(json_root(doc));
	if (words.len > 0)
		http_reply_problem(p->ex, status, "%.*s", STR_ARG(words));
	else if (p->status)
		http_reply_problem(p->ex, status, "the operator, or the way to it, answers %d %s",
				   p->status, http_status_reason(p->status));
	else
		http_reply_problem(p->ex, status, "%s", err->msg);
}

/* ---- the operator's answer ---- */

static void on_drain(struct http_exchange *ex, void *arg)
{
	struct pass *p = arg;

	(void)ex;
	ctl_stream_pause(&p->stream, false);
}

static bool is_of_type(const struct http_headers *headers, const char *want)
{
	struct str type, params;

	str_cut(http_headers_get(headers, "Content-Type"), ';', &type, &params);
	return str_ieqz(str_trim(type), want);
}

static void on_head(void *arg, const struct http_head *head)
{
	struct pass *p = arg;
	struct http_header headers[PAGE_FIELDS + N_BACK];
	const char *type = type_of(p->is_stream);
	size_t n = PAGE_FIELDS;

	p->status = head->status;
	if (head->status != 200 && head->status != 304)
		return;
	if (head->status == 200 && !is_of_type(&head->headers, type)) {
		http_exchange_on_abort(p->ex, NULL, NULL);
		http_reply_problem(p->ex, 502, "the operator, or the way to it, answers no %s",
				   type);
		pass_free(p);
		return;
	}
	memcpy(headers, page_fields, sizeof(page_fields));
	for (size_t i = 0; i < N_BACK; i++)
		n += copy_field(&head->headers, back[i], &headers[n]);
	p->is_begun = true;
	http_exchange_on_drain(p->ex, on_drain, p);
	http_reply_begin(p->ex, head->status, head->status == 200 ? type : NULL, headers, n);
}

static void on_body(void *arg, struct str piece)
{
	struct pass *p = arg;
	struct err err = ERR_INIT;

	if (p->is_begun) {
		if (http_reply_write(p->ex, piece))
			ctl_stream_pause(&p->stream, true);
	} else if (buf_append_str(&p->words, piece, &err) < 0) { /* more says no more */
		reply_failure(p, &err);
		pass_free(p);
	}
}

static void on_done(void *arg, const struct err *err)
{
	struct pass *p = arg;

	p->stream = (struct ctl_stream){0};
	if (!p->is_begun)
		reply_failure(p, err);
	else if (err)
		http_reply_abort(p->ex);
	else
		http_reply_end(p->ex);
	pass_free(p);
}

static void on_gone(struct http_exchange *ex, void *arg)
{
	(void)ex;
	pass_free(arg);
}

/* ---- for ui.c ---- */

struct ui_passes *ui_passes_new(struct ctl_link *link)
{
	struct ui_passes *all = xcalloc(1, sizeof(*all));

	all->link = link;
	return all;
}

void ui_passes_free(struct ui_passes *all)
{
	free(all);
}

void ui_pass(struct ui_passes *all, struct http_exchange *ex, const char *path, bool is_stream)
{
	static const struct http_call_handler handler = {on_head, on_body, on_done};
	struct http_header headers[N_THERE];
	size_t n = there(ex->headers, is_stream, headers);
	struct pass *p;

	if (is_stream && all->streams == MAX_STREAMS) {
		http_reply_problem(ex, 503, "%d tabs look at once: close one", MAX_STREAMS);
		return;
	}
	p = xcalloc(1, sizeof(*p));
	p->all = all;
	p->ex = ex;
	p->is_stream = is_stream;
	all->streams += is_stream;
	buf_init(&p->words, MAX_WORDS_BYTES);
	http_exchange_on_abort(ex, on_gone, p);
	p->stream = ctl_link_stream_start(all->link, ex->method, path, headers, n, IDLE_MS,
					  &handler, p);
}
