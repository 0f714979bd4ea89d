/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy's tests have beside the partition layer's rig: certificates for its TLS port, and
 * a token of an account that may ask for every owner. Included once by each test.
 */
#ifndef IPU_T_UNIT_PROXY_RIG_H
#define IPU_T_UNIT_PROXY_RIG_H

#include "http_test.h"
#include "partition_manager_rig.h"

#include "core/metrics.h"
#include "proxy/auth.h"
#include "proxy/proxy.h"

#define TRUSTED "system:serviceaccount:" NS ":default"

static struct test_tls tls;
static char *token; /* of TRUSTED */

static inline void on_token(void *arg, const struct err *err, const struct kube_response *response)
{
	(void)arg;
	token = xstrdup(err ? "" : json_cstr(json_at(response->json, "status", "token", NULL)));
}

static inline void credentials_make(void)
{
	static const char body[] = "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":"
				   "\"TokenRequest\",\"spec\":{\"audiences\":[\"" PROXY_AUDIENCE
				   "\"]}}";
	const struct kube_request request = {.verb = KUBE_CREATE,
					     .resource = &KUBE_SERVICEACCOUNTS,
					     .ns = NS,
					     .name = "default",
					     .subresource = "token",
					     .body = STR(body)};

	test_tls_init(&tls);
	kube_call_start(kube, &request, on_token, NULL, NULL);
	if (!WITHIN(5000, token) || !token[0])
		bail_out("no token");
}

static inline void credentials_done(void)
{
	test_tls_done(&tls);
	free(token);
	token = NULL;
}

#endif
