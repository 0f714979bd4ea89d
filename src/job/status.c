/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's status in memory: conditions and words, copying, comparing, and the JSON of a patch.
 */
#include "job/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/intern.h"
#include "core/str.h"

#define MESSAGE_MAX  1024
#define MEMORY_BYTES (256 * 1024) /* of all instances' messages, as etcd has them */

static const char *const condition_names[JOB_CONDITIONS] = {
	[JOB_PENDING] = "Pending",       [JOB_RUNNING] = "Running",
	[JOB_RESTARTING] = "Restarting", [JOB_SUSPENDED] = "Suspended",
	[JOB_SUCCEEDED] = "Succeeded",   [JOB_FAILED] = "Failed",
	[JOB_CREATED] = "Created",       [JOB_RECONCILING] = "Reconciling",
	[JOB_STALLED] = "Stalled",
};

const char *job_condition_name(enum job_condition_type type)
{
	return condition_names[type];
}

const char *job_stage_word(enum job_condition_type stage)
{
	return stage == JOB_SUCCEEDED ? "Completed" : condition_names[stage];
}

static const struct job_condition none;

const struct job_condition *job_condition(const struct job_status *s, enum job_condition_type type)
{
	for (unsigned i = 0; i < s->n_conditions; i++) {
		if (s->conditions[i].type == type)
			return &s->conditions[i];
	}
	return &none;
}

bool job_condition_present(const struct job_status *s, enum job_condition_type type)
{
	return job_condition(s, type) != &none;
}

struct job_condition *job_condition_need(struct job_status *s, enum job_condition_type type)
{
	unsigned at = 0;

	while (at < s->n_conditions && s->conditions[at].type < type)
		at++;
	if (at < s->n_conditions && s->conditions[at].type == type)
		return &s->conditions[at];
	s->conditions = xrealloc(s->conditions, (s->n_conditions + 1) * sizeof(*s->conditions));
	memmove(&s->conditions[at + 1], &s->conditions[at],
		(s->n_conditions - at) * sizeof(*s->conditions));
	s->n_conditions++;
	s->conditions[at] = (struct job_condition){.type = type};
	return &s->conditions[at];
}

static void replace(const char **field, const char *z)
{
	const char *word = intern_z(z); /* it may be the field's own */

	intern_drop(*field);
	*field = word;
}

/* Else the status in memory and the API's would differ for ever. */
void job_status_clean(char *z, size_t max)
{
	struct str rest = str_of(z);
	char *to = z;

	while (rest.len) {
		size_t n = str_utf8_first(rest);

		if (n == 0) {
			n = 1;
			*to++ = '?';
		} else if ((unsigned char)*rest.p < 0x20 || *rest.p == 0x7f) {
			*to++ = ' ';
		} else {
			memmove(to, rest.p, n);
			to += n;
		}
		rest = (struct str){rest.p + n, rest.len - n};
	}
	*to = '\0';
	if ((size_t)(to - z) > max) /* never beyond what was there */
		memcpy(z + str_utf8_cut((struct str){z, (size_t)(to - z)}, max - strlen("…")), "…",
		       sizeof("…"));
}

/* Times move only with what they are the times of. */
static void set_condition(struct job_status *s, enum job_condition_type type, bool on,
			  int64_t now_ms, const char *reason, const char *message)
{
	bool is_new = !job_condition_present(s, type);
	struct job_condition *c = job_condition_need(s, type);

	if (is_new || c->on != on) {
		c->transition_ms = c->update_ms = now_ms;
		c->on = on;
	}
	if (on && (!str_same(c->reason, reason) || !str_same(c->message, message))) {
		replace(&c->reason, reason);
		replace(&c->message, message);
		c->update_ms = now_ms;
	}
}

void job_status_set(struct job_status *s, enum job_condition_type on, int64_t now_ms,
		    const char *reason, const char *fmt, ...)
{
	char message[MESSAGE_MAX + 64]; /* what is too long is cut at a character */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	job_status_clean(message, MESSAGE_MAX - 1);
	for (int i = 0; i < JOB_STAGES; i++) {
		bool is_on = i == (int)on;

		if (is_on || job_condition_present(s, i))
			set_condition(s, i, is_on, now_ms, reason, message);
	}
}

void job_status_mark(struct job_status *s, enum job_condition_type type, bool on, int64_t now_ms,
		     const char *reason, const char *fmt, ...)
{
	char message[MESSAGE_MAX + 64]; /* what is too long is cut at a character */
	va_list ap;

	if (!on && !job_condition_present(s, type))
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	job_status_clean(message, MESSAGE_MAX - 1);
	set_condition(s, type, on, now_ms, reason, message);
}

void job_status_say(struct job_status *s, const char *launcher_status, const char *fmt, ...)
{
	char message[MESSAGE_MAX + 64]; /* what is too long is cut at a character */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	job_status_clean(message, MESSAGE_MAX - 1);
	replace(&s->launcher_status, launcher_status);
	replace(&s->last_message, message);
}

/* ---- what etcd takes ---- */

