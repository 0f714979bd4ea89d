/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How simulated Pods are to behave: the defaults, and rules for names. Owns the rules.
 * One table says what settings there are, for reading and for showing them.
 */
#include "sim/kubelet_impl.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

#define DAY_MS 86400000

struct rule {
	struct list link;
	char *name;      /* a glob */
	int64_t count;   /* Pods that it is for still; 0: all */
	unsigned chosen; /* a bit for each setting of the table that it has */
	struct sim_pod_behaviour values;
};

enum setting_kind { SETTING_NUMBER, SETTING_BOOL, SETTING_TEXT };

#define AT(member)   offsetof(struct sim_pod_behaviour, member)
#define SIZE(member) sizeof(((struct sim_pod_behaviour *)0)->member)

static const struct setting {
	const char *key;
	enum setting_kind kind;
	size_t offset;
	int64_t most;  /* a number's largest value, a text's size with its NUL */
	bool or_never; /* a number: -1 is one, too */
} settings[] = {
	{"scheduleMs", SETTING_NUMBER, AT(schedule_ms), DAY_MS, false},
	{"startMs", SETTING_NUMBER, AT(start_ms), DAY_MS, false},
	{"runMs", SETTING_NUMBER, AT(run_ms), DAY_MS, false},
	{"termMs", SETTING_NUMBER, AT(term_ms), DAY_MS, false},
	{"initMs", SETTING_NUMBER, AT(init_ms), DAY_MS, false},
	{"readyMs", SETTING_NUMBER, AT(ready_ms), DAY_MS, true},
	{"exitCode", SETTING_NUMBER, AT(exit_code), 255, false},
	{"initExitCode", SETTING_NUMBER, AT(init_exit_code), 255, false},
	{"evict", SETTING_BOOL, AT(evict), 0, false},
	{"oom", SETTING_BOOL, AT(oom), 0, false},
	{"run", SETTING_BOOL, AT(run), 0, false},
	{"startErrorMs", SETTING_NUMBER, AT(start_error_ms), DAY_MS, false},
	{"container", SETTING_TEXT, AT(container), SIZE(container), false},
	{"initContainer", SETTING_TEXT, AT(init_container), SIZE(init_container), false},
	{"startError", SETTING_TEXT, AT(start_error), SIZE(start_error), false},
	{"message", SETTING_TEXT, AT(message), SIZE(message), false},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static void *member(struct sim_pod_behaviour *b, const struct setting *s)
{
	return (char *)b + s->offset;
}

static const void *const_member(const struct sim_pod_behaviour *b, const struct setting *s)
{
	return (const char *)b + s->offset;
}

/* ---- reading ---- */

static int read_number(const struct setting *s, const struct json *v, void *to, struct err *err)
{
	int64_t least = s->or_never ? -1 : 0, n = json_int(v, -2);

	if (json_type(v) != JSON_INT || n < least || n > s->most)
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be a whole number from %" PRId64 " to %" PRId64, s->key,
			       least, s->most);
	*(unsigned *)to = n < 0 ? SIM_NEVER : (unsigned)n;
	return 0;
}

static int read_text(const struct setting *s, const struct json *v, char *to, struct err *err)
{
	struct str text = json_str(v);

	if (json_type(v) != JSON_STRING || (int64_t)text.len >= s->most)
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be a string of less than %" PRId64 " bytes", s->key,
			       s->most);
	memcpy(to, text.p, text.len);
	to[text.len] = '\0';
	return 0;
}

static int read_setting(struct sim_pod_behaviour *b, const struct setting *s, const struct json *v,
			struct err *err)
{
	void *to = member(b, s);

	if (s->kind == SETTING_NUMBER)
		return read_number(s, v, to, err);
	if (s->kind == SETTING_TEXT)
		return read_text(s, v, to, err);
	if (json_type(v) != JSON_BOOL)
		return err_set(err, ERR_INVALID, 0, "%s: must be true or false", s->key);
	*(bool *)to = json_bool(v, false);
	return 0;
}

static int read_rule_key(struct rule *r, struct str key, const struct json *v, struct err *err)
{
	if (str_eqz(key, "name")) {
		if (!json_str(v).len)
			return err_set(err, ERR_INVALID, 0,
				       "name: must be a pattern for Pods' names");
		r->name = str_dup(json_str(v));
		return 0;
	}
	r->count = json_int(v, -1);
	if (json_type(v) != JSON_INT || r->count < 0)
		return err_set(err, ERR_INVALID, 0, "count: must be a number of Pods, 0 for all");
	return 0;
}

