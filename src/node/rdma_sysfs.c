/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices by sysfs. Uses core.
 */
#include "node/rdma_sysfs.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define GID_INDICES 1024 /* of a port: the largest table that we look through */

/* ---- text ---- */

void rdma_text(char *ret, size_t size, struct str s)
{
	size_t n = 0;

	s = str_trim(s);
	for (; n < s.len && n + 1 < size; n++)
		ret[n] = (char)(s.p[n] > ' ' - 1 && s.p[n] <= '~' ? s.p[n] : '?');
	ret[n] = '\0';
}

void rdma_guid_text(char ret[24], uint64_t guid)
{
	snprintf(ret, 24, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		 (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		 (unsigned)guid & 0xffff);
}

void rdma_gid_text(char ret[NODE_ADDR_SIZE], const uint8_t gid[16])
{
	if (!inet_ntop(AF_INET6, gid, ret, NODE_ADDR_SIZE))
		ret[0] = '\0';
}

bool rdma_gid_is_empty(const uint8_t gid[16])
{
	static const uint8_t nothing[16];

	return memcmp(gid, nothing, sizeof(nothing)) == 0;
}

/* ---- parsers ---- */

/* Digits at the front, at most six. */
static bool take_digits(struct str *s, unsigned *ret)
{
	unsigned value = 0;
	size_t n = 0;

	for (; n < s->len && n < 6 && s->p[n] >= '0' && s->p[n] <= '9'; n++)
		value = value * 10 + (unsigned)(s->p[n] - '0');
	if (n == 0 || (n < s->len && s->p[n] >= '0' && s->p[n] <= '9'))
		return false;
	*s = (struct str){s->p + n, s->len - n};
	*ret = value;
	return true;
}

bool rdma_parse_state(struct str s, enum rdma_state *ret)
{
	unsigned value;

	s = str_trim(s);
	if (!take_digits(&s, &value) || !str_has_prefix(s, STR(":")) ||
	    value > RDMA_PORT_ACTIVE_DEFER)
		return false;
	*ret = (enum rdma_state)value;
	return true;
}

bool rdma_parse_layer(struct str s, enum rdma_layer *ret)
{
	s = str_trim(s);
	if (str_eqz(s, "InfiniBand"))
		*ret = RDMA_LAYER_INFINIBAND;
	else if (str_eqz(s, "Ethernet"))
		*ret = RDMA_LAYER_ETHERNET;
	else
		return false;
	return true;
}

bool rdma_parse_rate(struct str s, uint64_t *ret_mbps)
{
	unsigned whole, tenth = 0;

	s = str_trim(s);
	if (!take_digits(&s, &whole))
		return false;
	if (s.len > 0 && s.p[0] == '.') {
		s = (struct str){s.p + 1, s.len - 1};
		if (!take_digits(&s, &tenth) || tenth > 9)
			return false;
	}
	if (!str_has_prefix(s, STR(" Gb/sec")))
		return false;
	*ret_mbps = (uint64_t)whole * 1000 + (uint64_t)tenth * 100;
	return true;
}

/* n groups of four hexadecimal digits between colons, and nothing else. */
static bool parse_groups(struct str s, size_t n, uint8_t *ret)
{
	s = str_trim(s);
	if (s.len != n * 5 - 1)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (i % 5 == 4 ? s.p[i] != ':' : hex_digit(s.p[i]) < 0)
			return false;
	}
	for (size_t i = 0; i < n * 2; i++) {
		const char *digits = s.p + i / 2 * 5 + i % 2 * 2;

		ret[i] = (uint8_t)(hex_digit(digits[0]) << 4 | hex_digit(digits[1]));
	}
	return true;
}

bool rdma_parse_gid(struct str s, uint8_t ret[16])
{
	return parse_groups(s, 8, ret);
}

