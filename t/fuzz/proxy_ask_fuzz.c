/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a POST to the partitions' port: what is taken is within the bounds that openapi.yaml
 * gives, and written as the tracker writes it, it's taken again. Input: the body.
 */
#include "fuzz.h"
#include "kube/object.h"
#include "proxy/held.h"
#include "proxy/internal.h"

static int write_ask(const struct partition_ask *ask, struct buf *out)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc);

	partition_ask_encode(doc, root, ask);
	return jmut_write(root, JSON_COMPACT, out, NULL);
}

static void check_bounds(const struct partition_ask *ask)
{
	MUST(ask->ipus >= 1 && ask->ipus <= 65536 && (ask->ipus & (ask->ipus - 1)) == 0);
	MUST(ask->instance <= INSTANCE_MAX);
	MUST(ask_is_uid(str_of(ask->owner.uid)));
	MUST(kube_is_dns1123_label(str_of(ask->owner.ns)));
	MUST(kube_is_dns1123_subdomain(str_of(ask->owner.name)));
	MUST(strlen(ask->owner.kind) >= 1 && strlen(ask->owner.kind) <= 63);
	MUST(ask->options.gcds <= 65536 && ask->options.replicas <= 65536);
	MUST(ask->deadline_ms >= 0);
	MUST(!ask->adopt || strlen(ask->adopt) <= PARTITION_ID_MAX);
}

static void check_held(void *arg, const struct proxy_held *held)
{
	(void)arg;
	MUST(ask_is_uid(str_of(held->uid)) && kube_is_dns1123_label(str_of(held->ns)));
	MUST(!held->name[0] || kube_is_dns1123_subdomain(str_of(held->name)));
	MUST(held->kind[0] && held->reason[0]);
	MUST(held->ipus >= 0 && strlen(held->message) <= PROXY_HELD_WORDS);
	MUST(strlen(held->plain) <= PROXY_HELD_WORDS);
}

static void check_told(struct str body)
{
	struct proxy p = {0};
	struct err err = ERR_INIT;
	size_t more = 0;

	for (unsigned which = 0; which < 2; which++) {
		if (told_take(&p.told, which, body, &err) < 0)
			MUST(err.msg[0] && !p.told.papers[which].doc);
		else if (which == 0)
			MUST(told_each(&p, check_held, NULL, &more));
	}
	told_forget(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct partition_ask ask = {0}, again = {0};
	struct buf one = FUZZ_TEXT, other = FUZZ_TEXT;
	struct err err = ERR_INIT;
	bool has;

	check_told(fuzz_str(p, len));
	if (ask_parse(fuzz_str(p, len), &ask, &has, &err) < 0) {
		MUST(err.msg[0] && !ask.owner.uid);
		return 0;
	}
	check_bounds(&ask);
	MUST(write_ask(&ask, &one) == 0);
	MUST(has || !ask.attempt);
	if (ask_parse(buf_str(&one), &again, &has, &err) < 0)
		fprintf(stderr, "%.*s\n%s\n", STR_ARG(buf_str(&one)), err.msg);
	MUST(again.owner.uid && partition_ask_same_need(&ask, &again));
	MUST(again.attempt == ask.attempt);
	MUST(write_ask(&again, &other) == 0);
	fuzz_same(&one, &other);
	partition_ask_done(&ask);
	partition_ask_done(&again);
	return 0;
}
