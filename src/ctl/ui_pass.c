/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page asks for, passed on to the operator, and the answer passed back piece by piece: who
 * doesn't read stops it being read. Answers that aren't the page's become problem documents.
 */
#include <stdlib.h>

#include "core/json.h"
#include "core/list.h"
#include "ctl/ui.h"

#define MAX_STREAMS     32    /* tabs that look at once */
#define IDLE_MS         60000 /* the operator says something every 15 s */
#define MAX_WORDS_BYTES ((size_t)64 << 10)
#define MAX_HEADERS     16

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
	struct buf words; /* of one that is no page */
};

/* What came with a request and matters to the operator, and the other way round. */
static const char *const there[] = {"Accept", "Accept-Encoding", "If-None-Match", "Last-Event-ID"};
static const char *const back[] = {
	"Content-Type", "Content-Encoding", "Cache-Control",           "ETag",
	"Vary",         "Last-Modified",    "Content-Security-Policy",
};
#define N(list) (sizeof(list) / sizeof((list)[0]))

/* Whatever the operator says: the page is held to this listener, and its address, which has the
 * token in it, is told to nobody. */
static const struct http_header own[] = {
	HTTP_H("Content-Security-Policy",
	       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
	       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
	HTTP_H("Cross-Origin-Opener-Policy", "same-origin"),
	HTTP_H("Cross-Origin-Resource-Policy", "same-origin"),
	HTTP_H("Referrer-Policy", "no-referrer"),
	HTTP_H("X-Content-Type-Options", "nosniff"),
	HTTP_H("X-Frame-Options", "DENY"),
};

static size_t pick(const struct http_headers *from, const char *const *names, size_t n_names,
		   struct http_header *to)
{
	size_t n = 0;

	for (size_t i = 0; i < from->len && n < MAX_HEADERS; i++) {
		struct http_header h = http_headers_at(from, i);

		for (size_t k = 0; k < n_names; k++) {
			if (str_ieqz(h.name, names[k])) {
				to[n++] = h;
				break;
			}
		}
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

/* ---- an answer that is no page ---- */

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

static void reply_failure(struct pass *p, const struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	const char *words = NULL;
	int status = status_of(p, err);

	http_exchange_on_abort(p->ex, NULL, NULL);
	if (p->words.len > 0 && json_parse(buf_str(&p->words), &doc, NULL) == 0)
		words = ctl_link_words(json_root(doc));
	if (words)
		http_reply_problem(p->ex, status, "%s", words);
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

static void on_head(void *arg, const struct http_head *head)
{
	struct pass *p = arg;
	struct http_header headers[MAX_HEADERS + N(own)];
	size_t n;

	p->status = head->status;
	if (head->status / 100 != 2 && head->status != 304)
		return;
	n = pick(&head->headers, back, N(back), headers);
	for (size_t i = 0; i < N(own); i++)
		headers[n++] = own[i];
	p->is_begun = true;
	http_exchange_on_drain(p->ex, on_drain, p);
	http_reply_begin(p->ex, head->status, NULL, headers, n);
}

static void on_body(void *arg, struct str piece)
{
	struct pass *p = arg;

	if (!p->is_begun)
		(void)buf_append_str(&p->words, piece, NULL); /* more than that says nothing */
	else if (http_reply_write(p->ex, piece))
		ctl_stream_pause(&p->stream, true);
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
	struct http_header headers[MAX_HEADERS];
	size_t n = pick(ex->headers, there, N(there), headers);
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