static int read_all(struct rule *r, const struct json *v, struct err *err)
{
	struct json_iter it = json_iter(v);

	if (json_type(v) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "must be an object");
	while (json_next(&it)) {
		size_t i = 0;

		if (str_eqz(it.key, "name") || str_eqz(it.key, "count")) {
			if (read_rule_key(r, it.key, it.value, err) < 0)
				return -1;
			continue;
		}
		while (i < SETTINGS && !str_eqz(it.key, settings[i].key))
			i++;
		if (i == SETTINGS)
			return err_set(err, ERR_INVALID, 0, "%.*s: there is no such setting",
				       STR_ARG(it.key));
		if (read_setting(&r->values, &settings[i], it.value, err) < 0)
			return -1;
		r->chosen |= 1U << i;
	}
	if (r->count && !r->name)
		return err_set(err, ERR_INVALID, 0, "count: goes with a name only");
	return 0;
}

static void free_rule(struct rule *r)
{
	list_unlink(&r->link);
	free(r->name);
	free(r);
}

/* The settings that a rule has, over those of b. */
static void apply(const struct rule *r, struct sim_pod_behaviour *b)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		size_t size = settings[i].kind == SETTING_NUMBER ? sizeof(unsigned)
			      : settings[i].kind == SETTING_BOOL ? sizeof(bool)
								 : (size_t)settings[i].most;

		if (r->chosen & (1U << i))
			memcpy(member(b, &settings[i]), const_member(&r->values, &settings[i]),
			       size);
	}
}

int pod_rules_set(struct pod_rules *rules, const struct json *v, struct err *err)
{
	struct rule *r = xcalloc(1, sizeof(*r));

	list_init(&r->link);
	if (read_all(r, v, err) < 0) {
		free_rule(r);
		return -1;
	}
	if (r->name) {
		list_append(rules->rules.next, &r->link);
	} else {
		apply(r, &rules->defaults);
		free_rule(r);
	}
	return 0;
}

/* ---- using ---- */

void pod_rules_init(struct pod_rules *rules, const struct sim_pod_behaviour *defaults)
{
	rules->defaults = *defaults;
	list_init(&rules->rules);
}

void pod_rules_clear(struct pod_rules *rules)
{
	LIST_FOREACH(pos, tmp, &rules->rules)
		free_rule(CONTAINER_OF(pos, struct rule, link));
}

struct sim_pod_behaviour pod_rules_take(struct pod_rules *rules, const char *ns, const char *name)
{
	CLEANUP_FREE char *whole = xasprintf("%s/%s", ns, name);
	struct sim_pod_behaviour b = rules->defaults;

	LIST_FOREACH(pos, tmp, &rules->rules) {
		struct rule *r = CONTAINER_OF(pos, struct rule, link);

		if (fnmatch(r->name, strchr(r->name, '/') ? whole : name, 0) != 0)
			continue;
		apply(r, &b);
		if (r->count > 0 && --r->count == 0)
			free_rule(r);
		break;
	}
	return b;
}

/* ---- showing ---- */

static int64_t shown(unsigned n)
{
	return n == SIM_NEVER ? -1 : (int64_t)n;
}

static struct jmut *show(struct jmut_doc *doc, const struct sim_pod_behaviour *b, unsigned chosen)
{
	struct jmut *obj = jmut_object(doc);

	for (size_t i = 0; i < SETTINGS; i++) {
		const struct setting *s = &settings[i];
		const void *from = const_member(b, s);

		if (!(chosen & (1U << i)))
			continue;
		if (s->kind == SETTING_NUMBER)
			jmut_set_int(doc, obj, s->key, shown(*(const unsigned *)from));
		else if (s->kind == SETTING_BOOL)
			jmut_set_bool(doc, obj, s->key, *(const bool *)from);
		else
			jmut_set_str(doc, obj, s->key, from);
	}
	return obj;
}

void pod_rules_to_json(const struct pod_rules *rules, struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *list = jmut_array(doc);

	jmut_set(doc, root, "defaults", show(doc, &rules->defaults, ~0U));
	LIST_FOREACH(pos, tmp, &rules->rules) {
		const struct rule *r = CONTAINER_OF(pos, struct rule, link);
		struct jmut *item = show(doc, &r->values, r->chosen);

		jmut_set_str(doc, item, "name", r->name);
		jmut_set_int(doc, item, "count", r->count);
		jmut_push(doc, list, item);
	}
	jmut_set(doc, root, "rules", list);
}
