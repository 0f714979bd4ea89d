/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of leadership: pure, but for the jitter that core/rand.h gives.
 */
#include "lease_plan.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/rand.h"
#include "kube/object.h"

#define ADDRESS       "graphcore.ai/address"
#define MAX_CONFLICTS 2 /* in a row that are met at once; then there is a pause */

/* ---- documents ---- */

static void copy_word(char *to, size_t size, struct str s)
{
	size_t n = s.len < size - 1 ? s.len : size - 1;

	if (n > 0)
		memcpy(to, s.p, n);
	to[n] = '\0';
}

void lease_read(const struct json *object, struct lease_record *ret)
{
	const struct json *spec = json_get(object, "spec");
	int64_t seconds = json_int(json_get(spec, "leaseDurationSeconds"), 0);
	int64_t transitions = json_int(json_get(spec, "leaseTransitions"), 0);
	struct str address = kube_annotation(object, ADDRESS);

	if (seconds < 0)
		seconds = 0;
	if (seconds > LEASE_MAX_FOREIGN_MS / 1000)
		seconds = LEASE_MAX_FOREIGN_MS / 1000;
	if (address.len >= sizeof(ret->address))
		address = STR_NULL;
	copy_word(ret->holder, sizeof(ret->holder), json_str(json_get(spec, "holderIdentity")));
	copy_word(ret->address, sizeof(ret->address), address);
	copy_word(ret->version, sizeof(ret->version), kube_version(object));
	copy_word(ret->uid, sizeof(ret->uid), kube_uid(object));
	ret->duration_ms = seconds * 1000;
	ret->transitions = transitions > 0 && transitions < INT32_MAX ? transitions : 0;
}

static bool is_ours(const struct lease_state *s)
{
	return s->known == LEASE_THERE && strcmp(s->record.holder, s->identity) == 0;
}

/* As client-go writes it: acquireTime and leaseTransitions change when the holder does. */
static void write_spec(const struct lease_state *s, enum lease_action action, int64_t wall_ms,
		       struct jmut_doc *doc, struct jmut *root)
{
	bool gives_back = action == LEASE_WAIT;
	bool changes = gives_back || action == LEASE_CREATE || !is_ours(s);
	int64_t transitions = action == LEASE_CREATE ? 0 : s->record.transitions;
	struct jmut *spec = jmut_need_object(doc, root, "spec");
	char now_z[CLOCK_RFC3339_SIZE];

	clock_format_micro(wall_ms, now_z);
	jmut_set_str(doc, spec, "holderIdentity", gives_back ? "" : s->identity);
	/* One second says: given back by its holder. */
	jmut_set_int(doc, spec, "leaseDurationSeconds",
		     gives_back ? 1 : (s->duration_ms + 999) / 1000);
	jmut_set_str(doc, spec, "renewTime", now_z);
	if (changes)
		jmut_set_str(doc, spec, "acquireTime", now_z);
	if (!gives_back && changes && action != LEASE_CREATE)
		transitions++;
	jmut_set_int(doc, spec, "leaseTransitions", transitions);
}

struct jmut *lease_write(const struct lease_state *s, enum lease_action action, const char *name,
			 const char *ns, const char *address, int64_t wall_ms, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc);
	struct jmut *meta = jmut_need_object(doc, root, "metadata");

	if (action == LEASE_CREATE) {
		jmut_set_str(doc, root, "apiVersion", "coordination.k8s.io/v1");
		jmut_set_str(doc, root, "kind", "Lease");
		jmut_set_str(doc, meta, "name", name);
		jmut_set_str(doc, meta, "namespace", ns);
	} else {
		jmut_set_str(doc, meta, "resourceVersion", s->record.version);
	}
	if (address && action != LEASE_WAIT)
		jmut_set_str(doc, jmut_need_object(doc, meta, "annotations"), ADDRESS, address);
	else if (action != LEASE_CREATE && s->record.address[0])
		jmut_set(doc, jmut_need_object(doc, meta, "annotations"), ADDRESS, jmut_null(doc));
	write_spec(s, action, wall_ms, doc, root);
	return root;
}

/* ---- what is known ---- */

void lease_init(struct lease_state *s, const struct kube_lease_opts *opts, int64_t now_ms)
{
	memset(s, 0, sizeof(*s));
	copy_word(s->identity, sizeof(s->identity), str_of(opts->identity));
	s->duration_ms = opts->duration_ms ? opts->duration_ms : KUBE_LEASE_DURATION_MS;
	s->renew_ms = opts->renew_ms ? opts->renew_ms : KUBE_LEASE_RENEW_MS;
	s->retry_ms = opts->retry_ms ? opts->retry_ms : KUBE_LEASE_RETRY_MS;
	/* The watch's list is the first look. */
	s->try_at_ms = s->look_at_ms = now_ms + s->retry_ms;
}

int64_t lease_lost_ms(const struct lease_state *s)
{
	return s->sent_ms + s->renew_ms;
}

int64_t lease_silent_ms(const struct lease_state *s)
{
	return s->look_at_ms + s->retry_ms / 2;
}

bool lease_holds(const struct lease_state *s, int64_t now_ms)
{
	return s->held && now_ms < lease_lost_ms(s);
}

const struct lease_record *lease_holder(const struct lease_state *s, int64_t now_ms)
{
	if (lease_holds(s, now_ms))
		return &s->record;
	if (s->known == LEASE_THERE && s->record.holder[0] && !is_ours(s) && now_ms < s->free_ms)
		return &s->record;
	return NULL;
}

/* A little later than the time, so that contenders don't all come at once. */
static int64_t jitter(const struct lease_state *s)
{
	return (int64_t)rand_below((uint64_t)s->retry_ms / 5 + 1);
}

