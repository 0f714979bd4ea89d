/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of a controller's list of IPU attributes (src/vipu/machines.c).
 */
#include <math.h>
#include <stdlib.h>

#include "core/fault.h"
#include "core/intern.h"
#include "core/str.h"
#include "tap.h"
#include "vipu/machines.h"

#define PAIRS 3

static struct vipu_ipu_attributes ipu(const char *die, const char *board, const char *state)
{
	struct vipu_ipu_attributes a = {.pairs = xcalloc(PAIRS + 1, sizeof(*a.pairs))};
	const char *keys[PAIRS] = {"average die temp", "average board temp", "ipu error state"};
	const char *values[PAIRS] = {die, board, state};

	a.pairs[a.n_pairs++] = (struct vipu_pair){intern_z("ipu arch"), intern_z("ipu2")};
	for (size_t i = 0; i < PAIRS; i++) {
		if (values[i])
			a.pairs[a.n_pairs++] = (struct vipu_pair){intern_z(keys[i]),
								  intern_z(values[i])};
	}
	return a;
}

static struct vipu_agents answer(void)
{
	struct vipu_agents all = {.items = xcalloc(2, sizeof(*all.items)), .n = 2, .n_ipus = 4};

	all.items[0] = (struct vipu_agent){xstrdup("warm"), xcalloc(3, sizeof(*all.items->ipus)),
					   3};
	all.items[0].ipus[0] = ipu("39.2 C", "31 C", "no errors");
	all.items[0].ipus[1] = ipu("41.5 C", "N/A", "parity");
	all.items[0].ipus[2] = ipu("nan C", "inf C", "no errors");
	all.items[1] = (struct vipu_agent){xstrdup("mute"), xcalloc(1, sizeof(*all.items->ipus)),
					   1};
	all.items[1].ipus[0] = ipu("N/A", "30 K", NULL);
	return all;
}

int main(void)
{
	struct vipu_agents got = answer();
	struct vipu_machines machines = {0};
	struct err err;

	fault_alloc_fail_at(1);
	is_int(vipu_machines_take(&got, &machines, &err), -1, "without memory it's refused");
	fault_alloc_fail_at(0);
	is_int(err.kind, ERR_LIMIT, "and says so");
	is_str(got.items[0].name, "warm", "the answer stays whole");

	is_int(vipu_machines_take(&got, &machines, &err), 0, "taken");
	vipu_agents_done(&got);
	is_uint(machines.n, 2, "machines");
	is_uint(machines.n_ipus, 4, "and their IPUs");
	is_str(machines.items[0].name, "warm", "its agent's name");
	ok(machines.items[0].die_celsius == 41.5, "the hottest die");
	ok(machines.items[0].board_celsius == 31, "the hottest board that has a sensor");
	ok(machines.items[0].has_state, "its IPUs speak of errors");
	is_uint(machines.items[0].faulty, 1, "and one has some");
	ok(isnan(machines.items[1].die_celsius), "no sensor");
	ok(isnan(machines.items[1].board_celsius), "another unit isn't guessed at");
	ok(!machines.items[1].has_state, "nothing is said of errors");
	vipu_machines_done(&machines);
	is_uint(machines.n, 0, "nothing is left");
	is_uint(intern_len(), 0, "nor any word");
	return done_testing();
}
