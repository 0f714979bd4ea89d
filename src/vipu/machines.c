/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a controller's list of IPU attributes to what is kept of it. The keys are those of
 * Graphcore's gc-info and gcipuinfo (Device attributes). Uses core only.
 */
#include "vipu/machines.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fault.h"

static const char *attribute(const struct vipu_ipu_attributes *ipu, const char *key)
{
	for (size_t i = 0; i < ipu->n_pairs; i++) {
		if (ipu->pairs[i].key && strcmp(ipu->pairs[i].key, key) == 0)
			return ipu->pairs[i].value ? ipu->pairs[i].value : "";
	}
	return NULL;
}

/* "39.2 C"; "N/A" where there is no sensor. strtod(3) reads "nan" and "inf", too. */
static void raise_to(double *most, const char *text)
{
	char *end;
	double v = text ? strtod(text, &end) : NAN;

	if (!text || end == text || (strcmp(end, " C") != 0 && *end) || !isfinite(v))
		return;
	*most = *most > v ? *most : v;
}

static struct vipu_machine read_machine(struct vipu_agent *agent)
{
	struct vipu_machine m = {agent->name, NAN, NAN, false, 0};

	agent->name = NULL;
	for (size_t i = 0; i < agent->n_ipus; i++) {
		const char *state = attribute(&agent->ipus[i], "ipu error state");

		raise_to(&m.die_celsius, attribute(&agent->ipus[i], "average die temp"));
		raise_to(&m.board_celsius, attribute(&agent->ipus[i], "average board temp"));
		m.has_state = m.has_state || state;
		m.faulty += state && strcmp(state, "no errors") != 0;
	}
	return m;
}

int vipu_machines_take(struct vipu_agents *from, struct vipu_machines *ret, struct err *err)
{
	struct vipu_machine *items = fault_realloc(NULL, (from->n + 1) * sizeof(*items));

	if (!items)
		return err_set(err, ERR_LIMIT, ENOMEM, "no memory for %zu IPU-Machines", from->n);
	for (size_t i = 0; i < from->n; i++)
		items[i] = read_machine(&from->items[i]);
	*ret = (struct vipu_machines){items, from->n, from->n_ipus};
	return 0;
}

void vipu_machines_done(struct vipu_machines *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->items[i].name);
	free(m->items);
	*m = (struct vipu_machines){0};
}
