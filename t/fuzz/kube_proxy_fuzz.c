/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy's URL, and NO_PROXY's list of hosts that need none, as people write them.
 * Input: a line with the URL, one with the list, the host.
 */
#include "fuzz.h"
#include "kube/config_priv.h"

static void try_url(const char *url)
{
	struct net_proxy *proxy = NULL, *again = NULL;
	struct err err = ERR_INIT;

	if (kube_proxy_parse(url, &proxy, &err) < 0) {
		MUST((err.kind == ERR_INVALID || err.kind == ERR_LIMIT) && err.msg[0] && !proxy);
		return;
	}
	MUST(proxy->host[0] && proxy->port > 0);
	MUST(!proxy->authorization || strncmp(proxy->authorization, "Basic ", 6) == 0);
	CLEANUP_FREE char *bare = xasprintf(strchr(proxy->host, ':') ? "http://[%s]:%u"
								     : "http://%s:%u",
					    proxy->host, proxy->port);
	MUST(kube_proxy_parse(bare, &again, NULL) == 0);
	MUST(strcmp(again->host, proxy->host) == 0 && again->port == proxy->port);
	MUST(!again->authorization);
	kube_proxy_free(again);
	kube_proxy_free(proxy);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	CLEANUP_FREE char *url = str_dup(fuzz_line(&s));
	CLEANUP_FREE char *list = str_dup(fuzz_line(&s));
	CLEANUP_FREE char *host = str_dup(s);

	try_url(url);
	bool exempt = kube_proxy_is_exempt(str_of(list), host, 443);
	/* What is behind it makes a list longer, never less. */
	CLEANUP_FREE char *longer = xasprintf("%s,other.example", list);
	MUST(!exempt || kube_proxy_is_exempt(str_of(longer), host, 443));
	MUST(!kube_proxy_is_exempt(STR_NULL, "api.example", 443));
	return 0;
}
