/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills volumes: emptyDir, hostPath, configMap, secret, downwardAPI and projected ones, and the
 * ServiceAccount's that every Pod has. In texts mount points are replaced as everywhere.
 */
#include "sim/pod_files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "kube/object.h"

#define ACCOUNT_PATH "/var/run/secrets/kubernetes.io/serviceaccount"
#define MESSAGE_PATH "/dev/termination-log"
#define ACCOUNT_DIR  "serviceaccount"
#define CA_CONFIGMAP "kube-root-ca.crt"

/* Where files go that are being written. */
struct target {
	const struct pod_files *f;
	const struct path_map *map;
	const char *volume; /* for messages */
	const char *dir;
	int64_t mode;
};

/* ---- mount points ---- */

static const struct json *find_named(const struct json *list, struct str name)
{
	struct json_iter it = json_iter(list);

	while (json_next(&it))
		if (str_eq(json_str(json_get(it.value, "name")), name))
			return it.value;
	return NULL;
}

static char *volume_dir(const struct pod_files *f, const struct json *volume)
{
	struct str host = json_str(json_at(volume, "hostPath", "path", NULL));

	if (host.len)
		return str_dup(host);
	return xasprintf("%s/volumes/%.*s", f->root, STR_ARG(json_str(json_get(volume, "name"))));
}

char *pod_files_message(const char *root, struct str container)
{
	return xasprintf("%s/message-%.*s", root, STR_ARG(container));
}

static bool wants_account(const struct json *pod)
{
	return json_bool(json_at(pod, "spec", "automountServiceAccountToken", NULL), true);
}

void pod_files_map(const struct pod_files *f, const struct json *container, struct path_map *ret)
{
	struct json_iter it = json_iter(json_get(container, "volumeMounts"));
	const struct json *volumes = json_at(f->pod, "spec", "volumes", NULL);

	while (json_next(&it)) {
		const struct json *volume = find_named(volumes,
						       json_str(json_get(it.value, "name")));
		struct str path = json_str(json_get(it.value, "mountPath"));
		struct str sub = json_str(json_get(it.value, "subPath"));
		if (!volume || path.len < 2 || path.p[0] != '/')
			continue;
		CLEANUP_FREE char *dir = volume_dir(f, volume);
		CLEANUP_FREE char *to = sub.len ? xasprintf("%s/%.*s", dir, STR_ARG(sub))
						: xstrdup(dir);
		path_map_add(ret, path, to);
	}
	struct str message = json_str(json_get(container, "terminationMessagePath"));
	CLEANUP_FREE char *file = pod_files_message(f->root, json_str(json_get(container, "name")));
	path_map_add(ret, message.len ? message : STR(MESSAGE_PATH), file);
	if (wants_account(f->pod)) {
		CLEANUP_FREE char *to = xasprintf("%s/" ACCOUNT_DIR, f->root);
		path_map_add(ret, STR(ACCOUNT_PATH), to);
	}
}

/* A volume's files are the same for all that mount it. */
static void map_all(const struct pod_files *f, struct path_map *ret)
{
	static const char *const lists[] = {"containers", "initContainers"};

	for (size_t i = 0; i < 2; i++) {
		struct json_iter it = json_iter(json_at(f->pod, "spec", lists[i], NULL));
		while (json_next(&it))
			pod_files_map(f, it.value, ret);
	}
}

/* ---- files ---- */

static int make_dirs(char *path, struct err *err)
{
	for (char *p = path + 1;; p++) {
		char was = *p;
		if (was != '/' && was != '\0')
			continue;
		*p = '\0';
		if (mkdir(path, 0777) < 0 && errno != EEXIST)
			return err_errno(err, errno, "%s", path);
		*p = was;
		if (was == '\0')
			return 0;
	}
}

static bool is_below(struct str path)
{
	struct str part, rest = path;

	if (path.len == 0 || path.p[0] == '/')
		return false;
	while (rest.len > 0) {
		str_cut(rest, '/', &part, &rest);
		if (str_eqz(part, ".."))
			return false;
	}
	return true;
}

static int write_bytes(const struct target *t, struct str path, struct str bytes, int64_t mode,
		       struct err *err)
{
	if (!is_below(path))
		return err_set(err, ERR_INVALID, 0, "volume \"%s\": the path %.*s", t->volume,
			       STR_ARG(path));
	CLEANUP_FREE char *whole = xasprintf("%s/%.*s", t->dir, STR_ARG(path));
	char *slash = strrchr(whole, '/');
	*slash = '\0';
	if (make_dirs(whole, err) < 0)
		return -1;
	*slash = '/';
	int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, errno, "%s", whole);
	int rc = file_write_all(fd, bytes, err);
	if (rc < 0)
		err_wrap(err, "%s", whole);
	if (rc == 0 && fchmod(fd, (mode_t)(mode >= 0 ? mode : t->mode) & 0777) < 0)
		rc = err_errno(err, errno, "%s", whole);
	close(fd);
	return rc;
}

