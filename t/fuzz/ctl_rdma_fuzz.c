/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ipuctl rdma check reads from others: the kernel's lists of routes, objects of a cluster,
 * what a test Pod has printed; and ranges of addresses. Findings are of the tables, and fit for a
 * terminal; a range that was written is read again, and taking something from it leaves no more.
 * Input: a letter (what it is), then the text.
 */
#include "ctl/rdma.h"
#include "fuzz.h"
#include "node/cidr.h"

#define MAX_OTHERS 8

static void try_routes(struct str text, bool v6)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *routes = jmut_array(doc);
	struct json_iter it;

	ctl_rdma_read_routes(text, v6, doc, routes);
	it = json_iter(jmut_view(routes));
	while (json_next(&it)) {
		struct cidr c;

		MUST(cidr_parse(json_str(json_get(it.value, "to")), &c, NULL) == 0);
		MUST(c.bits == (v6 ? 128U : 32U));
		MUST(json_int(json_get(it.value, "metric"), -1) >= 0);
	}
}

static bool is_of(const struct node_rule *rules, const struct node_rule *rule)
{
	for (; rules->check; rules++) {
		if (rules == rule)
			return true;
	}
	return false;
}

static void look(const struct node_findings *f, const struct node_rule *rules)
{
	for (size_t i = 0; i < f->n; i++) {
		struct str seen = str_of(f->items[i].seen);
		CLEANUP_FREE char *help = node_finding_help(&f->items[i]);

		MUST(is_of(rules, f->items[i].rule) && str_is_utf8(str_of(help)));
		MUST(str_is_utf8(seen) && str_is_utf8(str_of(f->items[i].subject)));
		for (size_t j = 0; j < seen.len; j++)
			MUST((unsigned char)seen.p[j] >= 0x20 && seen.p[j] != 0x7f);
	}
}

static void try_facts(struct str text, bool pod)
{
	static struct fabric_reach reach[] = {{.controller = "pod001:8090",
					       .address = "10.5.212.116",
					       .link = "rdma0",
					       .source = "10.5.212.200",
					       .subnet = "10.5.212.0/24",
					       .up = true}};
	static const struct fabric_facts local = {.complete = true, .reach = reach, .n_reach = 1};
	static const struct ctl_rdma_question q = {
		.network = "rdma-net", .network_ns = "default", .host = "head1", .ns = "default"};
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct node_findings f = {0};

	if (json_parse(text, &doc, NULL) < 0)
		return;
	if (pod) {
		ctl_rdma_judge_pod(json_root(doc), json_root(doc), &local, &f);
		look(&f, ctl_rdma_pod_rules);
		MUST(f.n > 0);
	} else {
		CLEANUP_FREE char *resource = ctl_rdma_worker_resource(json_root(doc));

		ctl_rdma_judge_cluster(json_root(doc), &local, &q, &f);
		look(&f, ctl_rdma_cluster_rules);
		MUST(f.n > 0 && (!resource || resource[0]));
	}
	node_findings_done(&f);
}

static void try_ranges(struct str text)
{
	struct cidr whole, others[MAX_OTHERS], again;
	char z[CIDR_TEXT_SIZE];
	uint64_t left;
	size_t n = 0;

	if (cidr_parse(fuzz_line(&text), &whole, NULL) < 0)
		return;
	MUST(cidr_parse(str_of(cidr_format(&whole, z)), &again, NULL) == 0);
	MUST(cidr_equal(&whole, &again));
	again = cidr_last(&whole);
	MUST(cidr_contains(&whole, &again));
	left = cidr_count_left(&whole, NULL, 0);
	MUST(left > 0);
	while (text.len > 0 && n < MAX_OTHERS) {
		uint64_t fewer;

		if (cidr_parse(fuzz_line(&text), &others[n], NULL) < 0)
			continue;
		fewer = cidr_count_left(&whole, others, ++n);
		MUST(fewer <= left);
		MUST(cidr_overlaps(&whole, &others[n - 1]) || fewer == left);
		MUST(!cidr_contains(&others[n - 1], &whole) || fewer == 0);
		left = fewer;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str text = fuzz_str(p, len);

	switch (fuzz_take(&text, 0)) {
	case '4':
		try_routes(text, false);
		break;
	case '6':
		try_routes(text, true);
		break;
	case 'c':
		try_facts(text, false);
		break;
	case 'p':
		try_facts(text, true);
		break;
	case 'r':
		try_ranges(text);
		break;
	}
	return 0;
}
