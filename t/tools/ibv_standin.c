/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libibverbs, for tests on machines without RDMA devices: preloaded (LD_PRELOAD), it
 * is asked in the library's place. Its devices are described by the text file that the environment
 * variable IBV_STANDIN names; the file is read anew with every call, so a test changes the machine
 * by replacing it (rename, so that nobody reads half of it). t/lib/RdmaStandin.pm does all this.
 *
 * The file: a thing a line, words between blanks, "#" begins a comment.
 *
 *   device NAME [uverbs=NAME] [guid=XXXX:XXXX:XXXX:XXXX] [firmware=TEXT] [ports=N]
 *          [transport=ib|iwarp] [node=ERRNO] [instance=N]
 *   port N [state=nop|down|init|armed|active|active_defer] [layer=ethernet|infiniband|none]
 *          [width=N] [speed=N] [mtu=256|…|4096] [table=N]
 *   gid INDEX ADDRESS [type=ib|v1|v2] [netdev=NAME | ifindex=N]
 *   fail FUNCTION ERRNO [NTH]
 *
 * A port belongs to the device before it, a GID to the port before it. width and speed are the
 * verbs' bits (2: 4X, 32: EDR); table is the size of the table of GIDs. node says why
 * /dev/infiniband/UVERBS can't be opened (EACCES); otherwise opening it succeeds, though no such
 * file is there. Another instance is another device that has the same name. "fail" makes a function
 * return this error, always or the NTH time that the process calls it: ibv_open_device EIO.
 *
 * Events: while a device is open, IBV_STANDIN.NAME.events, which must be there, is a FIFO with a
 * reader. An event is one write of 32 bytes, a word and a number padded with blanks: "port_err 1",
 * "port_active 1", "gid_change 1", "lid_change 1", "pkey_change 1", "sm_change 1",
 * "client_reregister 1", "device_fatal 0"; "gone 0" is the end of them, as when a card is pulled.
 * One reader a FIFO: a second process that has the device open would take half of the events.
 *
 * Uses that libibverbs would punish end the process with a message: an event that wasn't
 * acknowledged when its device is closed, a closed context, opening what would wait for udev.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#undef ibv_query_port

#define MAX_DEVICES  80
#define MAX_PORTS    12
#define MAX_GIDS     300
#define MAX_FAILS    16
#define EVENT_BYTES  32
#define NODE_FOLDER  "/dev/infiniband/"
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct gid {
	struct ibv_gid_entry entry;
};

struct port {
	struct ibv_port_attr attr;
	struct gid *gids;
	unsigned n_gids;
};

struct device {
	char name[IBV_SYSFS_NAME_MAX], uverbs[IBV_SYSFS_NAME_MAX], firmware[64];
	uint64_t guid;
	unsigned instance, n_ports;
	int node_errno;
	enum ibv_transport_type transport;
	struct port *ports; /* MAX_PORTS */
};

struct fail {
	char function[40];
	int errnum;
	unsigned nth; /* 0: always */
};