static int write_text(const struct target *t, struct str path, struct str text, int64_t mode,
		      struct err *err)
{
	CLEANUP_FREE char *z = path_map_apply(t->map, text);

	return write_bytes(t, path, str_of(z), mode, err);
}

static int write_base64(const struct target *t, struct str path, struct str text, int64_t mode,
			struct err *err)
{
	uint8_t *bytes;
	size_t len;

	if (base64_decode(text, &bytes, &len, err) < 0)
		return -1;
	int rc = write_bytes(t, path, (struct str){(char *)bytes, len}, mode, err);
	free(bytes);
	return rc;
}

/* ---- ConfigMaps and Secrets ---- */

struct keys {
	const struct json *text, *base64; /* data and binaryData, or a Secret's data */
	const char *kind;
	struct str name;
};

static int write_key(const struct target *t, const struct keys *k, struct str key, struct str path,
		     int64_t mode, bool optional, struct err *err)
{
	const struct json *text = json_getn(k->text, key), *bytes = json_getn(k->base64, key);

	if (text)
		return write_text(t, path, json_str(text), mode, err);
	if (bytes)
		return write_base64(t, path, json_str(bytes), mode, err);
	if (optional)
		return 0;
	return err_set(err, ERR_NOT_FOUND, 0, "references non-existent %s key: %.*s", k->kind,
		       STR_ARG(key));
}

/* Those of items under their paths, or all under their names. */
static int write_keys(const struct target *t, const struct keys *k, const struct json *source,
		      struct err *err)
{
	const struct json *items = json_get(source, "items");
	bool optional = json_bool(json_get(source, "optional"), false);
	struct json_iter it = json_iter(items);

	while (json_next(&it))
		if (write_key(t, k, json_str(json_get(it.value, "key")),
			      json_str(json_get(it.value, "path")),
			      json_int(json_get(it.value, "mode"), -1), optional, err) < 0)
			return -1;
	if (items)
		return 0;
	for (int i = 0; i < 2; i++) {
		it = json_iter(i ? k->base64 : k->text);
		while (json_next(&it))
			if (write_key(t, k, it.key, it.key, -1, false, err) < 0)
				return -1;
	}
	return 0;
}

static int write_source(const struct target *t, const struct json *source, bool secret,
			struct err *err)
{
	const struct pod_files *f = t->f;
	const struct json *named = json_get(source, "name");
	struct keys k = {.kind = secret ? "secret" : "config",
			 .name = json_str(named ? named : json_get(source, "secretName"))};
	const struct sim_resource *r = sim_resource_find(STR_NULL, secret ? STR("secrets")
									  : STR("configmaps"));
	struct sim_object *o = sim_objects_get(f->objects, r, kube_namespace(f->pod), k.name);

	if (!o && !secret && str_eqz(k.name, CA_CONFIGMAP))
		return write_bytes(t, STR("ca.crt"), str_of(f->ca_pem), -1, err);
	if (!o && json_bool(json_get(source, "optional"), false))
		return 0;
	if (!o)
		return err_set(err, ERR_NOT_FOUND, 0, "%s \"%.*s\" not found",
			       secret ? "secret" : "configmap", STR_ARG(k.name));
	k.text = secret ? NULL : json_get(sim_object_json(o), "data");
	k.base64 = json_get(sim_object_json(o), secret ? "data" : "binaryData");
	return write_keys(t, &k, source, err);
}

/* ---- the Pod's own fields ---- */

/* "metadata.labels['KEY']" */
static char *subscript(const struct json *obj, struct str path, const char *before)
{
	struct str key = {path.p + strlen(before), path.len - strlen(before) - 2};

	return str_dup(json_str(json_getn(obj, key)));
}

char *pod_field(const struct json *pod, struct str path)
{
	static const struct {
		const char *path, *a, *b;
	} known[] = {
		{"metadata.name", "metadata", "name"},
		{"metadata.namespace", "metadata", "namespace"},
		{"metadata.uid", "metadata", "uid"},
		{"spec.nodeName", "spec", "nodeName"},
		{"spec.serviceAccountName", "spec", "serviceAccountName"},
		{"status.hostIP", "status", "hostIP"},
		{"status.podIP", "status", "podIP"},
	};
	const struct json *meta = json_get(pod, "metadata");

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (str_eqz(path, known[i].path))
			return str_dup(json_str(json_at(pod, known[i].a, known[i].b, NULL)));
	if (!str_has_suffix(path, STR("']")))
		return NULL;
	if (str_has_prefix(path, STR("metadata.labels['")))
		return subscript(json_get(meta, "labels"), path, "metadata.labels['");
	if (str_has_prefix(path, STR("metadata.annotations['")))
		return subscript(json_get(meta, "annotations"), path, "metadata.annotations['");
	return NULL;
}

