/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes WebSocket frames. A frame's header is collected, control frames too; of messages
 * pieces are handed over as they come. Uses core/.
 */
#include "ws_codec.h"

#include <stdlib.h>

#include "core/rand.h"

#define PIECE_BYTES ((size_t)16 << 10) /* at most, of those that are unmasked */

#define FIN  0x80
#define RSV  0x70
#define MASK 0x80

void ws_codec_init(struct ws_codec *c, enum ws_role role, uint64_t max_message_bytes)
{
	*c = (struct ws_codec){.role = role, .max_message_bytes = max_message_bytes};
}

void ws_codec_done(struct ws_codec *c)
{
	free(c->unmasked);
	c->unmasked = NULL;
}

bool ws_code_may_be_sent(int code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static int fail(struct ws_codec *c, enum ws_code code, const char *what)
{
	c->failure_code = code;
	return err_set(&c->failure, code == WS_CODE_TOO_BIG ? ERR_LIMIT : ERR_PROTOCOL, 0,
		       "WebSocket: %s", what);
}

static bool is_control(uint8_t opcode)
{
	return opcode & 8;
}

/* XORs with the key, whose byte number at (0 to 3) is the first to be used (RFC 6455, 5.3). to may
 * be s.p. */
static void apply_mask(char *to, struct str s, const uint8_t mask[4], unsigned at)
{
	uint8_t turned[8] = {0};
	uint64_t key, word;
	size_t i = 0;

	for (unsigned j = 0; j < 8; j++)
		turned[j] = mask[(at + j) & 3];
	memcpy(&key, turned, sizeof(key));
	for (; i + sizeof(word) <= s.len; i += sizeof(word)) {
		memcpy(&word, s.p + i, sizeof(word));
		word ^= key;
		memcpy(to + i, &word, sizeof(word));
	}
	for (; i < s.len; i++)
		to[i] = (char)((uint8_t)s.p[i] ^ turned[i & 7]);
}

/* ---- text ---- */

/* Begins a sequence (RFC 3629, 4): how many bytes follow, and what the next one may be. */
static bool utf8_begin(struct ws_codec *c, uint8_t b)
{
	c->utf8_low = 0x80;
	c->utf8_high = 0xbf;
	if (b < 0x80) {
		c->utf8_left = 0;
	} else if (b >= 0xc2 && b <= 0xdf) {
		c->utf8_left = 1;
	} else if (b >= 0xe0 && b <= 0xef) {
		c->utf8_left = 2;
		if (b == 0xe0)
			c->utf8_low = 0xa0;
		if (b == 0xed)
			c->utf8_high = 0x9f;
	} else if (b >= 0xf0 && b <= 0xf4) {
		c->utf8_left = 3;
		if (b == 0xf0)
			c->utf8_low = 0x90;
		if (b == 0xf4)
			c->utf8_high = 0x8f;
	} else {
		return false;
	}
	return true;
}

static bool utf8_goes_on(struct ws_codec *c, struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		uint8_t b = (uint8_t)s.p[i];
		if (c->utf8_left == 0) {
			if (!utf8_begin(c, b))
				return false;
			continue;
		}
		if (b < c->utf8_low || b > c->utf8_high)
			return false;
		c->utf8_left--;
		c->utf8_low = 0x80;
		c->utf8_high = 0xbf;
	}
	return true;
}

/* ---- a frame's header ---- */

static size_t head_size(const struct ws_codec *c)
{
	unsigned length = c->head[1] & 0x7f;

	if (c->head_len < 2)
		return 2;
	return 2 + (length == 126 ? 2U : length == 127 ? 8U : 0U) + (c->head[1] & MASK ? 4U : 0U);
}

/* What the first two bytes say. */
static int check_start(struct ws_codec *c)
{
	uint8_t opcode = c->head[0] & 0x0f;
	bool masked = c->head[1] & MASK;

	if (c->head[0] & RSV)
		return fail(c, WS_CODE_PROTOCOL, "a reserved bit is set");
	if (opcode > WS_OP_PONG || (opcode > WS_OP_BINARY && opcode < WS_OP_CLOSE))
		return fail(c, WS_CODE_PROTOCOL, "an opcode that nobody has agreed on");
	if (masked != (c->role == WS_SERVER))
		return fail(c, WS_CODE_PROTOCOL,
			    masked ? "a server's frame is masked"
				   : "a client's frame isn't masked");
	if (is_control(opcode) && !(c->head[0] & FIN))
		return fail(c, WS_CODE_PROTOCOL, "a control frame in fragments");
	if (is_control(opcode) && (c->head[1] & 0x7f) > WS_CONTROL_BYTES)
		return fail(c, WS_CODE_PROTOCOL, "a control frame over 125 bytes");
	if (opcode == WS_OP_CONTINUATION && !c->in_message)
		return fail(c, WS_CODE_PROTOCOL, "a continuation of nothing");
	if ((opcode == WS_OP_TEXT || opcode == WS_OP_BINARY) && c->in_message)
		return fail(c, WS_CODE_PROTOCOL, "a message within another's fragments");
	return 0;
}

