/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace contexts: the rules for what comes in, and the one that is current.
 */
#include "core/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rand.h"
#include "core/str.h"

#define STATE_MAX 512 /* W3C Trace Context 3.3.1.5: so much should be passed on at least */
#define VERSION_0 55  /* characters: 2 + 1 + 32 + 1 + 16 + 1 + 2 */
/* "sampled", and "random-trace-id" of level 2; others must be zero. */
#define FLAGS_KNOWN 3

struct trace {
	unsigned refs;
	unsigned flags;
	char id[33], span[17];
	char state[];
};

static struct trace *current;

static bool is_hex(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
			return false;
	}
	return true;
}

static bool is_zero(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != '0')
			return false;
	}
	return true;
}

/* 3.2.2: lower-case hex; neither id all zero; version ff is none, and those to come may have more
 * behind another dash. */
static bool is_parent(struct str s)
{
	const char *p = s.p;

	if (s.len < VERSION_0 || !is_hex(p, 2) || p[2] != '-' || !is_hex(p + 3, 32) ||
	    p[35] != '-' || !is_hex(p + 36, 16) || p[52] != '-' || !is_hex(p + 53, 2))
		return false;
	if (memcmp(p, "ff", 2) == 0 || is_zero(p + 3, 32) || is_zero(p + 36, 16))
		return false;
	if (memcmp(p, "00", 2) == 0)
		return s.len == VERSION_0;
	return s.len == VERSION_0 || p[VERSION_0] == '-';
}

static bool is_state(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	}
	return s.len > 0 && s.len <= STATE_MAX;
}

struct trace *trace_parse(struct str parent, struct str state)
{
	struct trace *t;
	uint64_t span;

	if (!is_parent(parent))
		return NULL;
	if (!is_state(state))
		state = STR_NULL;
	t = xcalloc(1, sizeof(*t) + state.len + 1);
	t->refs = 1;
	memcpy(t->id, parent.p + 3, 32);
	t->flags = (unsigned)(hex_digit(parent.p[53]) << 4 | hex_digit(parent.p[54])) & FLAGS_KNOWN;
	do
		span = rand_u64();
	while (span == 0);
	snprintf(t->span, sizeof(t->span), "%016" PRIx64, span);
	if (state.len)
		memcpy(t->state, state.p, state.len);
	return t;
}

struct trace *trace_ref(struct trace *t)
{
	if (t)
		t->refs++;
	return t;
}

void trace_unref(struct trace *t)
{
	if (t && --t->refs == 0)
		free(t);
}

struct trace *trace_current(void)
{
	return current;
}

struct trace *trace_enter(struct trace *t)
{
	struct trace *before = current;

	current = t;
	return before;
}

void trace_leave(struct trace *before)
{
	current = before;
}

const char *trace_id(const struct trace *t)
{
	return t->id;
}

const char *trace_span(const struct trace *t)
{
	return t->span;
}

void trace_write(const struct trace *t, char ret_z[TRACE_PARENT_SIZE])
{
	snprintf(ret_z, TRACE_PARENT_SIZE, "00-%s-%s-%02x", t->id, t->span, t->flags & FLAGS_KNOWN);
}

const char *trace_state(const struct trace *t)
{
	return t->state;
}
