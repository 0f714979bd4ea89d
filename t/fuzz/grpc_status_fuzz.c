/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's conventions: messages, timeouts, frames, names of statuses, and what a response means.
 * Input: "name: value" lines of a response (a line "-" begins the trailers), an empty line, the
 * body. The whole is tried as each of the smaller ones too.
 */
#include "fuzz.h"
#include "grpc/reply.h"
#include "grpc/status.h"

#define MAX_FIELDS 16

static void try_message(struct str s)
{
	char once[512], twice[512];
	struct buf encoded = FUZZ_TEXT;

	grpc_message_decode(s, once, sizeof(once));
	MUST(str_is_utf8(str_of(once)));
	MUST(grpc_message_encode(str_of(once), &encoded, NULL) == 0);
	for (size_t i = 0; i < encoded.len; i++)
		MUST(encoded.p[i] >= ' ' && encoded.p[i] <= '~');
	grpc_message_decode(buf_str(&encoded), twice, sizeof(twice));
	MUST(strcmp(once, twice) == 0);
	buf_done(&encoded);
}

static void try_timeout(struct str s)
{
	char z[GRPC_TIMEOUT_SIZE];
	int64_t ms, again;

	if (grpc_timeout_parse(s, &ms, NULL) < 0)
		return;
	MUST(ms >= 0);
	grpc_timeout_format(ms, z);
	MUST(grpc_timeout_parse(str_of(z), &again, NULL) == 0);
	MUST(again <= ms || again == 1); /* nobody is asked for an answer in no time */
}

static void try_frame(struct str s)
{
	struct str message;
	uint8_t head[GRPC_FRAME_HEADER_BYTES];
	struct err err = ERR_INIT;

	if (grpc_frame_parse(s, &message, &err) < 0) {
		MUST(err.kind == ERR_PROTOCOL);
		return;
	}
	MUST(message.len + GRPC_FRAME_HEADER_BYTES == s.len);
	grpc_frame_header(message.len, head);
	MUST(memcmp(head, s.p, GRPC_FRAME_HEADER_BYTES) == 0);
}

static void try_name(struct str s)
{
	enum grpc_status status;

	if (grpc_status_from_name(s, &status, NULL) == 0)
		MUST((int)status >= 0 && (int)status < GRPC_STATUS_COUNT);
}

static void try_reply(struct str s)
{
	struct h2_header fields[2][MAX_FIELDS];
	size_t n[2] = {0, 0}, part = 0;
	struct str message = STR_NULL, name, value;
	struct err err = ERR_INIT;

	while (s.len > 0) {
		struct str line = fuzz_line(&s);
		if (line.len == 0)
			break;
		if (str_eqz(line, "-")) {
			part = 1;
		} else if (n[part] < MAX_FIELDS) {
			/* ":status: 200" */
			struct str rest = {line.p + 1, line.len - 1};
			str_cut(rest, ':', &name, &value);
			name = (struct str){line.p, name.len + 1};
			fields[part][n[part]++] = (struct h2_header){name, str_trim(value), false};
		}
	}
	const struct h2_message m = {fields[0], n[0], fields[1], n[1], s};
	if (grpc_reply_judge(&m, &message, &err) < 0)
		MUST(err.kind != ERR_NONE);
	else
		MUST(message.len + GRPC_FRAME_HEADER_BYTES == s.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	struct err err = ERR_INIT;

	try_message(s);
	try_timeout(s);
	try_frame(s);
	try_name(s);
	try_reply(s);
	MUST(grpc_status_to_err(s.len ? s.p[0] : 0, s, &err) == -1 && err.kind != ERR_NONE);
	return 0;
}
