/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's place in somebody's trace (W3C Trace Context, traceparent and tracestate): read from
 * what came, shown in log lines, and passed on with what is asked of others for its sake. Which one
 * is worked for is known to the whole process: callbacks are entered with the trace that was there
 * when their operation began. Nothing is sampled or exported.
 */
#ifndef IPU_CORE_TRACE_H
#define IPU_CORE_TRACE_H

#include <stdbool.h>

#include "core/str.h"

struct trace; /* counted; it never changes */

#define TRACE_PARENT_SIZE 56 /* of a traceparent, with its NUL */

/* As the header fields have it; a span of our own begins. NULL: parent is none by the rules of
 * W3C Trace Context 3.2.2 (then there is no trace). A state that is too long or no text is left
 * out. */
struct trace *trace_parse(struct str parent, struct str state);
struct trace *trace_ref(struct trace *t); /* both: NULL is fine */
void trace_unref(struct trace *t);

/* What is worked for now; NULL: nobody's trace. Borrowed. */
struct trace *trace_current(void);
/* From here to trace_leave, which gets what enter returned. t must last until then. */
struct trace *trace_enter(struct trace *t);
void trace_leave(struct trace *before);

const char *trace_id(const struct trace *t); /* 32 hex digits */
const char *trace_span(const struct trace *t);
/* What is passed on. */
void trace_write(const struct trace *t, char ret_z[TRACE_PARENT_SIZE]);
const char *trace_state(const struct trace *t); /* "": none */

#endif
