/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's limits, units, huge pages, modules and network configurations: the parsers by tables
 * (systemd's forms as systemd-analyze judges them), then whole made-up machines, some of them
 * hostile. Uses node.
 */
#include "tap.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/str.h"
#include "node/host.h"
#include "node/units.h"

#define NO     UINT64_C(0xfffffffffffffffe) /* systemd ignores it */
#define KIB(n) (UINT64_C(n) << 10)
#define MIB(n) (UINT64_C(n) << 20)
#define GIB(n) (UINT64_C(n) << 30)

/* ---- parsers ---- */

static const struct {
	const char *text;
	uint64_t want;
} limits[] = {
	{"infinity", FABRIC_UNLIMITED},
	{"0", 0},
	{"65536", 65536},
	{"64K", KIB(64)},
	{"8M", MIB(8)},
	{" 5 M ", MIB(5)},
	{"5 B", 5},
	{"1E", UINT64_C(1) << 60},
	{"16777215T", UINT64_C(16777215) << 40},
	{"1.5G", MIB(1536)},
	{"1.M", MIB(1)},
	{"1.9999999999999B", 1},
	{"1G 512M", MIB(1536)},
	{"1G512M", MIB(1536)},
	{"1 K 5", 1029},
	{"007", 7},
	{"+5", 5},
	{"64K:1G", KIB(64)},
	{"64K:infinity", KIB(64)},
	{"infinity:infinity", FABRIC_UNLIMITED},
	{"1 :2", 1},
	{"", NO},
	{"infinity:64K", NO},
	{"5M:4M", NO},
	{"1M:2M:3M", NO},
	{"1G:", NO},
	{":1G", NO},
	{"512M1G", NO},
	{"64k", NO},
	{"5KB", NO},
	{"5MiB", NO},
	{"0x10", NO},
	{"1e3", NO},
	{".5M", NO},
	{"-1", NO},
	{"unlimited", NO},
	{"Infinity", NO},
	{"16E", NO},
	{"18446744073709551615", NO},
	{"18446744073709551616", NO},
};

static const struct {
	const char *text;
	uint64_t want;
} ulimits[] = {
	{"-1", FABRIC_UNLIMITED},
	{"-1:-1", FABRIC_UNLIMITED},
	{"unlimited", FABRIC_UNLIMITED},
	{"65536", 65536},
	{"65536:-1", 65536},
	{"1:2", 1},
	{"2:1", NO},
	{"-1:5", NO},
	{"", NO},
	{"64K", NO},
	{"-2", NO},
	{"1:", NO},
};

static void test_limits(void)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		uint64_t got = NO;

		(void)unit_parse_limit(str_of(limits[i].text), &got);
		is_uint(got, limits[i].want, "LimitMEMLOCK=%s", limits[i].text);
	}
	for (size_t i = 0; i < sizeof(ulimits) / sizeof(ulimits[0]); i++) {
		uint64_t got = NO;

		(void)unit_parse_ulimit(str_of(ulimits[i].text), &got);
		is_uint(got, ulimits[i].want, "memlock=%s", ulimits[i].text);
	}
}

