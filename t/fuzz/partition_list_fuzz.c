/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of controllers as a file or a ConfigMap holds it, in YAML or flat; and a wait in the
 * tracker, which is written and read again.
 * Input: the text.
 */
#include "fuzz.h"
#include "partition/list_text.h"
#include "partition/types.h"

static void try_list(struct str text)
{
	struct vipu_address_list list = {0};
	struct words problems = {0};
	struct err err = ERR_INIT;

	if (list_text_parse("the list", text, &list, &problems, &err) < 0) {
		MUST((err.kind == ERR_INVALID || err.kind == ERR_LIMIT) && err.msg[0]);
		MUST(list.n == 0);
		words_done(&problems);
		return;
	}
	MUST(list.n <= VIPU_MAX_CONTROLLERS);
	for (size_t i = 0; i < list.n; i++) {
		MUST(list.items[i].name[0] && list.items[i].host[0] && list.items[i].port > 0);
		for (size_t k = 0; k < i && i < 16; k++)
			MUST(strcmp(list.items[i].name, list.items[k].name) != 0);
	}
	for (size_t i = 0; i < problems.n; i++)
		for (const char *c = problems.items[i]; *c; c++)
			MUST((unsigned char)*c >= ' ');
	vipu_address_list_done(&list);
	words_done(&problems);
}

static void try_wait(struct str text)
{
	struct partition_wait wait, again;
	struct buf one = FUZZ_TEXT, other = FUZZ_TEXT;
	struct err err = ERR_INIT;

	if (partition_wait_decode(text, &wait, &err) < 0) {
		MUST(err.msg[0]);
		return;
	}
	MUST(partition_wait_encode(&wait, &one, NULL) == 0);
	MUST(partition_wait_decode(buf_str(&one), &again, NULL) == 0);
	MUST(partition_wait_encode(&again, &other, NULL) == 0);
	fuzz_same(&one, &other);
	partition_wait_done(&wait);
	partition_wait_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);

	try_list(s);
	try_wait(s);
	return 0;
}
