/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has IPUs, and for how long: sums over what the proxy answers. Pure but for the clock. Uses
 * core.
 */
#ifndef IPU_CTL_TOP_H
#define IPU_CTL_TOP_H

#include <stdint.h>

#include "core/json.h"

/* {total, controllers, namespaces, jobs}: namespaces and jobs by IPUs, then by time held, the most
 * first; of jobs their partitions together. ns: only that one's; NULL: all. In doc. */
struct jmut *ctl_top_sum(struct jmut_doc *doc, const struct json *capacity,
			 const struct json *partitions, const struct json *queue, const char *ns,
			 int64_t now_ms);

#endif
