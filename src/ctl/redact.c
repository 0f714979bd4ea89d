/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Better one value too many than one too few: what is kept back is marked, so a reader can ask for
 * it.
 */
#include "ctl/redact.h"

#include <ctype.h>
#include <string.h>

#define MAX_STRING ((size_t)16 << 20)
#define LAST       "kubectl.kubernetes.io/last-applied-configuration"

/* ---- names ---- */

static bool has_word(struct str name, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= name.len; i++) {
		size_t j = 0;

		while (j < len && tolower((unsigned char)name.p[i + j]) == word[j])
			j++;
		if (j == len)
			return true;
	}
	return false;
}

static bool ends_with(struct str name, const char *word)
{
	size_t len = strlen(word);

	return name.len >= len && has_word((struct str){name.p + name.len - len, len}, word);
}

bool ctl_is_secret_name(struct str name)
{
	static const char *const words[] = {
		"token",       "password",   "passwd",        "secret",     "credential",
		"accesskey",   "apikey",     "privatekey",    "access_key", "api_key",
		"access-key",  "api-key",    "clientkey",     "client-key", "private_key",
		"private-key", "passphrase", "authorization", "cookie"};
	/* Of things that hold one, or say something of it. */
	static const char *const harmless[] = {"name",     "names",   "namespace", "ref",  "path",
					       "file",     "seconds", "audience",  "type", "dir",
					       "optional", "reviews", "policy",    "kind"};

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
		if (ends_with(name, harmless[i]))
			return false;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (has_word(name, words[i]))
			return true;
	}
	return false;
}

/* ---- texts ---- */

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool is_token_char(char c)
{
	return isalnum((unsigned char)c) || strchr("-_=+/.~", c) != NULL;
}

static size_t run_of(struct str s, size_t from, bool (*fits)(char c))
{
	size_t i = from;

	while (i < s.len && s.p[i] && fits(s.p[i]))
		i++;
	return i - from;
}

/* A JSON Web Token (RFC 7519): three parts of base64url, the first of which is an object. */
static size_t jwt_at(struct str s, size_t at)
{
	size_t len, dots = 0;

	if (s.len - at < 20 || memcmp(s.p + at, "eyJ", 3) != 0)
		return 0;
	len = run_of(s, at, is_token_char);
	for (size_t i = at; i < at + len; i++)
		dots += s.p[i] == '.';
	return dots >= 2 ? len : 0;
}

static bool has_at(struct str s, size_t at, const char *word)
{
	size_t len = strlen(word);

	return at + len <= s.len && has_word((struct str){s.p + at, len}, word);
}

/* How long the value is that begins at `at`: what quotes hold, else up to a space, comma or such.
 */
static size_t value_at(struct str s, size_t at)
{
	size_t end = at;

	if (at < s.len && (s.p[at] == '"' || s.p[at] == '\'')) {
		end = at + 1;
		while (end < s.len && s.p[end] != s.p[at])
			end++;
		return end < s.len ? end + 1 - at : s.len - at;
	}
	while (end < s.len && !strchr(" \t,;&}])\"", s.p[end]))
		end++;
	return end - at;
}

/* KEY=VALUE, KEY: VALUE, "KEY": VALUE: where the value begins; 0: it's no such thing. */
static size_t value_behind(struct str s, size_t at, size_t name_len)
{
	size_t i = at + name_len;

	if (i < s.len && (s.p[i] == '"' || s.p[i] == '\''))
		i++;
	while (i < s.len && (s.p[i] == ' ' || s.p[i] == '\t'))
		i++;
	if (i >= s.len || (s.p[i] != '=' && s.p[i] != ':'))
		return 0;
	i++;
	while (i < s.len && (s.p[i] == ' ' || s.p[i] == '\t'))
		i++;
	return i < s.len ? i : 0;
}

/* "https://user:password@host": where the password begins, and how long it is. */
static size_t password_at(struct str s, size_t at, size_t *ret_begin)
{
	size_t i = at + 3, colon = 0;

	if (!has_at(s, at, "://"))
		return 0;
	for (; i < s.len && !strchr("/ \t\"'?#", s.p[i]); i++) {
		if (s.p[i] == ':' && !colon)
			colon = i;
		if (s.p[i] == '@' && colon) {
			*ret_begin = colon + 1;
			return i - colon - 1;
		}
	}
	return 0;
}

