/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's limits, huge pages, modules and network configurations. Uses core.
 */
#include "host.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/json.h"
#include "files.h"
#include "runtimes.h"

#define USUAL_CNI      "/etc/cni/net.d"
#define MEMINFO_BYTES  16384
#define MODULES_BYTES  ((size_t)1 << 20)
#define MAX_CNI_FILES  1024
#define MAX_PAGE_SIZES 16

/* What RDMA in containers needs or may need; the driver's own first. */
static const char *const modules[] = {
	"ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "mlx5_core", "mlx5_ib",
	"ib_umad", "ib_cm",     "iw_cm",   "ib_ipoib", "mlx4_ib",   "bnxt_re",
	"irdma",   "rdma_rxe",  "siw",     "macvlan",  "ipvlan",
};
#define N_MODULES (sizeof(modules) / sizeof(modules[0]))

struct host_reader {
	struct files files;
	char *cni_folder; /* "": the usual one, or K3s' */
	bool limits_only;
	struct runtimes *runtimes;
};

struct host_reader *host_reader_new(const char *root, const char *cni_folder, bool limits_only)
{
	struct host_reader *reader = xcalloc(1, sizeof(*reader));

	files_open(&reader->files, root);
	reader->cni_folder = xstrdup(cni_folder ? cni_folder : "");
	reader->limits_only = limits_only;
	reader->runtimes = runtimes_new(&reader->files);
	return reader;
}

void host_reader_free(struct host_reader *reader)
{
	if (!reader)
		return;
	runtimes_free(reader->runtimes);
	files_close(&reader->files);
	free(reader->cni_folder);
	free(reader);
}

/* ---- parsers ---- */

/* A blank-separated word off the front; empty at the end. */
static struct str word(struct str *s)
{
	size_t begin = 0, end;

	while (begin < s->len && (s->p[begin] == ' ' || s->p[begin] == '\t'))
		begin++;
	for (end = begin; end < s->len && s->p[end] != ' ' && s->p[end] != '\t';)
		end++;
	struct str found = {s->p + begin, end - begin};
	s->p += end;
	s->len -= end;
	return found;
}

static int parse_count(struct str s, uint64_t *ret)
{
	int64_t n;

	if (str_to_int(s, 0, INT64_MAX, &n, NULL) < 0)
		return -1;
	*ret = (uint64_t)n;
	return 0;
}

int host_parse_memlock(struct str limits, uint64_t *ret_bytes)
{
	const struct str name = STR("Max locked memory ");

	while (limits.len > 0) {
		struct str line;

		str_cut(limits, '\n', &line, &limits);
		if (!str_has_prefix(line, name))
			continue;
		line = (struct str){line.p + name.len, line.len - name.len};
		struct str soft = word(&line), hard = word(&line), unit = word(&line);
		if (hard.len == 0 || !str_eqz(unit, "bytes"))
			return -1;
		if (str_eqz(soft, "unlimited")) {
			*ret_bytes = FABRIC_UNLIMITED;
			return 0;
		}
		return parse_count(soft, ret_bytes);
	}
	return -1;
}

int host_parse_meminfo(struct str meminfo, const char *key, uint64_t *ret)
{
	while (meminfo.len > 0) {
		struct str line, name, value;

		str_cut(meminfo, '\n', &line, &meminfo);
		if (str_cut(line, ':', &name, &value) && str_eqz(name, key))
			return parse_count(word(&value), ret);
	}
	return -1;
}

/* A container's cgroup: some scope or folder that a runtime made. */
static bool is_of_container(struct str part)
{
	static const char *const prefixes[] = {
		"kubepods", "docker", "libpod", "lxc", "machine.slice", "cri-containerd", "crio-",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		/* docker.service is the daemon itself. */
		if (str_has_prefix(part, str_of(prefixes[i])) &&
		    !str_has_suffix(part, STR(".service")))
			return true;
	}
	return false;
}

