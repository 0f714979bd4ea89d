/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a write: from its request to its answer, with webhooks between. As long as it waits
 * it holds the request.
 */
#include "sim/draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/str.h"
#include "core/yaml.h"
#include "kube/object.h"

struct sim_draft *sim_draft_new(struct sim_request *req)
{
	struct sim_draft *d = xcalloc(1, sizeof(*d));

	d->req = req;
	d->doc = jmut_doc_new();
	d->unknown = (struct buf)BUF_INIT(16384);
	return d;
}

void sim_draft_end(struct sim_draft *d)
{
	if (d->req->held)
		sim_request_free(d->req);
	sim_object_unref(d->old);
	json_doc_free(d->options);
	buf_done(&d->unknown);
	jmut_doc_free(d->doc);
	free(d);
}

void sim_draft_restart(struct sim_draft *d)
{
	sim_object_unref(d->old);
	d->old = NULL;
	jmut_doc_free(d->doc);
	d->doc = jmut_doc_new();
	d->root = NULL;
	d->causes = NULL;
	buf_clear(&d->unknown);
	d->n_unknown = 0;
}

void sim_draft_fail(struct sim_draft *d, const struct err *err)
{
	sim_reply_err(d->req, d->doc, err, d->causes);
	sim_draft_end(d);
}

/* ---- webhooks ---- */

static void on_abort(struct http_exchange *ex, void *arg)
{
	struct sim_draft *d = arg;

	(void)ex;
	op_cancel(d->op);
	sim_draft_end(d);
}

static void on_admitted(void *arg, const struct json *status)
{
	struct sim_draft *d = arg;

	d->op = NULL;
	http_exchange_on_abort(d->req->ex, NULL, NULL);
	if (!status) {
		d->next(d);
		return;
	}
	sim_reply(d->req, (int)json_int(json_get(status, "code"), 500), jmut_copy(d->doc, status));
	sim_draft_end(d);
}

static void on_settle(void *arg)
{
	struct sim_draft *d = arg;

	if (d->settle)
		d->settle(d);
}

void sim_draft_ask(struct sim_draft *d, enum sim_phase phase, const char *operation,
		   void (*settle)(struct sim_draft *d), void (*next)(struct sim_draft *d))
{
	struct sim_webhooks *w = d->req->api->webhooks;
	struct sim_admission a = {
		.req = d->req,
		.operation = operation,
		.doc = d->doc,
		.root = &d->root,
		.old = d->old ? sim_object_json(d->old) : NULL,
		.settle = on_settle,
		.arg = d,
	};

	if (!sim_webhooks_want(w, phase, &a)) {
		next(d);
		return;
	}
	d->settle = settle;
	d->next = next;
	d->op = sim_webhooks_start(w, phase, &a, on_admitted, d);
	d->req->held = true;
	http_exchange_on_abort(d->req->ex, on_abort, d);
}

/* ---- bodies ---- */

/* Clients may send YAML too, as the real API server takes it. */
static int parse_yaml(struct str text, struct json_doc **ret, struct err *err)
{
	CLEANUP_YAML struct yaml *yaml = NULL;
	struct buf json = BUF_INIT(YAML_MAX_BYTES);
	int result;

	if (yaml_parse("the body", text, &yaml, err) < 0)
		return -1;
	if (yaml_len(yaml) != 1)
		return err_set(err, ERR_INVALID, 0, "one document is wanted, not %zu",
			       yaml_len(yaml));
	result = json_write(yaml_doc(yaml, 0), JSON_COMPACT, &json, err);
	if (result == 0)
		result = json_parse(buf_str(&json), ret, err);
	buf_done(&json);
	return result;
}

int sim_parse_body(struct sim_request *req, struct json_doc **ret, struct err *err)
{
	struct str type = http_headers_get(req->ex->headers, "Content-Type"), rest;
	bool yaml;
	int rc;

	str_cut(type, ';', &type, &rest);
	yaml = str_eqz(type, "application/yaml");
	if (type.len && !yaml && !str_has_suffix(type, STR("json")))
		return err_set(err, ERR_UNSUPPORTED, 415,
			       "the body of the request was in an unknown format - accepted media "
			       "types include: application/json, application/yaml");
	fault_alloc_spare(true); /* it would be said to be bad */
	rc = yaml ? parse_yaml(req->ex->body, ret, err) : json_parse(req->ex->body, ret, err);
	fault_alloc_spare(false);
	if (rc < 0) {
		err->code = 400;
		return yaml ? -1 : err_wrap(err, "the body");
	}
	return 0;
}

/* ---- small things ---- */

bool sim_is_kind(const struct sim_resource *r, const char *kind)
{
	return strcmp(r->kind, kind) == 0;
}

const char *sim_qualified(const struct sim_resource *r, char z[SIM_QUALIFIED])
{
	snprintf(z, SIM_QUALIFIED, "%s%s%s", r->plural, r->group[0] ? "." : "", r->group);
	return z;
}

void sim_set_time(struct jmut_doc *doc, struct jmut *obj, const char *key, int64_t wall_ms)
{
	char z[CLOCK_RFC3339_SIZE];

	clock_format(wall_ms, z);
	jmut_set_str(doc, obj, key, z);
}

bool sim_has_finalizers(const struct json *o)
{
	return json_len(json_at(o, "metadata", "finalizers", NULL)) > 0;
}
