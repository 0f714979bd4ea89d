/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server warns of: Warning fields, whose texts are shown to people.
 * Input: a field's value on each line.
 */
#include "fuzz.h"
#include "kube/warning.h"

static void check(const struct kube_warning_list *list)
{
	size_t bytes = 0;

	MUST(list->n <= KUBE_MAX_WARNINGS && list->bytes <= KUBE_MAX_WARNING_BYTES);
	for (size_t i = 0; i < list->n; i++) {
		struct str text = str_of(list->items[i]);
		MUST(str_is_utf8(text));
		for (size_t k = 0; k < i; k++)
			MUST(!str_eqz(text, list->items[k]));
		bytes += text.len;
	}
	MUST(bytes == list->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct kube_warning_list list = {0}, again = {0};
	struct str s = fuzz_str(p, len);
	struct http_headers h;

	http_headers_init(&h, 64, 65536);
	while (s.len > 0)
		http_headers_add(&h, STR("Warning"), fuzz_line(&s), NULL);
	kube_warnings_add(&list, &h);
	check(&list);
	size_t n = list.n;
	kube_warnings_add(&list, &h);
	MUST(n == KUBE_MAX_WARNINGS || list.n == n);
	check(&list);
	kube_warnings_add(&again, &h);
	MUST(again.n == n);
	kube_warnings_clear(&list);
	kube_warnings_clear(&again);
	MUST(list.n == 0 && list.bytes == 0);
	http_headers_done(&h);
	return 0;
}
