/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First what to say, then how to write it: the plan has everything that the manifest shows.
 */
#include "node/macvlan.h"

#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>

#define FIRST_BITS 7 /* of the 128 addresses that usually are the infrastructure's */
#define USUAL_CNI  "/etc/cni/net.d"
#define KUBECONFIG "whereabouts.d/whereabouts.kubeconfig" /* below the CNI folder */
#define MAX_TEXT   ((size_t)64 << 10)
#define MIN_MTU    68 /* what every IPv4 link must carry (RFC 791), and IPv6 (RFC 8200) */
#define MIN_MTU_6  1280
#define MAX_MTU    65535

static bool is_given(const char *z)
{
	return z && z[0];
}

/* ---- interface and subnet ---- */

/* A controller that is reached through the link (any if there's no wish), over a real interface. */
static const struct fabric_reach *find_reach(const struct fabric_facts *facts, const char *link)
{
	for (size_t i = 0; i < facts->n_reach; i++) {
		const struct fabric_reach *r = &facts->reach[i];

		if (r->link[0] && !r->local && (!is_given(link) || strcmp(link, r->link) == 0))
			return r;
	}
	return NULL;
}

/* Nobody names the interface: says why. */
static int refuse_link(const struct fabric_facts *facts, struct err *err)
{
	const struct fabric_reach *r = facts->reach;

	if (facts->n_reach == 0)
		return err_set(err, ERR_NOT_FOUND, 0,
			       "no V-IPU controller is known that would tell the interface: name "
			       "one by --controller, or the interface by --interface and --subnet");
	if (r->local)
		return err_set(err, ERR_NOT_FOUND, 0,
			       "controller %s is on this very machine, and so tells no interface: "
			       "name it by --interface and --subnet",
			       r->controller);
	return err_set(err, ERR_NOT_FOUND, 0,
		       "no way to controller %s: %s; the interface may be named by --interface and "
		       "--subnet",
		       r->controller, r->error.kind ? r->error.msg : "no route");
}

static int check_link(const char *link, struct err *err)
{
	size_t len = strlen(link);

	if (len >= IFNAMSIZ || strpbrk(link, "/ \t\n\"\\") || strcmp(link, ".") == 0 ||
	    strcmp(link, "..") == 0)
		return err_set(err, ERR_INVALID, 0, "--interface: \"%s\" can't be an interface",
			       link);
	return 0;
}

static int check_mode(const char *mode, struct err *err)
{
	static const char *const modes[] = {"bridge", "private", "vepa", "passthru"};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(mode, modes[i]) == 0)
			return 0;
	}
	return err_set(err, ERR_INVALID, 0,
		       "--mode: must be bridge, private, vepa or passthru, not \"%s\"", mode);
}

static int choose_subnet(const struct macvlan_wishes *w, struct macvlan_plan *p, struct err *err)
{
	const char *subnet = is_given(w->subnet) ? w->subnet : p->via ? p->via->subnet : "";

	if (!subnet[0])
		return err_set(err, ERR_NOT_FOUND, 0,
			       "the subnet on %s isn't known: name it by --subnet", p->link);
	if (cidr_parse(str_of(subnet), &p->subnet, err) < 0)
		return err_wrap(err, "%s", is_given(w->subnet) ? "--subnet" : p->link);
	return 0;
}

static int check_mtu(const struct macvlan_plan *p, const struct macvlan_wishes *w, struct err *err)
{
	unsigned least = p->subnet.bits == 128 ? MIN_MTU_6 : MIN_MTU;

	if (w->mtu && (w->mtu < least || w->mtu > MAX_MTU))
		return err_set(err, ERR_INVALID, 0, "--mtu: must be from %u to %d, not %u", least,
			       MAX_MTU, w->mtu);
	return 0;
}