/* What is to be taken out next, from *ret_begin on; 0: nothing. */
static size_t find_secret(struct str s, size_t at, size_t *ret_begin)
{
	bool begins = at == 0 || !is_name_char(s.p[at - 1]);
	size_t len = jwt_at(s, at), name;

	*ret_begin = at;
	if (len)
		return len;
	len = password_at(s, at, ret_begin);
	if (len)
		return len;
	if (!begins || !is_name_char(s.p[at]))
		return 0;
	if (has_at(s, at, "bearer ")) {
		*ret_begin = at + 7;
		return run_of(s, at + 7, is_token_char);
	}
	name = run_of(s, at, is_name_char);
	if (!ctl_is_secret_name((struct str){s.p + at, name}))
		return 0;
	*ret_begin = value_behind(s, at, name);
	if (!*ret_begin)
		return 0;
	if (has_at(s, *ret_begin, "bearer ") || has_at(s, *ret_begin, "basic "))
		return s.len - *ret_begin;
	return value_at(s, *ret_begin);
}

static int redact_line(struct str s, struct buf *out, struct err *err)
{
	size_t kept = 0;

	for (size_t at = 0; at < s.len;) {
		size_t begin, len = find_secret(s, at, &begin);

		if (!len) {
			at++;
			continue;
		}
		if (buf_append(out, s.p + kept, begin - kept, err) < 0 ||
		    buf_append_str(out, STR(CTL_REDACTED), err) < 0)
			return -1;
		at = kept = begin + len;
	}
	return buf_append(out, s.p + kept, s.len - kept, err);
}

int ctl_redact_text(struct str text, struct buf *out, struct err *err)
{
	static const char begin[] = "-----BEGIN ", what[] = "PRIVATE KEY-----", end[] = "-----END ";
	bool in_key = false;
	struct str rest = text, line;

	while (rest.len) {
		bool ends = str_cut(rest, '\n', &line, &rest);
		bool starts = line.len && memmem(line.p, line.len, begin, sizeof(begin) - 1) &&
			      memmem(line.p, line.len, what, sizeof(what) - 1);

		if (starts || in_key) {
			in_key = !(line.len && memmem(line.p, line.len, end, sizeof(end) - 1));
			if (starts && buf_append_str(out, STR(CTL_REDACTED "\n"), err) < 0)
				return -1;
			continue;
		}
		if (redact_line(line, out, err) < 0 || (ends && buf_append(out, "\n", 1, err) < 0))
			return -1;
	}
	return 0;
}

/* ---- objects ---- */

static struct jmut *redact_string(struct jmut_doc *doc, struct str s)
{
	struct buf out = BUF_INIT(MAX_STRING);
	struct jmut *v;

	v = ctl_redact_text(s, &out, NULL) < 0 ? jmut_strz(doc, CTL_REDACTED)
					       : jmut_str(doc, buf_str(&out));
	buf_done(&out);
	return v;
}

/* "--password", in whose place's next one the value stands. */
static bool is_secret_flag(const struct json *v)
{
	struct str s = json_str(v);

	return s.len > 1 && s.p[0] == '-' && !memchr(s.p, '=', s.len) && ctl_is_secret_name(s);
}

static struct jmut *redact_array(struct jmut_doc *doc, const struct json *value)
{
	struct jmut *out = jmut_array(doc);
	struct json_iter it = json_iter(value);
	bool is_secret = false;

	while (json_next(&it)) {
		jmut_push(doc, out,
			  is_secret && json_type(it.value) == JSON_STRING
				  ? jmut_strz(doc, CTL_REDACTED)
				  : ctl_redact(doc, it.value));
		is_secret = is_secret_flag(it.value);
	}
	return out;
}

static bool is_text(const struct json *v)
{
	return json_type(v) == JSON_STRING;
}

static struct jmut *redact_object(struct jmut_doc *doc, const struct json *value)
{
	struct jmut *out = jmut_object(doc);
	struct json_iter it = json_iter(value);
	bool is_secret = str_eqz(json_str(json_get(value, "kind")), "Secret");
	bool is_variable = ctl_is_secret_name(json_str(json_get(value, "name"))) &&
			   is_text(json_get(value, "value"));

	while (json_next(&it)) {
		bool hide = is_text(it.value) &&
			    (ctl_is_secret_name(it.key) || str_eqz(it.key, LAST) ||
			     (is_variable && str_eqz(it.key, "value")));

		if (str_eqz(it.key, "managedFields"))
			continue;
		if (is_secret && (str_eqz(it.key, "data") || str_eqz(it.key, "stringData")))
			hide = true;
		if (str_eqz(it.key, "caBundle") && is_text(it.value))
			jmut_setn(doc, out, it.key,
				  jmut_strf(doc, "<%zu bytes>", json_str(it.value).len));
		else
			jmut_add(doc, out, it.key,
				 hide ? jmut_strz(doc, CTL_REDACTED) : ctl_redact(doc, it.value));
	}
	return out;
}

struct jmut *ctl_redact(struct jmut_doc *doc, const struct json *value)
{
	switch (json_type(value)) {
	case JSON_STRING:
		return redact_string(doc, json_str(value));
	case JSON_ARRAY:
		return redact_array(doc, value);
	case JSON_OBJECT:
		return redact_object(doc, value);
	default:
		return jmut_copy(doc, value);
	}
}
