/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhooks: AdmissionReviews over HTTP, each through its states (doc/design/admission.md) to
 * one answer. A review is owned by its exchange; listener and TLS are the daemon's. Uses core/,
 * loop/, http/, job/, pod/.
 */
#ifndef IPU_ADMISSION_ADMISSION_H
#define IPU_ADMISSION_ADMISSION_H

#include <stddef.h>

#include "admission/access.h"
#include "admission/job.h"
#include "admission/registration.h"
#include "core/str.h"
#include "http/server.h"
#include "loop/loop.h"
#include "pod/inject.h"

/* The largest body: an update carries an object twice, and the API server takes 3 MiB of one. */
#define ADMISSION_MAX_BODY_BYTES ((size_t)7 << 20)

struct admission;

/* What is known beside a review, for a namespace. */
struct admission_site {
	struct admission_job_view job;
	struct pod_inject_settings pods;
};
/* Fills ret, which is zeroed; what it points to must last until the next call. */
typedef void admission_site_fn(void *arg, const char *ns, struct admission_site *ret);

/*
 * A review can't be finished here, since the API server hasn't said a word for a while. True:
 * another replica may be asked: the API server calls again what is told to, and refuses where it
 * finds nobody (failurePolicy Fail); from now on each answer is the last one on its connection.
 * leaves false: it has been heard again.
 */
typedef bool admission_leave_fn(void *arg, bool leaves);

struct admission_config {
	struct loop *loop;
	admission_site_fn *site;
	admission_leave_fn *leave; /* NULL: never */
	void *arg;
	struct admission_access *access; /* borrowed; NULL: the API server isn't asked */
};

/* The configuration is copied. */
struct admission *admission_new(const struct admission_config *config);
/* The server that called the handler must be gone, and the access goes after. NULL is fine. */
void admission_free(struct admission *a);

/* For http_server_listen, with the struct admission as arg. */
void admission_handle(struct http_exchange *ex, void *arg);
/* For struct http_server_config.on_answered: the metrics of the answers; arg isn't used. */
void admission_on_answered(const struct http_answered *answered, void *arg);

/* How long a review may take whose URL has this query: what the API server says in "timeout" (a
 * duration as Go writes it: "10s", "1m30s", "1.5s"), less a margin for the way back and for its
 * rounding up to whole seconds; 10 s where it says nothing that can be read. */
unsigned admission_deadline_ms(struct str query);

#endif
