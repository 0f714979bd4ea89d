/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations and their scopes: the bookkeeping that makes "once, and never after a cancel" true.
 * A scope owns no memory; an operation's kind owns its own. Uses core's list.
 */
#include "loop/op.h"

#include <stddef.h>

void scope_init(struct scope *scope)
{
	list_init(&scope->ops);
}

void scope_cancel(struct scope *scope)
{
	/* From the front each time: cancelling one operation may cancel others. */
	while (!list_empty(&scope->ops))
		op_cancel(CONTAINER_OF(scope->ops.next, struct op, link));
}

void op_begin(struct op *op, struct scope *scope, void (*cancel)(struct op *op))
{
	list_init(&op->link);
	op->cancel = cancel;
	op->ended = false;
	if (scope)
		list_append(&scope->ops, &op->link);
}

bool op_end(struct op *op)
{
	if (op->ended)
		return false;
	op->ended = true;
	list_unlink(&op->link);
	return true;
}

void op_cancel(struct op *op)
{
	if (op && op_end(op))
		op->cancel(op);
}
