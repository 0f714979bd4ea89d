/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The injection into annotated Pods: what it makes can be injected again, and stays what it is; a
 * refusal has words. Input: a letter (g, G, r: gate mode, i, I: init mode; capitals with host
 * network and privileges, r with an RDMA network and devices), then the Pod's JSON.
 */
#include "core/json.h"
#include "fuzz.h"
#include "pod/inject.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static void on_warning(void *arg, const char *warning)
{
	(void)arg;
	MUST(warning[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str rest = fuzz_str(p, len);
	char letter = fuzz_take(&rest, 'g');
	const struct pod_inject_settings settings = {
		.mode = letter == 'i' || letter == 'I' ? POD_MODE_INIT : POD_MODE_GATE,
		.worker = {.host_network = letter == 'G' || letter == 'I',
			   .privileged = letter == 'G' || letter == 'I',
			   .rdma = letter == 'r' ? job_rdma_of(false, "net@r0", "rdma/a", 1, "auto")
						 : (struct job_rdma){0},
			   .launcher_image = "l"},
		.ns = "team",
		.proxy_url = "https://p",
		.proxy_ca = "CA"};
	CLEANUP_JMUT struct jmut_doc *one = jmut_doc_new(), *other = jmut_doc_new();
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;
	uint32_t ipus;
	int rc;

	/* Of a key that comes twice nobody can say what it's to become. */
	if (json_parse(rest, &doc, NULL) < 0 || !json_equal(json_root(doc), json_root(doc)))
		return 0;
	rc = pod_inject(one, json_root(doc), TOKEN, &settings, on_warning, NULL, &err);
	MUST(rc >= 0 || (err.kind == ERR_INVALID && err.msg[0]));
	if (rc <= 0)
		return 0;
	MUST(jmut_root(one));
	rc = pod_inject(other, jmut_view(jmut_root(one)), TOKEN, &settings, on_warning, NULL, &err);
	if (pod_ipus(json_root(doc), &ipus, &err) < 0) {
		MUST(rc == 0);
		return 0;
	}
	/* A Pod of a job has lost its label. */
	MUST(rc == 0 ||
	     (rc == 1 && json_equal(jmut_view(jmut_root(one)), jmut_view(jmut_root(other)))));
	return 0;
}
