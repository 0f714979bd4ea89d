/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server says of a remote command's end, and what a person is told of it.
 * Input: a line with the status of an answer that the attempt failed with; the Status object.
 */
#include "fuzz.h"
#include "launcher/remote_status.h"

static void must_be_words(const struct err *err)
{
	MUST(err->kind != ERR_NONE && err->msg[0]);
	MUST(strlen(err->msg) < sizeof(err->msg));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	struct err err = ERR_INIT;
	int exit_status = -1;
	int64_t code = 0;

	str_to_int(fuzz_line(&s), 0, 999, &code, NULL);
	if (remote_status_decode(s, &exit_status, &err) == 0) {
		MUST(exit_status >= 0 && exit_status <= 255);
		return 0;
	}
	MUST(exit_status == -1);
	must_be_words(&err);
	remote_may_retry(&err);
	err.code = (int)code;
	remote_explain(&err, "default", "w-0", "/usr/local/libexec/ipu-launcher");
	must_be_words(&err);
	return 0;
}
