/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain: gathers, looks for the first rule that fits, and prints it for people or programs. The
 * looks that rules share are here, the rules in explain_rules.c.
 */
#include "ctl/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "ctl/commands.h"
#include "ctl/facts.h"
#include "ctl/term.h"
#include "kube/config.h"
#include "kube/object.h"

#define MAX_WORDS ((size_t)8 << 10)
#define WIDTH     96

/* ---- what rules share ---- */

void ctl_say(struct ctl_look *l, const char *fmt, ...)
{
	va_list ap;

	if (l->out->why.len)
		(void)buf_append(&l->out->why, " ", 1, NULL);
	va_start(ap, fmt);
	(void)buf_vprintf(&l->out->why, NULL, fmt, ap);
	va_end(ap);
}

static bool has_said(const struct ctl_look *l, const char *z)
{
	return l->words.len && memmem(l->words.p, l->words.len, z, strlen(z));
}

void ctl_say_place(struct ctl_look *l)
{
	int64_t position = json_int(json_get(l->queued, "position"), 0);
	char place[48];

	snprintf(place, sizeof(place), "place %" PRId64 " in the queue", position);
	if (l->queued && !has_said(l, place))
		ctl_say(l, "It is at place %" PRId64 " of the queue%s.", position,
			has_said(l, "in the queue") ? " by now" : "");
}

void ctl_remark(struct ctl_look *l, const char *fmt, ...)
{
	va_list ap;

	if (l->out->n_remarks == CTL_MAX_REMARKS)
		return;
	va_start(ap, fmt);
	(void)buf_vprintf(&l->out->remarks[l->out->n_remarks++], NULL, fmt, ap);
	va_end(ap);
}

/* ---- what it waits for ---- */

static int64_t time_of(const struct json *v)
{
	int64_t ms;

	return clock_parse(json_str(v), &ms, NULL) < 0 ? 0 : ms;
}

static int64_t event_ms(const struct json *event)
{
	static const char *const members[] = {"lastTimestamp", "eventTime", "firstTimestamp"};
	int64_t ms = time_of(json_at(event, "series", "lastObservedTime", NULL));

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && !ms; i++)
		ms = time_of(json_get(event, members[i]));
	return ms;
}

static bool is_rule_reason(struct str reason)
{
	for (const struct ctl_rule *r = ctl_rules; r->id; r++) {
		if (r->reason && str_eqz(reason, r->reason))
			return true;
	}
	return false;
}

/* The newest Event is the operator's last word, unless it tells of progress. */
static void look_at_events(struct ctl_look *l)
{
	struct json_iter it = json_iter(json_get(ctl_fact(l->facts, "events"), "items"));
	const struct json *last = NULL;
	int64_t last_ms = 0;

	while (json_next(&it)) {
		struct str uid = json_str(json_at(it.value, "involvedObject", "uid", NULL));
		struct str source = json_str(json_at(it.value, "source", "component", NULL));
		int64_t ms = event_ms(it.value);

		if ((uid.len && !str_eq(uid, l->uid)) || !str_eqz(source, "ipu-operator") ||
		    ms < last_ms)
			continue;
		last = it.value;
		last_ms = ms;
	}
	if (!is_rule_reason(json_str(json_get(last, "reason"))))
		return;
	l->reason = json_str(json_get(last, "reason"));
	l->words = json_str(json_get(last, "message"));
	if (!l->out->since_ms)
		l->out->since_ms = time_of(json_get(last, "firstTimestamp"));
}

static void look_at_queue(struct ctl_look *l)
{
	struct json_iter it = json_iter(json_get(ctl_fact(l->facts, "queue"), "items"));
	int64_t lowest = INT64_MAX;

	while (json_next(&it)) {
		int64_t position = json_int(json_get(it.value, "position"), INT64_MAX - 1);

		if (!str_eqz(json_str(json_get(it.value, "kind")), l->is_pod ? "Pod" : "IPUJob") ||
		    !str_eq(json_str(json_get(it.value, "namespace")), l->ns) ||
		    !str_eq(json_str(json_get(it.value, "name")), l->name) || position >= lowest)
			continue;
		lowest = position;
		l->queued = it.value;
	}
	if (!l->queued || !is_rule_reason(json_str(json_get(l->queued, "reason"))))
		return;
	l->reason = json_str(json_get(l->queued, "reason"));
	l->words = json_str(json_get(l->queued, "message"));
	l->out->since_ms = time_of(json_get(l->queued, "since"));
}

