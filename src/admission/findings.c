/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: lists that grow to a bound, each text once.
 */
#include "admission/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

#define MORE_WARNINGS "there are more warnings than can be shown"

void admission_findings_done(struct admission_findings *f)
{
	for (size_t i = 0; i < f->n_problems; i++) {
		free(f->problems[i].path);
		free(f->problems[i].kind);
		free(f->problems[i].message);
	}
	for (size_t i = 0; i < f->n_warnings; i++)
		free(f->warnings[i]);
	free(f->problems);
	free(f->denied);
	*f = (struct admission_findings)ADMISSION_FINDINGS_INIT;
}

__attribute__((format(printf, 1, 0))) static char *text_of(const char *fmt, va_list ap)
{
	char *z = NULL;

	if (vasprintf(&z, fmt, ap) < 0)
		abort();
	return z;
}

static bool is_known(const struct admission_findings *f, const char *path, const char *kind,
		     const char *message)
{
	for (size_t i = 0; i < f->n_problems; i++) {
		const struct admission_cause *c = &f->problems[i];

		if (strcmp(c->path, path) == 0 && strcmp(c->kind, kind) == 0 &&
		    strcmp(c->message, message) == 0)
			return true;
	}
	return false;
}

/* Takes message. */
static void add_problem(struct admission_findings *f, const char *path, const char *kind,
			char *message)
{
	if (is_known(f, path, kind, message)) {
		free(message);
		return;
	}
	if (f->n_problems == ADMISSION_MAX_PROBLEMS) {
		f->n_more++;
		free(message);
		return;
	}
	if (!f->problems)
		f->problems = xcalloc(ADMISSION_MAX_PROBLEMS, sizeof(*f->problems));
	f->problems[f->n_problems++] = (struct admission_cause){
		.path = xstrdup(path),
		.kind = xstrdup(kind),
		.message = message,
	};
}

void admission_problem(struct admission_findings *f, const char *path, const char *kind,
		       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add_problem(f, path, kind, text_of(fmt, ap));
	va_end(ap);
}

void admission_report(void *findings, const char *path, const char *kind, const char *message)
{
	add_problem(findings, path, kind, xstrdup(message));
}

void admission_deny(struct admission_findings *f, int code, const char *fmt, ...)
{
	va_list ap;

	if (f->denied)
		return;
	f->code = code;
	va_start(ap, fmt);
	f->denied = text_of(fmt, ap);
	va_end(ap);
}

/* One line within the bound, well-formed, with an ellipsis where something is missing. */
static void trim_warning(char *z)
{
	static const char ellipsis[] = "…";
	size_t len = strlen(z);

	for (char *p = z; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
	}
	if (len <= ADMISSION_MAX_WARNING_BYTES)
		return;
	len = str_utf8_cut((struct str){z, len},
			   ADMISSION_MAX_WARNING_BYTES - (sizeof(ellipsis) - 1));
	memcpy(z + len, ellipsis, sizeof(ellipsis));
}

static bool is_warned(const struct admission_findings *f, const char *text)
{
	for (size_t i = 0; i < f->n_warnings; i++) {
		if (strcmp(f->warnings[i], text) == 0)
			return true;
	}
	return false;
}

void admission_warn(struct admission_findings *f, const char *fmt, ...)
{
	char *text;
	va_list ap;

	if (f->warnings_cut)
		return;
	va_start(ap, fmt);
	text = text_of(fmt, ap);
	va_end(ap);
	trim_warning(text);
	if (!text[0] || is_warned(f, text)) {
		free(text);
		return;
	}
	if (f->n_warnings == ADMISSION_MAX_WARNINGS) {
		free(f->warnings[ADMISSION_MAX_WARNINGS - 1]);
		free(text);
		f->warnings[ADMISSION_MAX_WARNINGS - 1] = xstrdup(MORE_WARNINGS);
		f->warnings_cut = true;
		return;
	}
	f->warnings[f->n_warnings++] = text;
}

bool admission_is_allowed(const struct admission_findings *f)
{
	return !f->denied && f->n_problems == 0;
}

static const struct {
	const char *kind, *text, *cause;
} kinds[] = {
	{"Required", "Required value", "FieldValueRequired"},
	{"Forbidden", "Forbidden", "FieldValueForbidden"},
	{"Invalid", "Invalid value", "FieldValueInvalid"},
	{"Unsupported", "Unsupported value", "FieldValueNotSupported"},
	{"Too long", "Too long", "FieldValueTooLong"},
	{"Duplicate", "Duplicate value", "FieldValueDuplicate"},
	{"Not found", "Not found", "FieldValueNotFound"},
	{"Too many", "Too many", "FieldValueTooMany"},
};

const char *admission_kind_text(const char *kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].kind, kind) == 0)
			return kinds[i].text;
	}
	return kind;
}

const char *admission_kind_cause(const char *kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].kind, kind) == 0)
			return kinds[i].cause;
	}
	return "FieldValueInvalid";
}
