/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of controllers: the flat form, and where the text is JSON, that too. What was accepted
 * is accepted again when it's written as an entry.
 * Input: the text.
 */
#include "core/json.h"
#include "fuzz.h"
#include "vipu/address.h"

static void try_entry(const struct vipu_address *a)
{
	struct vipu_address copy;
	struct vipu_address_list list;
	CLEANUP_FREE char *text = a->label[0] || a->value[0]
					  ? xasprintf("%s:%s=%s", a->name, a->label, a->value)
					  : xstrdup(a->name);

	MUST(a->host[0] && a->port > 0 && a->cluster && a->allocation);
	MUST(a->secret_name && a->server_name);
	MUST(vipu_address_ipuof(a) != VIPU_IPUOF_DEFAULT);
	vipu_address_parse(str_of(text), &list);
	if (list.n != 1)
		fprintf(stderr, "%s\n", text);
	MUST(list.n == 1 && list.n_problems == 0);
	MUST(strcmp(list.items[0].name, a->name) == 0 && list.items[0].port == a->port);
	MUST(strcmp(list.items[0].host, a->host) == 0);
	MUST(strcmp(list.items[0].label, a->label) == 0);
	MUST(strcmp(list.items[0].value, a->value) == 0);
	vipu_address_list_done(&list);

	vipu_address_copy(a, &copy);
	MUST(vipu_address_equal(a, &copy));
	vipu_address_done(&copy);
}

static void try_list(struct vipu_address_list *list)
{
	MUST(list->n <= VIPU_MAX_CONTROLLERS);
	for (size_t i = 0; i < list->n; i++) {
		try_entry(&list->items[i]);
		for (size_t j = 0; j < i && i < 8; j++)
			MUST(strcmp(list->items[i].name, list->items[j].name) != 0);
	}
	for (size_t i = 0; i < list->n_problems; i++) {
		MUST(list->problems[i].reason[0]);
		for (const char *c = list->problems[i].text; *c; c++)
			MUST((unsigned char)*c >= ' ');
	}
	vipu_address_list_done(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct vipu_address_list list;

	vipu_address_parse(s, &list);
	try_list(&list);
	if (json_parse(s, &doc, NULL) == 0) {
		vipu_address_from_json(json_root(doc), &list);
		try_list(&list);
	}
	return 0;
}
