/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as YAML in block style. Strings stand plain only where no reader, of YAML 1.1 or 1.2, could
 * take them for something else; text of several lines becomes a literal block.
 * Uses buf, err, json and str.
 */
#include "core/yaml.h"

#include "core/yaml_impl.h"

#define INDENT         2
#define MAX_SIMPLE_KEY 1000 /* a key in front of its colon has at most 1024 characters */

struct writer {
	struct buf *out;
	struct err *err;
};

static int put(struct writer *w, struct str s)
{
	return buf_append_str(w->out, s, w->err);
}

static int put_indent(struct writer *w, size_t indent)
{
	while (indent-- > 0) {
		if (put(w, STR(" ")) < 0)
			return -1;
	}
	return 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* YAML 1.1's words for a boolean, in any case: more than the specification has, so what. */
static bool is_old_boolean(struct str s)
{
	static const char *const words[] = {"y", "n", "yes", "no", "on", "off"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (str_ieqz(s, words[i]))
			return true;
	}
	return false;
}

/* 100m, 4Gi, but nothing that could be a number, a date or a number of base 60. */
static bool is_plain_after_digit(struct str s)
{
	bool letter = false;

	for (size_t i = 0; i < s.len; i++) {
		if (!is_letter(s.p[i]) && !is_digit(s.p[i]) && s.p[i] != '.')
			return false;
		letter |= is_letter(s.p[i]) && s.p[i] != 'e' && s.p[i] != 'E';
	}
	return letter;
}

static bool is_plain(struct str s)
{
	if (s.len == 0 || yaml_impl_resolve(s).kind != YAML_STRING || is_old_boolean(s))
		return false;
	if (is_digit(s.p[0]))
		return is_plain_after_digit(s);
	if (!is_letter(s.p[0]) && s.p[0] != '/' && s.p[0] != '_')
		return false;
	for (size_t i = 1; i < s.len; i++) {
		char c = s.p[i];
		if (is_letter(c) || is_digit(c) || strchr("_./@%+=,;()-", c)) {
			if (c == '\0')
				return false;
			continue;
		}
		/* ": " would end a key, " #" begin a comment, a space at the end be lost. */
		bool last = i == s.len - 1;
		if ((c == ':' && !last && s.p[i + 1] != ' ') ||
		    (c == ' ' && !last && s.p[i + 1] != '#') || (c == '#' && s.p[i - 1] != ' '))
			continue;
		return false;
	}
	return true;
}

/* Text of several lines that a literal block holds as it is. */
static bool is_block(struct str s)
{
	bool breaks = false;

	/* A first line that is empty or indented would need an indentation indicator. */
	if (s.len == 0 || s.p[0] == ' ' || s.p[0] == '\n' || s.p[0] == '\t')
		return false;
	while (s.len > 0) {
		unsigned char c = (unsigned char)s.p[0];
		size_t n = str_utf8_first(s);
		breaks |= c == '\n';
		if (n == 0 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			return false;
		/* C1 controls, U+0085, U+2028, U+2029, the byte order mark, U+FFFE, U+FFFF */
		if ((c == 0xc2 && (unsigned char)s.p[1] < 0xa0) ||
		    (n == 3 &&
		     (memcmp(s.p, "\xe2\x80\xa8", 3) == 0 || memcmp(s.p, "\xe2\x80\xa9", 3) == 0 ||
		      memcmp(s.p, "\xef\xbb\xbf", 3) == 0 || memcmp(s.p, "\xef\xbf\xbe", 3) == 0 ||
		      memcmp(s.p, "\xef\xbf\xbf", 3) == 0)))
			return false;
		s.p += n;
		s.len -= n;
	}
	return breaks;
}

/* In double quotes, where JSON's escapes are YAML's too; what isn't printable in YAML but is in
 * JSON gets one. */
static int put_quoted(struct writer *w, struct str s)
{
	struct buf text = BUF_INIT(SIZE_MAX);
	int r = json_write_str(s, &text, w->err);
	struct str left = buf_str(&text);

	while (r == 0 && left.len > 0) {
		size_t n = str_utf8_first(left);
		unsigned char c = (unsigned char)left.p[0];
		if (c == 0x7f)
			r = put(w, STR("\\x7f"));
		else if (c == 0xc2 && (unsigned char)left.p[1] < 0xa0)
			r = buf_printf(w->out, w->err, "\\x%02x", (unsigned char)left.p[1]);
		else if (n == 3 && memcmp(left.p, "\xe2\x80\xa8", 3) == 0)
			r = put(w, STR("\\L"));
		else if (n == 3 && memcmp(left.p, "\xe2\x80\xa9", 3) == 0)
			r = put(w, STR("\\P"));
		else if (n == 3 && memcmp(left.p, "\xef\xbb\xbf", 3) == 0)
			r = put(w, STR("\\uFEFF"));
		else if (n == 3 && memcmp(left.p, "\xef\xbf\xbe", 3) == 0)
			r = put(w, STR("\\uFFFE"));
		else if (n == 3 && memcmp(left.p, "\xef\xbf\xbf", 3) == 0)
			r = put(w, STR("\\uFFFF"));
		else
			r = put(w, (struct str){left.p, n});
		left.p += n;
		left.len -= n;
	}
	buf_done(&text);
	return r;
}

/* " |-", and the lines with a larger indentation than what they belong to. */
static int put_block(struct writer *w, struct str s, size_t indent)
{
	bool ends = s.p[s.len - 1] == '\n';
	bool keeps = ends && s.p[s.len - 2] == '\n';
	struct str line;

	if (put(w, ends ? keeps ? STR("|+\n") : STR("|\n") : STR("|-\n")) < 0)
		return -1;
	while (s.len > 0) {
		str_cut(s, '\n', &line, &s);
		if ((line.len > 0 && put_indent(w, indent) < 0) || put(w, line) < 0 ||
		    put(w, STR("\n")) < 0)
			return -1;
	}
	return 0;
}

/* A number with an exponent is one in YAML 1.1 only if it has a point and the exponent a sign. */
static int put_real(struct writer *w, const struct json *v)
{
	struct buf text = BUF_INIT(64);
	int r = json_write(v, JSON_COMPACT, &text, w->err);
	struct str mantissa, exponent;
	bool has_exponent = str_cut(buf_str(&text), 'e', &mantissa, &exponent);

	if (r == 0)
		r = put(w, mantissa);
	if (r == 0 && has_exponent)
		r = buf_printf(w->out, w->err, "%se%s%.*s",
			       memchr(mantissa.p, '.', mantissa.len) ? "" : ".0",
			       exponent.p[0] == '-' || exponent.p[0] == '+' ? "" : "+",
			       STR_ARG(exponent));
	buf_done(&text);
	return r;
}

/* Up to the end of the line. indent: that of a block's lines. */
static int put_scalar(struct writer *w, const struct json *v, size_t indent)
{
	struct str s = json_str(v);

	if (json_type(v) == JSON_STRING && is_block(s))
		return put_block(w, s, indent);
	if (json_type(v) == JSON_STRING) {
		if ((is_plain(s) ? put(w, s) : put_quoted(w, s)) < 0)
			return -1;
	} else if (json_type(v) == JSON_REAL) {
		if (put_real(w, v) < 0)
			return -1;
	} else if (json_write(v, JSON_COMPACT, w->out, w->err) < 0) { /* [] and {} too */
		return -1;
	}
	return put(w, STR("\n"));
}

static bool is_nested(const struct json *v)
{
	enum json_type type = json_type(v);

	return (type == JSON_OBJECT || type == JSON_ARRAY) && json_len(v) > 0;
}

static int put_key(struct writer *w, struct str key, size_t indent)
{
	if (key.len > MAX_SIMPLE_KEY) {
		if (put(w, STR("? ")) < 0 || put_quoted(w, key) < 0 || put(w, STR("\n")) < 0 ||
		    put_indent(w, indent) < 0)
			return -1;
	} else if ((is_plain(key) ? put(w, key) : put_quoted(w, key)) < 0) {
		return -1;
	}
	return put(w, STR(":"));
}

/* The members or elements of what is nested. The first stands where the writer is already, if
 * inlined; the others on lines of their own. */
static int put_nested(struct writer *w, const struct json *v, size_t indent, bool inlined)
{
	bool is_object = json_type(v) == JSON_OBJECT;
	struct json_iter it = json_iter(v);

	for (; json_next(&it); inlined = false) {
		if (!inlined && put_indent(w, indent) < 0)
			return -1;
		if (is_object ? put_key(w, it.key, indent) < 0 : put(w, STR("-")) < 0)
			return -1;
		if (!is_nested(it.value)) {
			if (put(w, STR(" ")) < 0 || put_scalar(w, it.value, indent + INDENT) < 0)
				return -1;
		} else if (!is_object) {
			if (put(w, STR(" ")) < 0 ||
			    put_nested(w, it.value, indent + INDENT, true) < 0)
				return -1;
		} else {
			/* As kubectl does it, a member's elements aren't indented. */
			bool deeper = json_type(it.value) == JSON_OBJECT;
			if (put(w, STR("\n")) < 0 ||
			    put_nested(w, it.value, indent + (deeper ? INDENT : 0), false) < 0)
				return -1;
		}
	}
	return 0;
}

int yaml_write(const struct json *v, struct buf *out, struct err *err)
{
	struct writer w = {out, err};
	size_t before = out->len;

	if (!v)
		return err_set(err, ERR_INVALID, 0, "there is no value to write");
	if ((is_nested(v) ? put_nested(&w, v, 0, false) : put_scalar(&w, v, INDENT)) < 0) {
		out->len = before;
		return -1;
	}
	return 0;
}