struct machine {
	struct device devices[MAX_DEVICES];
	unsigned n_devices;
	struct fail fails[MAX_FAILS];
	unsigned n_fails;
};

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	fputs("ibv-standin: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

static void *must(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

static const char *file_path(void)
{
	const char *path = getenv("IBV_STANDIN");

	if (!path)
		die("IBV_STANDIN isn't set");
	return path;
}

/* ---- reading the file ---- */

struct word {
	const char *name;
	int value;
};

static const struct word errnos[] = {
	{"EPERM", EPERM},   {"ENOENT", ENOENT}, {"EIO", EIO},       {"ENXIO", ENXIO},
	{"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"ENODEV", ENODEV},
	{"EINVAL", EINVAL}, {"EMFILE", EMFILE}, {"ENOSYS", ENOSYS}, {"EOPNOTSUPP", EOPNOTSUPP},
	{"EBUSY", EBUSY},   {"EFAULT", EFAULT}, {"ENOSPC", ENOSPC},
};
static const struct word states[] = {
	{"nop", IBV_PORT_NOP},       {"down", IBV_PORT_DOWN},
	{"init", IBV_PORT_INIT},     {"armed", IBV_PORT_ARMED},
	{"active", IBV_PORT_ACTIVE}, {"active_defer", IBV_PORT_ACTIVE_DEFER},
};
static const struct word layers[] = {
	{"ethernet", IBV_LINK_LAYER_ETHERNET},
	{"infiniband", IBV_LINK_LAYER_INFINIBAND},
	{"none", IBV_LINK_LAYER_UNSPECIFIED},
};
static const struct word mtus[] = {
	{"256", IBV_MTU_256},   {"512", IBV_MTU_512},   {"1024", IBV_MTU_1024},
	{"2048", IBV_MTU_2048}, {"4096", IBV_MTU_4096},
};
static const struct word gid_types[] = {
	{"ib", IBV_GID_TYPE_IB},
	{"v1", IBV_GID_TYPE_ROCE_V1},
	{"v2", IBV_GID_TYPE_ROCE_V2},
};
static const struct word transports[] = {
	{"ib", IBV_TRANSPORT_IB},
	{"iwarp", IBV_TRANSPORT_IWARP},
};
static const struct word events[] = {
	{"device_fatal", IBV_EVENT_DEVICE_FATAL},
	{"port_active", IBV_EVENT_PORT_ACTIVE},
	{"port_err", IBV_EVENT_PORT_ERR},
	{"lid_change", IBV_EVENT_LID_CHANGE},
	{"pkey_change", IBV_EVENT_PKEY_CHANGE},
	{"sm_change", IBV_EVENT_SM_CHANGE},
	{"client_reregister", IBV_EVENT_CLIENT_REREGISTER},
	{"gid_change", IBV_EVENT_GID_CHANGE},
};

#define WORD(table, name) find_word(table, ARRAY_LEN(table), name, #table)
static int find_word(const struct word *table, size_t n, const char *name, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(table[i].name, name) == 0)
			return table[i].value;
	}
	die("%s isn't one of %s", name, what);
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	if (end == text || *end)
		die("%s isn't a number", text);
	return (unsigned)value;
}

static char *next_word(char **rest)
{
	char *word;

	do
		word = strsep(rest, " \t\n");
	while (word && !*word);
	return word;
}

static char *need_word(char **rest)
{
	char *word = next_word(rest);

	if (!word)
		die("%s: a line is too short", file_path());
	return word;
}

/* key=value */
static char *next_pair(char **rest, char **ret_value)
{
	char *word = next_word(rest), *equals = word ? strchr(word, '=') : NULL;

	if (!word)
		return NULL;
	if (!equals)
		die("%s: %s is not key=value", file_path(), word);
	*equals = '\0';
	*ret_value = equals + 1;
	return word;
}

static void read_device(struct machine *m, char *rest)
{
	struct device *d = &m->devices[m->n_devices++];
	char *key, *value;

	if (m->n_devices > MAX_DEVICES)
		die("too many devices");
	snprintf(d->name, sizeof(d->name), "%s", need_word(&rest));
	snprintf(d->uverbs, sizeof(d->uverbs), "uverbs%u", m->n_devices - 1);
	d->transport = IBV_TRANSPORT_IB;
	d->ports = must(calloc(MAX_PORTS, sizeof(*d->ports)));
	while ((key = next_pair(&rest, &value))) {
		if (strcmp(key, "uverbs") == 0) {
			snprintf(d->uverbs, sizeof(d->uverbs), "%s", value);
		} else if (strcmp(key, "firmware") == 0) {
			snprintf(d->firmware, sizeof(d->firmware), "%s", value);
		} else if (strcmp(key, "guid") == 0) {
			for (char *group; (group = strsep(&value, ":"));)
				d->guid = d->guid << 16 | strtoul(group, NULL, 16);
		} else if (strcmp(key, "ports") == 0) {
			d->n_ports = number(value);
		} else if (strcmp(key, "instance") == 0) {
			d->instance = number(value);
		} else if (strcmp(key, "transport") == 0) {
			d->transport = (enum ibv_transport_type)WORD(transports, value);
		} else if (strcmp(key, "node") == 0) {
			d->node_errno = WORD(errnos, value);
		} else {
			die("device %s: %s isn't known", d->name, key);
		}
	}
}

static struct device *last_device(struct machine *m)
{
	if (m->n_devices == 0)
		die("%s: there is no device yet", file_path());
	return &m->devices[m->n_devices - 1];
}

static struct port *read_port(struct machine *m, char *rest)
{
	struct device *d = last_device(m);
	unsigned n = number(need_word(&rest));
	struct port *p;
	char *key, *value;

	if (n < 1 || n > MAX_PORTS)
		die("device %s: port %u", d->name, n);
	if (n > d->n_ports)
		d->n_ports = n;
	p = &d->ports[n - 1];
	p->gids = must(calloc(MAX_GIDS, sizeof(*p->gids)));
	p->attr.state = IBV_PORT_ACTIVE;
	p->attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	p->attr.active_width = 2;
	p->attr.active_speed = 32;
	p->attr.max_mtu = p->attr.active_mtu = IBV_MTU_4096;
	p->attr.gid_tbl_len = 256;
	while ((key = next_pair(&rest, &value))) {
		if (strcmp(key, "state") == 0)
			p->attr.state = (enum ibv_port_state)WORD(states, value);
		else if (strcmp(key, "layer") == 0)
			p->attr.link_layer = (uint8_t)WORD(layers, value);
		else if (strcmp(key, "width") == 0)
			p->attr.active_width = (uint8_t)number(value);
		else if (strcmp(key, "speed") == 0)
			p->attr.active_speed = (uint8_t)number(value);
		else if (strcmp(key, "mtu") == 0)
			p->attr.active_mtu = (enum ibv_mtu)WORD(mtus, value);
		else if (strcmp(key, "table") == 0)
			p->attr.gid_tbl_len = (int)number(value);
		else
			die("device %s port %u: %s isn't known", d->name, n, key);
	}
	return p;
}

static void read_gid(struct machine *m, struct port *p, char *rest)
{
	struct gid *g;
	char *key, *value, *address;

	if (!p || p->n_gids == MAX_GIDS)
		die("%s: a GID without a port, or too many", file_path());
	g = &p->gids[p->n_gids++];
	g->entry.port_num = (uint32_t)(p - last_device(m)->ports) + 1;
	g->entry.gid_index = number(need_word(&rest));
	g->entry.gid_type = IBV_GID_TYPE_ROCE_V2;
	address = need_word(&rest);
	if (inet_pton(AF_INET6, address, g->entry.gid.raw) != 1)
		die("%s isn't an address", address);
	while ((key = next_pair(&rest, &value))) {
		if (strcmp(key, "type") == 0)
			g->entry.gid_type = (uint32_t)WORD(gid_types, value);
		else if (strcmp(key, "netdev") == 0)
			g->entry.ndev_ifindex = if_nametoindex(value);
		else if (strcmp(key, "ifindex") == 0)
			g->entry.ndev_ifindex = number(value);
		else
			die("GID %s: %s isn't known", address, key);
	}
}

static void read_fail(struct machine *m, char *rest)
{
	struct fail *f = &m->fails[m->n_fails++];
	char *nth;

	if (m->n_fails > MAX_FAILS)
		die("too many failures");
	snprintf(f->function, sizeof(f->function), "%s", need_word(&rest));
	f->errnum = WORD(errnos, need_word(&rest));
	nth = next_word(&rest);
	f->nth = nth ? number(nth) : 0;
}

static struct machine *machine_read(void)
{
	struct machine *m = must(calloc(1, sizeof(*m)));
	struct port *port = NULL;
	FILE *f = fopen(file_path(), "re");
	char line[512];

	if (!f)
		die("%s: %s", file_path(), strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		char *rest = line, *word;

		line[strcspn(line, "#")] = '\0';
		word = next_word(&rest);
		if (!word)
			continue;
		if (strcmp(word, "device") == 0) {
			read_device(m, rest);
			port = NULL;
		} else if (strcmp(word, "port") == 0) {
			port = read_port(m, rest);
		} else if (strcmp(word, "gid") == 0) {
			read_gid(m, port, rest);
		} else if (strcmp(word, "fail") == 0) {
			read_fail(m, rest);
		} else {
			die("%s: %s isn't known", file_path(), word);
		}
	}
	fclose(f);
	return m;
}

static void machine_free(struct machine *m)
{
	for (unsigned i = 0; i < m->n_devices; i++) {
		for (unsigned j = 0; j < MAX_PORTS; j++)
			free(m->devices[i].ports[j].gids);
		free(m->devices[i].ports);
	}
	free(m);
}

static const struct device *machine_device(const struct machine *m, const char *name)
{
	for (unsigned i = 0; i < m->n_devices; i++) {
		if (strcmp(m->devices[i].name, name) == 0)
			return &m->devices[i];
	}
	return NULL;
}

/* The error that a function is to return, 0 for none. */
static int failure(const char *function)
{
	static struct {
		const char *name;
		unsigned calls;
	} counts[16];
	struct machine *m = machine_read();
	unsigned calls = 0;
	int errnum = 0;

	for (size_t i = 0; i < ARRAY_LEN(counts) && calls == 0; i++) {
		if (!counts[i].name)
			counts[i].name = function;
		if (strcmp(counts[i].name, function) == 0)
			calls = ++counts[i].calls;
	}
	for (unsigned i = 0; i < m->n_fails; i++) {
		if (strcmp(m->fails[i].function, function) == 0 &&
		    (m->fails[i].nth == 0 || m->fails[i].nth == calls))
			errnum = m->fails[i].errnum;
	}
	machine_free(m);
	return errnum;
}

/* ---- the list ---- */

/* libibverbs gives the same pointer for the same device for as long as the process lives. */
struct known {
	struct ibv_device device;
	unsigned instance;
	uint64_t guid;
	struct known *next;
};
static struct known *all_known;

static struct ibv_device *known_device(const struct device *d)
{
	const char *root = getenv("SYSFS_PATH") ? getenv("SYSFS_PATH") : "/sys";
	struct known *k;

	for (k = all_known; k; k = k->next) {
		if (strcmp(k->device.name, d->name) == 0 && k->instance == d->instance)
			return &k->device;
	}
	k = must(calloc(1, sizeof(*k)));
	k->instance = d->instance;
	k->guid = d->guid;
	k->device.node_type = IBV_NODE_CA;
	k->device.transport_type = d->transport;
	snprintf(k->device.name, sizeof(k->device.name), "%s", d->name);
	snprintf(k->device.dev_name, sizeof(k->device.dev_name), "%s", d->uverbs);
	snprintf(k->device.dev_path, sizeof(k->device.dev_path), "%.120s/class/infiniband_verbs/%s",
		 root, d->uverbs);
	snprintf(k->device.ibdev_path, sizeof(k->device.ibdev_path), "%.120s/class/infiniband/%s",
		 root, d->name);
	k->next = all_known;
	all_known = k;
	return &k->device;
}

struct ibv_device **ibv_get_device_list(int *ret_n)
{
	int errnum = failure("ibv_get_device_list");
	struct machine *m;
	struct ibv_device **list;

	if (ret_n)
		*ret_n = 0;
	if (errnum) {
		errno = errnum;
		return NULL;
	}
	m = machine_read();
	list = must(calloc(m->n_devices + 1, sizeof(struct ibv_device *)));
	for (unsigned i = 0; i < m->n_devices; i++)
		list[i] = known_device(&m->devices[i]);
	if (ret_n)
		*ret_n = (int)m->n_devices;
	machine_free(m);
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(((struct known *)device)->guid);
}

/* ---- contexts ---- */

struct context {
	struct verbs_context verbs; /* ends in the public part, which is what is handed out */
	bool open, gone;
	unsigned unacknowledged;
	struct context *next; /* kept after they were closed, to know them */
};
static struct context *all_contexts;

static struct context *context_of(struct ibv_context *context, const char *function)
{
	for (struct context *c = all_contexts; c; c = c->next) {
		if (&c->verbs.context != context)
			continue;
		if (!c->open)
			die("%s: this context was closed", function);
		return c;
	}
	die("%s: no context of mine", function);
}

static int fifo_open(const char *device)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s.%s.events", file_path(), device);
	/* For writing too: it has no end then. Blocking, as the kernel's descriptor is. */
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

static int port_query(struct ibv_context *context, uint8_t number_, struct ibv_port_attr *attr,
		      size_t size)
{
	struct context *c = context_of(context, "ibv_query_port");
	int errnum = failure("ibv_query_port");
	struct machine *m;
	const struct device *d;

	if (errnum)
		return errnum;
	m = machine_read();
	d = machine_device(m, c->verbs.context.device->name);
	if (!d || number_ < 1 || number_ > d->n_ports)
		errnum = d ? EINVAL : EIO;
	else
		memcpy(attr, &d->ports[number_ - 1].attr, size);
	machine_free(m);
	return errnum;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	int errnum = failure("ibv_open_device");
	struct machine *m;
	const struct device *d;
	struct context *c;

	if (errnum) {
		errno = errnum;
		return NULL;
	}
	m = machine_read();
	d = machine_device(m, device->name);
	if (d && d->node_errno)
		die("ibv_open_device: libibverbs would wait five seconds for a node of %s",
		    device->name);
	machine_free(m);
	if (!d) {
		errno = ENODEV;
		return NULL;
	}
	c = must(calloc(1, sizeof(*c)));
	c->open = true;
	c->verbs.sz = sizeof(c->verbs);
	c->verbs.query_port = port_query;
	c->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->verbs.context.device = device;
	c->verbs.context.cmd_fd = -1;
	c->verbs.context.async_fd = fifo_open(device->name);
	c->next = all_contexts;
	all_contexts = c;
	return &c->verbs.context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct context *c = context_of(context, "ibv_close_device");

	if (c->unacknowledged > 0)
		die("ibv_close_device: %u events weren't acknowledged", c->unacknowledged);
	c->open = false;
	close(c->verbs.context.async_fd);
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t number_, struct _compat_ibv_port_attr *attr)
{
	return port_query(context, number_, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct context *c = context_of(context, "ibv_query_device");
	int errnum = failure("ibv_query_device");
	struct machine *m;
	const struct device *d;

	if (errnum)
		return errnum;
	m = machine_read();
	d = machine_device(m, c->verbs.context.device->name);
	memset(attr, 0, sizeof(*attr));
	if (d) {
		memcpy(attr->fw_ver, d->firmware, sizeof(attr->fw_ver));
		attr->node_guid = htobe64(d->guid);
		attr->phys_port_cnt = (uint8_t)d->n_ports;
	}
	machine_free(m);
	return d ? 0 : EIO;
}

/* ---- GIDs ---- */

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct context *c = context_of(context, "ibv_query_gid_table");
	int errnum = failure("ibv_query_gid_table");
	struct machine *m;
	const struct device *d;
	size_t n = 0;

	if (errnum || flags)
		return errnum ? -errnum : -EOPNOTSUPP;
	m = machine_read();
	d = machine_device(m, c->verbs.context.device->name);
	for (unsigned i = 0; d && i < d->n_ports; i++) {
		for (unsigned j = 0; j < d->ports[i].n_gids && !errnum; j++) {
			if (n == max_entries)
				errnum = EINVAL;
			else
				memcpy((char *)entries + n++ * entry_size,
				       &d->ports[i].gids[j].entry, entry_size);
		}
	}
	machine_free(m);
	if (!d)
		errnum = EIO;
	return errnum ? -errnum : (ssize_t)n;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t number_, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct context *c = context_of(context, "ibv_query_gid_ex");
	int errnum = failure("ibv_query_gid_ex");
	struct machine *m;
	const struct device *d;

	if (errnum || flags)
		return errnum ? errnum : EOPNOTSUPP;
	m = machine_read();
	d = machine_device(m, c->verbs.context.device->name);
	errnum = ENODATA;
	for (unsigned i = 0;
	     d && number_ >= 1 && number_ <= d->n_ports && i < d->ports[number_ - 1].n_gids; i++) {
		const struct gid *g = &d->ports[number_ - 1].gids[i];

		if (g->entry.gid_index != index)
			continue;
		memcpy(entry, &g->entry, entry_size);
		errnum = 0;
	}
	machine_free(m);
	return errnum;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number_, int index, union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	int errnum = _ibv_query_gid_ex(context, number_, (uint32_t)index, &entry, 0, sizeof(entry));

	if (errnum == 0)
		*gid = entry.gid;
	return errnum ? -1 : 0;
}

/* ---- events ---- */

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct context *c = context_of(context, "ibv_get_async_event");
	int errnum = failure("ibv_get_async_event");
	char text[EVENT_BYTES + 1] = "", *rest = text, *word;
	ssize_t n;

	if (errnum || c->gone) {
		errno = errnum ? errnum : EIO;
		return -1;
	}
	n = read(c->verbs.context.async_fd, text, EVENT_BYTES);
	if (n < 0)
		return -1;
	if (n != EVENT_BYTES)
		die("an event of %zd bytes", n);
	word = need_word(&rest);
	if (strcmp(word, "gone") == 0) {
		c->gone = true;
		errno = EIO;
		return -1;
	}
	memset(event, 0, sizeof(*event));
	event->event_type = (enum ibv_event_type)WORD(events, word);
	event->element.port_num = (int)number(need_word(&rest));
	c->unacknowledged++;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	/* The real one doesn't say whose a port's event was either. */
	for (struct context *c = all_contexts; c; c = c->next) {
		if (c->open && c->unacknowledged > 0) {
			c->unacknowledged--;
			return;
		}
	}
	die("ibv_ack_async_event: there was none");
}

