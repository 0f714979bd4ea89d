/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's data over HTTP (doc/design/page.md): GET /live, and GET /live/events for viewers,
 * of whom there may be many. Owns the viewers and the texts that they share; live is borrowed.
 */
#ifndef IPU_PROXY_STREAM_H
#define IPU_PROXY_STREAM_H

#include "http/server.h"
#include "live.h"

struct stream;

/* max: viewers at a time. */
struct stream *stream_new(struct loop *loop, struct live *live, unsigned max);
/* The server has been freed before: there are no viewers any more. NULL is fine. */
void stream_free(struct stream *s);
/* Says goodbye to all viewers, and takes no more; who is sent a snapshot alone gets its rest. */
void stream_stop(struct stream *s);
/* Another partition layer: what was rendered of the last one isn't told any more. */
void stream_forget(struct stream *s);

void stream_reply_snapshot(struct stream *s, struct http_exchange *ex);
void stream_reply_events(struct stream *s, struct http_exchange *ex);

#endif
