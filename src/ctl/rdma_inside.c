/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma check --inside: interfaces with their addresses, routes, limits and capabilities of the very
 * place that this runs in. The test Pod runs it, so that its image needs no shell and no ip.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/file.h"
#include "ctl/commands.h"
#include "ctl/rdma.h"
#include "node/cidr.h"

#define MAX_FILE   ((size_t)1 << 20)
#define MAX_ROUTES 4096
#define FLAG_UP    1      /* RTF_UP of linux/route.h */
#define FLAG_V6_NO 0x0200 /* RTF_REJECT: unreachable and the like */

/* ---- routes ---- */

static size_t take_words(struct str line, struct str *words, size_t max)
{
	size_t n = 0;

	for (;;) {
		struct str rest;

		while (line.len && (line.p[0] == ' ' || line.p[0] == '\t')) {
			line.p++;
			line.len--;
		}
		if (!line.len || n == max)
			return n;
		rest = line;
		while (rest.len && rest.p[0] != ' ' && rest.p[0] != '\t') {
			rest.p++;
			rest.len--;
		}
		words[n++] = (struct str){line.p, line.len - rest.len};
		line = rest;
	}
}

static bool take_hex(struct str s, uint64_t *ret)
{
	uint64_t n = 0;

	if (!s.len || s.len > 16)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		int digit = hex_digit(s.p[i]);

		if (digit < 0)
			return false;
		n = n << 4 | (unsigned)digit;
	}
	*ret = n;
	return true;
}

static void push_route(struct jmut_doc *doc, struct jmut *routes, const struct cidr *to,
		       struct str device, uint64_t metric)
{
	struct jmut *route = jmut_object(doc);
	char z[CIDR_TEXT_SIZE];

	jmut_set_str(doc, route, "to", cidr_format(to, z));
	jmut_set(doc, route, "device", jmut_str(doc, device));
	jmut_set_int(doc, route, "metric", (int64_t)metric);
	jmut_push(doc, routes, route);
}

/* Iface Destination Gateway Flags RefCnt Use Metric Mask …: addresses are hexadecimal, as they
 * stand in this machine's memory. */
static void read_v4(struct str line, struct jmut_doc *doc, struct jmut *routes)
{
	struct str w[8];
	uint64_t to, flags, mask;
	int64_t metric;
	struct cidr c = {.bits = 32};
	uint32_t address;

	if (take_words(line, w, 8) < 8 || !take_hex(w[1], &to) || !take_hex(w[3], &flags) ||
	    !take_hex(w[7], &mask) || !(flags & FLAG_UP) ||
	    str_to_int(w[6], 0, UINT32_MAX, &metric, NULL) < 0 || to > UINT32_MAX ||
	    mask > UINT32_MAX)
		return;
	address = (uint32_t)to;
	memcpy(c.bytes, &address, sizeof(address));
	c.prefix = (unsigned)__builtin_popcount((uint32_t)mask);
	push_route(doc, routes, &c, w[0], (uint64_t)metric);
}

/* Destination, its length, source, its length, next hop, metric, references, use, flags, device:
 * all but the last hexadecimal. */
static void read_v6(struct str line, struct jmut_doc *doc, struct jmut *routes)
{
	struct str w[10];
	uint64_t half[2], prefix, metric, flags;
	struct cidr c = {.bits = 128};

	if (take_words(line, w, 10) < 10 || w[0].len != 32 ||
	    !take_hex((struct str){w[0].p, 16}, &half[0]) ||
	    !take_hex((struct str){w[0].p + 16, 16}, &half[1]) || !take_hex(w[1], &prefix) ||
	    !take_hex(w[5], &metric) || !take_hex(w[8], &flags) || prefix > 128 ||
	    !(flags & FLAG_UP) || flags & FLAG_V6_NO)
		return;
	for (unsigned i = 0; i < 16; i++)
		c.bytes[i] = (uint8_t)(half[i / 8] >> (56 - 8 * (i % 8)));
	c.prefix = (unsigned)prefix;
	push_route(doc, routes, &c, w[9], metric);
}

void ctl_rdma_read_routes(struct str text, bool v6, struct jmut_doc *doc, struct jmut *routes)
{
	struct str line;

	while (text.len > 0 && jmut_len(routes) < MAX_ROUTES) {
		str_cut(text, '\n', &line, &text);
		if (v6)
			read_v6(line, doc, routes);
		else
			read_v4(line, doc, routes);
	}
}

/* ---- the rest ---- */

/* "" for a file that can't be read: it's of a part of the kernel that isn't there. */
static char *slurp(const char *path)
{
	struct buf out = BUF_INIT(MAX_FILE);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len;

	if (fd >= 0) {
		(void)file_read_all(fd, &out, NULL);
		close(fd);
	}
	return buf_steal(&out, &len);
}

static void add_routes(struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *routes = jmut_array(doc);
	CLEANUP_FREE char *v4 = slurp("/proc/net/route");
	CLEANUP_FREE char *v6 = slurp("/proc/net/ipv6_route");

	ctl_rdma_read_routes(str_of(v4), false, doc, routes);
	ctl_rdma_read_routes(str_of(v6), true, doc, routes);
	jmut_set(doc, root, "routes", routes);
}