bool rdma_parse_guid(struct str s, uint64_t *ret)
{
	uint8_t bytes[8];
	uint64_t guid = 0;

	if (!parse_groups(s, 4, bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		guid = guid << 8 | bytes[i];
	*ret = guid;
	return true;
}

bool rdma_parse_gid_type(struct str s, enum rdma_layer layer, enum rdma_gid_type *ret)
{
	s = str_trim(s);
	if (str_eqz(s, "RoCE v2"))
		*ret = RDMA_GID_ROCE_V2;
	else if (str_eqz(s, "IB/RoCE v1"))
		*ret = layer == RDMA_LAYER_ETHERNET ? RDMA_GID_ROCE_V1 : RDMA_GID_IB;
	else
		return false;
	return true;
}

bool rdma_parse_devnum(struct str s, dev_t *ret)
{
	unsigned major_number, minor_number;

	s = str_trim(s);
	if (!take_digits(&s, &major_number) || !str_has_prefix(s, STR(":")))
		return false;
	s = (struct str){s.p + 1, s.len - 1};
	if (!take_digits(&s, &minor_number) || s.len > 0)
		return false;
	*ret = makedev(major_number, minor_number);
	return true;
}

bool rdma_parse_number(struct str s, unsigned *ret)
{
	unsigned value = 0;

	s = str_trim(s);
	if (!str_has_prefix(s, STR("0x")))
		return take_digits(&s, ret) && s.len == 0;
	if (s.len < 3 || s.len > 2 + 6)
		return false;
	for (size_t i = 2; i < s.len; i++) {
		if (hex_digit(s.p[i]) < 0)
			return false;
		value = value << 4 | (unsigned)hex_digit(s.p[i]);
	}
	*ret = value;
	return true;
}

uint64_t rdma_speed_mbps(unsigned width, unsigned speed)
{
	static const struct {
		unsigned bit, lanes;
	} widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	static const struct {
		unsigned bit, mbps;
	} speeds[] = {
		{1, 2500},     /* SDR */
		{2, 5000},     /* DDR */
		{4, 10000},    /* QDR */
		{8, 10000},    /* FDR10 */
		{16, 14000},   /* FDR */
		{32, 25000},   /* EDR */
		{64, 50000},   /* HDR */
		{128, 100000}, /* NDR */
		{256, 200000}, /* XDR */
	};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		for (size_t j = 0; j < sizeof(speeds) / sizeof(speeds[0]); j++) {
			if (widths[i].bit == width && speeds[j].bit == speed)
				return (uint64_t)widths[i].lanes * speeds[j].mbps;
		}
	}
	return 0;
}

/* ---- files ---- */

const char *rdma_sysfs_root(void)
{
	const char *path = getuid() == geteuid() ? getenv("SYSFS_PATH") : NULL;

	return path && path[0] == '/' ? path : "/sys";
}

bool rdma_sysfs_read(char *buf, size_t size, const char *fmt, ...)
{
	char path[RDMA_PATH_SIZE];
	va_list ap;
	int len, fd;
	ssize_t n;

	va_start(ap, fmt);
	len = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	do
		n = read(fd, buf, size - 1);
	while (n < 0 && errno == EINTR);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = '\0';
	return true;
}

bool rdma_sysfs_each(const char *folder, rdma_sysfs_each_fn *each, void *arg)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	if (!dir)
		return false;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.' && !each(entry->d_name, arg))
			break;
	}
	closedir(dir);
	return true;
}

/* ---- devices ---- */

struct rdma_gid *rdma_port_add_gid(struct rdma_port *port)
{
	if (port->n_gids == RDMA_MAX_GIDS)
		return NULL;
	if (!port->gids)
		port->gids = xcalloc(RDMA_MAX_GIDS, sizeof(*port->gids));
	return &port->gids[port->n_gids++];
}

void rdma_device_add_ports(struct rdma_device *device, size_t n, size_t *left_out)
{
	size_t taken = n < RDMA_MAX_PORTS ? n : RDMA_MAX_PORTS;

	*left_out += n - taken;
	device->ports = xcalloc(taken ? taken : 1, sizeof(*device->ports));
	device->n_ports = taken;
	for (size_t i = 0; i < taken; i++)
		device->ports[i].number = (unsigned)i + 1;
}

void rdma_sysfs_driver(const char *path, struct rdma_device *device)
{
	char link[RDMA_PATH_SIZE], target[RDMA_PATH_SIZE];
	const char *name;
	ssize_t n;

	snprintf(link, sizeof(link), "%s/device/driver", path);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0)
		return;
	target[n] = '\0';
	name = strrchr(target, '/');
	rdma_text(device->driver, sizeof(device->driver), str_of(name ? name + 1 : target));
}

void rdma_sysfs_gid_netdev(const char *path, unsigned port, unsigned index,
			   char ret[NODE_LINK_SIZE])
{
	char text[64];

	ret[0] = '\0';
	if (rdma_sysfs_read(text, sizeof(text), "%s/ports/%u/gid_attrs/ndevs/%u", path, port,
			    index))
		rdma_text(ret, NODE_LINK_SIZE, str_of(text));
}

void rdma_sysfs_gids(const char *path, struct rdma_port *port, size_t *left_out)
{
	char text[64];
	uint8_t bytes[16];

	for (unsigned i = 0; i < GID_INDICES; i++) {
		struct rdma_gid *gid;

		if (!rdma_sysfs_read(text, sizeof(text), "%s/ports/%u/gids/%u", path, port->number,
				     i))
			return;
		if (!rdma_parse_gid(str_of(text), bytes) || rdma_gid_is_empty(bytes))
			continue;
		gid = rdma_port_add_gid(port);
		if (!gid) {
			(*left_out)++;
			continue;
		}
		gid->index = i;
		rdma_gid_text(gid->text, bytes);
		/* A GID of InfiniBand has no type: the kernel says EINVAL. */
		gid->type = port->layer == RDMA_LAYER_ETHERNET ? RDMA_GID_ROCE_V1 : RDMA_GID_IB;
		if (rdma_sysfs_read(text, sizeof(text), "%s/ports/%u/gid_attrs/types/%u", path,
				    port->number, i))
			rdma_parse_gid_type(str_of(text), port->layer, &gid->type);
		rdma_sysfs_gid_netdev(path, port->number, i, gid->netdev);
	}
}

