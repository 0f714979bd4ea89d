/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma check and rdma macvlan: what is known of this machine and of the cluster, and what follows
 * from it (doc/design/head-node.md has the tables). Gathering asks; judging is pure. Uses node,
 * vipu, kube and core.
 */
#ifndef IPU_CTL_RDMA_H
#define IPU_CTL_RDMA_H

#include <stdbool.h>

#include "core/json.h"
#include "ctl/link.h"
#include "ctl/options.h"
#include "node/checks.h"
#include "node/cidr.h"
#include "node/fabric.h"

/* ---- gathering ---- */

struct ctl_rdma {
	struct ctl_link *link; /* NULL: there is no kubeconfig */
	struct vipu_address_list controllers;
	char *cni_folder;  /* that a configuration names; NULL: none does */
	struct loop *loop; /* of the fabric alone */
	struct net *net;
	struct fabric *fabric;
	const struct fabric_facts *local;
};

/* The way to the cluster, if there is one; the controllers that options, configuration or cluster
 * name; this machine's facts, complete. Errors: of the command line and of files; a cluster that
 * doesn't answer is none. */
int ctl_rdma_gather(const struct ctl_options *o, struct ctl_rdma *ret, struct err *err);
void ctl_rdma_done(struct ctl_rdma *r);

/* Whatever the checks of the cluster look at, as members of facts. */
void ctl_rdma_gather_cluster(struct ctl_link *link, const struct ctl_options *o,
			     struct jmut_doc *doc, struct jmut *facts);

/* Of o, with the defaults. */
const char *ctl_rdma_network(const struct ctl_options *o);
const char *ctl_rdma_network_ns(const struct ctl_options *o);
int ctl_rdma_check_network(const struct ctl_options *o, struct err *err);

/* ---- judging ---- */

struct ctl_rdma_question {
	const char *network, *network_ns;
	const char *node;     /* NULL: this host's, if there is such a Node */
	bool elsewhere;       /* node is another machine than this one */
	const char *host;     /* this host's name */
	const char *ns;       /* where jobs run */
	const char *resource; /* NULL: any "rdma/…" */
};

extern const struct node_rule ctl_rdma_cluster_rules[], ctl_rdma_pod_rules[];

/* facts: as ctl_rdma_gather_cluster made them; NULL: there is no cluster. */
void ctl_rdma_judge_cluster(const struct json *facts, const struct fabric_facts *local,
			    const struct ctl_rdma_question *q, struct node_findings *f);

/* The member, where it's a string; else "". */
const char *ctl_rdma_z(const struct json *object, const char *key);
/* The Node that the question is about; NULL: none is known by that name. */
const struct json *ctl_rdma_node(const struct json *facts, const struct ctl_rdma_question *q);
/* Whether a Node that is named is this machine: by its name, its label, or an address. */
bool ctl_rdma_is_elsewhere(const struct json *facts, const struct ctl_rdma_question *q);
/* Of an address: does this machine have it? */
bool ctl_rdma_has_address(const char *address);
/* The resource that a Pod there asks for: the question's, else the Node's first "rdma/…" (the
 * guides' before others). STR_NULL: it has none. */
struct str ctl_rdma_resource(const struct json *node, const struct ctl_rdma_question *q);
/* The one that the operator in the cluster gives Pods; NULL: none. The caller frees. */
char *ctl_rdma_worker_resource(const struct json *facts);
/* Where the attachment gives its Pods addresses. False: that can't be told. */
bool ctl_rdma_range(const struct json *facts, struct cidr *ret);

/* ---- the test Pod ---- */

/* What it came to: {"error": {...}} where it couldn't be made or didn't run; "pod", as it was at
 * last; "inside", what it printed. */
void ctl_rdma_pod_run(struct ctl_link *link, const struct ctl_options *o, const struct json *facts,
		      const struct ctl_rdma_question *q, struct jmut_doc *doc, struct jmut *ret);
void ctl_rdma_judge_pod(const struct json *pod_facts, const struct json *facts,
			const struct fabric_facts *local, struct node_findings *f);

/* What this network namespace and this process have, as JSON to standard output. */
int ctl_rdma_print_inside(struct err *err);
/* An interface's address, as getifaddrs(3) lists it; false: it's none of IPv4 or IPv6. */
struct ctl_rdma_address {
	char text[46]; /* "10.5.212.7" */
	unsigned prefix;
	bool is_link_local; /* IPv6's */
};
struct ifaddrs;
bool ctl_rdma_address_of(const struct ifaddrs *a, struct ctl_rdma_address *ret);
/* The lines of /proc/net/route (IPv4) or of /proc/net/ipv6_route, added to routes; those that don't
 * read as such are left out. */
void ctl_rdma_read_routes(struct str text, bool v6, struct jmut_doc *doc, struct jmut *routes);

#endif