/* ---- /dev/infiniband ---- */

/* The C library's names, without its headers' tricks around them. */
int standin_open(const char *path, int flags, ...) __asm__("open");
int standin_open64(const char *path, int flags, ...) __asm__("open64");

static int open_any(const char *path, int flags, unsigned mode)
{
	struct machine *m;
	int errnum = ENOENT;

	if (strncmp(path, NODE_FOLDER, strlen(NODE_FOLDER)) != 0)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	m = machine_read();
	for (unsigned i = 0; i < m->n_devices; i++) {
		if (strcmp(m->devices[i].uverbs, path + strlen(NODE_FOLDER)) == 0)
			errnum = m->devices[i].node_errno;
	}
	machine_free(m);
	if (errnum == 0)
		return (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", flags, 0);
	errno = errnum;
	return -1;
}

int standin_open(const char *path, int flags, ...)
{
	va_list ap;
	unsigned mode = 0;

	va_start(ap, flags);
	if (flags & (O_CREAT | __O_TMPFILE))
		mode = va_arg(ap, unsigned);
	va_end(ap);
	return open_any(path, flags, mode);
}

int standin_open64(const char *path, int flags, ...)
{
	va_list ap;
	unsigned mode = 0;

	va_start(ap, flags);
	if (flags & (O_CREAT | __O_TMPFILE))
		mode = va_arg(ap, unsigned);
	va_end(ap);
	return open_any(path, flags | O_LARGEFILE, mode);
}