static bool has_trouble(const struct json *pod)
{
	struct str phase = json_str(json_at(pod, "status", "phase", NULL));

	return !kube_is_deleting(pod) && !str_eqz(phase, "Succeeded") &&
	       !(str_eqz(phase, "Running") && ctl_is_on(pod, "Ready"));
}

static void look_at_pods(struct ctl_look *l)
{
	struct json_iter it = json_iter(json_get(ctl_fact(l->facts, "pods"), "items"));

	if (l->is_pod)
		l->pod = l->object;
	while (!l->pod && json_next(&it)) {
		if (has_trouble(it.value))
			l->pod = it.value;
	}
}

static void look_at_annotation(struct ctl_look *l)
{
	struct str reason, words, all = kube_annotation(l->object, "graphcore.ai/waiting");

	if (!l->is_pod || !str_cut(all, ':', &reason, &words) || !is_rule_reason(reason))
		return;
	l->reason = reason;
	l->words = str_trim(words);
}

static void look_at_state(struct ctl_look *l)
{
	static const char *const stages[] = {"Running",   "Restarting", "Suspended",
					     "Succeeded", "Failed",     "Pending"};

	l->state = json_str(json_get(l->status, l->is_pod ? "phase" : "launcherStatus"));
	for (size_t i = 0; !l->is_pod && i < sizeof(stages) / sizeof(stages[0]); i++) {
		const struct json *c = ctl_condition(l->object, stages[i]);

		if (!str_eqz(json_str(json_get(c, "status")), "True"))
			continue;
		l->out->since_ms = time_of(json_get(c, "lastTransitionTime"));
		if (!l->state.len)
			l->state = str_of(stages[i]);
	}
	if (!l->state.len)
		l->state = STR("Pending");
	if (!l->out->since_ms)
		l->out->since_ms = kube_creation_ms(l->object);
}

void ctl_explain(const struct json *facts, struct ctl_explanation *ret)
{
	struct ctl_look l = {.facts = facts, .out = ret};

	memset(ret, 0, sizeof(*ret));
	ret->why.limit = MAX_WORDS;
	for (size_t i = 0; i < CTL_MAX_REMARKS; i++)
		ret->remarks[i].limit = MAX_WORDS;
	l.is_pod = str_eqz(json_str(json_get(facts, "kind")), "Pod");
	l.ns = json_str(json_get(facts, "namespace"));
	l.name = json_str(json_get(facts, "name"));
	l.object = ctl_fact(facts, "object");
	l.status = json_get(l.object, "status");
	l.uid = kube_uid(l.object);
	if (l.object) {
		look_at_state(&l);
		look_at_pods(&l);
		look_at_events(&l);
		look_at_annotation(&l);
		look_at_queue(&l);
	}
	for (const struct ctl_rule *r = ctl_rules; r->id && !ret->id; r++) {
		if (!r->fits(&l, r))
			continue;
		ret->id = r->id;
		ret->next = r->next;
		ret->help = r->help;
	}
	ret->state = l.object ? l.state : STR("Unknown");
	if (l.object)
		ctl_remarks(&l);
}

void ctl_explanation_done(struct ctl_explanation *e)
{
	buf_done(&e->why);
	for (size_t i = 0; i < CTL_MAX_REMARKS; i++)
		buf_done(&e->remarks[i]);
}

/* ---- printing ---- */

/* Words behind a head, broken at spaces, the following lines indented. */
static void print_block(struct buf *out, const char *head, struct str text)
{
	CLEANUP_FREE char *shown = ctl_printable(text);
	size_t column = 9;
	struct str word, rest = str_of(shown);

	if (!text.len)
		return;
	(void)buf_printf(out, NULL, "%s%-9s%s", ctl_style(CTL_BOLD), head, ctl_style_end());
	while (rest.len) {
		str_cut(rest, ' ', &word, &rest);
		if (column > 9 && column + 1 + word.len > WIDTH) {
			(void)buf_printf(out, NULL, "\n%9s", "");
			column = 9;
		} else if (column > 9) {
			(void)buf_append(out, " ", 1, NULL);
			column++;
		}
		(void)buf_append_str(out, word, NULL);
		column += word.len;
	}
	(void)buf_append(out, "\n", 1, NULL);
}

static enum ctl_style style_of(struct str state)
{
	if (str_eqz(state, "Failed") || str_eqz(state, "Unknown"))
		return CTL_RED;
	return str_eqz(state, "Running") || str_eqz(state, "Completed") ||
			       str_eqz(state, "Succeeded")
		       ? CTL_GREEN
		       : CTL_YELLOW;
}

