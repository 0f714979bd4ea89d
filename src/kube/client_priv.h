/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client as this folder sees it. Owned by whoever called kube_client_new.
 */
#ifndef IPU_KUBE_CLIENT_PRIV_H
#define IPU_KUBE_CLIENT_PRIV_H

#include "core/json.h"
#include "core/metrics.h"
#include "http/client.h"
#include "kube/client.h"
#include "config_priv.h"
#include "cred.h"

struct kube_client_metrics {
	struct metric *requests, *rest, *seconds;
};

/* What is heard of the API server. */
struct kube_reach {
	unsigned asked;   /* requests that wait for the head of their answer now */
	bool unheard;     /* nothing has come since since_ms */
	int64_t since_ms; /* when the first of them was sent */
	int64_t ended_ms; /* when the last of them was given up */
};

void kube_reach_ask(struct kube_reach *r);
void kube_reach_heard(struct kube_reach *r);
void kube_reach_end(struct kube_reach *r); /* as often as was asked */

struct kube_client {
	struct loop *loop;
	const struct kube_config *config;
	struct http_client *http;
	struct kube_cred *cred;
	char *host; /* HOST:PORT, as the metrics' label */
	struct kube_client_metrics metrics;
	struct kube_reach own_reach, *reach;
};

/* Of a Secret or a TokenReview: what is sent and what comes of it is wiped. NULL is fine. */
bool kube_is_secret(const struct kube_resource *r);
/* json_parse, or json_parse_secret of those. */
int kube_parse(const struct kube_resource *r, struct str s, struct json_doc **ret, struct err *err);

#endif