static const struct {
	const char *what, *text;
	uint64_t memlock, ulimit; /* NO: not said */
} units[] = {
	{"nothing", "", NO, NO},
	{"plain", "[Service]\nLimitMEMLOCK=infinity\n", FABRIC_UNLIMITED, NO},
	{"no line break at the end", "[Service]\nLimitMEMLOCK=1M", MIB(1), NO},
	{"blanks", "  [Service]  \n  LimitMEMLOCK  =  1M  \n", MIB(1), NO},
	{"CR LF", "[Service]\r\nLimitMEMLOCK=1M\r\n", MIB(1), NO},
	{"another section", "[Unit]\nLimitMEMLOCK=1M\n[Install]\nLimitMEMLOCK=2M\n", NO, NO},
	{"no section", "LimitMEMLOCK=1M\n", NO, NO},
	{"a section again", "[Service]\n[Unit]\n[Service]\nLimitMEMLOCK=1M\n", MIB(1), NO},
	{"the last counts", "[Service]\nLimitMEMLOCK=1M\nLimitMEMLOCK=2M\n", MIB(2), NO},
	{"one that is ignored", "[Service]\nLimitMEMLOCK=1M\nLimitMEMLOCK=lots\n", MIB(1), NO},
	{"comments", "[Service]\n#LimitMEMLOCK=1M\n; LimitMEMLOCK=2M\n  # LimitMEMLOCK=3M\n", NO,
	 NO},
	{"another case", "[Service]\nlimitmemlock=1M\n", NO, NO},
	{"continued", "[Service]\nLimitMEMLOCK=\\\n1M\n", MIB(1), NO},
	{"continued over a comment", "[Service]\nLimitMEMLOCK=\\\n# why\n1M\n", MIB(1), NO},
	{"swallowed by the line before", "[Service]\nExecStart=/x \\\nLimitMEMLOCK=1M\n", NO, NO},
	{"continued to the end", "[Service]\nLimitMEMLOCK=1M\\", MIB(1), NO},
	{"dockerd with a blank",
	 "[Service]\nExecStart=/usr/bin/dockerd -H fd:// --default-ulimit memlock=-1:-1\n", NO,
	 FABRIC_UNLIMITED},
	{"dockerd with =", "[Service]\nExecStart=/x --default-ulimit=memlock=65536:65536\n", NO,
	 65536},
	{"dockerd with quotes", "[Service]\nExecStart=/x --default-ulimit \"memlock=5\"\n", NO, 5},
	{"dockerd over lines", "[Service]\nExecStart=/x \\\n  --default-ulimit \\\n  memlock=5\n",
	 NO, 5},
	{"dockerd with another limit",
	 "[Service]\nExecStart=/x --default-ulimit nofile=5 --default-ulimit memlock=6\n", NO, 6},
	{"dockerd started otherwise",
	 "[Service]\nExecStart=/x --default-ulimit memlock=6\nExecStart=\nExecStart=/y\n", NO, NO},
	{"both", "[Service]\nLimitMEMLOCK=1K\nExecStart=/x --default-ulimit memlock=6\n", KIB(1),
	 6},
};

static void test_units(void)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		struct unit_facts facts = {0};

		row_begin("%s", units[i].what);
		unit_parse(str_of(units[i].text), "/etc/x", &facts);
		is_int(facts.sets_memlock, units[i].memlock != NO, "says a limit or doesn't");
		if (facts.sets_memlock)
			is_uint(facts.memlock_bytes, units[i].memlock, "the limit");
		is_str(facts.memlock_file, facts.sets_memlock ? "/etc/x" : "", "its file");
		is_int(facts.sets_ulimit, units[i].ulimit != NO, "says a ulimit or doesn't");
		if (facts.sets_ulimit)
			is_uint(facts.ulimit_bytes, units[i].ulimit, "the ulimit");
	}
	row_end();
}

static const struct {
	const char *text, *unit;
	bool host;
} cgroups[] = {
	{"0::/system.slice/containerd.service\n", "containerd.service", true},
	{"0::/system.slice/k3s.service/init\n", "k3s.service", true},
	{"0::/podruntime.slice/crio.service", "crio.service", true},
	{"0::/system.slice/docker.service\n", "docker.service", true},
	{"13:memory:/system.slice/x.service\n1:name=systemd:/system.slice/containerd.service\n0::/\n",
	 "containerd.service", true},
	{"0::/\n", "", true},
	{"0::/user.slice/user-0.slice/session-1.scope\n", "", true},
	{"0::/user.slice/user-1.slice/user@1.service/app.slice/docker.service", "user@1.service",
	 true},
	{"", "", true},
	{"nonsense\n::\n0:\n", "", true},
	{"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope/system.slice/"
	 "containerd.service\n",
	 "", false},
	{"0::/system.slice/docker-0123.scope/system.slice/containerd.service\n", "", false},
	{"12:pids:/docker/0123\n1:name=systemd:/docker/0123\n", "", false},
	{"0::/machine.slice/libpod-1.scope/container\n", "", false},
};

