/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowed slices of bytes, and the few string helpers that several layers need.
 * A struct str owns nothing and isn't terminated; whoever hands it out says how long it lives.
 */
#ifndef IPU_CORE_STR_H
#define IPU_CORE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/err.h"

struct str {
	const char *p; /* may be NULL when len is 0 */
	size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_NULL     ((struct str){NULL, 0})
/* For printf: "%.*s", STR_ARG(s) */
#define STR_ARG(s) (int)(s).len, (s).p ? (s).p : ""

static inline struct str str_of(const char *z)
{
	return (struct str){z, z ? strlen(z) : 0};
}

bool str_eq(struct str a, struct str b);
bool str_eqz(struct str a, const char *z);
bool str_same(const char *a, const char *b); /* NULL counts as empty */
bool str_ieqz(struct str a, const char *z);  /* ASCII letters without case */
bool str_has_prefix(struct str s, struct str prefix);
bool str_has_suffix(struct str s, struct str suffix);
struct str str_trim(struct str s); /* spaces, tabs, CR, LF at both ends */

/* Cuts at the first sep: *head before it, *tail behind it (empty when there is none).
 * Returns whether sep was there. */
bool str_cut(struct str s, char sep, struct str *ret_head, struct str *ret_tail);

/* Is it one of "A, B,C"? Blanks around an item don't count; an empty one is in no list. */
bool str_list_has(struct str list, struct str item);

/* Of "name=value;name=value": a value without quotes; STR_NULL where it isn't there. Names without
 * case. */
struct str str_parameter(struct str params, const char *name);
/* Their q in thousandths (RFC 9110, 12.4.2): 1000 where none is given, 0 where it can't be read. */
unsigned str_weight(struct str params);

/* How many letters must be changed, added or left out to make one of the other (Levenshtein),
 * whatever their case; of what is longer than any name, more than can be a slip. */
size_t str_distance(struct str a, struct str b);
/* Was name meant by what was typed? Then it's *near from now on, unless that is as close: begins as
 * STR_NULL, which it stays where no name is within two slips. */
void str_meant(struct str typed, struct str name, struct str *near);

/* Whole string as a decimal number within [min, max]; no sign but '-', no spaces. */
int str_to_int(struct str s, int64_t min, int64_t max, int64_t *ret, struct err *err);

/* The length of the well-formed UTF-8 sequence (RFC 3629) that s begins with, 0 if it doesn't. */
size_t str_utf8_first(struct str s);
bool str_is_utf8(struct str s);
/* The length of what s begins with, if that is a character that controls a terminal: C0 and DEL (a
 * byte), or C1 (U+0080 to U+009F, of which CSI is one: two bytes); else 0. */
size_t str_control_first(struct str s);
/* How many of s's bytes, at most max, can be kept without cutting a sequence. */
size_t str_utf8_cut(struct str s, size_t max);

/* Small fixed allocations: they abort the process when memory is out (doc/design/decisions.md,
 * "Memory"). */
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *z); /* NULL stays NULL */
char *xstrndup(const char *p, size_t len);
char *str_dup(struct str s);         /* terminated copy */
char *str_dup_or_null(struct str s); /* NULL of what is empty */
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line for people that is mostly not there, so that it takes no room then: NULL stands for "".
 * The owner frees it. */
void str_keep(char **line, const char *text); /* a copy of it, or NULL for "" and NULL */
void str_keepf(char **line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *str_kept(const char *line); /* never NULL */

/* free, for __attribute__((cleanup)): CLEANUP_FREE char *s = …; */
void cleanup_freep(void *p);
#define CLEANUP_FREE __attribute__((cleanup(cleanup_freep)))

/* Wipes memory in a way that the compiler keeps: keys, tokens. */
void str_wipe(void *p, size_t len);

/* FNV-1a, 64 bits: goes on from h, which begins as HASH_FNV. The same in every process and release;
 * for what no peer gains by guessing. */
#define HASH_FNV UINT64_C(0xcbf29ce484222325)
uint64_t hash_fnv(uint64_t h, struct str s);
/* SHA-256 of the parts one after the other (by mbedTLS). */
void hash_sha256(const struct str *parts, size_t n_parts, uint8_t ret_digest[32]);
/* SHA-1, for what a protocol prescribes (RFC 6455's handshake), and nothing that must be safe. */
void hash_sha1(const struct str *parts, size_t n_parts, uint8_t ret_digest[20]);
void hex_encode(const uint8_t *p, size_t len, char *ret_z); /* 2·len + 1 bytes, lower case */
int hex_digit(char c);                                      /* 0 to 15; -1: none */

/* Base64 (RFC 4648, with padding). Decoding allows line breaks; *ret is terminated and the
 * caller's to free. */
char *base64_encode(const void *p, size_t len);
int base64_decode(struct str s, uint8_t **ret, size_t *ret_len, struct err *err);

#endif