static bool is_given_back(const struct lease_record *r)
{
	return !r->holder[0] && r->duration_ms == 1000;
}

static void saw_record(struct lease_state *s, const struct lease_record *r, int64_t now_ms)
{
	bool changed = s->known != LEASE_THERE || strcmp(s->record.version, r->version) != 0 ||
		       strcmp(s->record.uid, r->uid) != 0;
	bool anew = s->was_there && strcmp(s->record.uid, r->uid) != 0;
	int64_t lasts_ms = r->duration_ms > s->duration_ms ? r->duration_ms : s->duration_ms;

	s->known = LEASE_THERE;
	s->was_there = true;
	s->record = *r;
	if (!changed)
		return;
	if (is_ours(s)) {
		/* Made anew after somebody deleted it: whoever held that one may not know it yet,
		 * and we needn't have seen who that was. Otherwise free_ms stays as it is. */
		if (anew && !s->held)
			s->free_ms = now_ms + lasts_ms + jitter(s);
	} else if (s->held && !r->holder[0]) {
		s->renew_at_ms = now_ms; /* somebody's edit */
	} else if (is_given_back(r)) {
		s->free_ms = now_ms;
	} else {
		s->held = false;
		s->conflicts = 0;
		s->free_ms = now_ms + lasts_ms + jitter(s);
	}
}

void lease_saw(struct lease_state *s, const struct lease_record *r, int64_t now_ms)
{
	/* After a pause this may be the first that we do: what we held has run out by now. */
	s->held = lease_holds(s, now_ms);
	if (s->known == LEASE_UNKNOWN)
		s->try_at_ms = now_ms;
	s->stale = false;
	s->look_at_ms = now_ms + s->retry_ms + jitter(s);
	if (r) {
		saw_record(s, r, now_ms);
	} else if (s->known != LEASE_ABSENT) {
		s->known = LEASE_ABSENT;
		/* Deleted by hand: its holder makes it anew, if it's still there. */
		if (s->was_there && !s->held)
			s->free_ms = now_ms + s->retry_ms + jitter(s);
	}
}

void lease_saw_by_watch(struct lease_state *s, const struct lease_record *r, int64_t now_ms)
{
	if (r && s->known == LEASE_THERE &&
	    kube_version_cmp(str_of(r->version), str_of(s->record.version)) < 0)
		return;
	lease_saw(s, r, now_ms);
}

void lease_written(struct lease_state *s, const struct lease_record *r, int64_t sent_ms,
		   int64_t now_ms)
{
	s->held = lease_holds(s, now_ms);
	/* Seen by the watch already, and changed since: the newer one counts. */
	if (s->known != LEASE_THERE ||
	    kube_version_cmp(str_of(r->version), str_of(s->record.version)) >= 0)
		lease_saw(s, r, now_ms);
	if (!is_ours(s))
		return;
	s->sent_ms = sent_ms;
	s->held = now_ms < lease_lost_ms(s) && (s->held || now_ms >= s->free_ms);
	s->try_at_ms = now_ms;
	s->conflicts = 0;
	s->renew_at_ms = sent_ms + s->retry_ms - jitter(s) / 2;
}

void lease_failed(struct lease_state *s, enum lease_action action, const struct err *err,
		  int64_t sent_ms, int64_t now_ms)
{
	int64_t next_ms = sent_ms + s->retry_ms / 2 + jitter(s);

	s->try_at_ms = now_ms;
	if (err->kind == ERR_NOT_FOUND && action != LEASE_CREATE) {
		lease_saw(s, NULL, now_ms);
		return;
	}
	if (err->kind == ERR_CONFLICT || err->kind == ERR_EXISTS) {
		s->stale = true;
		if (++s->conflicts <= MAX_CONFLICTS)
			return;
	}
	/* Whoever waited longer than that for an answer has waited enough: a holder whose call hung
	 * needs what is left of its time for another. */
	if (next_ms > now_ms)
		s->try_at_ms = next_ms;
	if (err->retry_after_ms > s->retry_ms / 2 && !s->held)
		s->try_at_ms = now_ms + err->retry_after_ms;
}

/* ---- the next step ---- */

static struct lease_step at(const struct lease_state *s, enum lease_action action, int64_t at_ms,
			    int64_t now_ms)
{
	int64_t when = at_ms > s->try_at_ms ? at_ms : s->try_at_ms;

	if (when <= now_ms)
		return (struct lease_step){action, now_ms};
	return (struct lease_step){LEASE_WAIT, when};
}

static struct lease_step next(const struct lease_state *s, int64_t now_ms)
{
	if (s->known == LEASE_UNKNOWN || s->stale)
		return at(s, LEASE_LOOK, now_ms, now_ms);
	if (s->known == LEASE_ABSENT)
		return at(s, LEASE_CREATE, s->held ? now_ms : s->free_ms, now_ms);
	if (s->held)
		return at(s, LEASE_RENEW, s->renew_at_ms, now_ms);
	return at(s, LEASE_TAKE, s->free_ms, now_ms);
}

struct lease_step lease_plan(struct lease_state *s, int64_t now_ms, bool live)
{
	s->held = lease_holds(s, now_ms);
	struct lease_step step = next(s, now_ms);

	if (step.action != LEASE_WAIT)
		return step;
	if (!s->held) {
		struct lease_step look = at(
			s, LEASE_LOOK, lease_silent_ms(s) - (live ? 0 : s->retry_ms / 2), now_ms);

		if (look.action == LEASE_LOOK || look.at_ms < step.at_ms)
			step = look;
	}
	if (step.action == LEASE_WAIT && s->held && lease_lost_ms(s) < step.at_ms)
		step.at_ms = lease_lost_ms(s);
	return step;
}