static int choose_link(const struct fabric_facts *facts, const struct macvlan_wishes *w,
		       struct macvlan_plan *p, struct err *err)
{
	p->is_wish = is_given(w->link);
	p->via = find_reach(facts, w->link);
	if (!is_given(w->link) && !p->via)
		return refuse_link(facts, err);
	p->link = is_given(w->link) ? w->link : p->via->link;
	p->mtu = w->mtu ? w->mtu : p->via && p->via->mtu_bytes ? p->via->mtu_bytes : MACVLAN_MTU;
	return check_link(p->link, err);
}

/* ---- what isn't given out ---- */

static int exclude(struct macvlan_plan *p, const struct cidr *range, const char *why,
		   struct err *err)
{
	struct macvlan_exclude *e = &p->excludes[p->n_excludes];

	for (size_t i = 0; i < p->n_excludes; i++) {
		if (cidr_contains(&p->excludes[i].range, range))
			return 0;
	}
	if (p->n_excludes == MACVLAN_MAX_EXCLUDES)
		return err_set(err, ERR_LIMIT, 0, "more than %d ranges are to be excluded",
			       MACVLAN_MAX_EXCLUDES);
	e->range = *range;
	snprintf(e->why, sizeof(e->why), "%s", why);
	p->n_excludes++;
	return 0;
}

static int exclude_wished(struct macvlan_plan *p, const char *wish, struct err *err)
{
	struct str rest = str_of(wish), item;
	char subnet[CIDR_TEXT_SIZE];
	struct cidr c;

	while (rest.len > 0) {
		str_cut(rest, ',', &item, &rest);
		item = str_trim(item);
		if (item.len == 0)
			continue;
		if (cidr_parse(item, &c, err) < 0)
			return err_wrap(err, "--exclude");
		if (!cidr_overlaps(&p->subnet, &c))
			return err_set(err, ERR_INVALID, 0,
				       "--exclude: %.*s has nothing in common with the subnet %s",
				       STR_ARG(item), cidr_format(&p->subnet, subnet));
		if (exclude(p, &c, "as asked for", err) < 0)
			return -1;
	}
	return 0;
}

static int exclude_first(struct macvlan_plan *p, struct err *err)
{
	unsigned free_bits = p->subnet.bits - p->subnet.prefix;
	bool is_large = free_bits > FIRST_BITS;
	struct cidr first;

	if (free_bits == 0)
		return 0; /* what is left is counted later */
	first = cidr_first(&p->subnet,
			   is_large ? p->subnet.bits - FIRST_BITS : p->subnet.prefix + 1);
	return exclude(p, &first,
		       is_large ? "the first 128 addresses: usually IPU-Machines, their "
				  "controllers and head nodes"
				: "the first half: usually IPU-Machines, their controllers and "
				  "head nodes",
		       err);
}

/* As many are named as there is room for. */
static void be_careful(struct macvlan_plan *p, const char *address)
{
	size_t len = strlen(p->careful);

	if (len + strlen(address) + 2 >= sizeof(p->careful))
		p->n_careful++;
	else
		snprintf(p->careful + len, sizeof(p->careful) - len, "%s%s", len ? ", " : "",
			 address);
}

/* An address that somebody has: is excluded, or told of where nothing may be. */
static int exclude_used(struct macvlan_plan *p, const char *address, const char *what,
			const char *whose, bool may_exclude, struct err *err)
{
	char why[NODE_TEXT_SIZE];
	struct cidr c;

	if (!address[0] || cidr_parse(str_of(address), &c, NULL) < 0 || c.prefix != c.bits ||
	    !cidr_contains(&p->subnet, &c))
		return 0;
	for (size_t i = 0; i < p->n_excludes; i++) {
		if (cidr_contains(&p->excludes[i].range, &c))
			return 0;
	}
	if (!may_exclude) {
		be_careful(p, address);
		return 0;
	}
	snprintf(why, sizeof(why), "%s%s", what, whose);
	return exclude(p, &c, why, err);
}

static int exclude_all(const struct fabric_facts *facts, const struct macvlan_wishes *w,
		       struct macvlan_plan *p, struct err *err)
{
	bool may_exclude = !w->exclude || w->exclude[0];

