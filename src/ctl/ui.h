/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipuctl ui: who may ask its listener (ui_guard.c), what is passed on to the operator (ui_pass.c),
 * whose the partitions are (ui_names.c), and the browser (ui_browser.c). Uses proxy's page, kube,
 * http, loop and core.
 */
#ifndef IPU_CTL_UI_H
#define IPU_CTL_UI_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/str.h"
#include "ctl/link.h"
#include "ctl/options.h"
#include "http/server.h"
#include "loop/loop.h"

/* ---- the guard ---- */

#define UI_KEY_SIZE 33 /* 128 bits in hex */

struct ui_guard {
	unsigned port;
	char token[UI_KEY_SIZE]; /* first part of each path */
	/* What the browser is started with, since other users of the machine see command lines:
	 * worth one visit, which leads to the token. "": none. */
	char once[UI_KEY_SIZE];
	bool is_once_used;
};

void ui_guard_init(struct ui_guard *guard);

enum ui_verdict {
	UI_PASS,
	UI_STRANGER,   /* 403: another host's name, or asked by another site's page */
	UI_UNKNOWN,    /* 404 */
	UI_BARE,       /* the token without the slash behind it */
	UI_FIRST,      /* the visit that `once` is worth */
	UI_USED_TWICE, /* the next one: 404, and somebody else may have it */
};

/* *ret_name: what follows "/TOKEN/", as it was sent. */
enum ui_verdict ui_guard_judge(struct ui_guard *guard, const struct http_exchange *ex,
			       struct str *ret_name);

/* ---- passing on ---- */

struct ui_passes; /* all that run */

struct ui_passes *ui_passes_new(struct ctl_link *link);
void ui_passes_free(struct ui_passes *passes); /* the server has ended; NULL is fine */
/* Answers with the data that the operator has at path, which lives for ever; is_stream: it is an
 * event stream, which never ends, else JSON. */
void ui_pass(struct ui_passes *passes, struct http_exchange *ex, const char *path, bool is_stream);

/* ---- names ---- */

struct ui_names;

/* ERR_INVALID: o's namespaces aren't names. */
int ui_names_new(struct ctl_link *link, const struct ctl_options *o, struct ui_names **ret,
		 struct err *err);
void ui_names_free(struct ui_names *names); /* the server has ended; NULL is fine */
void ui_names_answer(struct ui_names *names, struct http_exchange *ex);

/* ---- the browser ---- */

struct ui_browser;

/* Starts it, unless there's no screen to show it on; says on standard error what went wrong. Never
 * NULL. */
struct ui_browser *ui_browser_start(struct loop *loop, const char *address);
void ui_browser_free(struct ui_browser *browser); /* it lives on; NULL is fine */

#endif