static int begin_frame(struct ws_codec *c)
{
	uint64_t length = c->head[1] & 0x7f;
	size_t wide = length == 126 ? 2 : length == 127 ? 8 : 0;

	if (wide > 0) {
		length = 0;
		for (size_t i = 0; i < wide; i++)
			length = length << 8 | c->head[2 + i];
		if (length >> 63)
			return fail(c, WS_CODE_PROTOCOL,
				    "a frame's length with its highest bit set");
		if (length < (wide == 2 ? 126U : 65536U))
			return fail(c, WS_CODE_PROTOCOL,
				    "a frame's length isn't written in the shortest way");
	}
	if (c->role == WS_SERVER)
		memcpy(c->mask, c->head + 2 + wide, sizeof(c->mask));
	c->mask_at = 0;
	c->opcode = c->head[0] & 0x0f;
	c->fin = c->head[0] & FIN;
	c->left = length;
	c->control_len = 0;
	c->in_payload = true;
	if (is_control(c->opcode))
		return 0;
	if (!c->in_message) {
		c->in_message = true;
		c->begun = false;
		c->binary = c->opcode == WS_OP_BINARY;
		c->message_bytes = 0;
		c->utf8_left = 0;
	}
	if (c->max_message_bytes > 0 && length > c->max_message_bytes - c->message_bytes)
		return fail(c, WS_CODE_TOO_BIG, "a message over its limit");
	c->message_bytes += length;
	return 0;
}

/* Takes bytes of a header. True when it's complete. */
static bool collect_head(struct ws_codec *c, struct str *s)
{
	while (c->head_len < head_size(c) && s->len > 0) {
		c->head[c->head_len++] = (uint8_t)*s->p++;
		s->len--;
		if (c->head_len == 2 && check_start(c) < 0)
			return false;
	}
	return c->head_len == head_size(c);
}

/* ---- its payload ---- */

static void unmask(struct ws_codec *c, char *to, const char *from, size_t len)
{
	apply_mask(to, (struct str){from, len}, c->mask, c->mask_at);
	c->mask_at = (c->mask_at + (unsigned)(len & 3)) & 3;
}

static void end_frame(struct ws_codec *c)
{
	c->in_payload = false;
	c->head_len = 0;
}

static int read_close(struct ws_codec *c, struct ws_event *ret)
{
	const uint8_t *p = c->control;

	ret->type = WS_EVENT_CLOSE;
	ret->code = WS_CODE_NONE;
	if (c->control_len == 1)
		return fail(c, WS_CODE_PROTOCOL, "a Close of one byte");
	if (c->control_len >= 2) {
		ret->code = p[0] << 8 | p[1];
		ret->control = (struct str){(const char *)p + 2, c->control_len - 2};
		if (!ws_code_may_be_sent(ret->code))
			return fail(c, WS_CODE_PROTOCOL,
				    "a Close with a code that mustn't be sent");
		if (!str_is_utf8(ret->control))
			return fail(c, WS_CODE_BAD_TEXT, "a Close with a reason that isn't UTF-8");
	}
	c->closed = true;
	return 0;
}

/* Takes bytes of a control frame; an event when it's complete. */
static int read_control(struct ws_codec *c, struct str *s, struct ws_event *ret)
{
	size_t n = s->len < c->left ? s->len : (size_t)c->left;
	char *to = (char *)c->control + c->control_len;

	if (c->role == WS_SERVER)
		unmask(c, to, s->p, n);
	else if (n > 0)
		memcpy(to, s->p, n);
	c->control_len += n;
	c->left -= n;
	s->p += n;
	s->len -= n;
	if (c->left > 0)
		return 0;
	end_frame(c);
	if (c->opcode == WS_OP_CLOSE)
		return read_close(c, ret);
	ret->type = c->opcode == WS_OP_PING ? WS_EVENT_PING : WS_EVENT_PONG;
	ret->control = (struct str){(const char *)c->control, c->control_len};
	return 0;
}

/* Takes bytes of a message; an event if there is anything to say. */
static int read_message(struct ws_codec *c, struct str *s, struct ws_event *ret)
{
	struct str data = {s->p, s->len < c->left ? s->len : (size_t)c->left};

	if (c->role == WS_SERVER && data.len > 0) {
		if (!c->unmasked)
			c->unmasked = xcalloc(1, PIECE_BYTES);
		data.len = data.len < PIECE_BYTES ? data.len : PIECE_BYTES;
		unmask(c, c->unmasked, data.p, data.len);
		data.p = c->unmasked;
	}
	s->p += data.len;
	s->len -= data.len;
	c->left -= data.len;
	bool last = c->fin && c->left == 0;
	if (c->left == 0)
		end_frame(c);
	if (!c->binary && (!utf8_goes_on(c, data) || (last && c->utf8_left > 0)))
		return fail(c, WS_CODE_BAD_TEXT, "text that isn't UTF-8");
	if (last)
		c->in_message = false;
	if (data.len == 0 && !last)
		return 0;
	ret->type = WS_EVENT_PIECE;
	ret->piece = (struct ws_piece){
		.data = data, .binary = c->binary, .first = !c->begun, .last = last};
	c->begun = true;
	return 0;
}