	if (w->exclude ? exclude_wished(p, w->exclude, err) < 0 : exclude_first(p, err) < 0)
		return -1;
	p->may_guess = !w->exclude;
	for (size_t i = 0; i < facts->n_reach; i++) {
		const struct fabric_reach *r = &facts->reach[i];

		if (exclude_used(p, r->address, "controller ", r->controller, may_exclude, err) <
			    0 ||
		    exclude_used(p, r->source, "this machine, on ", r->link, may_exclude, err) <
			    0 ||
		    exclude_used(p, r->gateway, "gateway to ", r->controller, may_exclude, err) < 0)
			return -1;
	}
	/* Of a large cluster's there may be more than a network should list. */
	for (size_t i = 0; i < w->n_used; i++) {
		if (exclude_used(p, w->used[i].address, "Node ", w->used[i].whose,
				 may_exclude && p->n_excludes < MACVLAN_MAX_EXCLUDES, err) < 0)
			return -1;
	}
	return 0;
}

/* IPv4's first and last address are nobody's; whereabouts knows that, and so does the count. */
static void count_left(struct macvlan_plan *p)
{
	struct cidr others[MACVLAN_MAX_EXCLUDES + 2];
	size_t n = 0;

	for (; n < p->n_excludes; n++)
		others[n] = p->excludes[n].range;
	others[n++] = cidr_first(&p->subnet, p->subnet.bits);
	others[n++] = cidr_last(&p->subnet);
	p->left = cidr_count_left(&p->subnet, others, n);
}

/* Where Whereabouts puts its kubeconfig: beside the runtime's own networks. */
static void choose_folder(const struct fabric_facts *facts, const struct macvlan_wishes *wishes,
			  struct macvlan_plan *p)
{
	const struct fabric_host *host = &facts->host;
	bool is_there = host->known && host->cni_folder[0] && !host->cni_missing;

	p->cni_folder = is_given(wishes->cni_folder) ? wishes->cni_folder
			: is_there                   ? host->cni_folder
						     : USUAL_CNI;
	if (is_given(wishes->cni_folder))
		snprintf(p->cni_why, sizeof(p->cni_why), "as asked for");
	else if (is_there && host->cni_of)
		snprintf(p->cni_why, sizeof(p->cni_why), "that of %s", host->cni_of);
	else
		snprintf(p->cni_why, sizeof(p->cni_why), "%s",
			 is_there ? "this machine's" : "the usual one: none is seen here");
	p->no_whereabouts = is_there && host->cni_known && !host->cni_whereabouts;
}

int macvlan_plan(const struct fabric_facts *facts, const struct macvlan_wishes *wishes,
		 struct macvlan_plan *ret, struct err *err)
{
	struct macvlan_plan p = {
		.network = is_given(wishes->network) ? wishes->network : MACVLAN_NETWORK,
		.network_namespace = is_given(wishes->network_namespace) ? wishes->network_namespace
									 : MACVLAN_NAMESPACE,
		.mode = is_given(wishes->mode) ? wishes->mode : "bridge",
	};
	char subnet[CIDR_TEXT_SIZE];

	if (check_mode(p.mode, err) < 0 || choose_link(facts, wishes, &p, err) < 0 ||
	    choose_subnet(wishes, &p, err) < 0 || check_mtu(&p, wishes, err) < 0 ||
	    exclude_all(facts, wishes, &p, err) < 0)
		return -1;
	count_left(&p);
	if (p.left == 0)
		return err_set(err, ERR_INVALID, 0,
			       "of the subnet %s no address is left for Pods: exclude less by "
			       "--exclude, or name another one by --subnet",
			       cidr_format(&p.subnet, subnet));
	choose_folder(facts, wishes, &p);
	*ret = p;
	return 0;
}

/* ---- writing ---- */

/* The rest of it is for whereabouts, in the form that its own documentation has. */
static struct jmut *make_ipam(const struct macvlan_plan *p, struct jmut_doc *doc)
{
	struct jmut *ipam = jmut_object(doc), *kubernetes = jmut_object(doc);
	struct jmut *excludes = jmut_array(doc);
	char z[CIDR_TEXT_SIZE];

