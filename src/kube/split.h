/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts what a list or a watch sends into objects while it arrives, in pieces of any size: no I/O,
 * no callbacks. Memory is one object, with a limit; what is larger is passed over and named.
 * The caller feeds bytes and asks for one piece after the other.
 */
#ifndef IPU_KUBE_SPLIT_H
#define IPU_KUBE_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"

struct kube_piece {
	struct str bytes; /* borrowed until the next call, and from the chunk that was fed */
	bool cut;         /* it was larger than the limit: these are its first bytes */
};

/* ---- a watch: one JSON document a line ---- */

struct kube_lines {
	struct buf buf;
	bool skipping; /* the line is over its limit: wait for its end */
	bool handed;   /* buf holds what was handed out last */
};

void kube_lines_init(struct kube_lines *l, size_t max_line_bytes);
void kube_lines_done(struct kube_lines *l);
/* Takes bytes off *chunk until a line is whole (true; empty lines are left out) or the chunk is
 * used up (false). */
bool kube_lines_next(struct kube_lines *l, struct str *chunk, struct kube_piece *ret);
/* Bytes of a line that hasn't ended: where the stream broke off. */
size_t kube_lines_rest(const struct kube_lines *l);

/* ---- a list: {"kind": …, "metadata": {…}, "items": [{…}, …]} ---- */

enum kube_items_event {
	KUBE_ITEMS_MORE,     /* feed more */
	KUBE_ITEMS_OBJECT,   /* an element of items */
	KUBE_ITEMS_METADATA, /* the list's own metadata */
	KUBE_ITEMS_END,      /* the document is whole, and had items and metadata */
};

struct kube_items {
	struct buf buf;
	unsigned state, back; /* enum items_state: what is expected; what comes after this value */
	unsigned capture;     /* what the value is handed out as, or KUBE_ITEMS_MORE: left out */
	unsigned depth;
	bool in_string, escaped;
	bool skipping, handed;
	bool had_items, had_metadata;
	char key[16]; /* of the top level; longer ones don't matter */
	size_t key_len;
};

void kube_items_init(struct kube_items *it, size_t max_object_bytes);
void kube_items_done(struct kube_items *it);
/* The next event, taking bytes off *chunk. Errors: ERR_PROTOCOL. Only as much of JSON's grammar is
 * checked as cutting needs: each piece is still to be parsed. */
int kube_items_next(struct kube_items *it, struct str *chunk, enum kube_items_event *ret_event,
		    struct kube_piece *ret, struct err *err);

/* ---- naming what can't be parsed ---- */

struct kube_peek {
	char type[16];                                /* of an event */
	char ns[64], name[254], uid[64], version[32]; /* "" where not seen, or too long */
};

/* Looks for the metadata in JSON that is cut, too deep or broken further on. in_event: it's a
 * watch's {"type": …, "object": {…}}. */
void kube_peek(struct str bytes, bool in_event, struct kube_peek *ret);

#endif