/* Of a character as the API server stores it: its JSON is safe inside HTML. */
static size_t stored_bytes(const char *p, size_t n)
{
	switch (*p) {
	case '<':
	case '>':
	case '&':
		return 6;
	case '"':
	case '\\':
		return 2;
	default:
		return n == 3 && memcmp(p, "\xe2\x80", 2) == 0 ? 6 : n; /* U+2028 is one of them */
	}
}

/* Cuts at a character, if more would be stored than fits. */
static void cut_message(const char **message, size_t budget)
{
	struct str rest = str_of(*message);
	size_t stored = 0, keep = 0;

	if (rest.len * 6 <= budget)
		return;
	while (rest.len) {
		size_t n = str_utf8_first(rest);

		n = n ? n : 1;
		stored += stored_bytes(rest.p, n);
		rest = (struct str){rest.p + n, rest.len - n};
		if (stored + stored_bytes("…", 3) <= budget)
			keep = (size_t)(rest.p - *message);
	}
	if (stored <= budget)
		return;
	CLEANUP_FREE char *cut = xasprintf("%.*s…", (int)keep, *message);
	replace(message, cut);
}

void job_status_bound(struct job_status *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_instances; i++)
		n += s->instances[i].message != NULL;
	for (size_t i = 0; i < s->n_instances; i++) {
		if (s->instances[i].message)
			cut_message(&s->instances[i].message, MEMORY_BYTES / n);
	}
}

/* ---- copies ---- */

void job_status_done(struct job_status *s)
{
	for (unsigned i = 0; i < s->n_conditions; i++) {
		intern_drop(s->conditions[i].reason);
		intern_drop(s->conditions[i].message);
	}
	free(s->conditions);
	for (size_t i = 0; i < s->n_instances; i++)
		intern_drop(s->instances[i].message);
	free(s->instances);
	intern_drop(s->launcher_status);
	intern_drop(s->last_message);
	*s = (struct job_status){0};
}

void job_status_copy_memory(struct job_status *to, const struct job_status *from)
{
	to->n_instances = from->n_instances;
	if (!from->n_instances)
		return;
	to->instances = xcalloc(from->n_instances, sizeof(*to->instances));
	memcpy(to->instances, from->instances, from->n_instances * sizeof(*to->instances));
	for (size_t i = 0; i < from->n_instances; i++)
		to->instances[i].message = intern_ref(from->instances[i].message);
}

void job_status_copy(struct job_status *to, const struct job_status *from)
{
	struct job_status copy = *from;

	copy.conditions = xcalloc(from->n_conditions, sizeof(*copy.conditions));
	for (unsigned i = 0; i < from->n_conditions; i++) {
		copy.conditions[i] = from->conditions[i];
		intern_ref(copy.conditions[i].reason);
		intern_ref(copy.conditions[i].message);
	}
	copy.instances = NULL;
	job_status_copy_memory(&copy, from);
	copy.launcher_status = intern_ref(from->launcher_status);
	copy.last_message = intern_ref(from->last_message);
	*to = copy;
}

static bool conditions_equal(const struct job_condition *a, const struct job_condition *b)
{
	return a->type == b->type && a->on == b->on &&
	       a->transition_ms / 1000 == b->transition_ms / 1000 &&
	       str_same(a->reason, b->reason) && str_same(a->message, b->message);
}

static bool same_second(int64_t a_ms, int64_t b_ms)
{
	return a_ms / 1000 == b_ms / 1000;
}

static bool instance_equal(const struct job_instance *a, const struct job_instance *b)
{
	return a->phase == b->phase && a->run == b->run && a->restarts == b->restarts &&
	       a->tries == b->tries && a->complete == b->complete && a->over == b->over &&
	       a->yields == b->yields && same_second(a->start_ms, b->start_ms) &&
	       same_second(a->since_ms, b->since_ms) && same_second(a->running_ms, b->running_ms) &&
	       same_second(a->retry_ms, b->retry_ms) && same_second(a->release_ms, b->release_ms) &&
	       str_same(a->message, b->message);
}

/* Those that aren't there have nothing to say. */
static bool instances_equal(const struct job_status *a, const struct job_status *b)
{
	static const struct job_instance nothing;
	size_t n = a->n_instances > b->n_instances ? a->n_instances : b->n_instances;

	for (size_t i = 0; i < n; i++) {
		if (!instance_equal(i < a->n_instances ? &a->instances[i] : &nothing,
				    i < b->n_instances ? &b->instances[i] : &nothing))
			return false;
	}
	return true;
}

bool job_status_equal(const struct job_status *a, const struct job_status *b)
{
	if (a->n_conditions != b->n_conditions)
		return false;
	for (unsigned i = 0; i < a->n_conditions; i++) {
		if (!conditions_equal(&a->conditions[i], &b->conditions[i]))
			return false;
	}
	/* The API keeps whole seconds. */
	return instances_equal(a, b) && str_same(a->launcher_status, b->launcher_status) &&
	       str_same(a->last_message, b->last_message) && a->selects == b->selects &&
	       a->partition_created == b->partition_created &&
	       a->start_ms / 1000 == b->start_ms / 1000 &&
	       a->completion_ms / 1000 == b->completion_ms / 1000 &&
	       a->restart_count == b->restart_count && a->active == b->active &&
	       a->succeeded == b->succeeded && a->failed == b->failed &&
	       a->current_replicas == b->current_replicas &&
	       a->desired_replicas == b->desired_replicas &&
	       a->observed_generation == b->observed_generation;
}

