/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to bytes and back. A reader owns the bytes that aren't a whole frame yet. Uses core.
 */
#include "launcher/wire.h"

#include <stdlib.h>
#include <string.h>

static const char hello[] = "ipu-session"; /* tells a far end from anything else that writes */

/* ---- reading ---- */

void wire_reader_init(struct wire_reader *r)
{
	*r = (struct wire_reader){.in = BUF_INIT(2 * (WIRE_HEAD_BYTES + WIRE_MAX_PAYLOAD))};
}

void wire_reader_done(struct wire_reader *r)
{
	buf_done(&r->in);
}

static void drop_taken(struct wire_reader *r)
{
	buf_consume(&r->in, r->taken);
	r->taken = 0;
}

int wire_feed(struct wire_reader *r, struct str bytes, struct err *err)
{
	drop_taken(r);
	return buf_append_str(&r->in, bytes, err);
}

static uint32_t number_at(const char *p, size_t bytes)
{
	uint32_t n = 0;
	for (size_t i = 0; i < bytes; i++)
		n = n << 8 | (uint8_t)p[i];
	return n;
}

static bool parse_hello(struct str p, struct wire_frame *f)
{
	size_t len = sizeof(hello) - 1;
	if (p.len != len + 1 || memcmp(p.p, hello, len) != 0)
		return false;
	f->n = (uint8_t)p.p[len];
	return true;
}

bool wire_is_id(struct str id)
{
	for (size_t i = 0; i < id.len; i++)
		if (hex_digit(id.p[i]) < 0)
			return false;
	return id.len == WIRE_ID_BYTES;
}

#define START_HEAD_BYTES 17

static bool parse_start(struct str p, struct wire_frame *f)
{
	struct wire_start *s = &f->start;
	size_t strings = 0;
	if (p.len < START_HEAD_BYTES)
		return false;
	f->n = (uint8_t)p.p[0];
	s->ping_ms = number_at(p.p + 1, 4);
	s->silence_ms = number_at(p.p + 5, 4);
	s->grace_ms = number_at(p.p + 9, 4);
	s->n_args = (uint16_t)number_at(p.p + 13, 2);
	s->n_env = (uint16_t)number_at(p.p + 15, 2);
	s->strings = (struct str){p.p + START_HEAD_BYTES, p.len - START_HEAD_BYTES};
	if (f->n != WIRE_VERSION || s->ping_ms == 0 || s->silence_ms <= s->ping_ms)
		return false;
	if (s->n_args == 0 || s->n_args > WIRE_MAX_STRINGS || s->n_env > WIRE_MAX_STRINGS)
		return false;
	if (s->strings.len == 0 || s->strings.p[s->strings.len - 1] != '\0')
		return false;
	for (size_t i = 0; i < s->strings.len; i++)
		strings += s->strings.p[i] == '\0';
	return strings == (size_t)s->n_args + s->n_env;
}

static bool parse_stream(struct str p, struct wire_frame *f)
{
	if (p.len == 0 || (uint8_t)p.p[0] >= WIRE_STREAMS)
		return false;
	f->stream = (enum wire_stream)p.p[0];
	return true;
}

static bool parse_payload(struct str p, struct wire_frame *f)
{
	switch (f->type) {
	case WIRE_HELLO:
		return parse_hello(p, f);
	case WIRE_START:
		return parse_start(p, f);
	case WIRE_DATA:
		f->data = p.len > 0 ? (struct str){p.p + 1, p.len - 1} : STR_NULL;
		return parse_stream(p, f) && f->data.len > 0 && f->data.len <= WIRE_MAX_DATA;
	case WIRE_CLOSE:
		return parse_stream(p, f) && p.len == 1;
	case WIRE_CREDIT:
		f->n = p.len == 5 ? number_at(p.p + 1, 4) : 0;
		return parse_stream(p, f) && f->n > 0;
	case WIRE_FAILED:
		f->n = p.len > 0 ? (uint8_t)p.p[0] : 0;
		f->data = p.len > 0 ? (struct str){p.p + 1, p.len - 1} : STR_NULL;
		return f->n > 0;
	case WIRE_STARTED:
	case WIRE_SIGNAL:
	case WIRE_EXITED:
		f->n = p.len == 4 ? number_at(p.p, 4) : 0;
		return p.len == 4 && (f->type != WIRE_EXITED || f->n <= UINT8_MAX);
	case WIRE_LEFT:
		f->data = p;
		return wire_is_id(p);
	case WIRE_PING:
	case WIRE_ENDED:
	case WIRE_END:
		return p.len == 0;
	}
	return false;
}

int wire_next(struct wire_reader *r, struct wire_frame *ret, struct err *err)
{
	struct wire_frame f = {0};
	drop_taken(r);
	if (r->in.len < WIRE_HEAD_BYTES)
		return 0;
	uint8_t type = (uint8_t)r->in.p[0];
	size_t len = number_at(r->in.p + 1, 3);
	if (type < WIRE_HELLO || type > WIRE_END || len > WIRE_MAX_PAYLOAD)
		return err_set(err, ERR_PROTOCOL, 0, "what came isn't a frame (0x%02x, %zu bytes)",
			       type, len);
	if (r->in.len < WIRE_HEAD_BYTES + len)
		return 0;
	f.type = (enum wire_type)type;
	if (!parse_payload((struct str){r->in.p + WIRE_HEAD_BYTES, len}, &f))
		return err_set(err, ERR_PROTOCOL, 0, "a frame of type %d is malformed", type);
	r->taken = WIRE_HEAD_BYTES + len;
	*ret = f;
	return 1;
}

