/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds an object's metadata in bytes that can't be parsed: for naming what was passed over.
 * Pure; never reads past what it's given, never fails. Uses core/.
 */
#include "split.h"

#include <string.h>

struct scan {
	struct str s;
	size_t i;
};

/* At a '"': its contents, raw. False if the end is missing. */
static bool take_string(struct scan *sc, struct str *ret)
{
	size_t from = ++sc->i;
	while (sc->i < sc->s.len && sc->s.p[sc->i] != '"')
		sc->i += sc->s.p[sc->i] == '\\' ? 2 : 1;
	if (sc->i >= sc->s.len)
		return false;
	*ret = (struct str){sc->s.p + from, sc->i - from};
	sc->i++;
	return true;
}

static void copy(char *to, size_t size, struct str from)
{
	if (to[0] || from.len >= size || memchr(from.p, '\\', from.len))
		return;
	memcpy(to, from.p, from.len);
	to[from.len] = '\0';
}

static void note_member(struct kube_peek *ret, struct str key, struct str value)
{
	if (str_eqz(key, "name"))
		copy(ret->name, sizeof(ret->name), value);
	else if (str_eqz(key, "namespace"))
		copy(ret->ns, sizeof(ret->ns), value);
	else if (str_eqz(key, "uid"))
		copy(ret->uid, sizeof(ret->uid), value);
	else if (str_eqz(key, "resourceVersion"))
		copy(ret->version, sizeof(ret->version), value);
}

void kube_peek(struct str bytes, bool in_event, struct kube_peek *ret)
{
	static const char *const event_path[] = {"object", "metadata"};
	const char *const *path = in_event ? event_path : event_path + 1;
	size_t path_len = in_event ? 2 : 1;
	size_t depth = 0, matched = 0; /* matched: levels from the root on that lie on the path */
	struct scan sc = {bytes, 0};
	struct str key = STR_NULL, text;

	*ret = (struct kube_peek){.ns = ""};
	while (sc.i < sc.s.len) {
		switch (sc.s.p[sc.i]) {
		case '{':
		case '[':
			if (depth == 0 || (depth == matched && matched <= path_len &&
					   str_eqz(key, path[matched - 1])))
				matched++;
			depth++;
			key = STR_NULL;
			sc.i++;
			break;
		case '}':
		case ']':
			if (depth > 0 && depth == matched)
				matched--;
			depth -= depth > 0;
			key = STR_NULL;
			sc.i++;
			break;
		case ',':
			key = STR_NULL;
			sc.i++;
			break;
		case '"':
			if (!take_string(&sc, &text))
				return;
			if (!key.p)
				key = text;
			else if (depth == matched && matched == path_len + 1)
				note_member(ret, key, text);
			else if (in_event && depth == 1 && str_eqz(key, "type"))
				copy(ret->type, sizeof(ret->type), text);
			break;
		default:
			sc.i++;
		}
	}
}