static void test_cgroups(void)
{
	for (size_t i = 0; i < sizeof(cgroups) / sizeof(cgroups[0]); i++) {
		char unit[NODE_NAME_SIZE];
		bool host = host_parse_cgroup(str_of(cgroups[i].text), unit);

		row_begin("cgroup %zu", i);
		is_int(host, cgroups[i].host, "the host's or a container's");
		if (host)
			is_str(unit, cgroups[i].unit, "the unit");
	}
	row_end();
}

static const struct {
	const char *text;
	uint64_t want;
} proc_limits[] =
	{
		{"Limit  Soft Limit  Hard Limit  Units\n"
		 "Max cpu time              unlimited            unlimited            seconds   \n"
		 "Max locked memory         8388608              unlimited            bytes     \n"
		 "Max address space         unlimited            unlimited            bytes     \n",
		 8388608},
		{"Max locked memory         unlimited            unlimited            bytes\n",
		 FABRIC_UNLIMITED},
		{"Max locked memory         0                    65536                bytes", 0},
		{"Max locked memory         8388608\n", NO},
		{"Max locked memory         eight                unlimited            bytes\n", NO},
		{"Max locked memory         -1                   unlimited            bytes\n", NO},
		{"Max open files            1024                 4096                 files\n", NO},
		{"", NO},
},
  dockers[] = {
	  {"{\"default-ulimits\":{\"memlock\":{\"Name\":\"memlock\",\"Hard\":-1,\"Soft\":-1}}}",
	   FABRIC_UNLIMITED},
	  {"{\"default-ulimits\":{\"memlock\":{\"Hard\":9,\"Soft\":8}}}", 8},
	  {"{\"default-ulimits\":{\"nofile\":{\"Hard\":9,\"Soft\":8}}}", NO},
	  {"{\"default-ulimits\":{\"memlock\":{\"Hard\":9}}}", NO},
	  {"{\"default-ulimits\":{\"memlock\":{\"Soft\":\"-1\"}}}", NO},
	  {"{\"default-ulimits\":{\"memlock\":{\"Soft\":-2}}}", NO},
	  {"{\"default-ulimits\":[]}", NO},
	  {"[", NO},
	  {"", NO},
};

static void test_small_parsers(void)
{
	static const char meminfo[] = "MemTotal:       16286016 kB\nHugePages_Total:       4\n"
				      "HugePages_Free:\t3\nHugepagesize:       2048 kB\nOdd\n";
	uint64_t n = NO;

	for (size_t i = 0; i < sizeof(proc_limits) / sizeof(proc_limits[0]); i++) {
		uint64_t got = NO;

		(void)host_parse_memlock(str_of(proc_limits[i].text), &got);
		is_uint(got, proc_limits[i].want, "limits %zu", i);
	}
	for (size_t i = 0; i < sizeof(dockers) / sizeof(dockers[0]); i++) {
		uint64_t got = NO;

		(void)host_parse_docker(str_of(dockers[i].text), &got);
		is_uint(got, dockers[i].want, "daemon.json %s", dockers[i].text);
	}
	is_int(host_parse_meminfo(STR(meminfo), "HugePages_Total", &n), 0, "meminfo has a count");
	is_uint(n, 4, "of four");
	is_int(host_parse_meminfo(STR(meminfo), "HugePages_Free", &n), 0, "and, behind a tab,");
	is_uint(n, 3, "three");
	is_int(host_parse_meminfo(STR(meminfo), "HugePages_Surp", &n), -1, "what it hasn't isn't");
	is_int(host_parse_meminfo(STR(meminfo), "Odd", &n), -1, "found, nor what has no value");
}

/* ---- made-up machines ---- */

static char *top; /* the folder of all */

static char *at(const char *root, const char *path)
{
	return xasprintf("%s/%s%s", top, root, path);
}

static void make_folders(char *path)
{
	for (char *c = path + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			bail_out(path);
		*c = '/';
	}
}

