/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inventory of RDMA devices, kept current. Whatever happens, an event, a hot-plug message or
 * the slow timer, leads to the same: all is read again in the loop's turn and compared with what
 * was known. Devices stay open, because their events come through that. Uses core, loop.
 */
#include "node/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "node/pause.h"
#include "node/rdma_sysfs.h"
#include "node/rdma_verbs.h"
#include "node/uevent.h"

#define RESCAN_MS     30000 /* for what no message tells */
#define SCAN_PAUSE_MS 50    /* between two scans, or more where one takes long */
#define EVENT_BUDGET  64    /* a turn and device */
#define FATAL_HOLD_MS 5000  /* so long a failed device is left alone: its driver resets it */
#define GONE_HOLD_MS  500

/* After a hot-plug message: udev sets a node's owner and mode after it, drivers get ready. */
static const unsigned settle_ms[] = {250, 1000, 4000};
#define N_SETTLE (sizeof(settle_ms) / sizeof(settle_ms[0]))

/* A device that is or was open. */
struct handle {
	struct rdma *rdma;
	char name[NODE_NAME_SIZE];
	struct ibv_context *context; /* NULL: closed */
	struct loop_io io;           /* its events, while it is open */
	bool listed;                 /* in the scan that goes on */
	bool good;                   /* it answered last time */
	bool fatal;
	int64_t hold_until_ms; /* not opened again before that */
};

struct rdma {
	struct loop *loop;
	rdma_changed_fn *cb;
	void *arg;
	struct rdma_inventory inventory;
	struct handle *handles[RDMA_MAX_DEVICES];
	size_t n_handles;
	struct loop_work scan;
	struct loop_timer timer;
	size_t settle;        /* how many of settle_ms are behind us */
	int64_t next_scan_ms; /* not earlier, unless it's the timer's */
	struct uevents *uevents;
};

/* ---- handles ---- */

static void handle_close(struct handle *h)
{
	if (!h->context)
		return;
	loop_io_stop(&h->io);
	/* A device that was taken away can't say goodbye: nothing to do about what this returns. */
	(void)ibv_close_device(h->context);
	h->context = NULL;
}

static struct handle *handle_find(const struct rdma *r, const char *name)
{
	for (size_t i = 0; i < r->n_handles; i++) {
		if (strcmp(r->handles[i]->name, name) == 0)
			return r->handles[i];
	}
	return NULL;
}

static struct handle *handle_add(struct rdma *r, const char *name)
{
	struct handle *h;

	if (r->n_handles == RDMA_MAX_DEVICES)
		return NULL;
	h = xcalloc(1, sizeof(*h));
	h->rdma = r;
	rdma_text(h->name, sizeof(h->name), str_of(name));
	r->handles[r->n_handles++] = h;
	return h;
}

/* Those of devices that aren't there any more. */
static void handles_sweep(struct rdma *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n_handles; i++) {
		struct handle *h = r->handles[i];

		if (h->listed) {
			r->handles[kept++] = h;
			continue;
		}
		handle_close(h);
		free(h);
	}
	r->n_handles = kept;
}

/* ---- scanning ---- */

/* What a scan goes through: libibverbs' devices and those that only sysfs has. */
struct entry {
	char name[NODE_NAME_SIZE];
	struct ibv_device *device; /* NULL: libibverbs doesn't have it */
};

struct scan {
	struct entry entries[RDMA_MAX_DEVICES];
	size_t n, n_left_out;
	const char *root;
};

static void scan_add(struct scan *s, const char *name, struct ibv_device *device)
{
	struct entry *e;

	if (strlen(name) >= NODE_NAME_SIZE || s->n == RDMA_MAX_DEVICES) {
		s->n_left_out++;
		return;
	}
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->entries[i].name, name) == 0)
			return;
	}
	e = &s->entries[s->n++];
	*e = (struct entry){.device = device};
	rdma_text(e->name, sizeof(e->name), str_of(name));
}

