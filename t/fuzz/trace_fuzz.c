/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace contexts: what is passed on is a good one again, of the same trace, and fits a header
 * field. Input: a traceparent, a line's end, a tracestate.
 */
#include <string.h>

#include "core/trace.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str parent, state;
	char z[TRACE_PARENT_SIZE];
	struct trace *t, *again;

	str_cut(fuzz_str(p, len), '\n', &parent, &state);
	t = trace_parse(parent, state);
	if (!t)
		return 0;
	trace_write(t, z);
	MUST(strlen(z) == sizeof(z) - 1 && strpbrk(z, "\r\n") == NULL);
	MUST(strpbrk(trace_state(t), "\r\n") == NULL && strlen(trace_state(t)) <= state.len);
	again = trace_parse(str_of(z), str_of(trace_state(t)));
	MUST(again != NULL);
	MUST(strcmp(trace_id(t), trace_id(again)) == 0);
	MUST(strcmp(trace_state(t), trace_state(again)) == 0);
	trace_unref(again);
	trace_unref(t);
	return 0;
}