static void put_bytes(const char *root, const char *path, const void *p, size_t len)
{
	CLEANUP_FREE char *file = at(root, path);

	make_folders(file);
	FILE *out = fopen(file, "we");
	if (!out || (len > 0 && fwrite(p, 1, len, out) != len) || fclose(out) != 0)
		bail_out(file);
}

static void put(const char *root, const char *path, const char *text)
{
	put_bytes(root, path, text, strlen(text));
}

static void put_link(const char *root, const char *path, const char *target)
{
	CLEANUP_FREE char *file = at(root, path);

	make_folders(file);
	if (symlink(target, file) < 0)
		bail_out(file);
}

static void put_process(const char *root, int pid, const char *comm, const char *cgroup,
			const char *memlock)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	snprintf(text, sizeof(text), "%s\n", comm);
	put(root, path, text);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	snprintf(text, sizeof(text), "0::%s\n", cgroup);
	put(root, path, text);
	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	snprintf(text, sizeof(text), "Max locked memory         %s  unlimited  bytes\n", memlock);
	put(root, path, text);
}

static bool limits_only;

static struct fabric_host read_host(const char *root, const char *cni)
{
	CLEANUP_FREE char *path = at(root, "");
	struct host_reader *reader = host_reader_new(path, cni, limits_only);
	struct fabric_host host = {0};
	unsigned steps = 0;

	while (!host_reader_step(reader, 2, &host) && steps++ < 1000000)
		;
	host_reader_free(reader);
	return host;
}

static const struct fabric_runtime *runtime_of(const struct fabric_host *host, const char *name)
{
	static const struct fabric_runtime none = {.unit = "none at all"};

	for (size_t i = 0; i < host->n_runtimes; i++) {
		if (strcmp(host->runtimes[i].name, name) == 0)
			return &host->runtimes[i];
	}
	return &none;
}

static bool has_module(const struct fabric_host *host, const char *name)
{
	for (size_t i = 0; i < host->n_modules; i++) {
		if (strcmp(host->modules[i].name, name) == 0)
			return host->modules[i].loaded;
	}
	return false;
}

/* What the role node asks for. */
static void check_limits(const char *root)
{
	struct fabric_host host;
	const struct fabric_runtime *r;

	limits_only = true;
	host = read_host(root, NULL);
	limits_only = false;
	r = runtime_of(&host, "containerd");
	is_uint(r->memlock_bytes, MIB(64), "limits only: those of what runs");
	is_int(r->pid, 700, "by its process");
	ok(!r->installed && !r->unit_sets_memlock && !r->unit[0], "nothing of its unit");
	is_uint(host.hugepages_total, 4, "huge pages");
	ok(host.n_modules == 0 && !host.cni_known, "neither modules nor the folder of networks");
	ok(!runtime_of(&host, "docker")->default_ulimit, "nor docker's settings");
	fabric_host_done(&host);
}

