/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partition manager: takes owners' asks, keeps the tracker ConfigMap, calls the controllers as
 * the planner says, and tells owners what changed. It owns the entries; the fleet and the
 * Kubernetes client are borrowed. Uses vipu and kube.
 */
#ifndef IPU_PARTITION_MANAGER_H
#define IPU_PARTITION_MANAGER_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "kube/client.h"
#include "loop/loop.h"
#include "partition/plan.h"
#include "partition/policy.h"
#include "partition/schedule.h"
#include "partition/service.h"
#include "partition/types.h"
#include "vipu/fleet.h"

struct partitions;

/* Something about the tracker that people should hear of, once each: an Event's reason, the
 * ConfigMap's name and metadata.uid ("": not known), and what there is to say. */
typedef void partitions_report_fn(const char *reason, const char *object, const char *uid,
				  const char *message, void *arg);

struct partitions_config {
	const char *ns;           /* of the tracker ConfigMap */
	const char *tracker_name; /* "ipu-partitions-tracker" */
	struct partition_times times;
	enum schedule_choice choice;
	const struct partition_rules *rules; /* the site's policy; NULL: no limits */
	/* Another process leads: this one shows what the tracker says, and does nothing. Asks are
	 * not taken. To lead, it's made anew. */
	bool follow;
	/* The fleet isn't configured yet: nothing new is made, and no controller counts as gone,
	 * until partitions_fleet_known(). */
	bool fleet_pending;
	/* Nodes haven't been read yet: nothing new is made until partitions_nodes_known(). */
	bool nodes_pending;
	partitions_report_fn *on_report; /* NULL: it's only logged */
	/* Asked before whatever changes something on a controller: false when this process has lost
	 * the lead and hasn't been told yet. NULL: it may always. */
	bool (*may_act)(void *arg);
	/* Another process has taken the tracker although this one leads: nothing is recorded any
	 * more. It has to be made anew, but not from within this call. NULL: nobody is told. */
	void (*on_superseded)(void *arg);
};

/* Everything copied from config. Starts reading the tracker at once. */
struct partitions *partitions_new(struct loop *loop, struct kube_client *kube,
				  struct vipu_fleet *fleet, const struct partitions_config *config,
				  partitions_synced_fn *on_synced, partitions_change_fn *on_change,
				  void *arg);
/* Another policy and choice from now on; rules are copied. What is held stays held. */
void partitions_set_policy(struct partitions *p, const struct partition_rules *rules,
			   enum schedule_choice choice);
struct partition_service *partitions_service(struct partitions *p);
void partitions_free(struct partitions *p); /* cancels everything; what is recorded stays so */

/* Until then asks are taken and wait. */
bool partitions_synced(const struct partitions *p);

/* The fleet has been configured: ends fleet_pending. */
void partitions_fleet_known(struct partitions *p);
/* The fleet knows which controllers have no node that is ready, or never will: ends nodes_pending.
 */
void partitions_nodes_known(struct partitions *p);

/* Asks for a partition, or goes on asking: idempotent. A different size or other options than what
 * the serving entry has: that entry is released, and another is made. The same with another
 * attempt: what is active is reset, which begins with a record of that attempt; what is being made
 * takes it (nobody has used it); what is being reset for an earlier one is reset once more, unless
 * that reset hasn't been sent; what waits takes it. Where the present one FAILED: in error (it has
 * an id), it's reset, and if that doesn't mend it, released and made anew; vanished, it's made
 * anew. */
void partition_ensure(struct partitions *p, const struct partition_ask *ask);
/* Asks for the attempt after the one that is asked for, whatever its owner's numbers mean: for
 * owners that don't count their runs. */
void partition_reset(struct partitions *p, const char *owner_uid, uint32_t instance);
/* Asks no more. Idempotent; an owner that is unknown holds nothing. */
void partition_release(struct partitions *p, const char *owner_uid, uint32_t instance);
void partition_release_all(struct partitions *p, const char *owner_uid);
/* Releases, and doesn't wait for the removal: what is there becomes an orphan at once, which
 * partition_held doesn't count. It's shown, and removed as soon as its controller lets it. Until
 * the owner asks again. */
void partition_abandon(struct partitions *p, const char *owner_uid, uint32_t instance);
void partition_abandon_all(struct partitions *p, const char *owner_uid);

void partition_get_status(const struct partitions *p, const char *owner_uid, uint32_t instance,
			  struct partition_status *ret);
