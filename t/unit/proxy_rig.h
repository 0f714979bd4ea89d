/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy's tests have beside the partition layer's rig: certificates for its TLS port, and
 * a token of an account that may ask for every owner. Included once by each test.
 */
#ifndef IPU_T_UNIT_PROXY_RIG_H
#define IPU_T_UNIT_PROXY_RIG_H

#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>

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

/* Somebody who is gone without a word: what is sent there is dropped. *port 0: any. The
 * descriptor is the caller's to close. */
static inline int mute_begin(unsigned *port)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = {1, &nothing};
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)*port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 10) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		bail_out("a socket that says nothing");
	*port = ntohs(sa.sin_port);
	return fd;
}

#endif
