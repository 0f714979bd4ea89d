/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has stopped is told, after its patience, and nothing else is.
 */
#include "tap.h"

#include "loop/pulse.h"

static void tick(unsigned n)
{
	while (n-- > 0)
		pulses_tick();
}

int main(void)
{
	struct pulse a, b;

	ok(!pulses_stuck(1, 1000), "nothing there");
	pulse_start(&a, "work queue", "a", 0);
	pulse_start(&b, "watch", "b", 5);
	tick(100);
	ok(!pulses_stuck(10, 1000), "who has nothing to do may do nothing");
	a.busy = b.busy = true;
	tick(9);
	ok(!pulses_stuck(10, 1000), "not yet");
	tick(1);
	ok(pulses_stuck(10, 1000) == &a, "ten ticks of a second without a step");
	ok(!pulses_stuck(10, 100), "ten of a tenth of it are one second");
	pulse_beat(&a);
	tick(1);
	ok(!pulses_stuck(10, 1000), "a step");
	for (int i = 0; i < 20; i++) {
		pulse_beat(&a);
		tick(1);
	}
	ok(pulses_stuck(10, 1000) == &b, "the other's patience is over");
	b.busy = false;
	tick(1);
	ok(!pulses_stuck(10, 1000), "it has ended its work");
	tick(20);
	ok(pulses_stuck(10, 1000) == &a, "the first again");
	pulse_stop(&a);
	pulse_stop(&a);
	ok(!pulses_stuck(10, 1000), "it's gone");
	pulse_stop(&b);
	return done_testing();
}
