/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's hot-plug messages (NETLINK_KOBJECT_UEVENT): a parser that only reads, and the socket
 * on the loop. Whoever makes the socket owns it. Uses core, loop.
 */
#ifndef IPU_NODE_UEVENT_H
#define IPU_NODE_UEVENT_H

#include "core/err.h"
#include "core/str.h"
#include "loop/loop.h"

enum uevent_action {
	UEVENT_ADD,
	UEVENT_REMOVE,
	UEVENT_CHANGE,
	UEVENT_MOVE, /* a new name */
	UEVENT_OTHER,
};

/* All borrowed from the message; what it doesn't say has no bytes. */
struct uevent {
	enum uevent_action action;
	struct str subsystem; /* "net", "infiniband", "infiniband_verbs", … */
	struct str devpath;   /* below /sys */
	struct str name;      /* devpath's last part: the device's */
	struct str devname;   /* of its node below /dev */
	struct str interface; /* of "net" */
};

/* "add@/devices/…", then KEY=value, each ended by NUL (lib/kobject_uevent.c). A message that isn't
 * the kernel's or lacks action, path or subsystem is ERR_PROTOCOL. */
int uevent_parse(struct str message, struct uevent *ret, struct err *err);

struct uevents;
/* event is NULL where messages were lost: look yourself. May free the socket. */
typedef void uevent_fn(const struct uevent *event, void *arg);

/* Those of our network namespace. ERR_IO where the kernel or a sandbox doesn't permit it. */
int uevents_new(struct loop *loop, uevent_fn *cb, void *arg, struct uevents **ret, struct err *err);
void uevents_free(struct uevents *u); /* NULL is fine */

#endif
