/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager behind the interface that owners' keepers use.
 */
#include "partition/service.h"

#include "partition/internal.h"

static struct partitions *of(const struct partition_service *s)
{
	return CONTAINER_OF((struct partition_service *)(uintptr_t)s, struct partitions, service);
}

static bool synced(const struct partition_service *s)
{
	return partitions_synced(of(s));
}

static void ensure(struct partition_service *s, const struct partition_ask *ask)
{
	partition_ensure(of(s), ask);
}

static void release(struct partition_service *s, const char *owner_uid, uint32_t instance)
{
	partition_release(of(s), owner_uid, instance);
}

static void release_all(struct partition_service *s, const char *owner_uid)
{
	partition_release_all(of(s), owner_uid);
}

static void abandon(struct partition_service *s, const char *owner_uid)
{
	partition_abandon_all(of(s), owner_uid);
}

static void get_status(const struct partition_service *s, const char *owner_uid, uint32_t instance,
		       struct partition_status *ret)
{
	partition_get_status(of(s), owner_uid, instance, ret);
}

static size_t held(const struct partition_service *s, const char *owner_uid)
{
	return partition_held(of(s), owner_uid);
}

static size_t asked_from(const struct partition_service *s, const char *owner_uid, uint32_t from,
			 uint32_t *ret, size_t max)
{
	return partition_asked_from(of(s), owner_uid, from, ret, max);
}

static size_t ipuof_files(const struct partition_service *s, const char *owner_uid,
			  uint32_t instance, partition_file_fn *fn, void *arg)
{
	return partition_ipuof_files(of(s), owner_uid, instance, fn, arg);
}

static int64_t began_ms(const struct partition_service *s)
{
	return tracker_began_ms(of(s)->tracker);
}

static void each(const struct partition_service *s, partitions_each_fn *fn, void *arg)
{
	partitions_each(of(s), fn, arg);
}

struct partition_service *partitions_service(struct partitions *p)
{
	static const struct partition_service_ops ops = {
		.synced = synced,
		.ensure = ensure,
		.release = release,
		.release_all = release_all,
		.abandon = abandon,
		.get_status = get_status,
		.held = held,
		.asked_from = asked_from,
		.ipuof_files = ipuof_files,
		.began_ms = began_ms,
		.each = each,
	};

	p->service.ops = &ops;
	return &p->service;
}
