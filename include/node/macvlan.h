/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The additional network of Pods on this machine's RDMA interface: which interface, which subnet,
 * which addresses Pods must not get, and the manifest of it: a MacvlanNetwork of NVIDIA's network
 * operator (mellanox.com/v1alpha1), or the NetworkAttachmentDefinition that it would make of that
 * (k8s.cni.cncf.io/v1). Pure. Uses core.
 */
#ifndef IPU_NODE_MACVLAN_H
#define IPU_NODE_MACVLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "core/json.h"
#include "node/cidr.h"
#include "node/facts.h"

#define MACVLAN_NETWORK      "rdma-net"
#define MACVLAN_NAMESPACE    "default"
#define MACVLAN_MTU          1500 /* where the interface's isn't known */
#define MACVLAN_MAX_EXCLUDES 64

/* NULL and 0: found out, or the default. */
struct macvlan_wishes {
	const char *network, *network_namespace;
	const char *link;    /* the interface */
	const char *subnet;  /* "10.5.212.0/24" */
	const char *exclude; /* with commas, "": nothing at all is excluded */
	unsigned mtu;
	const char *mode;
	const char *cni_folder; /* absolute */
	/* Of the cluster's Nodes: in the subnet they aren't given out either. */
	const struct macvlan_used *used;
	size_t n_used;
};

struct macvlan_used {
	const char *address, *whose; /* the Node's name */
};

struct macvlan_exclude {
	struct cidr range;
	char why[NODE_TEXT_SIZE];
};

/* Strings are borrowed from the wishes and the facts. */
struct macvlan_plan {
	const char *network, *network_namespace, *link, *mode;
	struct cidr subnet;
	struct macvlan_exclude excludes[MACVLAN_MAX_EXCLUDES];
	size_t n_excludes;
	/* Of addresses that are in use and could yet be given to a Pod; "": none. n_careful: how
	 * many more. */
	char careful[NODE_TEXT_SIZE];
	size_t n_careful;
	unsigned mtu;
	uint64_t left;                  /* how many Pods can have an address; UINT64_MAX: enough */
	const struct fabric_reach *via; /* what is known of the interface; NULL: nothing */
	bool is_wish;                   /* a person named the interface */
	const char *cni_folder;         /* of the nodes, with Whereabouts' kubeconfig */
	char cni_why[64];               /* it's that one */
	bool no_whereabouts;            /* … and isn't there */
	bool may_guess;                 /* nobody said what isn't for Pods */
};

/*
 * Of facts count reach alone; an entry without a controller is an interface that somebody knows.
 * Without a wish for the interface it's the one that the first controller is reached through, and
 * controllers on other interfaces are none of this network's.
 *
 * What isn't given out, unless wishes say otherwise: the first 128 addresses of the subnet, where
 * IPU-Machines and controllers usually are (of 128 or fewer the first half); and the addresses of
 * the controllers, of this machine and of the gateway and those that wishes call used, where those
 * ranges don't have them. Of ranges that are wished for, those addresses are left out besides.
 *
 * Errors: ERR_INVALID, a wish that can't be granted, or no address would be left; ERR_NOT_FOUND,
 * nobody says which interface it is.
 */
int macvlan_plan(const struct fabric_facts *facts, const struct macvlan_wishes *wishes,
		 struct macvlan_plan *ret, struct err *err);

/* In doc. The same plan makes the same object. */
struct jmut *macvlan_object(const struct macvlan_plan *plan, bool attachment, struct jmut_doc *doc);
/* Where the values come from, as comments of YAML; the last ones are what to be careful of. */
int macvlan_write_comments(const struct macvlan_plan *plan, struct buf *out, struct err *err);
int macvlan_write_warnings(const struct macvlan_plan *plan, struct buf *out, struct err *err);
/* ERR_INVALID: the interface that the facts name isn't one for RDMA, so a person had better say. */
int macvlan_check_link(const struct macvlan_plan *plan, struct err *err);

#endif
