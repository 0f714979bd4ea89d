/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the simulated controller, as structs and as JSON, and its state as JSON. The simulator
 * owns the faults.
 * Uses core and the wire's names.
 */
#include <stdlib.h>

#include "vipu_sim_impl.h"

struct fault {
	struct list place;
	struct vipu_sim_fault f;
	char *message;
	bool for_ever;
};

static const char *const kind_names[] = {
	[VIPU_SIM_STATUS] = "status",
	[VIPU_SIM_HANG] = "hang",
	[VIPU_SIM_LOSE_REPLY] = "lose-reply",
	[VIPU_SIM_LATE] = "late",
	[VIPU_SIM_ACT_STATUS] = "act-status",
	[VIPU_SIM_CUT] = "cut",
	[VIPU_SIM_ACT_CUT] = "act-cut",
	[VIPU_SIM_REFUSE] = "refuse",
	[VIPU_SIM_GARBAGE] = "garbage",
	[VIPU_SIM_SLOW] = "slow",
	[VIPU_SIM_END_IN_ERROR] = "end-in-error",
};
#define KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

/* ---- the list ---- */

void vipu_sim_inject(struct vipu_sim *sim, const struct vipu_sim_fault *fault)
{
	struct fault *f = xcalloc(1, sizeof(*f));

	f->f = *fault;
	f->for_ever = fault->count == 0;
	f->message = xstrdup(fault->message ? fault->message : "injected by a test");
	list_append(&sim->faults, &f->place);
}

static void drop_fault(struct fault *f)
{
	list_unlink(&f->place);
	free(f->message);
	free(f);
}

void vipu_sim_clear_faults(struct vipu_sim *sim)
{
	LIST_FOREACH(pos, tmp, &sim->faults)
		drop_fault(CONTAINER_OF(pos, struct fault, place));
}

size_t vipu_sim_faults(const struct vipu_sim *sim)
{
	size_t n = 0;

	LIST_FOREACH(pos, tmp, &sim->faults)
		n++;
	return n;
}

bool vipu_sim_take_fault(struct vipu_sim *sim, enum vipu_method method, struct vipu_sim_fault *ret,
			 char **ret_text)
{
	LIST_FOREACH(pos, tmp, &sim->faults) {
		struct fault *f = CONTAINER_OF(pos, struct fault, place);
		if (f->f.method >= 0 && f->f.method != (int)method)
			continue;
		if (f->f.skip > 0) {
			f->f.skip--;
			continue;
		}
		*ret = f->f;
		*ret_text = xstrdup(f->message);
		ret->message = *ret_text;
		if (!f->for_ever && --f->f.count == 0)
			drop_fault(f);
		return true;
	}
	return false;
}

/* ---- JSON in ---- */

