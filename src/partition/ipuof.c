/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches GetPartitionIpuofConfig, all GCDs in one call, and makes a file of each. It owns the
 * texts; the item that it belongs to looks again whenever something came of it. Uses vipu.
 */
#include "partition/ipuof.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"

#define BACKOFF_MS     500
#define BACKOFF_MAX_MS 10000

struct file {
	uint32_t gcd;
	char name[PARTITION_FILE_NAME_SIZE];
	char *text;
	size_t len;
};

struct ipuof {
	struct item *item;
	struct file *files;
	size_t n;
	size_t bytes; /* of names and texts, as a ConfigMap counts them */
	uint64_t hash;
	bool busy;
	struct backoff backoff;
	int64_t not_before_ms; /* mono */
	struct scope calls;
	struct loop_timer timer;
	char *trouble; /* NULL: none */
};

static void drop_files(struct ipuof *u)
{
	for (size_t i = 0; i < u->n; i++)
		free(u->files[i].text);
	free(u->files);
	u->files = NULL;
	u->n = u->bytes = 0;
	u->hash = 0;
}

/* ---- what came ---- */

/* The attribute says which GCD it is; without one it's their order. */
static int gcd_of(const struct vipu_gcd *g, size_t index, uint32_t *ret, struct err *err)
{
	int64_t n = (int64_t)index;

	for (size_t i = 0; i < g->n_attributes; i++) {
		if (strcmp(g->attributes[i].key, "GCD Id") == 0 &&
		    str_to_int(str_of(g->attributes[i].value), 0, PARTITION_MAX_GCDS - 1, &n,
			       NULL) < 0)
			return err_set(err, ERR_PROTOCOL, 0, "it has a GCD Id \"%.20s\"",
				       g->attributes[i].value);
	}
	*ret = (uint32_t)n;
	return 0;
}

static const struct file *find_file(const struct ipuof *u, uint32_t gcd)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->files[i].gcd == gcd)
			return &u->files[i];
	return NULL;
}

static int add_file(struct ipuof *u, const struct vipu_gcd *g, size_t index, struct err *err)
{
	struct buf text = BUF_INIT(PARTITION_FILES_BYTES - u->bytes);
	struct file *f = &u->files[u->n];

	if (gcd_of(g, index, &f->gcd, err) < 0)
		return -1;
	if (find_file(u, f->gcd))
		return err_set(err, ERR_PROTOCOL, 0, "it has GCD %" PRIu32 " twice", f->gcd);
	partition_file_name(f->gcd, f->name);
	if (vipu_gcd_write(g, &text, err) < 0) {
		buf_done(&text);
		if (!err || err->kind != ERR_LIMIT || err_is_no_memory(err))
			return -1;
		return err_set(err, ERR_LIMIT, 0,
			       "it is larger than the %u KiB that a ConfigMap holds",
			       PARTITION_FILES_BYTES >> 10);
	}
	f->text = buf_steal(&text, &f->len);
	u->n++;
	u->bytes += strlen(f->name) + f->len;
	u->hash += partition_file_hash(str_of(f->name), (struct str){f->text, f->len});
	if (u->bytes >= PARTITION_FILES_BYTES)
		return err_set(err, ERR_LIMIT, 0,
			       "it is larger than the %u KiB that a ConfigMap holds",
			       PARTITION_FILES_BYTES >> 10);
	return 0;
}

static int take_config(struct ipuof *u, const struct vipu_ipuof_config *got, struct err *err)
{
	uint32_t gcds = u->item->entry->ask.options.gcds;

	if (got->n_gcds > PARTITION_MAX_GCDS)
		return err_set(err, ERR_LIMIT, 0, "it has %zu GCDs, more than %u", got->n_gcds,
			       PARTITION_MAX_GCDS);
	u->files = xcalloc(got->n_gcds + 1, sizeof(*u->files));
	for (size_t i = 0; i < got->n_gcds; i++)
		if (add_file(u, &got->gcds[i], i, err) < 0)
			return -1;
	for (uint32_t k = 0; k < (gcds ? gcds : 1); k++)
		if (!find_file(u, k))
			return err_set(err, ERR_PROTOCOL, 0, "it has no GCD %" PRIu32, k);
	if (u->hash == 0) /* 0 is "not there" */
		u->hash = 1;
	return 0;
}