static bool scan_add_sysfs(const char *name, void *arg)
{
	scan_add(arg, name, NULL);
	return true;
}

/* libibverbs remembers a device's first name; udev gives another one soon after. */
static void scan_add_device(struct scan *s, struct ibv_device *device)
{
	char name[NODE_NAME_SIZE + 1];

	if (!rdma_sysfs_read(name, sizeof(name), "%s/ibdev", device->dev_path))
		snprintf(name, sizeof(name), "%s", ibv_get_device_name(device));
	name[strcspn(name, "\n")] = '\0';
	scan_add(s, name, device);
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return strverscmp(x->name, y->name);
}

/* ---- why a device isn't open ---- */

struct uverbs_search {
	const char *root, *device;
	char found[NODE_NAME_SIZE];
};

static bool compare_uverbs(const char *name, void *arg)
{
	struct uverbs_search *s = arg;
	char device[NODE_NAME_SIZE + 1];

	if (rdma_sysfs_read(device, sizeof(device), "%s/class/infiniband_verbs/%s/ibdev", s->root,
			    name) &&
	    str_eqz(str_trim(str_of(device)), s->device))
		rdma_text(s->found, sizeof(s->found), str_of(name));
	return !s->found[0];
}

/* The kernel has it and libibverbs doesn't. */
static void say_why_not_listed(const struct scan *s, struct rdma_device *d)
{
	struct uverbs_search u = {.root = s->root, .device = d->name};
	char folder[RDMA_PATH_SIZE], text[32];
	dev_t number = 0;

	snprintf(folder, sizeof(folder), "%s/class/infiniband_verbs", s->root);
	rdma_sysfs_each(folder, compare_uverbs, &u);
	if (!u.found[0]) {
		err_set(&d->error, ERR_UNSUPPORTED, 0,
			"the kernel module ib_uverbs isn't loaded: modprobe ib_uverbs");
		return;
	}
	if (rdma_sysfs_read(text, sizeof(text), "%s/%s/dev", folder, u.found))
		rdma_parse_devnum(str_of(text), &number);
	if (rdma_verbs_try_node(u.found, number, &d->error) == 0)
		err_set(&d->error, ERR_INVALID, 0,
			"libibverbs has no provider for the driver %s: install rdma-core's "
			"(ibverbs-providers)",
			d->driver[0] ? d->driver : "of this device");
}

/* ---- one device ---- */

static void on_event(struct loop_io *io, int revents, void *arg);
static void settle(struct rdma *r);

static int handle_open(struct handle *h, struct ibv_device *device, struct err *err)
{
	if (h->context && h->context->device != device)
		handle_close(h); /* another one of the same name */
	if (h->context)
		return 0;
	if (clock_mono_ms() < h->hold_until_ms)
		return h->fatal ? err_set(err, ERR_UNAVAILABLE, 0,
					  "the device reported a fatal error: its driver resets "
					  "it, or the machine's log says why not")
				: err_set(err, ERR_UNAVAILABLE, 0, "the device was taken away");
	if (rdma_verbs_open(device, &h->context, err) < 0)
		return -1;
	loop_io_init(&h->io, h->rdma->loop, h->context->async_fd, on_event, h);
	loop_io_watch(&h->io, EV_READ);
	return 0;
}

/* By sysfs alone. */
static void read_closed(const char *path, struct rdma_device *d, size_t *left_out)
{
	rdma_sysfs_device(path, d, left_out);
	/* sysfs goes on showing what the port was before its device failed. */
	for (size_t i = 0; d->fatal && i < d->n_ports; i++)
		d->ports[i].state = RDMA_PORT_DOWN;
}

static void read_device(struct rdma *r, const struct scan *s, const struct entry *e,
			struct rdma_device *d, size_t *left_out)
{
	struct handle *h;
	char path[RDMA_PATH_SIZE];

