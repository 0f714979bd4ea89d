/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations and scopes (doc/style.md, "Asynchronous code"): what is started returns a struct op,
 * or a struct that begins with one; its callback runs once, never before start returns, and never
 * after a cancel. A scope belongs to an owner; ending it cancels all that the owner started.
 */
#ifndef IPU_LOOP_OP_H
#define IPU_LOOP_OP_H

#include <stdbool.h>

#include "core/list.h"

struct op;

struct scope {
	struct list ops;
};

struct op {
	struct list link; /* in its scope, or alone */
	void (*cancel)(
		struct op *op); /* the kind's own: detach, close, reap; never calls back. Runs
				 * once, when the op has already left its scope and ended. */
	bool ended;             /* called back or cancelled */
};

void scope_init(struct scope *scope);
void scope_cancel(struct scope *scope); /* cancels all; the scope can be used again */

/* For those who implement operations. scope may be NULL: then the starter cancels by itself. */
void op_begin(struct op *op, struct scope *scope, void (*cancel)(struct op *op));
/* Leaves the scope and marks it ended. True the first time: only then may the callback run. */
bool op_end(struct op *op);

/* For owners. Idempotent, allowed inside any callback; NULL is fine. The memory goes by the reaper,
 * so an operation may be cancelled once more in the same turn, and not later. */
void op_cancel(struct op *op);

#endif