static void on_config(void *arg, const struct err *err, struct vipu_ipuof_config *got)
{
	struct ipuof *u = arg;
	const struct partition_entry *e = u->item->entry;
	struct err bad = ERR_INIT;

	u->busy = false;
	if (!err && take_config(u, got, &bad) < 0) {
		drop_files(u);
		err = &bad;
	}
	if (err) {
		str_keepf(&u->trouble,
			  "the IPUoF configuration of partition %s can't be had from %s: %.150s",
			  e->id, e->controller, err->msg);
		u->not_before_ms = clock_mono_ms() + backoff_next_ms(&u->backoff, err);
		log_debug("partition", e->id, "%s", u->trouble);
	} else {
		str_keep(&u->trouble, NULL);
		backoff_reset(&u->backoff);
		log_debug("partition", e->id, "IPUoF configuration: gcds=%zu bytes=%zu", u->n,
			  u->bytes);
	}
	item_touch(u->item);
}

/* ---- the look ---- */

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct ipuof *u = arg;

	(void)timer;
	item_touch(u->item);
}

/* A Pod that isn't of a job's making is there before its partition, and gets files wherever nothing
 * else is said (doc/design/decisions.md, "Secure controllers"). */
bool ipuof_is_by_file(const struct vipu_address *controller, const struct partition_ask *ask)
{
	if (controller->ipuof == VIPU_IPUOF_DEFAULT && strcmp(ask->owner.kind, "Pod") == 0)
		return true;
	return vipu_address_ipuof(controller) == VIPU_IPUOF_FILE;
}

static struct ipuof *ipuof_new(struct item *item)
{
	struct ipuof *u = xcalloc(1, sizeof(*u));

	u->item = item;
	u->backoff = (struct backoff)BACKOFF_INIT(BACKOFF_MS, BACKOFF_MAX_MS);
	scope_init(&u->calls);
	loop_timer_init(&u->timer, item->p->loop, on_timer, u);
	return u;
}

bool ipuof_step(struct item *item, const struct vipu_controller *c)
{
	struct vipu_get_ipuof_config req = {.id = item->entry->id};
	struct ipuof *u = item->ipuof;

	if (!c || !ipuof_is_by_file(&c->address, &item->entry->ask)) {
		ipuof_drop(u);
		return true;
	}
	if (!u)
		u = item->ipuof = ipuof_new(item);
	if (u->n > 0)
		return true;
	if (u->busy)
		return false;
	if (clock_mono_ms() < u->not_before_ms) {
		loop_timer_start_at(&u->timer, u->not_before_ms);
		return false;
	}
	u->busy = true;
	vipu_get_ipuof_config_start(c->client, &req, (unsigned)item->p->times.call_ms, on_config, u,
				    &u->calls);
	return false;
}

void ipuof_drop(struct ipuof *u)
{
	if (!u)
		return;
	scope_cancel(&u->calls);
	loop_timer_stop(&u->timer);
	u->busy = false;
	u->not_before_ms = 0;
	str_keep(&u->trouble, NULL);
	backoff_reset(&u->backoff);
	drop_files(u);
}

void ipuof_free(struct ipuof *u)
{
	ipuof_drop(u);
	free(u);
}

/* ---- what is there ---- */

const char *ipuof_trouble(const struct ipuof *u)
{
	return u ? str_kept(u->trouble) : "";
}

uint64_t ipuof_hash(const struct ipuof *u)
{
	return u ? u->hash : 0;
}

size_t ipuof_each(const struct ipuof *u, partition_file_fn *fn, void *arg)
{
	size_t n = u ? u->n : 0;

	for (size_t i = 0; fn && i < n; i++)
		fn(u->files[i].name, (struct str){u->files[i].text, u->files[i].len}, arg);
	return n;
}
