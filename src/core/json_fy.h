/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of the libfyaml JSON back-end: nodes in an arena, between its parser and its readers.
 * Nothing outside this folder includes it.
 */
#ifndef IPU_CORE_JSON_FY_H
#define IPU_CORE_JSON_FY_H

#include "core/json_impl.h"

struct fy_json_node {
	struct fy_json_node *next; /* in its container */
	const char *key;           /* in an object; terminated */
	size_t key_len;
	enum json_type type;
	union {
		bool b;
		int64_t n;
		struct {
			const char *p; /* a string, terminated; a real as it was written */
			size_t len;
			double d;
		};
		struct {
			struct fy_json_node *first, *last;
			size_t count;
		};
	};
};

struct fy_json_chunk {
	struct fy_json_chunk *next;
	_Alignas(8) char p[];
};

struct fy_json_doc {
	struct fy_json_node *root;
	struct fy_json_chunk *chunks;
	char *free;
	size_t left;
	bool may_fail; /* a peer decides how much it needs: NULL instead of the end */
	bool secret;   /* wiped behind */
};

/* They return NULL without memory, if the document may fail; else they end the process. */
struct fy_json_node *json_fy_node(struct fy_json_doc *doc, enum json_type type);
struct fy_json_node *json_fy_string(struct fy_json_doc *doc, struct str s);
/* A terminated copy. */
const char *json_fy_text(struct fy_json_doc *doc, struct str s);

void json_fy_append(struct fy_json_node *container, struct fy_json_node *v);
void json_fy_free(struct fy_json_doc *doc); /* NULL is fine */

#endif
