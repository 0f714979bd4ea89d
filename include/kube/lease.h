/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leadership by a Lease (coordination.k8s.io/v1): of all replicas that contend for one, at most one
 * holds it at a time. doc/design/leadership.md has the rules and what they rest on.
 */
#ifndef IPU_KUBE_LEASE_H
#define IPU_KUBE_LEASE_H

#include <stdbool.h>

#include "core/err.h"
#include "core/str.h"
#include "kube/client.h"

struct kube_lease;

#define KUBE_LEASE_DURATION_MS 12000
#define KUBE_LEASE_RENEW_MS    8000
#define KUBE_LEASE_RETRY_MS    2000
#define KUBE_LEASE_WORD_SIZE   256 /* an identity or an address, with its NUL */

/* Strings are copied. */
struct kube_lease_opts {
	const char *ns, *name;
	/* Whose it is: of one process at a time. One that begins under an identity that the Lease
	 * still bears takes it over at once, without waiting for it to run out: so a random part,
	 * or the name of a Pod whose containers can't overlap. */
	const char *identity;
	const char *address;  /* "host:port", for followers: graphcore.ai/address; NULL: none */
	unsigned duration_ms; /* others take it when it hasn't changed for so long; 0: default */
	unsigned renew_ms;    /* we lose it so long after the last renewal was sent; 0: default */
	unsigned retry_ms;    /* between renewals, and between tries; 0: default */
};

/* Never from within start. NULL ones are left out. Each may free the lease. */
struct kube_lease_ops {
	/* We hold it. on_gained and on_lost alternate. */
	void (*on_gained)(void *arg);
	/* We don't any more: stop acting now. It comes at the latest renew_ms after the last
	 * renewal that succeeded was sent, and nobody else can have it before duration_ms after. */
	void (*on_lost)(void *arg);
	/* Who holds it has changed; that can be ourselves. Empty: nobody, as far as we know.
	 * Borrowed; address is empty where the holder gives none. */
	void (*on_holder)(void *arg, const char *identity, const char *address);
};

/* Begins to contend, for ever. Errors: ERR_INVALID (no name or identity, one that is too long; not
 * twice retry <= renew, and renew * 6 / 5 <= duration: clocks may differ by 20 % in speed). */
int kube_lease_start(struct kube_client *client, const struct kube_lease_opts *opts,
		     const struct kube_lease_ops *ops, void *arg, struct kube_lease **ret,
		     struct err *err);

/* Looks at the clock: false as soon as it has run out, even when the loop was held up and on_lost
 * comes later. To be asked before whatever only the leader may do. */
bool kube_lease_held(const struct kube_lease *lease);
/* As on_holder says; never NULL, borrowed until the loop's next turn. */
const char *kube_lease_holder(const struct kube_lease *lease);
/* Why the last look or write failed; NULL once one has succeeded: for health. */
const struct err *kube_lease_error(const struct kube_lease *lease);

/* err is NULL when the Lease isn't ours any more. */
typedef void kube_lease_released_fn(void *arg, const struct err *err);
/*
 * A clean stop: gives the Lease back, so that a successor takes over at once. Whoever calls has
 * stopped acting: from here on held is false, no callback but cb comes, and the lease contends no
 * more. cb runs once, not from within this call, when that is done or deadline_ms have passed (then
 * the Lease runs out by itself). The lease must still be freed. A second call changes nothing.
 */
void kube_lease_release(struct kube_lease *lease, unsigned deadline_ms, kube_lease_released_fn *cb,
			void *arg);

/* Ends at once and says nothing to anybody: a Lease that is held runs out. NULL is fine. */
void kube_lease_free(struct kube_lease *lease);

#endif
