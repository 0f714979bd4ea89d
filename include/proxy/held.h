/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held, as far as it's shown (doc/design/page.md): the newest of it, and how the process
 * that runs the jobs tells it to the one that shows the page (doc/openapi.yaml: PUT /v1/held). What
 * is taken is borrowed. Pure; uses core.
 */
#ifndef IPU_PROXY_HELD_H
#define IPU_PROXY_HELD_H

#include "core/buf.h"
#include "proxy/proxy.h"

#define PROXY_HELD_NEWEST  200
#define PROXY_HELD_WORDS   256   /* bytes of a message that are told to another process */
#define PROXY_HELD_TOLD_MS 45000 /* what isn't told again isn't known any more */

struct proxy_newest {
	struct proxy_held items[PROXY_HELD_NEWEST]; /* once it's full, the oldest is the first */
	size_t n;                                   /* all that were taken */
};

void proxy_newest_take(struct proxy_newest *newest, const struct proxy_held *held);
size_t proxy_newest_len(const struct proxy_newest *newest); /* how many of them are there */
/* The newest first, as many as there is room for. It takes no more of them after that. */
void proxy_newest_write(struct proxy_newest *newest, size_t max_bytes, struct buf *out);

#endif