/* A machine with containerd and docker, as an administrator left it. */
static void test_machine(void)
{
	const char *root = "machine";
	const struct fabric_runtime *r;

	put(root, "/proc/meminfo",
	    "HugePages_Total: 4\nHugePages_Free: 3\nHugepagesize: 2048 kB\n");
	put(root, "/proc/modules", "mlx5_core 1 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n");
	put(root, "/proc/sys/kernel/osrelease", "6.1.0-test\n");
	put(root, "/lib/modules/6.1.0-test/modules.builtin",
	    "kernel/drivers/net/macvlan.ko\nkernel/net/ib-cm.ko\nkernel/net/nosiw.ko\n");
	put(root, "/sys/module/ib_core/refcnt", "1\n");
	put(root, "/usr/lib/systemd/system/containerd.service",
	    "[Service]\nExecStart=/usr/bin/containerd\nLimitMEMLOCK=64M\n");
	put(root, "/etc/systemd/system/containerd.service.d/20-b.conf",
	    "[Service]\nLimitMEMLOCK=infinity\n");
	put(root, "/run/systemd/system/containerd.service.d/10-a.conf",
	    "[Service]\nLimitMEMLOCK=1M\n");
	put(root, "/etc/systemd/system/containerd.service.d/99-not-one",
	    "[Service]\nLimitMEMLOCK=2M\n");
	put(root, "/lib/systemd/system/docker.service",
	    "[Service]\nExecStart=/usr/bin/dockerd\nLimitMEMLOCK=1M\n");
	put(root, "/etc/docker/daemon.json",
	    "{\"default-ulimits\": {\"memlock\": {\"Name\": \"memlock\", \"Soft\": -1, \"Hard\": -1}}}");
	put_process(root, 1, "systemd", "/init.scope", "8388608");
	put_process(root, 700, "containerd", "/system.slice/containerd.service", "67108864");
	put_process(root, 701, "containerd-shim", "/system.slice/containerd.service", "1");
	put_process(root, 300, "containerd",
		    "/kubepods.slice/cri-containerd-1.scope/system.slice/containerd.service", "2");
	put_process(root, 900, "dockerd", "/system.slice/docker.service", "unlimited");
	put(root, "/etc/cni/net.d/00-multus.conf", "{}");
	put(root, "/etc/cni/net.d/multus.d/multus.kubeconfig", "");
	put(root, "/etc/cni/net.d/whereabouts.d/whereabouts.conf", "{}");

	struct fabric_host host = read_host(root, NULL);
	ok(host.known, "the machine is known");
	is_uint(host.hugepages_total, 4, "huge pages");
	is_uint(host.hugepages_free, 3, "free ones");
	is_uint(host.hugepage_bytes, MIB(2), "their size");
	ok(has_module(&host, "ib_core"), "a module of /sys/module");
	ok(has_module(&host, "mlx5_core"), "one of /proc/modules");
	ok(has_module(&host, "macvlan"), "one that is built in");
	ok(has_module(&host, "ib_cm"), "one with - for _");
	ok(!has_module(&host, "siw"), "no module whose name only ends so");
	ok(!has_module(&host, "rdma_cm"), "nor one that isn't there");
	is_uint(host.n_runtimes, 2, "two runtimes");
	r = runtime_of(&host, "containerd");
	ok(r->installed && r->running, "containerd is installed and runs");
	is_int(r->pid, 700, "as the host's process, not a container's");
	is_uint(r->memlock_bytes, MIB(64), "with the limit that it began with");
	ok(r->unit_sets_memlock && !r->default_ulimit, "its unit sets one");
	is_uint(r->unit_memlock_bytes, FABRIC_UNLIMITED, "the last drop-in's");
	is_str(r->unit, "/etc/systemd/system/containerd.service.d/20-b.conf", "and that file");
	r = runtime_of(&host, "docker");
	is_int(r->pid, 900, "dockerd's process");
	ok(r->default_ulimit, "docker has a default ulimit");
	is_uint(r->unit_memlock_bytes, FABRIC_UNLIMITED, "of none");
	is_str(r->unit, "/etc/docker/daemon.json", "from its settings");
	ok(host.cni_known && host.cni_multus && host.cni_multus_folder && host.cni_whereabouts,
	   "Multus and Whereabouts");
	is_str(host.cni_folder, "/etc/cni/net.d", "in their folder");

	struct fabric_host again = read_host(root, NULL);
	ok(fabric_host_equal(&host, &again), "read again it's the same");
	again.runtimes[0].memlock_bytes++;
	ok(!fabric_host_equal(&host, &again), "and a limit makes a difference");
	fabric_host_done(&again);
	fabric_host_done(&host);
	check_limits(root);
}

#define K3S  "/var/lib/rancher/k3s/agent/etc"
#define RKE2 "/var/lib/rancher/rke2/agent/etc"