	memcpy(d->name, e->name, sizeof(d->name));
	snprintf(path, sizeof(path), "%s/class/infiniband/%s", s->root, e->name);
	if (!e->device) {
		read_closed(path, d, left_out);
		say_why_not_listed(s, d);
		return;
	}
	h = handle_find(r, e->name);
	if (!h)
		h = handle_add(r, e->name);
	if (!h)
		return;
	h->listed = true;
	if (handle_open(h, e->device, &d->error) == 0) {
		if (rdma_verbs_query(h->context, path, d, left_out, &d->error) == 0) {
			if (!h->good)
				log_info("rdma", h->name, "the device is open");
			d->opened = true;
			h->good = true;
			h->fatal = false;
			return;
		}
		handle_close(h);
	}
	/* Try again soon; but what goes on failing waits for the slow timer. */
	if (h->good)
		settle(r);
	h->good = false;
	d->fatal = h->fatal;
	read_closed(path, d, left_out);
}

/* ---- the whole ---- */

static void say_status(struct rdma_inventory *inv, const struct scan *s, int list_errno)
{
	const struct rdma_device *denied = NULL, *unsupported = NULL, *first;
	char folder[RDMA_PATH_SIZE];

	for (size_t i = 0; i < inv->n_devices; i++) {
		const struct rdma_device *d = &inv->devices[i];

		if (d->opened) {
			inv->status = RDMA_OK;
			return;
		}
		/* Without its node, too: that is how a container is kept from it. */
		if (!denied && (d->error.kind == ERR_DENIED || d->error.kind == ERR_NOT_FOUND))
			denied = d;
		if (!unsupported && d->error.kind == ERR_UNSUPPORTED)
			unsupported = d;
	}
	snprintf(folder, sizeof(folder), "%s/class/infiniband_verbs", s->root);
	if (inv->n_devices == 0 && list_errno != 0 && list_errno != ENOSYS) {
		inv->status = RDMA_FAILED;
		err_errno(&inv->error, list_errno, "listing RDMA devices");
	} else if (inv->n_devices == 0 && access(folder, F_OK) != 0) {
		inv->status = RDMA_NO_DRIVER;
		err_set(&inv->error, ERR_UNSUPPORTED, 0,
			"no RDMA driver is loaded: if there is a card, modprobe ib_uverbs and the "
			"card's own (mlx5_ib)");
	} else if (inv->n_devices == 0) {
		inv->status = RDMA_NO_DEVICE;
		err_set(&inv->error, ERR_NOT_FOUND, 0, "this machine has no RDMA device");
	} else {
		first = denied ? denied : unsupported ? unsupported : &inv->devices[0];
		inv->status = denied        ? RDMA_NO_PERMISSION
			      : unsupported ? RDMA_NO_DRIVER
					    : RDMA_FAILED;
		inv->error = first->error;
		err_wrap(&inv->error, "%s", first->name);
	}
}