static int64_t mtu_of(const char *link)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {0};
	int64_t mtu = 0;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", link);
	if (fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0)
		mtu = request.ifr_mtu;
	if (fd >= 0)
		close(fd);
	return mtu;
}

static unsigned count_bits(const uint8_t *p, size_t len)
{
	unsigned n = 0;

	for (size_t i = 0; i < len; i++)
		n += (unsigned)__builtin_popcount(p[i]);
	return n;
}

bool ctl_rdma_address_of(const struct ifaddrs *a, struct ctl_rdma_address *ret)
{
	bool v6 = a->ifa_addr && a->ifa_addr->sa_family == AF_INET6;
	const void *address, *mask;

	if (!a->ifa_addr || (a->ifa_addr->sa_family != AF_INET && !v6) || !a->ifa_netmask)
		return false;
	address = v6 ? (const void *)&((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr
		     : (const void *)&((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr;
	mask = v6 ? (const void *)&((struct sockaddr_in6 *)(void *)a->ifa_netmask)->sin6_addr
		  : (const void *)&((struct sockaddr_in *)(void *)a->ifa_netmask)->sin_addr;
	ret->prefix = count_bits(mask, v6 ? 16 : 4);
	ret->is_link_local = v6 && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)address);
	return inet_ntop(v6 ? AF_INET6 : AF_INET, address, ret->text, sizeof(ret->text)) != NULL;
}

static bool is_address(const struct ifaddrs *a, const struct cidr *wanted)
{
	struct ctl_rdma_address address;
	struct cidr own;

	return !(a->ifa_flags & IFF_LOOPBACK) && ctl_rdma_address_of(a, &address) &&
	       cidr_parse(str_of(address.text), &own, NULL) == 0 && cidr_equal(&own, wanted);
}

bool ctl_rdma_has_address(const char *address)
{
	struct ifaddrs *list;
	struct cidr wanted;
	bool has = false;

	if (cidr_parse(str_of(address), &wanted, NULL) < 0 || getifaddrs(&list) < 0)
		return false;
	for (const struct ifaddrs *a = list; a && !has; a = a->ifa_next)
		has = is_address(a, &wanted);
	freeifaddrs(list);
	return has;
}

static struct jmut *find_interface(struct jmut_doc *doc, struct jmut *all, const struct ifaddrs *a)
{
	struct jmut *new;

	for (size_t i = 0; i < jmut_len(all); i++) {
		if (str_eqz(json_str(json_get(jmut_view(jmut_item(all, i)), "name")), a->ifa_name))
			return jmut_item(all, i);
	}
	new = jmut_object(doc);
	jmut_set_str(doc, new, "name", a->ifa_name);
	jmut_set_bool(doc, new, "up",
		      (a->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING));
	jmut_set_int(doc, new, "mtu", mtu_of(a->ifa_name));
	jmut_set(doc, new, "addresses", jmut_array(doc));
	jmut_push(doc, all, new);
	return new;
}

static void add_address(struct jmut_doc *doc, struct jmut *interface, const struct ifaddrs *a)
{
	struct ctl_rdma_address address;

	if (ctl_rdma_address_of(a, &address))
		jmut_push(doc, jmut_get(interface, "addresses"),
			  jmut_strf(doc, "%s/%u", address.text, address.prefix));
}

static int add_interfaces(struct jmut_doc *doc, struct jmut *root, struct err *err)
{
	struct jmut *all = jmut_array(doc);
	struct ifaddrs *list;

	if (getifaddrs(&list) < 0)
		return err_errno(err, errno, "interfaces");
	for (const struct ifaddrs *a = list; a; a = a->ifa_next)
		add_address(doc, find_interface(doc, all, a), a);
	freeifaddrs(list);
	jmut_set(doc, root, "interfaces", all);
	return 0;
}

static void add_limits(struct jmut_doc *doc, struct jmut *root)
{
	CLEANUP_FREE char *status = slurp("/proc/self/status");
	const char *caps = strstr(status, "\nCapEff:");
	struct rlimit limit = {0};
	struct str line = STR_NULL, rest;

	if (caps)
		str_cut(str_of(caps + strlen("\nCapEff:")), '\n', &line, &rest);
	getrlimit(RLIMIT_MEMLOCK, &limit);
	jmut_set_int(doc, root, "uid", (int64_t)geteuid());
	jmut_set_int(doc, root, "memlock",
		     limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur);
	jmut_set(doc, root, "capEff", jmut_str(doc, str_trim(line)));
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_devices(struct jmut_doc *doc, struct jmut *root)
{
	struct jmut *all = jmut_array(doc);
	struct dirent **names = NULL;
	int n = scandir("/dev/infiniband", &names, NULL, by_name);

	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.')
			jmut_push(doc, all, jmut_strz(doc, names[i]->d_name));
		free(names[i]);
	}
	free(names);
	jmut_set(doc, root, "devices", all);
}

int ctl_rdma_print_inside(struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);
	struct buf out = BUF_INIT(MAX_FILE);
	int result = -1;

	add_limits(doc, root);
	add_devices(doc, root);
	add_routes(doc, root);
	if (add_interfaces(doc, root, err) == 0 && jmut_write(root, JSON_COMPACT, &out, err) == 0 &&
	    buf_append(&out, "\n", 1, err) == 0)
		result = ctl_write_out(buf_str(&out), err);
	buf_done(&out);
	return result;
}
