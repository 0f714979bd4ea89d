/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One RDMA device through libibverbs. Uses core.
 */
#include "node/rdma_verbs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "core/str.h"
#include "node/rdma_sysfs.h"

#define GID_ENTRIES 4096 /* of all ports of a device: the largest table that we ask for */

/* The contract's values are the verbs'. */
_Static_assert((int)RDMA_PORT_NOP == (int)IBV_PORT_NOP, "state");
_Static_assert((int)RDMA_PORT_DOWN == (int)IBV_PORT_DOWN, "state");
_Static_assert((int)RDMA_PORT_INIT == (int)IBV_PORT_INIT, "state");
_Static_assert((int)RDMA_PORT_ARMED == (int)IBV_PORT_ARMED, "state");
_Static_assert((int)RDMA_PORT_ACTIVE == (int)IBV_PORT_ACTIVE, "state");
_Static_assert((int)RDMA_PORT_ACTIVE_DEFER == (int)IBV_PORT_ACTIVE_DEFER, "state");
_Static_assert((int)RDMA_GID_ROCE_V2 == (int)IBV_GID_TYPE_ROCE_V2, "GID type");

/* ---- opening ---- */

static int open_failed(struct err *err, int errnum, const char *node)
{
	switch (errnum) {
	case EACCES:
		return err_set(err, ERR_DENIED, errnum,
			       "no permission: %s: run as root, or as a user who may read and "
			       "write it",
			       node);
	case EPERM:
		return err_set(err, ERR_DENIED, errnum,
			       "no permission: %s: the device rules of this container or service "
			       "forbid it: give the Pod the RDMA resource; restart a service that "
			       "is older than the driver",
			       node);
	case ENOENT:
		return err_set(err, ERR_NOT_FOUND, errnum,
			       "%s isn't there: in a container, mount the host's /dev/infiniband",
			       node);
	case ENODEV:
	case ENXIO:
	case EIO:
	case EAGAIN:
		return err_set(err, ERR_UNAVAILABLE, errnum, "%s: the device isn't ready: %s", node,
			       strerror(errnum));
	default:
		return err_errno(err, errnum, "%s", node);
	}
}

/* libibverbs waits up to five seconds for udev when it can't open a node, for whatever reason: so
 * the reason is found here first. */
int rdma_verbs_try_node(const char *uverbs, dev_t number, struct err *err)
{
	char node[32 + NODE_NAME_SIZE];
	struct stat st;
	int fd;

	snprintf(node, sizeof(node), "/dev/infiniband/%s", uverbs);
	fd = open(node, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return open_failed(err, errno, node);
	if (fstat(fd, &st) < 0)
		memset(&st, 0, sizeof(st));
	close(fd);
	if (!S_ISCHR(st.st_mode) || (number != 0 && st.st_rdev != number))
		return err_set(err, ERR_UNAVAILABLE, 0,
			       "%s isn't the device's node: the kernel's is %u:%u", node,
			       major(number), minor(number));
	return 0;
}

int rdma_verbs_open(struct ibv_device *device, struct ibv_context **ret, struct err *err)
{
	char text[32];
	dev_t number = 0;
	struct ibv_context *context;
	int flags;

	if (rdma_sysfs_read(text, sizeof(text), "%s/dev", device->dev_path))
		rdma_parse_devnum(str_of(text), &number);
	if (rdma_verbs_try_node(device->dev_name, number, err) < 0)
		return -1;
	errno = 0;
	context = ibv_open_device(device);
	if (!context)
		return open_failed(err, errno ? errno : EIO, device->dev_name);
	flags = fcntl(context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		int errnum = errno;

		ibv_close_device(context);
		return err_errno(err, errnum, "%s: the events' descriptor", device->dev_name);
	}
	*ret = context;
	return 0;
}

/* ---- asking ---- */

static enum rdma_layer layer_of(const struct ibv_context *context, unsigned link_layer)
{
	switch (link_layer) {
	case IBV_LINK_LAYER_INFINIBAND:
		return RDMA_LAYER_INFINIBAND;
	case IBV_LINK_LAYER_ETHERNET:
		return RDMA_LAYER_ETHERNET;
	default:
		/* Drivers from before RoCE don't say. */
		return context->device->transport_type == IBV_TRANSPORT_IB ? RDMA_LAYER_INFINIBAND
									   : RDMA_LAYER_UNKNOWN;
	}
}

static uint64_t speed_of(const struct ibv_port_attr *attr, const char *path, unsigned number)
{
	struct rdma_port by_sysfs = {.number = number};
	uint64_t mbps = rdma_speed_mbps(attr->active_width, attr->active_speed);

#ifdef HAVE_STRUCT_IBV_PORT_ATTR_ACTIVE_SPEED_EX
	if (attr->active_speed_ex)
		mbps = rdma_speed_mbps(attr->active_width, attr->active_speed_ex);
#endif
	/* active_speed has eight bits: what is faster than NDR, 128, is shown as that. */
	if (mbps == 0 || attr->active_speed == 128) {
		rdma_sysfs_port(path, &by_sysfs);
		if (by_sysfs.speed_mbps > mbps)
			mbps = by_sysfs.speed_mbps;
	}
	return mbps;
}

/* Returns how many entries its table of GIDs has. */
static size_t query_port(struct ibv_context *context, const char *path, struct rdma_port *port)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	if (ibv_query_port(context, (uint8_t)port->number, &attr) != 0) {
		rdma_sysfs_port(path, port);
		return 0;
	}
	if (attr.state <= IBV_PORT_ACTIVE_DEFER)
		port->state = (enum rdma_state)attr.state;
	port->layer = layer_of(context, attr.link_layer);
	port->speed_mbps = speed_of(&attr, path, port->number);
	if (attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= IBV_MTU_4096)
		port->mtu_bytes = 128U << attr.active_mtu;
	return attr.gid_tbl_len > 0 ? (size_t)attr.gid_tbl_len : 0;
}