	jmut_set_str(doc, ipam, "type", "whereabouts");
	jmut_set_str(doc, ipam, "datastore", "kubernetes");
	jmut_set(doc, kubernetes, "kubeconfig", jmut_strf(doc, "%s/" KUBECONFIG, p->cni_folder));
	jmut_set(doc, ipam, "kubernetes", kubernetes);
	jmut_set_str(doc, ipam, "log_file", "/var/log/whereabouts.log");
	jmut_set_str(doc, ipam, "log_level", "info");
	jmut_set_str(doc, ipam, "range", cidr_format(&p->subnet, z));
	for (size_t i = 0; i < p->n_excludes; i++)
		jmut_push(doc, excludes, jmut_strz(doc, cidr_format(&p->excludes[i].range, z)));
	jmut_set(doc, ipam, "exclude", excludes);
	return ipam;
}

static struct jmut *as_text(const struct jmut *v, struct jmut_doc *doc)
{
	struct buf out = BUF_INIT(MAX_TEXT);
	struct jmut *text;

	(void)jmut_write(v, JSON_PRETTY, &out, NULL);
	(void)buf_append(&out, "\n", 1, NULL);
	text = jmut_str(doc, buf_str(&out));
	buf_done(&out);
	return text;
}

static void fill_attachment(const struct macvlan_plan *p, struct jmut *spec, struct jmut_doc *doc)
{
	struct jmut *config = jmut_object(doc);

	jmut_set_str(doc, config, "cniVersion", "0.3.1");
	jmut_set_str(doc, config, "name", p->network);
	jmut_set_str(doc, config, "type", "macvlan");
	jmut_set_str(doc, config, "master", p->link);
	jmut_set_str(doc, config, "mode", p->mode);
	jmut_set_int(doc, config, "mtu", p->mtu);
	jmut_set(doc, config, "ipam", make_ipam(p, doc));
	jmut_set(doc, spec, "config", as_text(config, doc));
}

static void fill_network(const struct macvlan_plan *p, struct jmut *spec, struct jmut_doc *doc)
{
	jmut_set_str(doc, spec, "networkNamespace", p->network_namespace);
	jmut_set_str(doc, spec, "master", p->link);
	jmut_set_str(doc, spec, "mode", p->mode);
	jmut_set_int(doc, spec, "mtu", p->mtu);
	jmut_set(doc, spec, "ipam", as_text(make_ipam(p, doc), doc));
}

struct jmut *macvlan_object(const struct macvlan_plan *p, bool attachment, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc), *meta = jmut_object(doc), *spec = jmut_object(doc);

	jmut_set_str(doc, root, "apiVersion",
		     attachment ? "k8s.cni.cncf.io/v1" : "mellanox.com/v1alpha1");
	jmut_set_str(doc, root, "kind",
		     attachment ? "NetworkAttachmentDefinition" : "MacvlanNetwork");
	jmut_set_str(doc, meta, "name", p->network);
	if (attachment) {
		jmut_set_str(doc, meta, "namespace", p->network_namespace);
		fill_attachment(p, spec, doc);
	} else {
		fill_network(p, spec, doc);
	}
	jmut_set(doc, root, "metadata", meta);
	jmut_set(doc, root, "spec", spec);
	return root;
}

/* ---- comments ---- */

static int write_link(const struct macvlan_plan *p, struct buf *out, struct err *err)
{
	const struct fabric_reach *via = p->via;

	if (!via)
		return 0;
	if (via->controller[0] &&
	    buf_printf(out, err, "# %s: the way to controller %s (%s) leads through it", p->link,
		       via->controller, via->address) < 0)
		return -1;
	if (!via->controller[0] &&
	    buf_printf(out, err, "# %s: no controller that is known is reached through it",
		       p->link) < 0)
		return -1;
	return buf_printf(out, err, "; it %s%s.\n",
			  via->rdma_device[0] ? "is a port of " : "has no RDMA port",
			  via->rdma_device);
}

