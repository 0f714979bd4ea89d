/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists, page by page, object by object while the bytes arrive.
 * Owns the splitter and copies of its options' strings; freed by the reaper. Uses core/, loop/.
 */
#include "kube/list.h"

#include <stdlib.h>

#include "core/json.h"
#include "client_priv.h"
#include "kube/object.h"
#include "path.h"
#include "split.h"
#include "xfer.h"

#define MAX_TARGET   ((size_t)64 << 10) /* continue tokens are long */
#define MAX_RESTARTS 4

struct lister {
	struct op op;
	struct kube_client *client;
	struct kube_list_opts opts;
	char *ns, *label_selector, *field_selector;
	const struct kube_list_ops *ops;
	void *arg;

	struct scope scope;
	struct loop_work work; /* begins the next page */
	struct kube_items items;
	struct kube_list_place *place, own; /* the owner's, or nobody's */
	char *next;                         /* token of the next page; NULL: this is the last */
	char *version;                      /* the list's resourceVersion */
	size_t elements;                    /* of this page, so far */
	bool whole;                         /* the page's document has ended */
	bool missed;                        /* there was no memory for one of its elements */
	struct err late;                    /* what is wrong with this page */
};

void kube_list_place_done(struct kube_list_place *place)
{
	free(place->token);
	*place = (struct kube_list_place){0};
}

static void lister_free(void *p)
{
	struct lister *l = p;
	kube_items_done(&l->items);
	free(l->ns);
	free(l->label_selector);
	free(l->field_selector);
	free(l->next);
	free(l->version);
	kube_list_place_done(&l->own);
	free(l);
}

static void detach(struct lister *l)
{
	l->place = &l->own; /* the owner may go */
	scope_cancel(&l->scope);
	loop_work_cancel(&l->work);
	loop_reap(l->client->loop, l, lister_free);
}

static void on_cancel(struct op *op)
{
	detach(CONTAINER_OF(op, struct lister, op));
}

static void finish(struct lister *l, const struct err *err)
{
	if (!op_end(&l->op))
		return;
	detach(l);
	l->ops->on_done(l->arg, err, err ? STR_NULL : str_of(l->version));
}

/* ---- what a page holds ---- */

static void bad_object(struct lister *l, const struct kube_piece *piece, bool again,
		       struct err *err)
{
	struct kube_peek seen;
	l->missed = l->missed || err_is_no_memory(err);
	if (!l->ops->on_bad || again)
		return;
	kube_peek(piece->bytes, false, &seen);
	l->ops->on_bad(l->arg, str_of(seen.ns), str_of(seen.name), err);
}

static void take_object(struct lister *l, const struct kube_piece *piece)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	bool again = ++l->elements <= l->place->told;
	if (!again)
		l->place->told = l->elements;
	if (piece->cut) {
		err_set(&err, ERR_LIMIT, 0, "the %s is larger than %zu bytes and is passed over",
			l->opts.resource->kind, l->opts.max_object_bytes);
		bad_object(l, piece, again, &err);
	} else if (kube_parse(l->opts.resource, piece->bytes, &doc, &err) < 0) {
		err_wrap(&err, "the %s can't be read", l->opts.resource->kind);
		bad_object(l, piece, again, &err);
	} else {
		l->ops->on_object(l->arg, json_root(doc), again);
	}
}

static int take_metadata(struct lister *l, const struct kube_piece *piece, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	if (piece->cut)
		return err_set(err, ERR_PROTOCOL, 0, "the list's metadata is too large");
	if (json_parse(piece->bytes, &doc, err) < 0)
		return err_wrap(err, "the list's metadata");
	struct str version = json_str(json_get(json_root(doc), "resourceVersion"));
	struct str token = json_str(json_get(json_root(doc), "continue"));
	if (version.len == 0)
		return err_set(err, ERR_PROTOCOL, 0, "the list has no resourceVersion");
	if (token.len > 0 && str_eqz(token, l->place->token))
		return err_set(err, ERR_PROTOCOL, 0, "the list goes on at where it was");
	free(l->version);
	l->version = str_dup(version);
	free(l->next);
	l->next = token.len > 0 ? str_dup(token) : NULL;
	return 0;
}

static void on_head(void *arg, const struct http_headers *headers)
{
	struct lister *l = arg;
	bool is_anew = !l->place->token && l->elements > 0;
	(void)headers;
	kube_items_done(&l->items);
	l->elements = 0;
	l->whole = l->missed = false;
	l->late = (struct err)ERR_INIT;
	/* A first page is of now: what it held a moment ago may be gone, and no watch from here on
	 * would say so. */
	if (is_anew)
		l->place->told = 0;
	if (is_anew && l->ops->on_restart)
		l->ops->on_restart(l->arg);
}

static void on_body(void *arg, struct str chunk)
{
	struct lister *l = arg;
	struct kube_piece piece;
	enum kube_items_event event;
	if (l->late.kind != ERR_NONE)
		return;
	loop_about(l->client->loop, "answer to", "list", l->opts.resource->plural);
	do {
		int rc = kube_items_next(&l->items, &chunk, &event, &piece, &l->late);
		if (rc == 0 && event == KUBE_ITEMS_OBJECT)
			take_object(l, &piece);
		else if (rc == 0 && event == KUBE_ITEMS_METADATA)
			rc = take_metadata(l, &piece, &l->late);
		if (l->op.ended)
			return;
		if (rc < 0)
			return;
	} while (event == KUBE_ITEMS_OBJECT || event == KUBE_ITEMS_METADATA);
	l->whole = event == KUBE_ITEMS_END;
}