static void print_text(const struct json *facts, const struct ctl_explanation *e, struct buf *out)
{
	CLEANUP_FREE char *state = ctl_printable(e->state);
	char age[CLOCK_AGE_SIZE], when[CLOCK_RFC3339_SIZE];

	(void)buf_printf(out, NULL, "%s %s/%s: %s%s%s", json_cstr(json_get(facts, "kind")),
			 json_cstr(json_get(facts, "namespace")),
			 json_cstr(json_get(facts, "name")), ctl_style(style_of(e->state)), state,
			 ctl_style_end());
	if (e->since_ms) {
		clock_format_age(clock_wall_ms() - e->since_ms, age);
		clock_format(e->since_ms, when);
		(void)buf_printf(out, NULL, ", for %s (since %s)", age, when);
	}
	(void)buf_append(out, "\n", 1, NULL);
	print_block(out, "Why:", buf_str(&e->why));
	print_block(out, "Next:", str_of(e->next));
	print_block(out, "You can:", str_of(e->help));
	for (size_t i = 0; i < e->n_remarks; i++)
		print_block(out, "Also:", buf_str(&e->remarks[i]));
}

static int print_json(const struct json *facts, const struct ctl_explanation *e,
		      enum ctl_output output, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *remarks = jmut_array(doc);
	static const char *const members[] = {"kind", "namespace", "name"};
	char when[CLOCK_RFC3339_SIZE];

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		jmut_set(doc, root, members[i], jmut_copy(doc, json_get(facts, members[i])));
	jmut_set(doc, root, "state", jmut_str(doc, e->state));
	if (e->since_ms) {
		clock_format(e->since_ms, when);
		jmut_set_str(doc, root, "since", when);
	}
	jmut_set_str(doc, root, "cause", e->id);
	jmut_set(doc, root, "why", jmut_str(doc, buf_str(&e->why)));
	jmut_set_str(doc, root, "next", e->next);
	jmut_set_str(doc, root, "help", e->help);
	for (size_t i = 0; i < e->n_remarks; i++)
		jmut_push(doc, remarks, jmut_str(doc, buf_str(&e->remarks[i])));
	jmut_set(doc, root, "remarks", remarks);
	return ctl_write_value(jmut_view(root), output, out, err);
}

static int print(const struct ctl_options *o, const struct json *facts,
		 const struct ctl_explanation *e, struct err *err)
{
	struct buf out = BUF_INIT((size_t)1 << 20);
	int result = 0;

	if (o->output == CTL_JSON || o->output == CTL_YAML)
		result = print_json(facts, e, o->output, &out, err);
	else
		print_text(facts, e, &out);
	if (result == 0)
		result = ctl_write_out(buf_str(&out), err);
	buf_done(&out);
	return result;
}

/* ---- the command ---- */

/* "JOB", "ipujob/JOB", "pod/POD". */
static int which(const char *word, bool *is_pod, const char **ret_name, struct err *err)
{
	static const struct {
		const char *prefix;
		bool is_pod;
	} kinds[] = {{"ipujob", false},
		     {"ipujobs", false},
		     {"ipujob.graphcore.ai", false},
		     {"ipujobs.graphcore.ai", false},
		     {"pod", true},
		     {"pods", true},
		     {"po", true}};
	const char *slash = strchr(word, '/');

	*is_pod = false;
	*ret_name = slash ? slash + 1 : word;
	for (size_t i = 0; slash && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (str_ieqz((struct str){word, (size_t)(slash - word)}, kinds[i].prefix)) {
			*is_pod = kinds[i].is_pod;
			slash = NULL;
		}
	}
	if (slash)
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be the name of an IPUJob, or pod/NAME", word);
	return kube_check_name("the name", str_of(*ret_name), true, err);
}

int ctl_run_explain(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	const char *ns = ctl_link_namespace(link), *name;
	struct ctl_explanation e;
	bool is_pod;
	int result;

	if (which(o->words[0], &is_pod, &name, err) < 0 ||
	    kube_check_name("--namespace", str_of(ns), false, err) < 0 ||
	    ctl_facts_gather(link, o, ns, name, is_pod, doc, err) < 0)
		return -1;
	ctl_explain(jmut_view(jmut_root(doc)), &e);
	result = print(o, jmut_view(jmut_root(doc)), &e, err);
	ctl_explanation_done(&e);
	if (result == 0 && !ctl_fact(jmut_view(jmut_root(doc)), "object"))
		return err_set(err, ERR_NOT_FOUND, 0, "%s %s/%s isn't there",
			       is_pod ? "Pod" : "IPUJob", ns, name);
	return result;
}