static char **take_vector(const char **p, size_t n)
{
	char **vector = xcalloc(n + 1, sizeof(*vector));
	for (size_t i = 0; i < n; i++) {
		vector[i] = (char *)(uintptr_t)*p;
		*p += strlen(*p) + 1;
	}
	return vector;
}

void wire_start_vectors(const struct wire_start *start, char ***ret_args, char ***ret_env)
{
	const char *p = start->strings.p;
	*ret_args = take_vector(&p, start->n_args);
	*ret_env = take_vector(&p, start->n_env);
}

/* ---- writing ---- */

static char *put_number(char *p, uint32_t n, size_t bytes)
{
	for (size_t i = bytes; i-- > 0; n >>= 8)
		p[i] = (char)(n & 0xff);
	return p + bytes;
}

/* Room for a frame with so much payload, its head written; the caller fills the rest. */
static int begin(struct buf *out, enum wire_type type, size_t len, char **ret, struct err *err)
{
	char *p;
	if (buf_reserve(out, WIRE_HEAD_BYTES + len, &p, err) < 0)
		return -1;
	p = put_number(p, type, 1);
	*ret = put_number(p, (uint32_t)len, 3);
	buf_commit(out, WIRE_HEAD_BYTES + len);
	return 0;
}

int wire_put(struct buf *out, enum wire_type type, struct err *err)
{
	char *p;
	return begin(out, type, 0, &p, err);
}

int wire_put_hello(struct buf *out, struct err *err)
{
	char *p;
	if (begin(out, WIRE_HELLO, sizeof(hello), &p, err) < 0)
		return -1;
	memcpy(p, hello, sizeof(hello) - 1);
	p[sizeof(hello) - 1] = WIRE_VERSION;
	return 0;
}

static size_t vector_bytes(const char *const *v, size_t *ret_n)
{
	size_t bytes = 0, n = 0;
	for (; v && v[n]; n++)
		bytes += strlen(v[n]) + 1;
	*ret_n = n;
	return bytes;
}

static char *put_vector(char *p, const char *const *v)
{
	for (size_t i = 0; v && v[i]; i++) {
		size_t len = strlen(v[i]) + 1;
		memcpy(p, v[i], len);
		p += len;
	}
	return p;
}

int wire_put_start(struct buf *out, const struct wire_start *start, const char *const *args,
		   const char *const *env, struct err *err)
{
	size_t n_args, n_env;
	size_t len = START_HEAD_BYTES + vector_bytes(args, &n_args) + vector_bytes(env, &n_env);
	char *p;
	if (len > WIRE_MAX_PAYLOAD || n_args > WIRE_MAX_STRINGS || n_env > WIRE_MAX_STRINGS)
		return err_set(err, ERR_LIMIT, 0, "the command is longer than %zu KiB",
			       WIRE_MAX_PAYLOAD >> 10);
	if (begin(out, WIRE_START, len, &p, err) < 0)
		return -1;
	p = put_number(p, WIRE_VERSION, 1);
	p = put_number(p, start->ping_ms, 4);
	p = put_number(p, start->silence_ms, 4);
	p = put_number(p, start->grace_ms, 4);
	p = put_number(p, (uint32_t)n_args, 2);
	p = put_number(p, (uint32_t)n_env, 2);
	p = put_vector(p, args);
	put_vector(p, env);
	return 0;
}

int wire_put_failed(struct buf *out, uint8_t status, const char *why, struct err *err)
{
	size_t len = strlen(why);
	char *p;
	if (begin(out, WIRE_FAILED, 1 + len, &p, err) < 0)
		return -1;
	p = put_number(p, status, 1);
	memcpy(p, why, len);
	return 0;
}

int wire_put_data(struct buf *out, enum wire_stream stream, struct str data, struct err *err)
{
	char *p;
	if (begin(out, WIRE_DATA, 1 + data.len, &p, err) < 0)
		return -1;
	p = put_number(p, stream, 1);
	memcpy(p, data.p, data.len);
	return 0;
}

int wire_put_left(struct buf *out, const char *id_z, struct err *err)
{
	char *p;
	if (begin(out, WIRE_LEFT, WIRE_ID_BYTES, &p, err) < 0)
		return -1;
	memcpy(p, id_z, WIRE_ID_BYTES);
	return 0;
}

int wire_put_close(struct buf *out, enum wire_stream stream, struct err *err)
{
	char *p;
	if (begin(out, WIRE_CLOSE, 1, &p, err) < 0)
		return -1;
	put_number(p, stream, 1);
	return 0;
}

int wire_put_number(struct buf *out, enum wire_type type, enum wire_stream stream, uint32_t n,
		    struct err *err)
{
	bool of_stream = type == WIRE_CREDIT;
	char *p;
	if (begin(out, type, of_stream ? 5 : 4, &p, err) < 0)
		return -1;
	if (of_stream)
		p = put_number(p, stream, 1);
	put_number(p, n, 4);
	return 0;
}

/* ---- credit ---- */

uint32_t wire_credit_due(uint32_t *used, uint32_t more)
{
	uint32_t due = *used + more;
	*used = due < WIRE_WINDOW_BYTES / 4 ? due : 0;
	return due < WIRE_WINDOW_BYTES / 4 ? 0 : due;
}

int wire_credit_add(uint32_t *credit, uint32_t more, struct err *err)
{
	if (more > WIRE_WINDOW_BYTES || *credit > WIRE_WINDOW_BYTES - more)
		return err_set(err, ERR_PROTOCOL, 0, "more credit than a stream's window has");
	*credit += more;
	return 0;
}
