/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's tracker ConfigMap under its resourceVersion, and each replica's side of it: what it
 * wants there and what it knows to be there, one request at a time, as src/partition/tracker.c
 * does.
 */
#include "partition_model.h"

#include <string.h>

static bool same(const struct val *a, const struct val *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

struct val val_of(const struct world *w, const struct partition_entry *e)
{
	struct val v;

	memset(&v, 0, sizeof(v));
	for (int u = 0; u < w->n_uids; u++) {
		if (strcmp(w->uids[u], e->ask.owner.uid) == 0)
			v.uid = u;
	}
	v.ipus = (int32_t)e->ask.ipus;
	v.instance = (int32_t)e->ask.instance;
	v.controller = e->controller[1] - '0';
	v.phase = (int32_t)e->phase;
	v.attempt = (int32_t)e->ask.attempt;
	v.since_ms = e->since_ms;
	v.settle_ms = e->settle_ms;
	v.active_ms = e->active_ms;
	return v;
}

/* ---- a replica's side ---- */

void tracker_put(struct world *w, int r, const struct m_item *it)
{
	struct record *rec = &w->replicas[r].records[it->id];

	rec->want = val_of(w, &it->entry);
	rec->put = true;
}

void tracker_drop(struct world *w, int r, int id)
{
	struct record *rec = &w->replicas[r].records[id];

	memset(&rec->want, 0, sizeof(rec->want));
	rec->put = true;
	if (!rec->stored.ipus)
		w->replicas[r].must_read = true;
}

bool tracker_recorded(const struct world *w, int r, int id)
{
	const struct replica *rep = &w->replicas[r];

	return !(rep->doubt[id / 64] >> (id % 64) & 1) &&
	       same(&rep->records[id].want, &rep->records[id].stored);
}

static void note_stored(struct world *w, int r, int id, const struct val *v)
{
	struct record *rec = &w->replicas[r].records[id];

	rec->stored = *v;
	if (!rec->put && v->ipus && !same(&rec->want, v)) {
		rec->want = *v;
		rec->put = true; /* from now on it's this replica's to keep there */
		replica_found(w, r, id, v);
	}
	if (!rec->stored.ipus && (!rec->want.ipus || !rec->put))
		memset(rec, 0, sizeof(*rec));
}

/* What is there is believed only when this leader has written: nothing older can land behind it. */
static void note_object(struct world *w, int r, const struct val *vals, uint32_t version)
{
	struct replica *rep = &w->replicas[r];

	rep->version = version;
	rep->must_read = false;
	rep->was_read = true;
	for (int id = STRANGERS; id < w->n_ids && rep->synced; id++)
		note_stored(w, r, id, &vals[id]);
}

static void retry_later(struct world *w, const struct write *q)
{
	struct replica *rep = &w->replicas[q->from];

	rep->busy = false;
	rep->must_read = true;
	rep->retry_ms = w->now_ms + 250;
	for (int i = 0; i < (IDS + 63) / 64 && !q->is_read; i++) {
		rep->doubt[i] |= q->changes[i];
		rep->any_doubt = true;
	}
}

/* The differences between what is wanted and what is there; false: none. */
static bool differences(struct world *w, int r, struct write *q)
{
	const struct record *records = w->replicas[r].records;
	bool any = false;

	memset(q->changes, 0, sizeof(q->changes));
	for (int id = STRANGERS; id < w->n_ids; id++) {
		if (!records[id].put || same(&records[id].want, &records[id].stored))
			continue;
		q->changes[id / 64] |= UINT64_C(1) << (id % 64);
		q->vals[id] = records[id].want;
		any = true;
	}
	return any;
}

static bool send(struct world *w, int r)
{
	struct replica *rep = &w->replicas[r];
	struct write *q = NULL;

	for (int i = 0; i < WRITES && !q; i++) {
		if (!w->writes[i].used)
			q = &w->writes[i];
	}
	if (!q || !replica_may_act(w, r) || rep->busy || w->now_ms < rep->retry_ms)
		return false;
	q->is_read = !rep->was_read || rep->must_read;
	q->is_claim = !q->is_read && !rep->synced;
	if (!q->is_read && !differences(w, r, q) && !q->is_claim && !rep->any_doubt)
		return false;
	q->used = true;
	q->landed = q->ok = false;
	q->from = (int8_t)r;
	q->epoch = rep->epoch;
	q->sent_ms = w->now_ms;
	q->slow_ms = w->quiet || q->is_read ? w->now_ms
					    : slow_until(w->now_ms, (uint64_t)r, w->slow_writes,
							 TRACKER_MS + LATE_MS);
	q->version = rep->version;
	rep->busy = true;
	SAY(w, "replica %d %s", r, q->is_read ? "reads the tracker" : "writes the tracker");
	return true;
}

/* ---- the API server ---- */

static bool sender_waits(const struct world *w, const struct write *q)
{
	const struct replica *r = &w->replicas[q->from];

	return r->alive && r->leader && r->epoch == q->epoch;
}

static void land(struct world *w, struct write *q)
{
	q->landed = true;
	q->ok = q->is_read || q->version == w->version;
	if (q->ok && !q->is_read) {
		for (int id = STRANGERS; id < w->n_ids; id++) {
			if (q->changes[id / 64] >> (id % 64) & 1)
				w->tracker[id] = q->vals[id];
		}
		w->version++;
	}
	SAY(w, "tracker %s of replica %d takes effect%s: %s", q->is_read ? "read" : "write",
	    q->from, sender_waits(w, q) ? "" : ", too late for its sender",
	    q->ok ? "done" : "conflict");
	happened[EV_TRACKER_LATE] += q->ok && !q->is_read && !sender_waits(w, q);
	q->version = w->version;
	memcpy(q->vals, w->tracker, sizeof(q->vals));
}

static void deliver(struct world *w, struct write *q)
{
	struct replica *rep = &w->replicas[q->from];

	q->used = false;
	if (!sender_waits(w, q))
		return;
	rep->busy = false;
	if (q->ok) {
		rep->synced = rep->synced || q->is_claim;
		if (!q->is_read) {
			memset(rep->doubt, 0, sizeof(rep->doubt));
			rep->any_doubt = false;
		}
		note_object(w, q->from, q->vals, q->version);
	} else {
		happened[EV_CONFLICT]++;
		rep->must_read = true;
	}
}

void tracker_expire(struct world *w)
{
	for (int i = 0; i < WRITES; i++) {
		struct write *q = &w->writes[i];

		if (!q->used || w->now_ms < q->sent_ms + TRACKER_MS)
			continue;
		if (sender_waits(w, q)) {
			retry_later(w, q);
			q->epoch = 0; /* nobody waits for it */
		}
		if (q->landed || w->now_ms > q->sent_ms + TRACKER_MS + LATE_MS)
			q->used = false;
	}
}

static bool lose(struct world *w, struct write *q, bool may_land)
{
	SAY(w, "tracker %s of replica %d: %s", q->is_read ? "read" : "write", q->from,
	    may_land ? "given up, and still under way" : "lost");
	if (sender_waits(w, q)) {
		retry_later(w, q);
		q->epoch = 0;
	}
	q->used = may_land;
	return true;
}

bool tracker_act(struct world *w, enum action action, struct dice *d)
{
	struct write *q = &w->writes[roll(d, WRITES)];
	int r = (int)roll(d, REPLICAS);
	struct replica *rep = &w->replicas[r];
	bool landed = action == ACT_TRACKER_DELIVER || action == ACT_TRACKER_LOSE_REPLY;

	if (action == ACT_TRACKER_TOUCH) {
		w->version++;
		return true;
	}
	if (action == ACT_TRACKER_STEP)
		return send(w, r);
	if (action == ACT_TRACKER_WATCH) {
		if (!replica_may_act(w, r) || !rep->synced || rep->busy ||
		    rep->version == w->version)
			return false;
		note_object(w, r, w->tracker, w->version);
		return true;
	}
	if (!q->used || q->landed != landed ||
	    (action == ACT_TRACKER_LAND && w->now_ms < q->slow_ms))
		return false;
	if (action == ACT_TRACKER_LAND)
		land(w, q);
	else if (action == ACT_TRACKER_DELIVER)
		deliver(w, q);
	else
		return lose(w, q, !landed && roll(d, 2));
	return true;
}
