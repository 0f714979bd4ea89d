/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller's token as the API server judges it: a TokenReview (authentication.k8s.io/v1) for the
 * audience ipu-operator-proxy. Owns nothing. Uses kube.
 */
#ifndef IPU_PROXY_REVIEW_H
#define IPU_PROXY_REVIEW_H

#include "proxy/proxy.h"

#define PROXY_AUDIENCE "ipu-operator-proxy"

/* A proxy_review_fn; review_arg is the struct kube_client. */
struct op *proxy_review_by_kube(void *review_arg, struct str text, proxy_reviewed_fn *cb, void *arg,
				struct scope *scope);

#endif
