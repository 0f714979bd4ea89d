/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager on the partition layer's rig: processes that begin and are killed, owners that ask,
 * and what they see. Included once by each test.
 */
#ifndef IPU_T_UNIT_PARTITION_MANAGER_RIG_H
#define IPU_T_UNIT_PARTITION_MANAGER_RIG_H

#include "partition_rig.h"

#include "partition/manager.h"
#include "vipu/fleet.h"

static struct vipu_fleet *fleet;
static struct partitions *parts;
static const struct partition_rules *site; /* the site's policy; NULL: none */
static bool synced;
static unsigned long news; /* calls of on_change */

static void on_synced(void *arg)
{
	(void)arg;
	synced = true;
}

static void on_change(const struct partition_owner *owner, void *arg)
{
	(void)owner;
	(void)arg;
	news++;
}

static inline void configure(bool with_sim)
{
	struct vipu_address_list list;
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u:pod=a", vipu_sim_port(sim));
	struct vipu_fleet_entry entry;

	vipu_address_parse(str_of(text), &list);
	entry = (struct vipu_fleet_entry){.address = &list.items[0]};
	vipu_fleet_configure(fleet, &entry, with_sim ? 1 : 0);
	vipu_address_list_done(&list);
}

static inline void process_begin_with(bool with_sim, bool pending)
{
	struct partitions_config config = {.ns = NS,
					   .tracker_name = TRACKER,
					   .times = partition_times_default,
					   .rules = site,
					   .fleet_pending = pending};

	synced = false;
	fleet = vipu_fleet_new(net, NULL);
	configure(with_sim);
	parts = partitions_new(loop, kube, fleet, &config, on_synced, on_change, NULL);
}

static inline void process_begin(bool with_sim)
{
	process_begin_with(with_sim, false);
}

/* It hasn't heard yet which controllers there are. */
static inline void process_begin_pending(void)
{
	process_begin_with(false, true);
}

/* As kill -9 leaves the world: what was sent may still take effect. */
static inline void process_kill(void)
{
	partitions_free(parts);
	vipu_fleet_free(fleet);
	kube_client_free(kube);
	make_client();
}

static inline void begin(void)
{
	rig_begin(16);
	process_begin(true);
}

static inline void end(void)
{
	ok(!violated, "the invariants held");
	partitions_free(parts);
	vipu_fleet_free(fleet);
	rig_end();
	row_end();
}

/* ---- owners ---- */

static inline struct partition_ask ask_of(const char *uid, uint32_t instance, uint32_t ipus)
{
	return (struct partition_ask){
		.owner = {.kind = TEXT("IPUJob"),
			  .ns = TEXT("default"),
			  .name = TEXT("job"),
			  .uid = TEXT(uid)},
		.instance = instance,
		.ipus = ipus,
		.options = {.gcds = 1, .reconfigurable = true},
	};
}

static inline void want(const char *uid, uint32_t ipus)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	partition_ensure(parts, &ask);
}

static inline void want_run(const char *uid, uint32_t ipus, uint32_t attempt)
{
	struct partition_ask ask = ask_of(uid, 0, ipus);

	ask.attempt = attempt;
	partition_ensure(parts, &ask);
}

static inline struct partition_status seen(const char *uid)
{
	struct partition_status st;

	partition_get_status(parts, uid, 0, &st);
	return st;
}

static inline bool is(const char *uid, enum partition_state state)
{
	return seen(uid).state == state;
}

/* What an owner's next run waits for. */
static inline bool is_for(const char *uid, uint32_t attempt)
{
	struct partition_status st = seen(uid);

	return st.state == PARTITION_STATE_ACTIVE && st.ask->attempt == attempt;
}

static inline bool is_because(const char *uid, enum partition_state state, enum partition_why why)
{
	struct partition_status st = seen(uid);

	return st.state == state && st.why == why;
}

/* Nothing asked, nothing in the tracker, nothing on the controller. */
static inline bool is_over(const char *uid)
{
	return partition_held(parts, uid) == 0 && is(uid, PARTITION_STATE_NONE) &&
	       n_entries() == 0 && vipu_sim_len(sim) == 0;
}

static inline void inject(enum vipu_sim_fault_kind kind, enum vipu_method method, unsigned count)
{
	vipu_sim_inject(
		sim, &(struct vipu_sim_fault){.kind = kind, .method = (int)method, .count = count});
}

static inline void inject_status(enum vipu_method method, int status, const char *message,
				 unsigned count)
{
	vipu_sim_inject(sim, &(struct vipu_sim_fault){.kind = VIPU_SIM_STATUS,
						      .method = (int)method,
						      .count = count,
						      .status = status,
						      .message = message});
}

/* The tracker's text for that key has this in it. */
static inline bool tracker_has(const char *key, const char *text)
{
	const char *z = json_cstr(json_get(tracker_data(), key));

	return z && strstr(z, text);
}

#endif