static void encode_time(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t wall_ms)
{
	char z[CLOCK_RFC3339_SIZE];

	if (!wall_ms)
		return;
	clock_format(wall_ms, z);
	jmut_set_str(doc, obj, key, z);
}

static struct jmut *encode_conditions(struct jmut_doc *doc, const struct job_status *s)
{
	struct jmut *arr = jmut_array(doc);

	for (unsigned i = 0; i < s->n_conditions; i++) {
		const struct job_condition *c = &s->conditions[i];
		struct jmut *obj = jmut_object(doc);

		jmut_set_str(doc, obj, "type", condition_names[c->type]);
		jmut_set_str(doc, obj, "status", c->on ? "True" : "False");
		jmut_set_str(doc, obj, "reason", c->reason ? c->reason : "");
		jmut_set_str(doc, obj, "message", c->message ? c->message : "");
		encode_time(doc, obj, "lastUpdateTime", c->update_ms);
		encode_time(doc, obj, "lastTransitionTime", c->transition_ms);
		jmut_push(doc, arr, obj);
	}
	return arr;
}

const char *job_instance_phase_name(enum job_instance_phase phase)
{
	static const char *const names[] = {
		[JOB_INSTANCE_WAITING] = "Waiting",       [JOB_INSTANCE_RUNNING] = "Running",
		[JOB_INSTANCE_RESTARTING] = "Restarting", [JOB_INSTANCE_SUCCEEDED] = "Succeeded",
		[JOB_INSTANCE_FAILED] = "Failed",
	};
	return names[phase];
}

static struct jmut *encode_instance(struct jmut_doc *doc, size_t index,
				    const struct job_instance *mem)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_int(doc, obj, "index", (int64_t)index);
	jmut_set_str(doc, obj, "phase", job_instance_phase_name(mem->phase));
	if (mem->run)
		jmut_set_int(doc, obj, "run", mem->run);
	if (mem->restarts)
		jmut_set_int(doc, obj, "restarts", mem->restarts);
	if (mem->tries)
		jmut_set_int(doc, obj, "tries", mem->tries);
	if (mem->complete)
		jmut_set_bool(doc, obj, "complete", true);
	if (mem->over)
		jmut_set_bool(doc, obj, "over", true);
	if (mem->yields)
		jmut_set_bool(doc, obj, "yields", true);
	encode_time(doc, obj, "startTime", mem->start_ms);
	encode_time(doc, obj, "since", mem->since_ms);
	encode_time(doc, obj, "runningTime", mem->running_ms);
	encode_time(doc, obj, "retryTime", mem->retry_ms);
	encode_time(doc, obj, "releaseTime", mem->release_ms);
	if (mem->message)
		jmut_set_str(doc, obj, "message", mem->message);
	return obj;
}

/* A merge patch replaces a list as a whole: what isn't in it is forgotten. */
static struct jmut *encode_instances(struct jmut_doc *doc, const struct job_status *s)
{
	static const struct job_instance nothing;
	struct jmut *arr = jmut_array(doc);

	for (size_t i = 0; i < s->n_instances; i++) {
		if (!instance_equal(&s->instances[i], &nothing))
			jmut_push(doc, arr, encode_instance(doc, i, &s->instances[i]));
	}
	return arr;
}

struct jmut *job_status_encode(struct jmut_doc *doc, const struct job *job,
			       const struct job_status *s)
{
	CLEANUP_FREE char *selector = job_selector(job);
	struct jmut *root = jmut_object(doc), *st = jmut_object(doc), *workers = jmut_object(doc);

	jmut_set(doc, st, "conditions", encode_conditions(doc, s));
	jmut_set_str(doc, st, "launcherStatus",
		     s->launcher_status ? s->launcher_status : "Pending");
	jmut_set_bool(doc, st, "iPUPartitionCreated", s->partition_created);
	jmut_set_int(doc, st, "restartCount", s->restart_count);
	encode_time(doc, st, "startTime", s->start_ms);
	encode_time(doc, st, "completionTime", s->completion_ms);
	encode_time(doc, st, "lastReconcileTime", s->reconcile_ms);
	jmut_set_int(doc, workers, "active", s->active);
	jmut_set_int(doc, workers, "succeeded", s->succeeded);
	jmut_set_int(doc, workers, "failed", s->failed);
	jmut_set(doc, st, "workersStatus", workers);
	jmut_set_int(doc, st, "currentReplicas", s->current_replicas);
	jmut_set_int(doc, st, "desiredReplicas", s->desired_replicas);
	jmut_set_str(doc, st, "lastMessage", s->last_message ? s->last_message : "");
	jmut_set_str(doc, st, "selector", selector);
	jmut_set_int(doc, st, "observedGeneration", s->observed_generation);
	jmut_set(doc, st, "instances", encode_instances(doc, s));
	jmut_set(doc, root, "status", st);
	return root;
}
