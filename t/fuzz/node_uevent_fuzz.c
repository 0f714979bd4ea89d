/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's hot-plug messages. What is understood lies within the message, and is understood
 * again when it's written anew; an error has a kind and words.
 * Input: the message.
 */
#include "fuzz.h"
#include "node/uevent.h"

static void within(struct str part, struct str message)
{
	MUST(part.len == 0 ||
	     (part.p >= message.p && part.p + part.len <= message.p + message.len));
	MUST(part.len == 0 || !memchr(part.p, '\0', part.len));
}

static void write_again(const struct uevent *e, struct buf *out)
{
	static const char *const names[] = {
		[UEVENT_ADD] = "add",   [UEVENT_REMOVE] = "remove", [UEVENT_CHANGE] = "change",
		[UEVENT_MOVE] = "move", [UEVENT_OTHER] = "bind",
	};

	fuzz_add(out, "%s@%c", names[e->action], 0);
	fuzz_add(out, "ACTION=%s%c", names[e->action], 0);
	fuzz_add(out, "DEVPATH=%.*s%c", STR_ARG(e->devpath), 0);
	fuzz_add(out, "SUBSYSTEM=%.*s%c", STR_ARG(e->subsystem), 0);
	fuzz_add(out, "DEVNAME=%.*s%c", STR_ARG(e->devname), 0);
	fuzz_add(out, "INTERFACE=%.*s%c", STR_ARG(e->interface), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	struct uevent e, again;
	struct err err = ERR_INIT;
	struct buf out = FUZZ_TEXT;

	if (uevent_parse(s, &e, &err) < 0) {
		MUST(err.kind == ERR_PROTOCOL && err.msg[0]);
		return 0;
	}
	MUST(e.subsystem.len > 0 && e.devpath.len > 0);
	within(e.subsystem, s);
	within(e.devpath, s);
	within(e.name, s);
	within(e.devname, s);
	within(e.interface, s);
	MUST(!e.name.len || !memchr(e.name.p, '/', e.name.len));
	MUST(str_has_suffix(e.devpath, e.name));
	write_again(&e, &out);
	MUST(uevent_parse(buf_str(&out), &again, &err) == 0);
	MUST(again.action == e.action && str_eq(again.subsystem, e.subsystem));
	MUST(str_eq(again.devpath, e.devpath) && str_eq(again.name, e.name));
	MUST(str_eq(again.devname, e.devname) && str_eq(again.interface, e.interface));
	buf_done(&out);
	return 0;
}
