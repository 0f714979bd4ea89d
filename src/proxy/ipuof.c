/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A partition's IPUoF configuration: where its Pods get files anyway, those that the partition
 * layer keeps; else asked of the controller for this one request. Uses partition, vipu.
 */
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define FILE_LIMIT ((size_t)1 << 20)

/* Its own attribute says which GCD it is; without one it's their order. */
static uint32_t gcd_of(const struct vipu_gcd *g, uint32_t index)
{
	int64_t n = index;

	for (size_t i = 0; i < g->n_attributes; i++) {
		if (strcmp(g->attributes[i].key, "GCD Id") == 0)
			(void)str_to_int(str_of(g->attributes[i].value), 0, PARTITION_MAX_GCDS - 1,
					 &n, NULL);
	}
	return (uint32_t)n;
}

static int add_file(struct jmut_doc *doc, struct jmut *files, uint32_t gcd,
		    const struct vipu_gcd *config, struct err *err)
{
	struct buf text = BUF_INIT(FILE_LIMIT);
	char name[PARTITION_FILE_NAME_SIZE];
	int rc = vipu_gcd_write(config, &text, err);

	partition_file_name(gcd, name);
	if (rc == 0)
		jmut_setn(doc, files, str_of(name), jmut_str(doc, buf_str(&text)));
	buf_done(&text);
	return rc;
}

static int render(const struct vipu_ipuof_config *config, struct buf *out, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *files = jmut_object(doc);

	for (uint32_t i = 0; i < config->n_gcds && i < PARTITION_MAX_GCDS; i++) {
		if (add_file(doc, files, gcd_of(&config->gcds[i], i), &config->gcds[i], err) < 0)
			return -1;
	}
	jmut_set(doc, root, "files", files);
	if (jmut_write(root, JSON_COMPACT, out, err) < 0)
		return -1;
	return buf_append(out, "\n", 1, err);
}

static void on_config(void *arg, const struct err *why, struct vipu_ipuof_config *got)
{
	struct request *r = arg;
	struct buf text = BUF_INIT(REPLY_LIMIT);
	struct err err = ERR_INIT;

	if (why) {
		char detail[sizeof(why->msg) + 64];

		snprintf(detail, sizeof(detail), "the controller doesn't tell it now: %s",
			 why->msg);
		request_unavailable(r, 2, detail);
	} else if (got->n_gcds == 0) {
		request_unavailable(r, 2, "the controller tells of no GCD yet");
	} else if (render(got, &text, &err) < 0) {
		request_problem(r, 500, "%s", err.msg);
	} else {
		request_reply(r, 200, NULL, 0, buf_str(&text));
	}
	buf_done(&text);
}

struct files {
	struct jmut_doc *doc;
	struct jmut *obj;
};

static void add_kept(const char *name, struct str text, void *arg)
{
	struct files *f = arg;

	jmut_set(f->doc, f->obj, name, jmut_str(f->doc, text));
}

static void reply_kept(struct request *r)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	struct files files = {doc, jmut_object(doc)};
	struct buf text = BUF_INIT(REPLY_LIMIT);
	struct err err = ERR_INIT;

	if (partition_ipuof_files(r->p->partitions, r->uid, r->instance, add_kept, &files) == 0) {
		request_unavailable(r, 1, "the controller hasn't told it yet: ask again");
		return;
	}
	jmut_set(doc, root, "files", files.obj);
	if (jmut_write(root, JSON_COMPACT, &text, &err) < 0 || buf_append(&text, "\n", 1, &err) < 0)
		request_problem(r, 500, "%s", err.msg);
	else
		request_reply(r, 200, NULL, 0, buf_str(&text));
	buf_done(&text);
}

void ipuof_fetch(struct request *r, const struct partition_status *status)
{
	struct vipu_client *client = status->controller
					     ? vipu_fleet_client(r->p->fleet, status->controller)
					     : NULL;
	const struct vipu_get_ipuof_config ask = {.id = status->id};

	if (status->by_file) {
		reply_kept(r);
		return;
	}
	if (!client) {
		request_unavailable(r, 2, "the partition's controller isn't known");
		return;
	}
	vipu_get_ipuof_config_start(client, &ask, r->p->call_ms, on_config, r, &r->calls);
}
