/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a credential plugin prints: read as one of the two versions or refused.
 * Input: the plugin's output.
 */
#include "core/clock.h"
#include "fuzz.h"
#include "kube/exec_config.h"

static bool try_version(const char *version, struct str output)
{
	CLEANUP_FREE char *api = xstrdup(version);
	CLEANUP_FREE char *command = xstrdup("plugin");
	const struct kube_exec_config exec = {.api_version = api, .command = command};
	struct kube_exec_credential cred = {.token = NULL};
	struct err err = ERR_INIT;

	if (kube_exec_credential_parse(&exec, output, &cred, &err) < 0) {
		MUST(err.kind == ERR_INVALID && err.msg[0]);
		MUST(!cred.token && !cred.cert && !cred.key);
		return false;
	}
	MUST(cred.token || cred.cert);
	MUST(!cred.cert == !cred.key);
	MUST(!cred.token || !strpbrk(cred.token, "\r\n"));
	kube_exec_credential_done(&cred);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	bool first = try_version("client.authentication.k8s.io/v1", s);
	bool second = try_version("client.authentication.k8s.io/v1beta1", s);

	MUST(!first || !second);
	return 0;
}