/* The first service of a path like "/system.slice/k3s.service/…"; false: a container's. */
static bool read_cgroup_path(struct str path, char ret_unit[NODE_NAME_SIZE])
{
	while (path.len > 0) {
		struct str part;

		str_cut(path, '/', &part, &path);
		if (is_of_container(part))
			return false;
		if (str_has_suffix(part, STR(".service"))) {
			snprintf(ret_unit, NODE_NAME_SIZE, "%.*s", STR_ARG(part));
			return true;
		}
	}
	return true;
}

/* Lines of "number:controllers:path"; systemd's own is "name=systemd" (v1), or the one of v2, whose
 * controllers are empty. */
bool host_parse_cgroup(struct str cgroup, char ret_unit[NODE_NAME_SIZE])
{
	ret_unit[0] = '\0';
	while (cgroup.len > 0) {
		struct str line, number, rest, controllers, path;

		str_cut(cgroup, '\n', &line, &cgroup);
		if (!str_cut(line, ':', &number, &rest) || !str_cut(rest, ':', &controllers, &path))
			continue;
		if (controllers.len > 0 && !str_eqz(controllers, "name=systemd"))
			continue;
		if (!read_cgroup_path(path, ret_unit))
			return false;
		if (ret_unit[0])
			return true;
	}
	return true;
}

/* A limit of daemon.json: a number of bytes, -1 for none. */
static int docker_limit(const struct json *v, uint64_t *ret)
{
	int64_t n = json_int(v, -2);

	if (json_type(v) != JSON_INT || n < -1)
		return -1;
	*ret = n == -1 ? FABRIC_UNLIMITED : (uint64_t)n;
	return 0;
}

int host_parse_docker(struct str json, uint64_t *ret_bytes)
{
	CLEANUP_JSON struct json_doc *doc = NULL;

	if (json_parse(json, &doc, NULL) < 0)
		return -1;
	return docker_limit(json_at(json_root(doc), "default-ulimits", "memlock", "Soft", NULL),
			    ret_bytes);
}

/* ---- reading ---- */

/* The kernel asks for the capability in the first user namespace; that of another one is none. */
static bool is_first_user_namespace(void)
{
	struct files ours;
	struct buf text = BUF_INIT(256);
	struct str map, first, second;

	files_open(&ours, NULL);
	(void)files_read(&ours, "/proc/self/uid_map", &text);
	files_close(&ours);
	map = str_trim(buf_str(&text));
	first = word(&map);
	second = word(&map);
	bool is_first = str_eqz(first, "0") && str_eqz(second, "0") &&
			str_eqz(word(&map), "4294967295");
	buf_done(&text);
	return is_first;
}

static bool may_lock(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	return syscall(SYS_capget, &head, data) == 0 && data[0].effective & 1U << CAP_IPC_LOCK &&
	       is_first_user_namespace();
}

static void read_own_limit(struct fabric_host *host)
{
	struct rlimit limit;

	host->may_lock = may_lock();

	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		host->memlock_bytes = limit.rlim_cur == RLIM_INFINITY ? FABRIC_UNLIMITED
								      : limit.rlim_cur;
}

/* Of pages of another size than the default one: those that there are most bytes of. */
static void read_other_pages(const struct files *files, struct fabric_host *host)
{
	static const char folder[] = "/sys/kernel/mm/hugepages";
	DIR *dir = files_opendir(files, folder);
	const struct dirent *entry;
	uint64_t most = 0;

	for (unsigned i = 0; dir && i < MAX_PAGE_SIZES && (entry = readdir(dir));) {
		uint64_t kib, total, available = 0, bytes;
		struct str name = str_of(entry->d_name);
		char path[PATH_MAX];

		if (!str_has_prefix(name, STR("hugepages-")) || !str_has_suffix(name, STR("kB")))
			continue;
		i++;
		name = (struct str){name.p + 10, name.len - 12};
		snprintf(path, sizeof(path), "%s/%s/nr_hugepages", folder, entry->d_name);
		if (parse_count(name, &kib) < 0 || files_read_number(files, path, &total) < 0 ||
		    kib > UINT64_MAX / 1024 || __builtin_mul_overflow(kib * 1024, total, &bytes) ||
		    bytes <= most)
			continue;
		most = bytes;
		snprintf(path, sizeof(path), "%s/%s/free_hugepages", folder, entry->d_name);
		(void)files_read_number(files, path, &available);
		host->hugepages_total = total;
		host->hugepages_free = available;
		host->hugepage_bytes = kib * 1024;
	}
	if (dir)
		closedir(dir);
}