/* ---- pages ---- */

/*
 * A token that expired. The answer may offer another, to go on from the same key with what is there
 * now (API concepts, "Retrieving large results sets in chunks"). That isn't taken: the pages until
 * here would be of another time than the rest, and what changed in them in between no watch tells:
 * one from the later version begins behind it, and the earlier version is what expired. A store
 * would keep for ever what is gone.
 */
static void restart(struct lister *l)
{
	struct kube_list_place *p = l->place;
	unsigned restarts = p->restarts + 1;
	kube_list_place_done(p);
	p->restarts = restarts;
	l->elements = 0;
	/* A list so large that its token expires twice is asked for at once: it's streamed anyway.
	 */
	if (restarts >= 2)
		l->opts.page_limit = 0;
	if (l->ops->on_restart)
		l->ops->on_restart(l->arg);
	if (!l->op.ended)
		loop_work_post(&l->work);
}

static void go_on(struct lister *l)
{
	struct kube_list_place *p = l->place;
	free(p->token);
	p->token = l->next;
	l->next = NULL;
	p->pages++;
	p->missed = p->missed || l->missed;
	p->told = l->elements = 0;
	loop_work_post(&l->work);
}

/* Whether the page failed for what lies between us and the server, or for a server that has no time
 * now. All else may be for the token's sake, also a 500, or a 504 (a version that a restored etcd
 * doesn't know): who asked for this page again would do so for ever. */
static bool is_broken_off(const struct lister *l, const struct err *err, int status)
{
	if (l->late.kind != ERR_NONE)
		return err_is_no_memory(&l->late);
	return !err || status == 0 || status / 100 == 2 || err->kind == ERR_BUSY ||
	       err->kind == ERR_UNAVAILABLE;
}

static void on_done(void *arg, const struct err *err, int status, struct str body,
		    const struct json *json)
{
	struct lister *l = arg;
	bool is_whole = !err && l->late.kind == ERR_NONE && l->whole, missed;
	(void)body;
	(void)json;
	if (err && err->kind == ERR_GONE && l->place->token && l->place->restarts < MAX_RESTARTS) {
		restart(l);
		return;
	}
	if (is_whole && l->next) {
		go_on(l);
		return;
	}
	missed = is_whole && (l->missed || l->place->missed);
	if (is_whole || !l->place->token || !is_broken_off(l, err, status))
		kube_list_place_done(l->place);
	if (missed && l->ops->on_missed)
		l->ops->on_missed(l->arg);
	if (!is_whole && !err && l->late.kind == ERR_NONE)
		err_set(&l->late, ERR_PROTOCOL, 0, "the API server's list ends in the middle");
	finish(l, err ? err : is_whole ? NULL : &l->late);
}

static void ask_for_page(struct loop_work *work, void *arg)
{
	static const struct kube_xfer_handler handler = {on_head, on_body, on_done};
	struct lister *l = arg;
	struct buf target = BUF_INIT(MAX_TARGET);
	struct err err = ERR_INIT;
	size_t len;
	struct kube_request r = {
		.verb = KUBE_LIST,
		.resource = l->opts.resource,
		.ns = l->ns,
		.label_selector = l->label_selector,
		.field_selector = l->field_selector,
		.limit = l->opts.page_limit,
		.continue_token = l->place->token,
	};
	(void)work;
	if (kube_path_build(l->client->config->prefix, &r, &target, &err) < 0) {
		buf_done(&target);
		kube_list_place_done(l->place);
		finish(l, &err);
		return;
	}
	struct kube_xfer_req req = {
		.verb = kube_verb_name(KUBE_LIST),
		.resource = l->opts.resource->plural,
		.method = HTTP_METHOD_GET,
		.target = buf_steal(&target, &len),
		.reads = true,
		.deadline_ms = l->opts.deadline_ms,
	};
	kube_xfer_start(l->client, &req, &handler, l, &l->scope);
}

struct op *kube_list_start(struct kube_client *client, const struct kube_list_opts *opts,
			   const struct kube_list_ops *ops, void *arg, struct scope *scope)
{
	struct lister *l = xcalloc(1, sizeof(*l));
	l->client = client;
	l->opts = *opts;
	if (l->opts.page_limit == 0)
		l->opts.page_limit = KUBE_PAGE_LIMIT;
	if (l->opts.max_object_bytes == 0)
		l->opts.max_object_bytes = KUBE_MAX_OBJECT_BYTES;
	l->place = opts->place ? opts->place : &l->own;
	if (l->place->restarts >= 2)
		l->opts.page_limit = 0;
	l->ns = xstrdup(opts->ns);
	l->label_selector = xstrdup(opts->label_selector);
	l->field_selector = xstrdup(opts->field_selector);
	l->ops = ops;
	l->arg = arg;
	kube_items_init(&l->items, l->opts.max_object_bytes);
	l->items.buf.secret = kube_is_secret(opts->resource);
	scope_init(&l->scope);
	op_begin(&l->op, scope, on_cancel);
	loop_work_init(&l->work, client->loop, ask_for_page, l);
	loop_work_post(&l->work);
	return &l->op;
}
