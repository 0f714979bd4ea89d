/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission webhooks of the simulated API server: MutatingWebhookConfigurations and
 * ValidatingWebhookConfigurations (admissionregistration.k8s.io/v1) as they are checked when they
 * are written. Used within sim/.
 */
#ifndef IPU_SIM_WEBHOOK_H
#define IPU_SIM_WEBHOOK_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "sim/objects.h"

#define SIM_FIELD_PATH 192

/* One of the two kinds of configurations? */
bool sim_is_webhook_config(const struct sim_resource *r);

/* Fills in the defaults of a configuration, and checks it. ERR_INVALID: the field's path is in
 * field, and err is what is wrong with it. */
int sim_webhook_config_check(const struct sim_resource *r, struct jmut_doc *doc, struct jmut *root,
			     char field[SIM_FIELD_PATH], struct err *err);

#endif
