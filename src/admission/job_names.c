/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in the Pod template: those that come twice, that are the operator's own, and that name
 * nothing. Kubernetes would say so when the Pods are made, which may be hours later.
 */
#include <inttypes.h>
#include <stdio.h>

#include "admission/job_check.h"
#include "core/map.h"
#include "core/str.h"
#include "job/launcher.h"

/* What has been seen, by its text; the value only has to be there. */
static bool is_second(struct map *seen, struct str name)
{
	return name.len && map_put(seen, name, seen);
}

static void say_twice(const struct job_look *l, const char *path, const char *what, struct str name)
{
	struct str s = {name.p, str_utf8_cut(name, 100)};

	admission_problem(l->out, path, "Duplicate", "%s %.*s is there twice", what, STR_ARG(s));
}

static struct str name_of(const struct json *item)
{
	return json_str(json_get(item, "name"));
}

/* ---- containers ---- */

static void check_containers(const struct job_look *l, const char *key, struct map *seen)
{
	struct json_iter it = json_iter(json_get(job_look_pod(l), key));

	while (json_next(&it)) {
		struct str name = name_of(it.value);
		char at[JOB_LOOK_PATH];

		job_look_path(at, POD_SPEC ".%s[%zu].name", key, it.index);
		if (job_has_launcher(l->job) && job_is_own_container(name))
			admission_problem(
				l->out, at, "Forbidden",
				"is what the operator calls a container of its own; choose "
				"another name");
		else if (is_second(seen, name))
			say_twice(l, at, "the container", name);
	}
}

/* ---- volumes and mounts ---- */

static void check_volumes(const struct job_look *l, struct map *seen)
{
	struct json_iter it = json_iter(json_get(job_look_pod(l), "volumes"));

	while (json_next(&it)) {
		struct str name = name_of(it.value);
		char at[JOB_LOOK_PATH];

		job_look_path(at, POD_SPEC ".volumes[%zu].name", it.index);
		if (job_has_launcher(l->job) && job_is_own_volume(name))
			admission_problem(l->out, at, "Forbidden",
					  "is what the operator calls a volume of its own; choose "
					  "another name");
		else if (is_second(seen, name))
			say_twice(l, at, "the volume", name);
	}
}

static void check_mounts(const struct job_look *l, const char *path, const struct json *container,
			 const struct map *volumes, bool first)
{
	struct json_iter it = json_iter(json_get(container, "volumeMounts"));
	struct map *seen = map_new();

	while (json_next(&it)) {
		struct str name = name_of(it.value);
		struct str at_path = json_str(json_get(it.value, "mountPath"));
		struct str shown = {name.p, str_utf8_cut(name, 100)};
		char at[JOB_LOOK_PATH];

		job_look_path(at, "%s.volumeMounts[%zu].name", path, it.index);
		if (name.len && !map_get(volumes, name) &&
		    !(job_has_launcher(l->job) && job_is_own_volume(name)))
			admission_problem(l->out, at, "Invalid",
					  "%.*s isn't among " POD_SPEC ".volumes", STR_ARG(shown));
		job_look_path(at, "%s.volumeMounts[%zu].mountPath", path, it.index);
		if (first && job_has_launcher(l->job) && job_is_own_mount(at_path))
			admission_problem(
				l->out, at, "Forbidden",
				"is where the operator mounts a volume of its own; choose "
				"another path");
		else if (is_second(seen, at_path))
			say_twice(l, at, "the path", at_path);
	}
	map_free(seen);
}

/* ---- ports ---- */

/* Of a whole Pod, the ports of the node that it takes; of one container, its ports' names. */
static void check_port(const struct job_look *l, const char *path, const struct json *port,
		       struct map *on_node, struct map *names)
{
	struct str protocol = json_str(json_get(port, "protocol"));
	struct str ip = json_str(json_get(port, "hostIP"));
	int64_t number = json_int(json_get(port, "hostPort"), 0);
	char at[JOB_LOOK_PATH], key[128];

	if (number == 0 && l->host_network)
		number = json_int(json_get(port, "containerPort"), 0);
	job_look_path(at, "%s.%s", path,
		      json_int(json_get(port, "hostPort"), 0) ? "hostPort" : "containerPort");
	snprintf(key, sizeof(key), "%" PRId64 "/%.8s/%.60s", number,
		 protocol.len ? json_cstr(json_get(port, "protocol")) : "TCP",
		 ip.len ? json_cstr(json_get(port, "hostIP")) : "");
	if (number > 0 && is_second(on_node, str_of(key)))
		admission_problem(l->out, at, "Duplicate",
				  "port %" PRId64 " of the node is taken twice by one Pod", number);
	job_look_path(at, "%s.name", path);
	if (is_second(names, name_of(port)))
		say_twice(l, at, "the port", name_of(port));
}

static void check_ports(const struct job_look *l, const char *path, const struct json *container,
			struct map *on_node)
{
	struct json_iter it = json_iter(json_get(container, "ports"));
	struct map *names = map_new();

	while (json_next(&it)) {
		char at[JOB_LOOK_PATH];

		job_look_path(at, "%s.ports[%zu]", path, it.index);
		check_port(l, at, it.value, on_node, names);
	}
	map_free(names);
}

/* ---- all of it ---- */

static void check_within(const struct job_look *l, const char *key, const struct map *volumes)
{
	struct json_iter it = json_iter(json_get(job_look_pod(l), key));
	/* An init container has left its ports when the others come. */
	bool main = key[0] == 'c';
	struct map *on_node = map_new();

	while (json_next(&it)) {
		char path[JOB_LOOK_PATH];

		job_look_path(path, POD_SPEC ".%s[%zu]", key, it.index);
		check_mounts(l, path, it.value, volumes, main && it.index == 0);
		if (main)
			check_ports(l, path, it.value, on_node);
	}
	map_free(on_node);
}

void job_look_at_names(const struct job_look *l)
{
	struct map *containers = map_new(), *volumes = map_new();

	check_containers(l, "containers", containers);
	check_containers(l, "initContainers", containers);
	check_volumes(l, volumes);
	check_within(l, "containers", volumes);
	check_within(l, "initContainers", volumes);
	map_free(containers);
	map_free(volumes);
}
