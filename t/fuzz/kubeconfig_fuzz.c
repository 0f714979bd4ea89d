/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading a kubeconfig, with its current context and with one that is asked for.
 * Input: the file.
 */
#include "fuzz.h"
#include "kube/config.h"

static void try_context(const char *path, const char *context)
{
	struct kube_config *config = NULL;
	struct err err = ERR_INIT;

	if (kube_config_load(path, context, &config, &err) < 0) {
		MUST(err.kind == ERR_INVALID && err.msg[0] && !config);
		return;
	}
	MUST(kube_config_server(config) && kube_config_source(config));
	MUST(!kube_config_is_in_cluster(config));
	kube_config_namespace(config);
	kube_config_is_insecure(config);
	kube_config_free(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct fuzz_file file;

	fuzz_file_open(&file, fuzz_str(p, len));
	try_context(file.path, NULL);
	try_context(file.path, "c");
	fuzz_file_close(&file);
	return 0;
}