static void read_hugepages(const struct files *files, struct fabric_host *host)
{
	struct buf text = BUF_INIT(MEMINFO_BYTES);
	uint64_t kib = 0;

	if (files_read(files, "/proc/meminfo", &text) == 0) {
		struct str meminfo = buf_str(&text);

		(void)host_parse_meminfo(meminfo, "HugePages_Total", &host->hugepages_total);
		(void)host_parse_meminfo(meminfo, "HugePages_Free", &host->hugepages_free);
		if (host_parse_meminfo(meminfo, "Hugepagesize", &kib) == 0 &&
		    kib <= UINT64_MAX / 1024)
			host->hugepage_bytes = kib * 1024;
	}
	if (host->hugepages_total == 0)
		read_other_pages(files, host);
	buf_done(&text);
}

/* Is there a line that begins with the name ("/proc/modules")? */
static bool is_listed(struct str list, const char *name)
{
	while (list.len > 0) {
		struct str line;

		str_cut(list, '\n', &line, &list);
		if (str_eqz(word(&line), name))
			return true;
	}
	return false;
}

/* modules.builtin has a path a line, "kernel/drivers/net/macvlan.ko"; "-" may stand for "_". */
static bool is_built_in(struct str list, const char *name)
{
	size_t len = strlen(name);

	while (list.len > 0) {
		struct str line;

		str_cut(list, '\n', &line, &list);
		if (!str_has_suffix(line, STR(".ko")) || line.len < len + 4)
			continue;
		const char *file = line.p + line.len - 3 - len;
		size_t same = 0;
		while (same < len &&
		       (file[same] == name[same] || (file[same] == '-' && name[same] == '_')))
			same++;
		if (same == len && file[-1] == '/')
			return true;
	}
	return false;
}

/* Modules that are built in and have no parameter don't show in /sys/module. */
static void read_built_in(const struct files *files, struct buf *text)
{
	struct buf release = BUF_INIT(128);
	char path[PATH_MAX];

	if (files_read(files, "/proc/sys/kernel/osrelease", &release) == 0) {
		struct str name = str_trim(buf_str(&release));

		snprintf(path, sizeof(path), "/lib/modules/%.*s/modules.builtin", STR_ARG(name));
		if (!memchr(name.p ? name.p : "", '/', name.len))
			(void)files_read(files, path, text);
	}
	buf_done(&release);
}

static void read_modules(const struct files *files, struct fabric_host *host)
{
	struct buf loaded = BUF_INIT(MODULES_BYTES), built_in = BUF_INIT(MODULES_BYTES);

	(void)files_read(files, "/proc/modules", &loaded);
	read_built_in(files, &built_in);
	host->modules = xcalloc(N_MODULES, sizeof(*host->modules));
	host->n_modules = N_MODULES;
	for (size_t i = 0; i < N_MODULES; i++) {
		struct fabric_module *module = &host->modules[i];
		char path[128];

		snprintf(module->name, sizeof(module->name), "%s", modules[i]);
		snprintf(path, sizeof(path), "/sys/module/%s", modules[i]);
		module->loaded = files_exist(files, path) ||
				 is_listed(buf_str(&loaded), modules[i]) ||
				 is_built_in(buf_str(&built_in), modules[i]);
	}
	buf_done(&loaded);
	buf_done(&built_in);
}