int ws_codec_feed(struct ws_codec *c, struct str s, size_t *ret_used, struct ws_event *ret,
		  struct err *err)
{
	struct ws_event event = {.type = WS_EVENT_MORE};
	size_t len = s.len;

	while (!c->failure.kind && event.type == WS_EVENT_MORE) {
		int rc = 0;
		if (c->closed)
			s.len = 0;
		if (!c->in_payload && collect_head(c, &s))
			begin_frame(c);
		if (c->failure.kind || !c->in_payload)
			break;
		if (s.len == 0 && c->left > 0)
			break;
		rc = is_control(c->opcode) ? read_control(c, &s, &event)
					   : read_message(c, &s, &event);
		if (rc < 0)
			break;
	}
	if (c->failure.kind)
		return err_copy(err, &c->failure);
	*ret = event;
	*ret_used = c->closed && event.type == WS_EVENT_MORE ? len : len - s.len;
	return 0;
}

/* ---- writing ---- */

static size_t write_head(uint8_t *p, enum ws_role role, uint8_t first, uint64_t len)
{
	uint8_t mask = role == WS_CLIENT ? MASK : 0;
	size_t wide = len < 126 ? 0 : len < 65536 ? 2 : 8;

	p[0] = first;
	p[1] = (uint8_t)(mask | (wide == 0 ? len : wide == 2 ? 126 : 127));
	for (size_t i = 0; i < wide; i++)
		p[2 + i] = (uint8_t)(len >> (8 * (wide - 1 - i)));
	return 2 + wide;
}

int ws_write_frame(struct buf *out, enum ws_role role, enum ws_opcode opcode, bool fin,
		   const struct str *parts, size_t n_parts, struct err *err)
{
	uint8_t head[WS_HEAD_BYTES], mask[4] = {0};
	size_t len = 0, head_len, at = 0;
	char *to;

	for (size_t i = 0; i < n_parts; i++)
		len += parts[i].len;
	head_len = write_head(head, role, (uint8_t)((fin ? FIN : 0) | opcode), len);
	if (role == WS_CLIENT) {
		rand_bytes(mask, sizeof(mask));
		memcpy(head + head_len, mask, sizeof(mask));
		head_len += sizeof(mask);
	}
	if (buf_reserve(out, head_len + len, &to, err) < 0)
		return -1;
	memcpy(to, head, head_len);
	to += head_len;
	for (size_t i = 0; i < n_parts; i++) {
		if (role == WS_CLIENT)
			apply_mask(to + at, parts[i], mask, at & 3);
		else if (parts[i].len > 0)
			memcpy(to + at, parts[i].p, parts[i].len);
		at += parts[i].len;
	}
	buf_commit(out, head_len + len);
	return 0;
}

int ws_write_close(struct buf *out, enum ws_role role, int code, struct str reason, struct err *err)
{
	const char bytes[2] = {(char)(code >> 8), (char)code};
	struct str parts[2] = {{bytes, sizeof(bytes)}, reason};

	parts[1].len = str_utf8_cut(reason, WS_CONTROL_BYTES - sizeof(bytes));
	return ws_write_frame(out, role, WS_OP_CLOSE, true, parts, code == WS_CODE_NONE ? 0 : 2,
			      err);
}

/* ---- the handshake's key ---- */

void ws_accept_of(struct str key, char ret_z[WS_ACCEPT_SIZE])
{
	const struct str parts[] = {key, STR("258EAFA5-E914-47DA-95CA-C5AB0DC85B11")};
	uint8_t digest[20];

	hash_sha1(parts, 2, digest);
	CLEANUP_FREE char *z = base64_encode(digest, sizeof(digest));
	memcpy(ret_z, z, WS_ACCEPT_SIZE);
}

void ws_new_key(char ret_z[WS_KEY_SIZE])
{
	uint8_t bytes[16];

	rand_bytes(bytes, sizeof(bytes));
	CLEANUP_FREE char *z = base64_encode(bytes, sizeof(bytes));
	memcpy(ret_z, z, WS_KEY_SIZE);
}

bool ws_is_key(struct str key)
{
	uint8_t *bytes;
	size_t len;

	if (key.len != WS_KEY_SIZE - 1 || base64_decode(key, &bytes, &len, NULL) < 0)
		return false;
	free(bytes);
	return len == 16;
}
