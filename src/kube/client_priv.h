/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client as this folder sees it. Owned by whoever called kube_client_new.
 */
#ifndef IPU_KUBE_CLIENT_PRIV_H
#define IPU_KUBE_CLIENT_PRIV_H

#include "core/metrics.h"
#include "http/client.h"
#include "kube/client.h"
#include "config_priv.h"
#include "cred.h"

struct kube_client_metrics {
	struct metric *requests, *rest, *seconds;
};

struct kube_client {
	struct loop *loop;
	const struct kube_config *config;
	struct http_client *http;
	struct kube_cred *cred;
	char *host; /* HOST:PORT, as the metrics' label */
	struct kube_client_metrics metrics;
};

#endif
