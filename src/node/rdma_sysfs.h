/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs says of RDMA devices: the parsers of its files (pure), and readers for what libibverbs
 * doesn't tell, or can't because a device may not be opened. Values in, values out; knows nothing
 * of libibverbs. Uses core.
 */
#ifndef IPU_NODE_RDMA_SYSFS_H
#define IPU_NODE_RDMA_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/str.h"
#include "node/facts.h"

#define RDMA_PATH_SIZE 512

/* ---- parsers: of a file's text, its final line break too; false leaves *ret alone ---- */

bool rdma_parse_state(struct str s, enum rdma_state *ret); /* "4: ACTIVE" */
bool rdma_parse_layer(struct str s, enum rdma_layer *ret); /* "InfiniBand", "Ethernet" */
bool rdma_parse_rate(struct str s, uint64_t *ret_mbps);    /* "2.5 Gb/sec (1X SDR)" */
bool rdma_parse_gid(struct str s, uint8_t ret[16]);        /* "fe80:0000:…", eight groups */
bool rdma_parse_gid_type(struct str s, enum rdma_layer layer, enum rdma_gid_type *ret);
bool rdma_parse_guid(struct str s, uint64_t *ret);   /* "0c42:a103:0016:054c" */
bool rdma_parse_devnum(struct str s, dev_t *ret);    /* "231:192" */
bool rdma_parse_number(struct str s, unsigned *ret); /* "0", "0x1" */

/* Of the verbs' active_width and active_speed (IBTA 14.2.5.6, PortInfo); 0 where either is
 * unknown. Data rate a lane as sysfs' rate counts it: FDR10 is 10 Gb/s. */
uint64_t rdma_speed_mbps(unsigned width, unsigned speed);

/* Cuts to size, odd bytes become '?', white space at the ends goes. */
void rdma_text(char *ret, size_t size, struct str s);
void rdma_guid_text(char ret[24], uint64_t guid);
void rdma_gid_text(char ret[NODE_ADDR_SIZE], const uint8_t gid[16]);
bool rdma_gid_is_empty(const uint8_t gid[16]);

/* ---- readers ---- */

/* SYSFS_PATH, as libibverbs takes it, or "/sys". */
const char *rdma_sysfs_root(void);

/* A file's first bytes, at most size - 1, terminated. false: it can't be read. */
__attribute__((format(printf, 3, 4))) bool rdma_sysfs_read(char *buf, size_t size, const char *fmt,
							   ...);

/* Calls each(name, arg) for what a folder holds, hidden names left out, until it returns false.
 * false: there is no such folder. */
typedef bool rdma_sysfs_each_fn(const char *name, void *arg);
bool rdma_sysfs_each(const char *folder, rdma_sysfs_each_fn *each, void *arg);

/* path: the device's folder, "/sys/class/infiniband/mlx5_0". These fill what they find and leave
 * the rest alone; what is beyond the limits is added to *left_out. */
void rdma_sysfs_driver(const char *path, struct rdma_device *device);
void rdma_sysfs_device(const char *path, struct rdma_device *device, size_t *left_out);
void rdma_sysfs_port(const char *path, struct rdma_port *port);
void rdma_sysfs_gids(const char *path, struct rdma_port *port, size_t *left_out);
/* The interface of a GID, "" if none. */
void rdma_sysfs_gid_netdev(const char *path, unsigned port, unsigned index,
			   char ret[NODE_LINK_SIZE]);
/* By its GIDs, or where there are none (a port that is down) by the card's interfaces. */
void rdma_sysfs_port_netdev(const char *path, struct rdma_port *port);

/* A new place for a GID, NULL when the port has as many as we take. */
struct rdma_gid *rdma_port_add_gid(struct rdma_port *port);
/* Zeroed ports with numbers from 1, as many as we take of n. */
void rdma_device_add_ports(struct rdma_device *device, size_t n, size_t *left_out);

#endif