static void read_inventory(struct rdma *r, struct rdma_inventory *ret)
{
	struct scan *s = xcalloc(1, sizeof(*s));
	struct ibv_device **list;
	char folder[RDMA_PATH_SIZE];
	int64_t began_us = clock_mono_us();
	int list_errno = 0, n = 0;

	s->root = rdma_sysfs_root();
	errno = 0;
	list = ibv_get_device_list(&n);
	if (!list)
		list_errno = errno ? errno : ENOMEM;
	for (int i = 0; list && i < n; i++)
		scan_add_device(s, list[i]);
	if (list_errno != 0 && list_errno != ENOSYS)
		log_warn("rdma", NULL, "listing RDMA devices: %s", strerror(list_errno));
	/* Out of memory or descriptors: that closes nothing. */
	for (size_t i = 0; !list && list_errno != ENOSYS && i < r->n_handles; i++) {
		if (r->handles[i]->context)
			scan_add(s, r->handles[i]->name, r->handles[i]->context->device);
	}
	snprintf(folder, sizeof(folder), "%s/class/infiniband", s->root);
	rdma_sysfs_each(folder, scan_add_sysfs, s);
	qsort(s->entries, s->n, sizeof(s->entries[0]), compare_entries);

	*ret = (struct rdma_inventory){.n_left_out = s->n_left_out};
	ret->devices = xcalloc(s->n ? s->n : 1, sizeof(*ret->devices));
	ret->n_devices = s->n;
	for (size_t i = 0; i < r->n_handles; i++)
		r->handles[i]->listed = false;
	/* Closes what is gone before anything is opened: the places are needed, and a name may have
	 * passed from one device to another. */
	for (size_t i = 0; i < s->n; i++) {
		struct handle *h = handle_find(r, s->entries[i].name);

		if (h && s->entries[i].device)
			h->listed = true;
	}
	handles_sweep(r);
	for (size_t i = 0; i < s->n; i++)
		read_device(r, s, &s->entries[i], &ret->devices[i], &ret->n_left_out);
	say_status(ret, s, list_errno);
	if (list)
		ibv_free_device_list(list);
	free(s);
	r->next_scan_ms = clock_mono_ms() +
			  look_pause_ms(clock_mono_us() - began_us, SCAN_PAUSE_MS);
}

/* ---- comparing ---- */

static bool same_err(const struct err *a, const struct err *b)
{
	return a->kind == b->kind && strcmp(a->msg, b->msg) == 0;
}

static bool same_port(const struct rdma_port *a, const struct rdma_port *b)
{
	if (a->number != b->number || a->state != b->state || a->layer != b->layer ||
	    a->speed_mbps != b->speed_mbps || a->mtu_bytes != b->mtu_bytes ||
	    strcmp(a->netdev, b->netdev) != 0 || a->n_gids != b->n_gids)
		return false;
	for (size_t i = 0; i < a->n_gids; i++) {
		if (a->gids[i].index != b->gids[i].index || a->gids[i].type != b->gids[i].type ||
		    strcmp(a->gids[i].text, b->gids[i].text) != 0 ||
		    strcmp(a->gids[i].netdev, b->gids[i].netdev) != 0)
			return false;
	}
	return true;
}

static bool same_device(const struct rdma_device *a, const struct rdma_device *b)
{
	if (strcmp(a->name, b->name) != 0 || strcmp(a->firmware, b->firmware) != 0 ||
	    strcmp(a->node_guid, b->node_guid) != 0 || strcmp(a->driver, b->driver) != 0 ||
	    a->opened != b->opened || a->fatal != b->fatal || !same_err(&a->error, &b->error) ||
	    a->n_ports != b->n_ports)
		return false;
	for (size_t i = 0; i < a->n_ports; i++) {
		if (!same_port(&a->ports[i], &b->ports[i]))
			return false;
	}
	return true;
}

static bool same_inventory(const struct rdma_inventory *a, const struct rdma_inventory *b)
{
	if (a->status != b->status || !same_err(&a->error, &b->error) ||
	    a->n_left_out != b->n_left_out || a->n_devices != b->n_devices)
		return false;
	for (size_t i = 0; i < a->n_devices; i++) {
		if (!same_device(&a->devices[i], &b->devices[i]))
			return false;
	}
	return true;
}

/* ---- on the loop ---- */

static void on_scan(struct loop_work *work, void *arg)
{
	struct rdma *r = arg;
	struct rdma_inventory next;

	(void)work;
	read_inventory(r, &next);
	if (same_inventory(&r->inventory, &next)) {
		rdma_inventory_done(&next);
		return;
	}
	rdma_inventory_done(&r->inventory);
	r->inventory = next;
	r->cb(r->arg); /* may free r */
}

