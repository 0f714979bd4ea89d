/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of any length: asked for in pages, each handed out object by object while it arrives,
 * so that memory holds one object and not the list.
 */
#ifndef IPU_KUBE_LIST_H
#define IPU_KUBE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "kube/client.h"

#define KUBE_PAGE_LIMIT       500
#define KUBE_MAX_OBJECT_BYTES ((size_t)8 << 20)

/* How far a list has come, its owner's from one list to the next: what kube_list_start leaves here
 * with an error, the next one goes on from. Zeroed: from the beginning, and so after its end, or
 * when only that helps. The token names a version: what comes from it is of one time with the pages
 * before, however often a page is asked for. */
struct kube_list_place {
	char *token;       /* of the page that is asked for; NULL: the first */
	unsigned restarts; /* tokens that expired */
	unsigned pages;    /* that were whole */
	size_t told;       /* elements of this page that came before, until it broke off */
	bool missed;       /* there was no memory to read an object of the pages until here */
};

void kube_list_place_done(struct kube_list_place *place);

struct kube_list_opts {
	const struct kube_resource *resource;
	const char *ns; /* NULL or "": all namespaces */
	const char *label_selector, *field_selector;
	unsigned page_limit;           /* 0: KUBE_PAGE_LIMIT */
	size_t max_object_bytes;       /* 0: KUBE_MAX_OBJECT_BYTES */
	unsigned deadline_ms;          /* for each page; 0: KUBE_DEADLINE_MS */
	struct kube_list_place *place; /* NULL: one that fails doesn't go on */
};

struct kube_list_ops {
	/* One object, borrowed. An object may come twice (a page that broke off is asked for
	 * again): then `again` is set. Objects in lists of built-in kinds carry neither kind nor
	 * apiVersion. */
	void (*on_object)(void *arg, const struct json *object, bool again);
	/* An object that isn't JSON, is too deep or too large: as much of its name as could be
	 * seen ("" if none). Once, also of a page that is asked for again. May be NULL. */
	void (*on_bad)(void *arg, struct str ns, struct str name, const struct err *err);
	/* What came so far may be out of date, and the list begins anew: the continue token
	 * expired (410), or the first page broke off, which may be another one by now. May be NULL.
	 */
	void (*on_restart)(void *arg);
	/* Once, before the end of a list that is whole: one of its objects was bad for want of
	 * memory, and a new list may have it. May be NULL. */
	void (*on_missed)(void *arg);
	/* Once, at the end: err NULL and the list's resourceVersion, or err. */
	void (*on_done)(void *arg, const struct err *err, struct str resource_version);
};

/* Any callback may cancel the operation. Retries as for calls, page by page. */
struct op *kube_list_start(struct kube_client *client, const struct kube_list_opts *opts,
			   const struct kube_list_ops *ops, void *arg, struct scope *scope);

#endif