static void add_gid(const struct ibv_gid_entry *entry, const char *path, struct rdma_port *port,
		    size_t *left_out)
{
	struct rdma_gid *gid;

	if (rdma_gid_is_empty(entry->gid.raw))
		return;
	gid = rdma_port_add_gid(port);
	if (!gid) {
		(*left_out)++;
		return;
	}
	gid->index = entry->gid_index;
	gid->type = entry->gid_type <= IBV_GID_TYPE_ROCE_V2 ? (enum rdma_gid_type)entry->gid_type
							    : RDMA_GID_IB;
	rdma_gid_text(gid->text, entry->gid.raw);
	if (entry->ndev_ifindex == 0)
		return;
	/* The index is that of the host's: where we have a network of our own, sysfs has the name.
	 */
	rdma_sysfs_gid_netdev(path, port->number, gid->index, gid->netdev);
	if (!gid->netdev[0]) {
		char name[IF_NAMESIZE];

		if (if_indextoname(entry->ndev_ifindex, name))
			rdma_text(gid->netdev, sizeof(gid->netdev), str_of(name));
	}
}

/* The tables of all ports at once; by sysfs where library or kernel can't. */
static void query_gids(struct ibv_context *context, const char *path, struct rdma_device *device,
		       size_t n_entries, size_t *left_out)
{
	struct ibv_gid_entry *entries;
	ssize_t n = -1;

	if (n_entries == 0)
		return;
	if (n_entries > GID_ENTRIES)
		n_entries = GID_ENTRIES;
	entries = xcalloc(n_entries, sizeof(*entries));
	n = ibv_query_gid_table(context, entries, n_entries, 0);
	for (size_t i = 0; n < 0 && i < device->n_ports; i++)
		rdma_sysfs_gids(path, &device->ports[i], left_out);
	for (ssize_t i = 0; i < n && (size_t)i < n_entries; i++) {
		unsigned port = entries[i].port_num;

		if (port >= 1 && port <= device->n_ports)
			add_gid(&entries[i], path, &device->ports[port - 1], left_out);
	}
	free(entries);
}

int rdma_verbs_query(struct ibv_context *context, const char *path, struct rdma_device *device,
		     size_t *left_out, struct err *err)
{
	struct ibv_device_attr attr;
	size_t n_entries = 0;
	int errnum;

	memset(&attr, 0, sizeof(attr));
	errnum = ibv_query_device(context, &attr);
	if (errnum != 0)
		return err_errno(err, errnum > 0 ? errnum : EIO, "asking %s", device->name);
	rdma_sysfs_driver(path, device);
	rdma_text(device->firmware, sizeof(device->firmware),
		  (struct str){attr.fw_ver, strnlen(attr.fw_ver, sizeof(attr.fw_ver))});
	rdma_guid_text(device->node_guid, be64toh(attr.node_guid));
	rdma_device_add_ports(device, attr.phys_port_cnt, left_out);
	for (size_t i = 0; i < device->n_ports; i++)
		n_entries += query_port(context, path, &device->ports[i]);
	query_gids(context, path, device, n_entries, left_out);
	for (size_t i = 0; i < device->n_ports; i++)
		rdma_sysfs_port_netdev(path, &device->ports[i]);
	return 0;
}

/* ---- events ---- */

void rdma_verbs_take_events(struct ibv_context *context, unsigned budget, struct rdma_events *ret)
{
	*ret = (struct rdma_events){0};
	while (ret->n < budget) {
		struct ibv_async_event event;

		memset(&event, 0, sizeof(event));
		errno = 0;
		if (ibv_get_async_event(context, &event) != 0) {
			/* The kernel says EIO when the device was taken away. */
			ret->gone = errno != EAGAIN && errno != EINTR;
			return;
		}
		ret->n++;
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			ret->fatal = true;
		else
			ret->changed = true;
		ibv_ack_async_event(&event);
	}
}
