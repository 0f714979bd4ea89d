/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Accept field of who scrapes: one of two forms, and the same when what comes behind it has no
 * say.
 * Input: the field's value.
 */
#include "core/metrics.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct buf more = FUZZ_TEXT;
	char *exact = malloc(len ? len : 1);
	enum metrics_format format;

	MUST(exact);
	memcpy(exact, p, len);
	format = metrics_choose((struct str){exact, len});
	MUST(format == METRICS_TEXT || format == METRICS_OPEN);
	fuzz_add_str(&more, (struct str){exact, len});
	fuzz_add(&more, ", image/png;q=0.5");
	if (!memchr(exact, '"', len))
		MUST(metrics_choose(buf_str(&more)) == format);
	buf_done(&more);
	free(exact);
	return 0;
}