static int write_fields(const struct target *t, const struct json *source, struct err *err)
{
	struct json_iter it = json_iter(json_get(source, "items"));

	while (json_next(&it)) {
		struct str path = json_str(json_at(it.value, "fieldRef", "fieldPath", NULL));
		CLEANUP_FREE char *value = pod_field(t->f->pod, path);
		if (!value)
			return err_set(err, ERR_UNSUPPORTED, 0, "the field \"%.*s\"",
				       STR_ARG(path));
		if (write_bytes(t, json_str(json_get(it.value, "path")), str_of(value),
				json_int(json_get(it.value, "mode"), -1), err) < 0)
			return -1;
	}
	return 0;
}

/* ---- tokens ---- */

static int write_token(const struct target *t, struct str audience, struct str path,
		       struct err *err)
{
	CLEANUP_FREE char *token = sim_api_mint_token(t->f->api, t->f->pod, audience, err);

	return token ? write_bytes(t, path, str_of(token), -1, err) : -1;
}

/* What the API server's admission gives every Pod. */
static int make_account(const struct pod_files *f, struct err *err)
{
	CLEANUP_FREE char *dir = xasprintf("%s/" ACCOUNT_DIR, f->root);
	const struct target t = {.f = f, .volume = "kube-api-access", .dir = dir, .mode = 0644};

	if (!wants_account(f->pod))
		return 0;
	if (write_token(&t, STR_NULL, STR("token"), err) < 0 ||
	    write_bytes(&t, STR("ca.crt"), str_of(f->ca_pem), -1, err) < 0)
		return -1;
	return write_bytes(&t, STR("namespace"), kube_namespace(f->pod), -1, err);
}

/* ---- volumes ---- */

static int write_projected(const struct target *t, const struct json *source, struct err *err)
{
	const struct json *token = json_get(source, "serviceAccountToken");
	const struct json *map = json_get(source, "configMap");
	const struct json *secret = json_get(source, "secret");

	if (token)
		return write_token(t, json_str(json_get(token, "audience")),
				   json_str(json_get(token, "path")), err);
	if (map || secret)
		return write_source(t, map ? map : secret, !map, err);
	if (json_get(source, "downwardAPI"))
		return write_fields(t, json_get(source, "downwardAPI"), err);
	return err_set(err, ERR_UNSUPPORTED, 0, "ipu-sim has no projections of this kind");
}

static int fill(struct target *t, const struct json *volume, struct err *err)
{
	static const char *const kinds[] = {"configMap", "secret", "downwardAPI", "projected"};
	struct json_iter it;
	size_t kind = 0;

	if (json_get(volume, "emptyDir"))
		return 0;
	while (kind < 4 && !json_get(volume, kinds[kind]))
		kind++;
	if (kind == 4)
		return err_set(err, ERR_UNSUPPORTED, 0, "ipu-sim has no volumes of this kind");
	const struct json *source = json_get(volume, kinds[kind]);
	t->mode = json_int(json_get(source, "defaultMode"), 0644);
	if (kind < 2)
		return write_source(t, source, kind == 1, err);
	if (kind == 2)
		return write_fields(t, source, err);
	it = json_iter(json_get(source, "sources"));
	while (json_next(&it))
		if (write_projected(t, it.value, err) < 0)
			return -1;
	return 0;
}

static int make_volume(const struct pod_files *f, const struct path_map *map,
		       const struct json *volume, struct err *err)
{
	const char *name = json_cstr(json_get(volume, "name"));
	CLEANUP_FREE char *dir = volume_dir(f, volume);
	struct target t = {.f = f, .map = map, .volume = name ? name : "", .dir = dir};

	if (json_get(volume, "hostPath"))
		return 0;
	if (make_dirs(dir, err) < 0 || fill(&t, volume, err) < 0)
		return err_wrap(err, "MountVolume.SetUp failed for volume \"%s\"", t.volume);
	return 0;
}

/* Places within a volume that are mounted for themselves. */
static void make_sub_paths(const struct path_map *map)
{
	for (size_t i = 0; i < map->n; i++) {
		struct stat st;
		if (!strstr(map->pairs[i].to, "/volumes/"))
			continue;
		if (stat(map->pairs[i].to, &st) < 0)
			make_dirs(map->pairs[i].to, NULL);
	}
}

int pod_files_make(const struct pod_files *f, struct err *err)
{
	struct json_iter it = json_iter(json_at(f->pod, "spec", "volumes", NULL));
	struct path_map map = {0};
	int rc = make_account(f, err);

	map_all(f, &map);
	while (rc == 0 && json_next(&it))
		rc = make_volume(f, &map, it.value, err);
	if (rc == 0)
		make_sub_paths(&map);
	path_map_done(&map);
	return rc;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	(void)remove(path);
	return 0;
}

void pod_files_remove(const char *root)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
