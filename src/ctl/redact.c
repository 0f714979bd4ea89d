/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Better one value too many than one too few: what is kept back is marked, so a reader can ask for
 * it.
 */
#include "ctl/redact.h"

#include <ctype.h>
#include <string.h>

#define MAX_STRING ((size_t)16 << 20)
#define MAX_URL    4096 /* so that a long line of many costs little */
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

/* As a word of its own, or the end of one: "DB_PASS", "dbpass", "authToken", but not "author". */
static bool has_short(struct str name, const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i + len <= name.len; i++) {
		struct str here = {name.p + i, len};
		char last = name.p[i + len - 1];
		char next = (char)(i + len < name.len ? name.p[i + len] : '_');

		if (has_word(here, word) &&
		    (!isalpha((unsigned char)next) ||
		     (islower((unsigned char)last) && isupper((unsigned char)next))))
			return true;
	}
	return false;
}

/* Whether a value of this name is to be kept back: "accessKey", "MY_TOKEN", "--password". A name of
 * something that holds one ("secretName") isn't. */
static bool is_secret_name(struct str name)
{
	static const char *const words[] = {
		"token",      "password",   "passwd",        "secret",       "credential",
		"passphrase", "accesskey",  "apikey",        "clientkey",    "privatekey",
		"sshkey",     "signingkey", "_key",          "-key",         ".key",
		"cookie",     "passcode",   "encryptionkey", "authorization"};
	static const char *const short_words[] = {"pass", "auth", "pwd"};
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
	for (size_t i = 0; i < sizeof(short_words) / sizeof(short_words[0]); i++) {
		if (has_short(name, short_words[i]))
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

/* ---- values ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'';
}

static size_t skip_blanks(struct str s, size_t i)
{
	while (i < s.len && is_blank(s.p[i]))
		i++;
	return i;
}

/* What quotes hold, with them; n backslashes stand before the first one, as in JSON within JSON.
 * One inside has more before it: 2n + 1 of its own kind, or twice as many as are part of the value.
 */
static size_t quoted_at(struct str s, size_t quote, size_t n)
{
	size_t run = 0;

	for (size_t i = quote + 1; i < s.len; i++) {
		if (s.p[i] == s.p[quote] && (s.p[quote] == '\'' || run % (2 * (n + 1)) == n))
			return i + 1 - quote;
		run = s.p[i] == '\\' ? run + 1 : 0;
	}
	return s.len - quote;
}

/* [...] or {...}, as far as this line goes. */
static size_t nested_at(struct str s, size_t at)
{
	size_t depth = 0;

	for (size_t i = at; i < s.len; i++) {
		if (is_quote(s.p[i]))
			i += quoted_at(s, i, 0) - 1;
		if (i >= s.len)
			break;
		depth += s.p[i] == '[' || s.p[i] == '{';
		depth -= s.p[i] == ']' || s.p[i] == '}';
		if (!depth)
			return i + 1 - at;
	}
	return s.len - at;
}

static bool is_end(struct str s, size_t at)
{
	return at >= s.len || strchr(" \t,;&}])\"'\\", s.p[at]) != NULL;
}

/* Whether a value ends with what stands here: behind a comma or such with the next KEY= or quote,
 * since one may be part of a password; behind a bracket or a quote with what may follow one. */
static bool ends_here(struct str s, size_t at)
{
	size_t next = at + 1, name;

	if (is_blank(s.p[at]))
		return true;
	if (strchr("}])\"'", s.p[at]))
		return is_end(s, next);
	if (!strchr(",;&", s.p[at]))
		return false;
	if (is_end(s, next) || s.p[next] == '{' || s.p[next] == '[')
		return true;
	name = run_of(s, next, is_name_char);
	return name && next + name < s.len && strchr("=:", s.p[next + name]);
}

/* How long the value is that begins at `at`: quotes, brackets, or up to a space or what ends it. */
static size_t value_at(struct str s, size_t at)
{
	size_t end = at, slashes = at;

	if (at < s.len && (s.p[at] == '[' || s.p[at] == '{'))
		return nested_at(s, at);
	while (slashes < s.len && s.p[slashes] == '\\')
		slashes++;
	if (slashes < s.len && s.p[slashes] == '"')
		end = slashes + quoted_at(s, slashes, slashes - at);
	/* A shell's 'a'"b"c is one word. */
	while (end < s.len && ((is_quote(s.p[end]) && (end == at || is_quote(s.p[end - 1]))) ||
			       !ends_here(s, end))) {
		if (end > at && slashes > at && strchr(",}]:", s.p[end]))
			break;
		end += is_quote(s.p[end]) ? quoted_at(s, end, 0) : 1;
	}
	return end - at;
}

/* KEY=VALUE, KEY: VALUE, "KEY": VALUE, --KEY VALUE: where the value begins; 0: it's no such thing.
 */
static size_t value_behind(struct str s, size_t at, size_t name_len)
{
	size_t i = at + name_len, flag = skip_blanks(s, i);

	if (s.p[at] == '-' && flag > i && flag < s.len && s.p[flag] != '-' && s.p[flag] != '=' &&
	    s.p[flag] != ':')
		return flag;
	while (i < s.len && s.p[i] == '\\')
		i++;
	if (i < s.len && is_quote(s.p[i]))
		i++;
	i = skip_blanks(s, i);
	if (i >= s.len || (s.p[i] != '=' && s.p[i] != ':'))
		return 0;
	i++;
	if (i < s.len && (s.p[i] == '=' || s.p[i] == '>'))
		i++;
	i = skip_blanks(s, i);
	return i < s.len ? i : 0;
}

/* "https://user:password@host": where the password begins (what stands there alone may be one too),
 * and how long it is. It ends with the last @, since people forget to write one in it as %40. */
static size_t password_at(struct str s, size_t at, size_t *ret_begin)
{
	size_t i = at + 3, colon = 0, last = 0, slash = 0;

	if (!has_at(s, at, "://"))
		return 0;
	for (; i < s.len && i - at < MAX_URL && !strchr(" \t\"'`<>", s.p[i]); i++) {
		if (s.p[i] == ':' && !colon && !last)
			colon = i;
		if (strchr("/?#", s.p[i]) && !slash)
			slash = i;
		if (s.p[i] == '@' && (colon || !slash))
			last = i;
	}
	*ret_begin = colon ? colon + 1 : at + 3;
	return last > *ret_begin ? last - *ret_begin : 0;
}

/* ---- lines ---- */

/* What is known from the lines before. */
struct reading {
	bool in_key;      /* within a private key */
	bool in_block;    /* within the value of a key: what is indented further than it */
	size_t column;    /* the key's */
	bool may_be_list; /* its "- " may stand in the same column */
	bool is_variable; /* the last "name" was a secret's: so is the next "value" */
	bool has_program; /* what is on the line is for one whose -p is a password */
};

/* ---- -pSECRET ---- */

/* A password right behind the option, or in the next word. */
static bool has_program(struct str s)
{
	static const char *const programs[] = {
		"mysql",        "mysqldump",     "mysqladmin", "mysqlimport", "mysqlsh",
		"mariadb",      "mariadb-admin", "sshpass",    "vipu",        "vipu-cli",
		"mariadb-dump", "vipu-admin",    "7z",         "7za",         "7zz"};

	for (size_t at = 0, len; at < s.len; at += len ? len : 1) {
		len = run_of(s, at, is_name_char);
		for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
			if (str_ieqz((struct str){s.p + at, len}, programs[i]))
				return true;
		}
	}
	return false;
}

static bool is_of_word(char c)
{
	return islower((unsigned char)c) || c == '-' || c == '_';
}

static bool is_of_number(char c)
{
	return isdigit((unsigned char)c) || strchr(".:,-/", c);
}

/* Of another program -p may have a port, a number or a path behind it, or begin a word, as in
 * "-pthread" and "-path=x". */
static bool is_harmless(struct str s, size_t at)
{
	size_t word = at + run_of(s, at, is_of_word);
	size_t number = at + run_of(s, at, is_of_number);

	return s.p[at] == '/' || s.p[at] == '.' || (number > at && is_end(s, number)) ||
	       (word > at && (is_end(s, word) || strchr("=:", s.p[word])));
}

/* The value of -p; 0: it's no password. */
static size_t glued_value(const struct reading *r, struct str s, size_t at, size_t *ret_begin)
{
	size_t begin = at + 2, len;
	const char *end;

	if (begin >= s.len || s.p[at] != '-' || s.p[at + 1] != 'p')
		return 0;
	if (r->has_program)
		begin = skip_blanks(s, begin);
	begin += begin < s.len && s.p[begin] == '=';
	if (begin >= s.len || (!is_quote(s.p[begin]) && is_end(s, begin)) ||
	    (begin > at + 2 && s.p[begin] == '-') || (!r->has_program && is_harmless(s, begin)))
		return 0;
	len = value_at(s, begin);
	end = is_quote(s.p[begin]) ? NULL : memchr(s.p + begin, '\\', len);
	*ret_begin = begin;
	return end ? (size_t)(end - s.p) - begin : len;
}

/* ---- keys of lines ---- */

/* Where a line's first key is: behind the "- " of a list, and a quote. */
static size_t first_column(struct str s)
{
	size_t i = skip_blanks(s, 0);

	while (i + 1 < s.len && s.p[i] == '-' && s.p[i + 1] == ' ')
		i = skip_blanks(s, i + 1);
	return i;
}

/* The value of a line's first key is the whole rest, but for a comment; lines that are indented
 * further belong to it. *ret_begin is where it begins; 0: nothing stands on this line. */
static size_t line_value(struct reading *r, struct str s, size_t at, size_t name, size_t *ret_begin)
{
	size_t column = first_column(s), colon = at + name;
	const char *comment;

	if (at != column && !(at == column + 1 && is_quote(s.p[column])))
		return 0;
	colon += colon < s.len && is_quote(s.p[colon]);
	colon = skip_blanks(s, colon);
	if (colon >= s.len || s.p[colon] != ':' || (colon + 1 < s.len && !is_blank(s.p[colon + 1])))
		return 0;
	*ret_begin = skip_blanks(s, colon + 1);
	r->in_block = true;
	r->column = column;
	r->may_be_list = *ret_begin >= s.len || s.p[*ret_begin] == '#';
	if (*ret_begin >= s.len || strchr("\"'[{", s.p[*ret_begin]))
		return 0; /* what has an end of its own */
	comment = memmem(s.p + *ret_begin, s.len - *ret_begin, " #", 2);
	return (comment ? (size_t)(comment - s.p) : s.len) - *ret_begin;
}

/* The value of a name; 0: it has none here. */
static size_t named_value(struct reading *r, struct str s, size_t at, size_t name,
			  size_t *ret_begin)
{
	struct str key = {s.p + at, name};
	size_t value = value_behind(s, at, name), len;

	if (str_eqz(key, "name") && value) {
		while (value < s.len && (is_quote(s.p[value]) || s.p[value] == '\\'))
			value++;
		r->is_variable = is_secret_name(
			(struct str){s.p + value, run_of(s, value, is_name_char)});
		return 0;
	}
	if (!is_secret_name(key) && !(r->is_variable && str_eqz(key, "value")))
		return 0;
	len = line_value(r, s, at, name, ret_begin);
	if (len || !value)
		return len;
	*ret_begin = value;
	if (has_at(s, value, "bearer ") || has_at(s, value, "basic ") ||
	    (!is_quote(s.p[value]) && (has_word(key, "authorization") || has_word(key, "cookie"))))
		return s.len - value;
	return value_at(s, value);
}

/* What is to be taken out next, from *ret_begin on; 0: nothing. */
static size_t find_secret(struct reading *r, struct str s, size_t at, size_t *ret_begin)
{
	bool begins = at == 0 || !is_name_char(s.p[at - 1]);
	size_t len = jwt_at(s, at);

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
	len = named_value(r, s, at, run_of(s, at, is_name_char), ret_begin);
	return len ? len : glued_value(r, s, at, ret_begin);
}

static int redact_line(struct reading *r, struct str s, struct buf *out, struct err *err)
{
	size_t kept = 0;

	for (size_t at = 0; at < s.len;) {
		size_t begin, len = find_secret(r, s, at, &begin);

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

static bool has(struct str line, const char *words)
{
	return line.len && memmem(line.p, line.len, words, strlen(words));
}

/* Whether a line goes on with the value of the key before. */
static bool is_in_block(const struct reading *r, struct str line)
{
	size_t indent = skip_blanks(line, 0);

	return r->in_block && (indent == line.len || indent > r->column ||
			       (indent == r->column && r->may_be_list && line.p[indent] == '-'));
}

/* program: it's an argument of one that is no part of the text. */
static int redact_text(struct str text, bool program, struct buf *out, struct err *err)
{
	struct reading r = {0};
	struct str rest = text, line;
	bool was_hidden = false; /* one mark for all lines of a value */

	while (rest.len) {
		bool ends = str_cut(rest, '\n', &line, &rest);
		bool starts = has(line, "-----BEGIN ") && has(line, "PRIVATE KEY-----");
		bool is_block = is_in_block(&r, line);

		if (starts || r.in_key || (is_block && skip_blanks(line, 0) < line.len)) {
			r.in_key = (starts || r.in_key) && !has(line, "-----END ");
			if (!was_hidden && buf_append_str(out, STR(CTL_REDACTED "\n"), err) < 0)
				return -1;
			was_hidden = true;
			continue;
		}
		r.in_block = is_block;
		r.has_program = program || has_program(line);
		was_hidden = was_hidden && is_block;
		if (redact_line(&r, line, out, err) < 0 ||
		    (ends && buf_append(out, "\n", 1, err) < 0))
			return -1;
	}
	return 0;
}

int ctl_redact_text(struct str text, struct buf *out, struct err *err)
{
	return redact_text(text, false, out, err);
}

struct str ctl_last_lines(struct str text, size_t most)
{
	size_t cut = text.len > most ? text.len - most : 0;
	const char *end = cut ? memchr(text.p + cut - 1, '\n', most + 1) : NULL;

	if (!cut)
		return text;
	cut = end ? (size_t)(end + 1 - text.p) : text.len;
	return (struct str){text.p + cut, text.len - cut};
}

/* ---- objects ---- */

static struct jmut *redact_string(struct jmut_doc *doc, struct str s, bool program)
{
	struct buf out = BUF_INIT(MAX_STRING);
	struct jmut *v;

	v = redact_text(s, program, &out, NULL) < 0 ? jmut_strz(doc, CTL_REDACTED)
						    : jmut_str(doc, buf_str(&out));
	buf_done(&out);
	return v;
}

/* "--password", in whose place's next one the value stands. */
static bool is_secret_flag(const struct json *v)
{
	struct str s = json_str(v);

	return s.len > 1 && s.p[0] == '-' && !memchr(s.p, '=', s.len) && is_secret_name(s);
}

/* A command, or its arguments alone. */
static bool array_has_program(const struct json *array)
{
	struct json_iter it = json_iter(array);

	while (json_type(array) == JSON_ARRAY && json_next(&it)) {
		if (has_program(json_str(it.value)))
			return true;
	}
	return false;
}

static struct jmut *redact_array(struct jmut_doc *doc, const struct json *value, bool hides_all,
				 bool program)
{
	struct jmut *out = jmut_array(doc);
	struct json_iter it = json_iter(value);
	bool is_secret = hides_all;

	program = program || array_has_program(value);
	while (json_next(&it)) {
		bool is_string = json_type(it.value) == JSON_STRING;
		struct str s = json_str(it.value);

		jmut_push(doc, out,
			  is_secret && is_string ? jmut_strz(doc, CTL_REDACTED)
			  : is_string            ? redact_string(doc, s, program)
						 : ctl_redact(doc, it.value));
		is_secret = hides_all || is_secret_flag(it.value) || (program && str_eqz(s, "-p"));
	}
	return out;
}

static bool is_text(const struct json *v)
{
	return json_type(v) == JSON_STRING;
}

/* Those that the operator and its chart set. What people put into theirs is nobody else's business,
 * and a name such as WANDB_KEY or HF_PAT is only one of many. */
static bool is_known_variable(struct str name)
{
	static const char *const prefixes[] = {
		"IPUOF_", "IPUOPERATOR_", "IPUCTL_", "POPDIST_",   "OMPI_",       "PRTE_",
		"HYDRA",  "KUBERNETES_",  "POD_IP",  "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (str_has_prefix(name, str_of(prefixes[i])))
			return !is_secret_name(name);
	}
	return false;
}

static struct jmut *redact_object(struct jmut_doc *doc, const struct json *value)
{
	struct jmut *out = jmut_object(doc);
	struct json_iter it = json_iter(value);
	bool is_secret = str_eqz(json_str(json_get(value, "kind")), "Secret");
	bool is_variable = is_text(json_get(value, "value")) && is_text(json_get(value, "name")) &&
			   !is_known_variable(json_str(json_get(value, "name")));

	while (json_next(&it)) {
		bool hide = is_text(it.value) && (is_secret_name(it.key) || str_eqz(it.key, LAST) ||
						  (is_variable && str_eqz(it.key, "value")));

		if (str_eqz(it.key, "managedFields"))
			continue;
		if ((is_secret && (str_eqz(it.key, "data") || str_eqz(it.key, "stringData"))) ||
		    str_eqz(it.key, "binaryData"))
			hide = true;
		if (str_eqz(it.key, "caBundle") && is_text(it.value))
			jmut_setn(doc, out, it.key,
				  jmut_strf(doc, "<%zu bytes>", json_str(it.value).len));
		else if (json_type(it.value) == JSON_ARRAY)
			jmut_add(doc, out, it.key,
				 redact_array(doc, it.value, is_secret_name(it.key),
					      array_has_program(json_get(value, "command"))));
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
		return redact_string(doc, json_str(value), false);
	case JSON_ARRAY:
		return redact_array(doc, value, false, false);
	case JSON_OBJECT:
		return redact_object(doc, value);
	default:
		return jmut_copy(doc, value);
	}
}