/* ---- a port's interface ---- */

struct netdev_search {
	const char *path;
	unsigned port;
	char found[NODE_LINK_SIZE];
};

/* An interface of the card's: dev_port counts from 0; old drivers only have dev_id. */
static bool compare_netdev(const char *name, void *arg)
{
	struct netdev_search *s = arg;
	char text[32];
	unsigned dev_port, dev_id = 0;

	if (!rdma_sysfs_read(text, sizeof(text), "%s/device/net/%s/dev_port", s->path, name) ||
	    !rdma_parse_number(str_of(text), &dev_port))
		dev_port = 0;
	if (rdma_sysfs_read(text, sizeof(text), "%s/device/net/%s/dev_id", s->path, name) &&
	    !rdma_parse_number(str_of(text), &dev_id))
		dev_id = 0;
	if ((dev_port > dev_id ? dev_port : dev_id) + 1 != s->port)
		return true;
	/* "p0" is a card's own port, "pf0vf1" stands for a virtual function's. */
	if (rdma_sysfs_read(text, sizeof(text), "%s/device/net/%s/phys_port_name", s->path, name) &&
	    str_has_prefix(str_of(text), STR("pf")))
		return true;
	/* Of several the first by name. */
	if (!s->found[0] || strcmp(name, s->found) < 0)
		rdma_text(s->found, sizeof(s->found), str_of(name));
	return true;
}

void rdma_sysfs_port_netdev(const char *path, struct rdma_port *port)
{
	struct netdev_search s = {.path = path, .port = port->number};
	char folder[RDMA_PATH_SIZE], text[64];

	for (size_t i = 0; i < port->n_gids; i++) {
		if (port->gids[i].netdev[0]) {
			memcpy(port->netdev, port->gids[i].netdev, sizeof(port->netdev));
			return;
		}
	}
	snprintf(folder, sizeof(folder), "%s/device/net", path);
	rdma_sysfs_each(folder, compare_netdev, &s);
	/* Soft-RoCE's devices have no card, but a parent. */
	if (!s.found[0] && rdma_sysfs_read(text, sizeof(text), "%s/parent", path))
		rdma_text(s.found, sizeof(s.found), str_of(text));
	memcpy(port->netdev, s.found, sizeof(port->netdev));
}

void rdma_sysfs_port(const char *path, struct rdma_port *port)
{
	char text[64];

	if (rdma_sysfs_read(text, sizeof(text), "%s/ports/%u/state", path, port->number))
		rdma_parse_state(str_of(text), &port->state);
	if (rdma_sysfs_read(text, sizeof(text), "%s/ports/%u/link_layer", path, port->number))
		rdma_parse_layer(str_of(text), &port->layer);
	if (rdma_sysfs_read(text, sizeof(text), "%s/ports/%u/rate", path, port->number))
		rdma_parse_rate(str_of(text), &port->speed_mbps);
}

static bool count_port(const char *name, void *arg)
{
	unsigned number, *most = arg;

	if (rdma_parse_number(str_of(name), &number) && number > *most && number <= 255)
		*most = number;
	return true;
}

void rdma_sysfs_device(const char *path, struct rdma_device *device, size_t *left_out)
{
	char text[NODE_NAME_SIZE + 1], folder[RDMA_PATH_SIZE];
	uint64_t guid;
	unsigned n_ports = 0;

	rdma_sysfs_driver(path, device);
	if (rdma_sysfs_read(text, sizeof(text), "%s/fw_ver", path))
		rdma_text(device->firmware, sizeof(device->firmware), str_of(text));
	if (rdma_sysfs_read(text, sizeof(text), "%s/node_guid", path) &&
	    rdma_parse_guid(str_of(text), &guid))
		rdma_guid_text(device->node_guid, guid);
	snprintf(folder, sizeof(folder), "%s/ports", path);
	rdma_sysfs_each(folder, count_port, &n_ports);
	rdma_device_add_ports(device, n_ports, left_out);
	for (size_t i = 0; i < device->n_ports; i++) {
		rdma_sysfs_port(path, &device->ports[i]);
		rdma_sysfs_gids(path, &device->ports[i], left_out);
		rdma_sysfs_port_netdev(path, &device->ports[i]);
	}
}