/* In this turn, or when the pause is over. */
static void look(struct rdma *r)
{
	if (clock_mono_ms() >= r->next_scan_ms)
		loop_work_post(&r->scan);
	else
		loop_timer_start_at(&r->timer, r->next_scan_ms);
}

/* Again and again for a few seconds. */
static void settle(struct rdma *r)
{
	r->settle = 0;
	loop_timer_start_in(&r->timer, settle_ms[0]);
}

static void look_and_settle(struct rdma *r)
{
	settle(r);
	look(r);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct rdma *r = arg;

	loop_timer_start_in(timer, r->settle < N_SETTLE ? settle_ms[r->settle] : RESCAN_MS);
	if (r->settle < N_SETTLE)
		r->settle++;
	loop_work_post(&r->scan);
}

static void on_event(struct loop_io *io, int revents, void *arg)
{
	struct handle *h = arg;
	struct rdma_events events;

	(void)io;
	(void)revents;
	rdma_verbs_take_events(h->context, EVENT_BUDGET, &events);
	if (events.fatal || events.gone) {
		handle_close(h);
		if (events.fatal)
			log_warn("rdma", h->name, "the device reported a fatal error: closed");
		else
			log_info("rdma", h->name, "the device was taken away: closed");
		h->fatal = h->fatal || events.fatal;
		h->hold_until_ms = clock_mono_ms() + (h->fatal ? FATAL_HOLD_MS : GONE_HOLD_MS);
		look_and_settle(h->rdma);
	} else if (events.n > 0) {
		look(h->rdma);
	}
}

static bool is_of_rdma(const struct uevent *event)
{
	return str_has_prefix(event->subsystem, STR("infiniband"));
}

/* A card's interface that comes, or gets another name: a port's interface is known by it. Virtual
 * ones, such as Pods', come all day and are no port's. */
static bool is_of_card(const struct uevent *event)
{
	return str_eqz(event->subsystem, "net") &&
	       (event->action == UEVENT_ADD || event->action == UEVENT_MOVE) &&
	       !str_has_prefix(event->devpath, STR("/devices/virtual/"));
}

static void on_uevent(const struct uevent *event, void *arg)
{
	struct rdma *r = arg;
	bool comes = event && is_of_rdma(event) && event->action == UEVENT_ADD;

	if (event && !is_of_rdma(event) && !is_of_card(event))
		return;
	/* A device that comes is not the one that failed. */
	for (size_t i = 0; comes && i < r->n_handles; i++)
		r->handles[i]->hold_until_ms = 0;
	look_and_settle(r);
}

struct rdma *rdma_new(struct loop *loop, rdma_changed_fn *cb, void *arg)
{
	struct rdma *r = xcalloc(1, sizeof(*r));
	struct err err = ERR_INIT;

	r->loop = loop;
	r->cb = cb;
	r->arg = arg;
	loop_work_init(&r->scan, loop, on_scan, r);
	loop_timer_init(&r->timer, loop, on_timer, r);
	/* First the messages, then the look: nothing falls between. */
	if (uevents_new(loop, on_uevent, r, &r->uevents, &err) < 0)
		log_info("rdma", NULL, "%s: new devices are noticed after %d s at most", err.msg,
			 RESCAN_MS / 1000);
	read_inventory(r, &r->inventory);
	settle(r); /* at boot devices come while we do */
	return r;
}

void rdma_free(struct rdma *r)
{
	if (!r)
		return;
	uevents_free(r->uevents);
	loop_timer_stop(&r->timer);
	loop_work_cancel(&r->scan);
	for (size_t i = 0; i < r->n_handles; i++)
		r->handles[i]->listed = false;
	handles_sweep(r);
	rdma_inventory_done(&r->inventory);
	loop_reap(r->loop, r, free);
}

const struct rdma_inventory *rdma_inventory(const struct rdma *r)
{
	return &r->inventory;
}

void rdma_rescan(struct rdma *r)
{
	look_and_settle(r);
}