/* What doesn't fit what the interface has. */
static int warn_of_wishes(const struct macvlan_plan *p, struct buf *out, struct err *err)
{
	char z[CIDR_TEXT_SIZE];
	struct cidr own;

	if (cidr_parse(str_of(p->via->subnet), &own, NULL) == 0 &&
	    !cidr_contains(&own, &p->subnet) &&
	    buf_printf(out, err, "# Careful: %s isn't within %s, this machine's subnet on %s.\n",
		       cidr_format(&p->subnet, z), p->via->subnet, p->link) < 0)
		return -1;
	if (p->via->mtu_bytes && p->mtu > p->via->mtu_bytes &&
	    buf_printf(out, err,
		       "# Careful: the MTU %u is larger than that of %s, %u: Pods would get no "
		       "interface.\n",
		       p->mtu, p->link, p->via->mtu_bytes) < 0)
		return -1;
	return 0;
}

static int warn_of_link(const struct macvlan_plan *p, struct buf *out, struct err *err)
{
	if (!p->via)
		return buf_printf(out, err, "# Careful: this machine has no interface %s.\n",
				  p->link);
	if (!p->via->rdma_device[0] &&
	    buf_printf(out, err, "# Careful: %s has no RDMA port here.\n", p->link) < 0)
		return -1;
	if (p->via->gateway[0] &&
	    buf_printf(out, err,
		       "# Careful: %s is reached by the gateway %s, to which Pods on this network "
		       "have no route.\n",
		       p->via->controller, p->via->gateway) < 0)
		return -1;
	return warn_of_wishes(p, out, err);
}

int macvlan_write_warnings(const struct macvlan_plan *p, struct buf *out, struct err *err)
{
	char more[48] = "";

	if (p->n_careful)
		snprintf(more, sizeof(more), " and %zu more", p->n_careful);
	if (warn_of_link(p, out, err) < 0)
		return -1;
	if (p->careful[0] && buf_printf(out, err, "# Careful: in use, and not excluded: %s%s.\n",
					p->careful, more) < 0)
		return -1;
	if (p->no_whereabouts &&
	    buf_printf(out, err,
		       "# Careful: %s has no whereabouts.d: Whereabouts isn't here yet, "
		       "or has another folder (--cni-folder).\n",
		       p->cni_folder) < 0)
		return -1;
	if (!p->may_guess)
		return 0;
	return buf_printf(out, err,
			  "# Careful: other machines in it aren't known: name their addresses by "
			  "--exclude.\n");
}

int macvlan_check_link(const struct macvlan_plan *p, struct err *err)
{
	if (p->is_wish || !p->via)
		return 0;
	if (!p->via->rdma_device[0])
		return err_set(err, ERR_INVALID, 0,
			       "%s leads to controller %s, and has no RDMA port: if it's meant, "
			       "name it by --interface",
			       p->link, p->via->controller);
	if (p->via->gateway[0])
		return err_set(err, ERR_INVALID, 0,
			       "%s leads to controller %s by the gateway %s, to which Pods have no "
			       "route: if it's meant, name it by --interface",
			       p->link, p->via->controller, p->via->gateway);
	return 0;
}

int macvlan_write_comments(const struct macvlan_plan *p, struct buf *out, struct err *err)
{
	bool is_much = p->left > INT64_MAX;
	char z[CIDR_TEXT_SIZE];

	if (write_link(p, out, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n_excludes; i++) {
		if (buf_printf(out, err, "# Not for Pods: %s (%s).\n",
			       cidr_format(&p->excludes[i].range, z), p->excludes[i].why) < 0)
			return -1;
	}
	cidr_format(&p->subnet, z);
	if ((is_much ? buf_printf(out, err, "# Of %s enough addresses are left for Pods.\n", z)
		     : buf_printf(out, err, "# Of %s %" PRIu64 " address%s left for Pods.\n", z,
				  p->left, p->left == 1 ? " is" : "es are")) < 0)
		return -1;
	if (buf_printf(out, err, "# Whereabouts' kubeconfig: below %s (%s).\n", p->cni_folder,
		       p->cni_why) < 0)
		return -1;
	return macvlan_write_warnings(p, out, err);
}
