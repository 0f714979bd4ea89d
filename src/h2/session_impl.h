/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of an HTTP/2 session: session.c drives nghttp2, record.c holds the callbacks that
 * write down what it says. Private to src/h2.
 */
#ifndef IPU_H2_SESSION_IMPL_H
#define IPU_H2_SESSION_IMPL_H

#include <nghttp2/nghttp2.h>

#include "h2/session.h"
#include "session_stream.h"

struct h2_session {
	nghttp2_session *ng;
	enum h2_role role;
	struct h2_limits limits;
	struct h2_streams streams;
	bool running; /* set up: from here on a failing allocation is an error, not the end */

	struct h2_event *events; /* a queue: [first, n) are waiting */
	size_t first_event, n_events, cap_events;

	int64_t tokens_milli; /* what is left of the control frames' budget, in thousandths */
	int64_t tokens_at_ms;
	uint64_t windows_due; /* WINDOW_UPDATEs that answer to DATA of ours */
	int64_t due_ms;       /* not behind any unfinished stream's; INT64_MAX: there is none */
	bool flooded;
	bool dead; /* a fatal error of the library's: nothing in or out any more */
	bool goaway_sent, goaway_received;
	char reason[128];
};

/* ---- record.c ---- */

void h2_set_callbacks(nghttp2_session_callbacks *cb);
/* Why the connection is lost; the first one counts. */
void h2_set_reason(struct h2_session *s, const char *text);
/* nghttp2's source of a body of ours. */
ssize_t h2_read_body(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t len,
		     uint32_t *data_flags, nghttp2_data_source *source, void *arg);

#endif
