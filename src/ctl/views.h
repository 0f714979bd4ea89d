/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy answers, as tables: one function a sub-command. Pure but for the clock (ages).
 * Members that an answer lacks are shown as empty. Tables are the caller's to free.
 */
#ifndef IPU_CTL_VIEWS_H
#define IPU_CTL_VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"
#include "ctl/table.h"

struct ctl_table *ctl_view_stats(const struct json *stats, bool wide);
struct ctl_table *ctl_view_query(const struct json *answer, bool wide);
struct ctl_table *ctl_view_capacity(const struct json *capacity, bool wide);
struct ctl_table *ctl_view_queue(const struct json *queue, bool wide);
struct ctl_table *ctl_view_partitions(const struct json *partitions, bool wide);
/* capacity: what /capacity said, for the columns USED and FREE. */
struct ctl_table *ctl_view_controllers(const struct json *controllers, const struct json *capacity,
				       bool wide);

/* An answer may say anything; there's no less than none, and sums end at the most there is. */
int64_t ctl_count_of(const struct json *obj, const char *key);
int64_t ctl_sum(int64_t a, int64_t b);

/* A cell "ipujob/mnist" of an object with kind and name. */
void ctl_view_owner(struct ctl_table *t, const struct json *owner);

#endif
