/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that is passed on, and its answer as it comes: head, pieces and end, whatever its
 * status. For what stands between somebody and a path of the API server's, such as a Service's
 * proxy.
 */
#ifndef IPU_KUBE_PASS_H
#define IPU_KUBE_PASS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "http/client.h"
#include "kube/client.h"
#include "loop/op.h"

struct kube_pass_request {
	enum http_method method; /* one that only reads */
	const char *path;        /* absolute, escaped; copied */
	const struct http_header *headers;
	size_t n_headers;  /* copied; Authorization is added */
	unsigned begin_ms; /* until the answer begins, credentials included */
	unsigned idle_ms;  /* the longest silence within it */
};

struct kube_pass {
	struct op op; /* cancel by op_cancel(&pass->op) */
};

/* As http_call_start, by whose handler it calls back (never before it returns), with the client's
 * credentials. A 401 fetches them again and is tried once more, unseen; nothing else is tried
 * again. In on_done's errors those of the credentials too. */
struct kube_pass *kube_pass_start(struct kube_client *client,
				  const struct kube_pass_request *request,
				  const struct http_call_handler *handler, void *arg,
				  struct scope *scope);

/* As http_call_pause and http_call_resume. */
void kube_pass_pause(struct kube_pass *pass, bool pauses);

#endif
