/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations, scopes and back-off.
 */
#include "tap.h"

#include "core/rand.h"
#include "loop/backoff.h"
#include "loop/op.h"

struct fake_op {
	struct op op;
	unsigned cancels;
	struct op *also; /* cancelled along with it */
};

static void fake_cancel(struct op *op)
{
	struct fake_op *f = CONTAINER_OF(op, struct fake_op, op);
	f->cancels++;
	ok(op->ended && list_empty(&op->link), "cancel runs when the scope has let go");
	op_cancel(f->also);
	op_cancel(op);
}

static void test_scope(void)
{
	struct scope scope;
	struct fake_op a = {0}, b = {0}, c = {0}, alone = {0};
	scope_init(&scope);
	scope_cancel(&scope);
	op_begin(&a.op, &scope, fake_cancel);
	op_begin(&b.op, &scope, fake_cancel);
	op_begin(&c.op, &scope, fake_cancel);
	op_begin(&alone.op, NULL, fake_cancel);
	ok(op_end(&b.op), "the first end may call back");
	ok(!op_end(&b.op), "the second may not");
	op_cancel(&b.op);
	is_uint(b.cancels, 0, "cancelling what has ended does nothing");
	a.also = &c.op;
	scope_cancel(&scope);
	is_uint(a.cancels, 1, "cancelled once");
	is_uint(c.cancels, 1, "once too, though twice reachable");
	ok(list_empty(&scope.ops), "the scope is empty");
	ok(!op_end(&a.op), "a cancelled one may not call back");
	op_cancel(&alone.op);
	is_uint(alone.cancels, 1, "works without a scope");
	op_cancel(NULL);
	op_begin(&a.op, &scope, fake_cancel);
	a.also = NULL;
	scope_cancel(&scope);
	is_uint(a.cancels, 2, "a scope can be used again");
}

static void test_backoff(void)
{
	struct backoff b = BACKOFF_INIT(100, 1000);
	static const int64_t whole[] = {100, 200, 400, 800, 1000, 1000, 1000};
	for (int round = 0; round < 50; round++) {
		backoff_reset(&b);
		for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
			int64_t ms = backoff_next_ms(&b, NULL);
			if (ms < whole[i] / 2 || ms > whole[i])
				fail("try %zu: %" PRId64 " ms", i, ms);
		}
	}
	pass("between half and the whole of the doubled base, at most the maximum");
	struct err busy = {.kind = ERR_BUSY, .retry_after_ms = 5000};
	is_int(backoff_next_ms(&b, &busy), 5000, "the peer's wish wins when it's longer");
	busy.retry_after_ms = 1;
	ok(backoff_next_ms(&b, &busy) >= 500, "and loses when it's shorter");
	struct backoff none = BACKOFF_INIT(0, 0);
	is_int(backoff_next_ms(&none, NULL), 0, "none at all");
	for (int i = 0; i < 1000; i++)
		backoff_next_ms(&b, NULL);
	ok(backoff_next_ms(&b, NULL) <= 1000, "no overflow after many tries");
}

int main(void)
{
	rand_seed(1);
	test_scope();
	test_backoff();
	return done_testing();
}