/* k3s brings its own containerd, and its folder of networks. */
static void test_k3s(void)
{
	const char *root = "k3s";
	const char *cni = "/var/lib/rancher/k3s/agent/etc/cni/net.d";

	put(root, "/etc/systemd/system/k3s-agent.service",
	    "[Service]\nExecStart=/usr/local/bin/k3s \\\n    agent\nLimitMEMLOCK=infinity\n");
	put(root, "/etc/systemd/system/k3s-.service.d/a.conf", "[Service]\nLimitMEMLOCK=3M\n");
	put(root, "/etc/systemd/system/service.d/0.conf", "[Service]\nLimitMEMLOCK=2M\n");
	put_process(root, 50, "containerd", "/system.slice/k3s-agent.service", "1");
	put_process(root, 60, "k3s-agent", "/system.slice/k3s-agent.service", "3145728");
	put(root, "/var/lib/rancher/k3s/agent/etc/cni/net.d/00-multus.conflist", "{}");
	put(root, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n");
	put(root, "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
	put(root, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
	put(root, "/proc/meminfo",
	    "HugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n");

	struct fabric_host host = read_host(root, cni);
	const struct fabric_runtime *r = runtime_of(&host, "k3s");
	is_uint(host.n_runtimes, 1, "one runtime: its containerd is no other");
	ok(r->installed && r->running, "k3s");
	is_int(r->pid, 60, "by its own process");
	is_uint(r->memlock_bytes, MIB(3), "with its limit");
	is_uint(r->unit_memlock_bytes, MIB(3), "from the drop-in for all of k3s' units");
	is_str(r->unit, "/etc/systemd/system/k3s-.service.d/a.conf", "which is named");
	ok(host.cni_known && host.cni_multus && !host.cni_multus_folder && !host.cni_whereabouts,
	   "its networks");
	is_str(host.cni_folder, cni, "in their folder");
	is_uint(host.hugepages_total, 2, "huge pages of another size");
	is_uint(host.hugepages_free, 1, "free ones");
	is_uint(host.hugepage_bytes, GIB(1), "of a gigabyte");
	fabric_host_done(&host);

	host = read_host(root, NULL);
	is_str(host.cni_folder, cni, "K3s' folder is found by itself");
	is_str(host.cni_of, "k3s", "... and whose it is");
	ok(host.cni_known && host.cni_multus, "... and read");
	fabric_host_done(&host);
	put(root, "/etc/cni/net.d/10-flannel.conflist", "{}");
	host = read_host(root, NULL);
	is_str(host.cni_folder, cni, "... though the usual one is there: K3s runs");
	fabric_host_done(&host);
	host = read_host(root, "/etc/cni/none");
	is_str(host.cni_folder, "/etc/cni/none", "one that is named is the only one");
	ok(!host.cni_known && host.cni_missing, "... and isn't there");
	fabric_host_done(&host);
	host = read_host(root, "/proc/meminfo");
	ok(!host.cni_known && !host.cni_missing, "one that is there, and isn't to be read");
	fabric_host_done(&host);
}

/* Which folder of networks counts, by what is there and what runs. */
static void test_cni_folders(void)
{
	static const struct {
		const char *root, *runs, *there[2];
		const char *folder, *of;
	} rows[] = {
		{"cni-none", NULL, {NULL}, "/etc/cni/net.d", NULL},
		{"cni-usual", "containerd", {"/etc"}, "/etc/cni/net.d", NULL},
		{"cni-k3s", "k3s", {K3S, "/etc"}, K3S "/cni/net.d", "k3s"},
		{"cni-rke2", "rke2", {RKE2, "/etc"}, RKE2 "/cni/net.d", "rke2"},
		{"cni-no-flannel", "k3s", {"/etc"}, "/etc/cni/net.d", NULL},
		{"cni-stopped", NULL, {K3S, "/etc"}, "/etc/cni/net.d", NULL},
		{"cni-alone", NULL, {K3S}, K3S "/cni/net.d", "k3s"},
		{"cni-left-over", "rke2", {K3S, RKE2}, RKE2 "/cni/net.d", "rke2"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fabric_host host;

		row_begin("%s", rows[i].root);
		put(rows[i].root, "/proc/meminfo", "HugePages_Total: 0\n");
		if (rows[i].runs)
			put_process(rows[i].root, 50, rows[i].runs, "/system.slice/x.service", "1");
		for (size_t j = 0; j < 2 && rows[i].there[j]; j++) {
			CLEANUP_FREE char *path = xasprintf("%s/cni/net.d/10-a.conf",
							    rows[i].there[j]);

			put(rows[i].root, path, "{}");
		}
		host = read_host(rows[i].root, NULL);
		is_str(host.cni_folder, rows[i].folder, "the folder");
		is_str(host.cni_of, rows[i].of, "whose it is");
		fabric_host_done(&host);
	}
	row_end();
}

/* Units hidden, doubled and linked; links keep to the root. */
static void test_load_path(void)
{
	const char *root = "path";

	put(root, "/run/systemd/system/containerd.service", "[Service]\nLimitMEMLOCK=3M\n");
	put_link(root, "/etc/systemd/system/docker.service", "/dev/null");
	put(root, "/usr/lib/systemd/system/docker.service", "[Service]\nLimitMEMLOCK=1M\n");
	put(root, "/etc/systemd/system/crio.service", "");
	put(root, "/usr/lib/systemd/system/crio.service", "[Service]\nLimitMEMLOCK=1M\n");
	put_link(root, "/etc/systemd/system/containerd.service", "/opt/x/containerd.service");
	put(root, "/opt/x/containerd.service", "[Service]\nLimitMEMLOCK=5M\n");
	put(root, "/usr/lib/systemd/system/containerd.service", "[Service]\nLimitMEMLOCK=1M\n");
	put(root, "/usr/lib/systemd/system/containerd.service.d/a.conf",
	    "[Service]\nLimitMEMLOCK=2M\n");
	put_link(root, "/etc/systemd/system/containerd.service.d/a.conf", "/dev/null");

	struct fabric_host host = read_host(root, NULL);
	const struct fabric_runtime *r = runtime_of(&host, "containerd");
	is_uint(host.n_runtimes, 1, "masked units aren't installed");
	is_uint(r->unit_memlock_bytes, MIB(5),
		"a linked unit is followed below the root, a masked drop-in isn't read");
	is_str(r->unit, "/etc/systemd/system/containerd.service", "by its name on the load path");
	ok(!host.cni_known && host.cni_missing, "no folder of networks");
	fabric_host_done(&host);

	put(root, "/etc/systemd/system/rke2-server.service", "[Service]\n");
	put(root, "/etc/systemd/system/kubelet.service", "[Service]\n");
	put_process(root, 5, "rke2", "/system.slice/rke2-server.service", "unlimited");
	put_process(root, 6, "kubelet", "/", "65536");
	put_process(root, 7, "crio", "/user.slice/session.scope", "65536");
	for (int pid = 20; pid < 40; pid++)
		put_process(root, pid, "crio", "/user.slice/session.scope", "1");
	put_process(root, 41, "containerd", "/", "65536");
	host = read_host(root, NULL);
	is_int(runtime_of(&host, "rke2")->pid, 5, "rke2 by its server");
	ok(!runtime_of(&host, "rke2")->unit_sets_memlock, "whose unit sets nothing");
	is_str(runtime_of(&host, "rke2")->unit, "/etc/systemd/system/rke2-server.service",
	       "but is named, for advice");
	is_uint(runtime_of(&host, "kubelet")->memlock_bytes, 65536, "a kubelet by its name");
	is_int(runtime_of(&host, "cri-o")->pid, 7, "a process without a unit");
	is_uint(runtime_of(&host, "cri-o")->memlock_bytes, 65536, "the first of several");
	ok(!runtime_of(&host, "cri-o")->installed, "which isn't installed");
	is_int(runtime_of(&host, "containerd")->pid, 41, "a containerd of no unit is its own");
	is_uint(host.n_runtimes, 4, "and makes no other runtime");
	fabric_host_done(&host);
}

/* Whatever lies there, reading ends, and what is good beside it is read. */
static void test_hostile(void)
{
	const char *root = "hostile";
	size_t big = (size_t)8 << 20;
	char *junk = xcalloc(1, big);

	memset(junk, 'x', big);
	for (size_t i = 0; i < 65536; i++)
		junk[i] = (char)(i * 7919);
	put_bytes(root, "/proc/meminfo", junk, big);
	put_bytes(root, "/proc/modules", junk, big);
	put_bytes(root, "/etc/docker/daemon.json", junk, big);
	put_bytes(root, "/usr/lib/systemd/system/docker.service", junk, big);
	put_bytes(root, "/usr/lib/systemd/system/k3s.service", "[Service]\nLimitMEMLOCK=1M\\\n",
		  27);
	put_link(root, "/etc/systemd/system/containerd.service", "/etc/systemd/system/loop");
	put_link(root, "/etc/systemd/system/loop", "containerd.service");
	put_link(root, "/etc/systemd/system/containerd.service.d", "containerd.service.d");
	put(root, "/usr/lib/systemd/system/containerd.service/a-folder", "");
	put(root, "/lib/systemd/system/containerd.service", "[Service]\nLimitMEMLOCK=7M\n");
	put_process(root, 9, "containerd", "/system.slice/containerd.service", "4096");
	put_bytes(root, "/proc/10/comm", junk, big);
	put(root, "/proc/11/comm/a-folder", "");
	put(root, "/proc/99999999999999/comm", "containerd\n");
	put(root, "/proc/0/comm", "dockerd\n");
	put_process(root, 12, "kubelet", "/", "lots of it");
	put(root, "/proc/sys/kernel/osrelease", "../../../etc\n");
	put_link(root, "/etc/cni/net.d", "../../../../../../../../etc");
	put(root, "/sys/kernel/mm/hugepages/hugepages-99999999999999999kB/nr_hugepages", "5");
	put(root, "/sys/kernel/mm/hugepages/hugepages-kB/nr_hugepages", "5");
	CLEANUP_FREE char *pipe = at(root, "/etc/systemd/system/crio.service");
	make_folders(pipe);
	if (mkfifo(pipe, 0644) < 0)
		bail_out(pipe);
	CLEANUP_FREE char *secret = at(root, "/usr/lib/systemd/system/kubelet.service");
	put(root, "/usr/lib/systemd/system/kubelet.service", "[Service]\n");
	(void)chmod(secret, 0);

	struct fabric_host host = read_host(root, NULL);
	const struct fabric_runtime *r = runtime_of(&host, "containerd");
	ok(host.known, "a hostile machine is read");
	is_uint(r->unit_memlock_bytes, MIB(7), "past loops and folders to the unit");
	is_uint(r->memlock_bytes, 4096, "and to the process");
	ok(!runtime_of(&host, "kubelet")->running, "a limit that is none is no limit");
	is_uint(runtime_of(&host, "k3s")->unit_memlock_bytes, MIB(1), "a line to nowhere");
	is_uint(host.hugepages_total, 0, "no huge pages of impossible sizes");
	ok(!runtime_of(&host, "cri-o")->installed, "a pipe is no unit");
	ok(host.cni_known && !host.cni_multus, "a link out of the root ends at the root's own");
	fabric_host_done(&host);
	free(junk);
}

/* No root at all, and our own machine. */
static void test_other_roots(void)
{
	struct fabric_host host = read_host("nowhere", NULL);
	struct host_reader *reader = host_reader_new(NULL, NULL, false);
	struct rlimit limit;

	ok(host.known && host.n_runtimes == 0 && !host.cni_known, "a root that isn't there");
	fabric_host_done(&host);
	while (!host_reader_step(reader, 64, &host))
		;
	host_reader_free(reader);
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		is_uint(host.memlock_bytes,
			limit.rlim_cur == RLIM_INFINITY ? FABRIC_UNLIMITED : limit.rlim_cur,
			"our own limit");
	ok(host.hugepage_bytes > 0, "our own machine has a size of huge pages");
	fabric_host_done(&host);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	/* Only a folder's: chmod follows links, and some of the tests' lead to the machine's own.
	 */
	if (type == FTW_DNR || type == FTW_D)
		(void)chmod(path, 0700);
	return remove(path);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	top = xasprintf("%s/ipu-host-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
	if (!mkdtemp(top))
		bail_out(top);
	test_limits();
	test_units();
	test_cgroups();
	test_small_parsers();
	test_machine();
	test_k3s();
	test_cni_folders();
	test_load_path();
	test_hostile();
	test_other_roots();
	(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(top);
	return done_testing();
}