/* The files that the Pods of an instance get whose status says by_file: fn with each name
 * ("ipuof-<gcd>.conf") and text, borrowed; NULL: none is called. Returns how many there are; 0: it
 * isn't active, not by file, or they haven't come yet (the status then says why, and on_change when
 * they have). */
size_t partition_ipuof_files(const struct partitions *p, const char *owner_uid, uint32_t instance,
			     partition_file_fn *fn, void *arg);
/* What this owner has asked for or still has in the tracker; orphans don't count. 0: nothing. */
size_t partition_held(const struct partitions *p, const char *owner_uid);

/* Instances with this number or a greater one that this owner still asks for, at most max of them,
 * in no particular order. Returns how many: for owners that have become smaller. */
size_t partition_asked_from(const struct partitions *p, const char *owner_uid, uint32_t from,
			    uint32_t *ret, size_t max);

/* Over all owners that ask for or hold something, in no particular order; fn mustn't change them.
 * For owners to find what they left behind, and for statistics. */
void partitions_each(const struct partitions *p, partitions_each_fn *fn, void *arg);
/* The same over one owner's instances. */
void partitions_each_of(const struct partitions *p, const char *owner_uid, partitions_each_fn *fn,
			void *arg);
/* Grows with every change of what any function here tells of owners and entries; what the fleet
 * adds (partition_holds_ipus, the queue's numbers) may change without. For those who keep what they
 * made of it. */
uint64_t partitions_generation(const struct partitions *p);

/* Over all entries of the tracker, what is on its way out included: for statistics. */
typedef void partitions_entry_fn(const struct partition_entry *entry, void *arg);
void partitions_each_entry(const struct partitions *p, partitions_entry_fn *fn, void *arg);

/* Does an entry hold IPUs? Not as an orphan on a controller that is gone, nor when it is on its way
 * out and the controller's list, asked since then, has it no more: its IPUs may be somebody else's
 * by now. */
bool partition_holds_ipus(const struct partitions *p, const struct partition_entry *entry);
/* Is an active entry's partition not well, by its controller's last word on it? Its owner is told
 * that it failed. */
bool partition_is_broken(const struct partitions *p, const struct partition_entry *entry);

/* Wall clock: until when its owner may use an active entry's partition, by the deadline that it
 * named or policy's; SCHEDULE_NEVER: no end is known. */
int64_t partitions_entry_end(const struct partitions *p, const struct partition_entry *entry);

/* Of a controller's last list: whether it isn't in the tracker, made by hand or by another
 * operator; and the IPUs of all of those. */
bool partitions_is_external(const struct partitions *p, const struct vipu_partition *listed);
int64_t partitions_external(const struct partitions *p, const struct vipu_controller *c);

/* Brings the IPU-seconds of namespaces, a metric, up to now. */
void partitions_count_usage(struct partitions *p);

/* The limits that hold in a namespace: the configuration's, and those of its annotations. */
struct partition_policy partitions_policy(const struct partitions *p, const char *ns);

size_t partitions_waiting(const struct partitions *p); /* instances that wait for a partition */

/* One that waits, as the queue sees it. Borrowed until the callback returns. */
struct partition_waiting {
	unsigned position; /* from 1 */
	const struct partition_ask *ask;
	int64_t since_ms; /* wall: its arrival */
	enum partition_why why;
	const char *message;
	/* Wall: when message was said, where by now there are other words, which wait so that not
	 * every change is a write; 0: it's as of now. */
	int64_t as_of_ms;
	/* The block that is kept for it: the controller ("host:port"; NULL: none is), its first
	 * domain, how many there are, and the IPUs in each; some may still be in use. */
	const char *kept_at;
	size_t kept_domain, kept_domains;
	uint64_t kept_mask;
	int64_t start_ms; /* wall: when that is expected to be free; SCHEDULE_NEVER: not known */
};
/* Over all that wait, in the queue's order (doc/design/queue.md); fn mustn't change them. */
typedef void partitions_waiting_fn(const struct partition_waiting *waiting, void *arg);
void partitions_each_waiting(struct partitions *p, partitions_waiting_fn *fn, void *arg);

/* Free IPUs of a controller ("host:port") that are kept for who is first in the queue. */
unsigned partitions_reserved(struct partitions *p, const char *controller);
/* Partitions of size that a new ask could be given now, reservations and what has just been asked
 * for taken off; 0 for what isn't a power of two. Cheap: for /query. */
unsigned partitions_count_fits(struct partitions *p, uint32_t size);
/* The same on one controller ("host:port"). */
unsigned partitions_count_fits_on(struct partitions *p, const char *controller, uint32_t size);

#endif