static int read_kind(const struct json *v, struct vipu_sim_fault *f, struct err *err)
{
	struct str kind = json_str(json_get(v, "kind"));

	for (size_t i = 0; i < KINDS; i++) {
		if (str_eqz(kind, kind_names[i])) {
			f->kind = (enum vipu_sim_fault_kind)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, 0, "there is no kind of fault \"%.*s\"", STR_ARG(kind));
}

static int read_method(const struct json *v, struct vipu_sim_fault *f, struct err *err)
{
	struct str method = json_str(json_get(v, "method"));

	f->method = -1;
	if (method.len == 0)
		return 0;
	for (int i = 0; i < VIPU_METHODS; i++)
		if (str_eqz(method, vipu_method_name((enum vipu_method)i)))
			f->method = i;
	if (f->method < 0)
		return err_set(err, ERR_INVALID, 0, "there is no method \"%.*s\"", STR_ARG(method));
	return 0;
}

static int read_count(const struct json *v, const char *key, unsigned otherwise, unsigned *ret,
		      struct err *err)
{
	int64_t n = json_int(json_get(v, key), otherwise);

	if (n < 0 || n > 86400000)
		return err_set(err, ERR_INVALID, 0, "%s is out of range", key);
	*ret = (unsigned)n;
	return 0;
}

int vipu_sim_inject_json(struct vipu_sim *sim, const struct json *v, struct err *err)
{
	struct vipu_sim_fault f = {.method = -1};
	struct str name = json_str(json_get(v, "status"));
	enum grpc_status status = GRPC_UNKNOWN;

	if (read_kind(v, &f, err) < 0 || read_method(v, &f, err) < 0 ||
	    read_count(v, "count", 1, &f.count, err) < 0 ||
	    read_count(v, "skip", 0, &f.skip, err) < 0 ||
	    read_count(v, "delayMs", 1000, &f.delay_ms, err) < 0)
		return -1;
	if (name.len > 0 && grpc_status_from_name(name, &status, err) < 0)
		return -1;
	f.status = (int)status;
	f.message = json_cstr(json_get(v, "message"));
	vipu_sim_inject(sim, &f);
	return 0;
}

/* ---- JSON out ---- */

static struct jmut *partition_json(struct jmut_doc *doc, const struct vipu_sim_partition *p)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_str(doc, obj, "id", p->id);
	jmut_set_int(doc, obj, "size", p->size);
	jmut_set_int(doc, obj, "firstIpu", p->first_ipu);
	jmut_set_str(doc, obj, "readyState", vipu_ready_name(p->ready));
	jmut_set_str(doc, obj, "operationState", vipu_operation_name(p->operation));
	jmut_set_int(doc, obj, "gcds", p->gcds);
	jmut_set_bool(doc, obj, "reconfigurable", p->reconfigurable);
	jmut_set_bool(doc, obj, "byHand", p->by_hand);
	jmut_set_bool(doc, obj, "inUse", p->in_use);
	jmut_set_int(doc, obj, "resets", p->resets);
	jmut_set_int(doc, obj, "autoResets", p->auto_resets);
	return obj;
}

static struct jmut *fault_json(struct jmut_doc *doc, const struct fault *f)
{
	struct jmut *obj = jmut_object(doc);

	jmut_set_str(doc, obj, "kind", kind_names[f->f.kind]);
	if (f->f.method >= 0)
		jmut_set_str(doc, obj, "method", vipu_method_name((enum vipu_method)f->f.method));
	jmut_set_int(doc, obj, "count", f->f.count);
	if (f->f.kind == VIPU_SIM_STATUS || f->f.kind == VIPU_SIM_ACT_STATUS)
		jmut_set_str(doc, obj, "status", grpc_status_name(f->f.status));
	return obj;
}

struct jmut *vipu_sim_to_json(struct vipu_sim *sim, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *ipus = jmut_object(doc), *calls = jmut_object(doc);
	struct jmut *parts = jmut_array(doc), *faults = jmut_array(doc);
	unsigned total = vipu_sim_total_ipus(sim), taken = vipu_sim_taken_ipus(sim);
	struct vipu_sim_partition p;

	jmut_set_int(doc, ipus, "total", total);
	jmut_set_int(doc, ipus, "taken", taken);
	jmut_set_int(doc, ipus, "free", total - taken);
	for (size_t i = 0; vipu_sim_at(sim, i, &p); i++)
		jmut_push(doc, parts, partition_json(doc, &p));
	for (int i = 0; i < VIPU_METHODS; i++)
		jmut_set_int(doc, calls, vipu_method_name((enum vipu_method)i),
			     (int64_t)sim->calls[i]);
	LIST_FOREACH(pos, tmp, &sim->faults)
		jmut_push(doc, faults, fault_json(doc, CONTAINER_OF(pos, struct fault, place)));
	jmut_set_int(doc, root, "port", sim->port);
	jmut_set_bool(doc, root, "up", sim->server != NULL);
	jmut_set(doc, root, "ipus", ipus);
	jmut_set(doc, root, "partitions", parts);
	jmut_set(doc, root, "calls", calls);
	jmut_set_int(doc, root, "created", (int64_t)vipu_sim_created(sim));
	jmut_set_bool(doc, root, "broken", vipu_sim_is_broken(sim));
	jmut_set(doc, root, "faults", faults);
	return root;
}
