/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label and field selectors of the Kubernetes API (Labels and Selectors; Field Selectors), as the
 * simulated API server applies them.
 */
#ifndef IPU_SIM_SELECTOR_H
#define IPU_SIM_SELECTOR_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"

struct sim_selector;

/* Either text may be empty. ERR_INVALID says which part can't be read. */
int sim_selector_parse(struct str labels, struct str fields, struct sim_selector **ret,
		       struct err *err);
void sim_selector_free(struct sim_selector *s); /* NULL is fine */
bool sim_selector_matches(const struct sim_selector *s, const struct json *object);

#endif
