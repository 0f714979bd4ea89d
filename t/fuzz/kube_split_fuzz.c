/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists and watches cut into objects: whole and in pieces give the same, and a list that is JSON
 * gives the elements that a JSON parser finds.
 * Input: L (lines of a watch) or I (items of a list), in lower case with a limit of 24 bytes; a
 * byte that chooses the pieces; the bytes.
 */
#include "core/json.h"
#include "fuzz.h"
#include "kube/split.h"

#define LARGE ((size_t)1 << 20)
#define SMALL ((size_t)24)

static struct buf lines(struct str s, int way, size_t limit)
{
	struct fuzz_pieces it = FUZZ_PIECES(s, way);
	struct buf out = FUZZ_TEXT;
	struct kube_lines l;
	struct kube_piece piece;
	struct str chunk;

	kube_lines_init(&l, limit);
	while (fuzz_pieces_next(&it, &chunk)) {
		while (kube_lines_next(&l, &chunk, &piece)) {
			MUST(piece.bytes.len > 0 && piece.bytes.len <= limit);
			fuzz_add(&out, "%s%.*s|", piece.cut ? "CUT " : "", STR_ARG(piece.bytes));
		}
		MUST(chunk.len == 0);
	}
	fuzz_add(&out, "%zu", kube_lines_rest(&l));
	kube_lines_done(&l);
	return out;
}

struct items_run {
	struct buf out;
	size_t objects;
	bool cut, ended;
	const struct json *want; /* the elements, where the document is JSON */
};

static void take(struct items_run *run, enum kube_items_event event, const struct kube_piece *piece)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	MUST(piece->bytes.len > 0);
	fuzz_add(&run->out, "%d%s%.*s|", event, piece->cut ? "CUT " : "", STR_ARG(piece->bytes));
	run->cut = run->cut || piece->cut;
	if (event != KUBE_ITEMS_OBJECT)
		return;
	if (run->want && !piece->cut) {
		MUST(json_parse(piece->bytes, &doc, NULL) == 0);
		MUST(json_equal(json_root(doc), json_item(run->want, run->objects)));
	}
	run->objects++;
}

static bool feed(struct kube_items *it, struct str chunk, struct items_run *run)
{
	for (;;) {
		enum kube_items_event event;
		struct kube_piece piece;
		struct err err = ERR_INIT;

		if (kube_items_next(it, &chunk, &event, &piece, &err) < 0) {
			MUST(err.kind == ERR_PROTOCOL);
			fuzz_add(&run->out, "!");
			return false;
		}
		run->ended = event == KUBE_ITEMS_END;
		if (event == KUBE_ITEMS_END || event == KUBE_ITEMS_MORE) {
			MUST(chunk.len == 0);
			return true;
		}
		take(run, event, &piece);
	}
}

static struct items_run items(struct str s, int way, size_t limit, const struct json *want)
{
	struct fuzz_pieces it = FUZZ_PIECES(s, way);
	struct items_run run = {.out = FUZZ_TEXT, .want = want};
	struct kube_items split;
	struct str chunk;
	bool fine = true;

	kube_items_init(&split, limit);
	while (fuzz_pieces_next(&it, &chunk))
		fine = fine && feed(&split, chunk, &run);
	fuzz_add(&run.out, "%s", !fine ? "" : run.ended ? "END" : "MORE");
	run.ended = run.ended && fine;
	kube_items_done(&split);
	return run;
}

/* A list as the API server sends it: of each key one, and none of them escaped. */
static const struct json *plain_list(const struct json *root, struct str s)
{
	size_t items_keys = 0, metadata_keys = 0;
	struct json_iter it = json_iter(root);

	if (json_type(root) != JSON_OBJECT || memchr(s.p, '\\', s.len))
		return NULL;
	while (json_next(&it)) {
		items_keys += str_eqz(it.key, "items");
		metadata_keys += str_eqz(it.key, "metadata");
	}
	if (items_keys != 1 || metadata_keys != 1 ||
	    json_type(json_get(root, "metadata")) != JSON_OBJECT)
		return NULL;
	return json_type(json_get(root, "items")) == JSON_ARRAY ? json_get(root, "items") : NULL;
}

static void try_items(struct str s, int seed, size_t limit)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	const struct json *want = NULL;

	if (json_parse(s, &doc, NULL) == 0)
		want = plain_list(json_root(doc), s);
	struct items_run whole = items(s, FUZZ_WHOLE, limit, want);
	struct items_run pieces = items(s, seed, limit, want);
	struct items_run bytes = items(s, FUZZ_BYTES, limit, want);
	MUST(!want || (whole.ended && whole.objects == json_len(want)));
	MUST(str_eq(buf_str(&whole.out), buf_str(&bytes.out)));
	buf_done(&bytes.out);
	fuzz_same(&whole.out, &pieces.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	char letter = fuzz_take(&s, 'L');
	int seed = (unsigned char)fuzz_take(&s, '.');
	size_t limit = letter & 0x20 ? SMALL : LARGE;
	struct kube_peek peek;

	for (int in_event = 0; in_event < 2; in_event++) {
		kube_peek(s, in_event, &peek);
		MUST(strlen(peek.name) < sizeof(peek.name) && strlen(peek.ns) < sizeof(peek.ns));
	}
	if ((letter & ~0x20) == 'I') {
		try_items(s, seed, limit);
	} else {
		struct buf whole = lines(s, FUZZ_WHOLE, limit), pieces = lines(s, seed, limit),
			   bytes = lines(s, FUZZ_BYTES, limit);
		MUST(str_eq(buf_str(&whole), buf_str(&bytes)));
		buf_done(&bytes);
		fuzz_same(&whole, &pieces);
	}
	return 0;
}