static bool runs(const struct fabric_host *host, const char *name)
{
	for (size_t i = 0; i < host->n_runtimes; i++) {
		if (host->runtimes[i].running && strcmp(host->runtimes[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Of what runs here, if it has one of its own (K3s without flannel has none); else the usual one,
 * if that is there; else any. */
static const char *find_cni(const struct files *files, struct fabric_host *host)
{
	static const struct {
		const char *runtime, *folder;
	} own[] = {
		{"k3s", "/var/lib/rancher/k3s/agent/etc/cni/net.d"},
		{"rke2", "/var/lib/rancher/rke2/agent/etc/cni/net.d"},
	};
	bool usual = files_exist(files, USUAL_CNI);
	const char *folder = USUAL_CNI;

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		bool running = runs(host, own[i].runtime);

		if (!files_exist(files, own[i].folder) || (!running && (usual || host->cni_of)))
			continue;
		host->cni_of = own[i].runtime;
		folder = own[i].folder;
		if (running)
			break;
	}
	return folder;
}

static void read_cni(const struct files *files, const char *wanted, struct fabric_host *host)
{
	const char *folder = wanted[0] ? wanted : find_cni(files, host);
	DIR *dir = files_opendir(files, folder);
	const struct dirent *entry;

	host->cni_missing = !dir && errno == ENOENT;
	snprintf(host->cni_folder, sizeof(host->cni_folder), "%s", folder);
	host->cni_known = dir != NULL;
	for (unsigned i = 0; dir && i < MAX_CNI_FILES && (entry = readdir(dir)); i++) {
		struct str name = str_of(entry->d_name);

		if (str_eqz(name, "multus.d"))
			host->cni_multus_folder = true;
		else if (str_eqz(name, "whereabouts.d"))
			host->cni_whereabouts = true;
		else if (str_has_suffix(name, STR("-multus.conf")) ||
			 str_has_suffix(name, STR("-multus.conflist")))
			host->cni_multus = true;
	}
	if (dir)
		closedir(dir);
}

bool host_reader_step(struct host_reader *reader, unsigned processes, struct fabric_host *ret)
{
	struct fabric_host host = {.known = true};

	if (!runtimes_step(reader->runtimes, processes))
		return false;
	read_own_limit(&host);
	read_hugepages(&reader->files, &host);
	runtimes_list(reader->runtimes, !reader->limits_only, &host.runtimes, &host.n_runtimes);
	if (!reader->limits_only) {
		read_modules(&reader->files, &host);
		read_cni(&reader->files, reader->cni_folder, &host);
	}
	*ret = host;
	return true;
}

/* ---- comparing ---- */

static bool runtime_equal(const struct fabric_runtime *a, const struct fabric_runtime *b)
{
	return strcmp(a->name, b->name) == 0 && a->installed == b->installed &&
	       a->running == b->running && a->pid == b->pid &&
	       a->memlock_bytes == b->memlock_bytes &&
	       a->unit_sets_memlock == b->unit_sets_memlock &&
	       a->unit_memlock_bytes == b->unit_memlock_bytes &&
	       a->default_ulimit == b->default_ulimit && strcmp(a->unit, b->unit) == 0;
}

bool fabric_host_equal(const struct fabric_host *a, const struct fabric_host *b)
{
	bool same = a->known == b->known && a->memlock_bytes == b->memlock_bytes &&
		    a->may_lock == b->may_lock && a->cni_missing == b->cni_missing &&
		    a->n_runtimes == b->n_runtimes && a->n_modules == b->n_modules &&
		    a->hugepages_total == b->hugepages_total &&
		    a->hugepages_free == b->hugepages_free &&
		    a->hugepage_bytes == b->hugepage_bytes && a->cni_known == b->cni_known &&
		    a->cni_multus == b->cni_multus &&
		    a->cni_multus_folder == b->cni_multus_folder &&
		    a->cni_whereabouts == b->cni_whereabouts &&
		    strcmp(a->cni_folder, b->cni_folder) == 0;

	for (size_t i = 0; same && i < a->n_runtimes; i++)
		same = runtime_equal(&a->runtimes[i], &b->runtimes[i]);
	for (size_t i = 0; same && i < a->n_modules; i++)
		same = a->modules[i].loaded == b->modules[i].loaded &&
		       strcmp(a->modules[i].name, b->modules[i].name) == 0;
	return same;
}
