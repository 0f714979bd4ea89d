/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma check: gather, judge, print. A table with a word in colour for each check, and under those
 * that ask for something what that is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/commands.h"
#include "ctl/facts.h"
#include "ctl/rdma.h"
#include "ctl/term.h"
#include "kube/object.h"

#define MAX_TEXT ((size_t)4 << 20)
#define WIDTH    100 /* of what to do */
#define INDENT   6

static void question_of(const struct ctl_options *o, struct ctl_rdma_question *ret)
{
	static char host[256];

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = 0;
	*ret = (struct ctl_rdma_question){
		.network = ctl_rdma_network(o),
		.network_ns = ctl_rdma_network_ns(o),
		.node = o->node,
		.host = host,
		.resource = o->resource,
	};
}

/* ---- printing ---- */

static enum ctl_style style_of(enum node_result result)
{
	switch (result) {
	case NODE_PASS:
		return CTL_GREEN;
	case NODE_WARN:
		return CTL_YELLOW;
	case NODE_FAIL:
		return CTL_RED;
	case NODE_SKIP:
		break;
	}
	return CTL_DIM;
}

static size_t widest(const struct node_findings *f, bool subject)
{
	size_t width = strlen(subject ? "SUBJECT" : "CHECK");

	for (size_t i = 0; i < f->n; i++) {
		size_t n = strlen(subject ? f->items[i].subject : f->items[i].rule->check);

		width = n > width ? n : width;
	}
	return width;
}

/* What to do, broken at spaces, under the check that asks for it. */
static void print_help(const struct node_finding *finding, struct buf *out)
{
	CLEANUP_FREE char *help = node_finding_help(finding);
	struct str word, rest = str_of(help);
	size_t column = INDENT;

	if (!help[0])
		return;
	(void)buf_printf(out, NULL, "%*s%s", INDENT, "", ctl_style(CTL_DIM));
	while (rest.len) {
		str_cut(rest, ' ', &word, &rest);
		if (column > INDENT && column + 1 + word.len > WIDTH) {
			(void)buf_printf(out, NULL, "\n%*s", INDENT, "");
			column = INDENT;
		} else if (column > INDENT) {
			(void)buf_append(out, " ", 1, NULL);
			column++;
		}
		(void)buf_append_str(out, word, NULL);
		column += word.len;
	}
	(void)buf_printf(out, NULL, "%s\n", ctl_style_end());
}

static bool has_skipped_help(const struct node_findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].rule->result == NODE_SKIP && f->items[i].rule->help[0])
			return true;
	}
	return false;
}

static void print_table(const struct ctl_options *o, const struct node_findings *f, struct buf *out)
{
	int check = (int)widest(f, false), subject = (int)widest(f, true);

	if (!o->no_headers)
		(void)buf_printf(out, NULL, "%sRESULT   %-*s   %-*s   SEEN%s\n",
				 ctl_style(CTL_BOLD), check, "CHECK", subject, "SUBJECT",
				 ctl_style_end());
	for (size_t i = 0; i < f->n; i++) {
		const struct node_finding *x = &f->items[i];

		(void)buf_printf(out, NULL, "%s%s%s     %-*s   %-*s   %s\n",
				 ctl_style(style_of(x->rule->result)),
				 node_result_name(x->rule->result), ctl_style_end(), check,
				 x->rule->check, subject, x->subject[0] ? x->subject : "-",
				 x->seen);
		if (x->rule->result != NODE_SKIP || o->output == CTL_WIDE)
			print_help(x, out);
	}
	if (node_findings_left_out(f) > 0)
		(void)buf_printf(out, NULL, "%zu more are counted, and not shown\n",
				 node_findings_left_out(f));
	(void)buf_printf(out, NULL, "%zu passed, %zu warned, %zu failed, %zu skipped\n",
			 node_findings_count(f, NODE_PASS), node_findings_count(f, NODE_WARN),
			 node_findings_count(f, NODE_FAIL), node_findings_count(f, NODE_SKIP));
	if (o->output != CTL_WIDE && has_skipped_help(f))
		(void)buf_printf(out, NULL, "-o wide says what to do about what was skipped.\n");
}

static int print_json(const struct ctl_options *o, const struct node_findings *f, struct buf *out,
		      struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *checks = jmut_array(doc), *counts = jmut_object(doc);

	for (size_t i = 0; i < f->n; i++) {
		const struct node_finding *x = &f->items[i];
		CLEANUP_FREE char *help = node_finding_help(x);
		struct jmut *c = jmut_object(doc);

		jmut_set_str(doc, c, "check", x->rule->check);
		jmut_set_str(doc, c, "finding", x->rule->finding);
		jmut_set_str(doc, c, "result", node_result_name(x->rule->result));
		jmut_set_str(doc, c, "subject", x->subject);
		jmut_set_str(doc, c, "seen", x->seen);
		jmut_set_str(doc, c, "help", help);
		jmut_push(doc, checks, c);
	}
	for (int r = NODE_PASS; r <= NODE_SKIP; r++)
		jmut_set_int(doc, counts, node_result_name((enum node_result)r),
			     (int64_t)node_findings_count(f, (enum node_result)r));
	jmut_set_bool(doc, root, "ok", node_findings_count(f, NODE_FAIL) == 0);
	jmut_set(doc, root, "counts", counts);
	jmut_set_int(doc, root, "leftOut", (int64_t)node_findings_left_out(f));
	jmut_set(doc, root, "checks", checks);
	return ctl_write_value(jmut_view(root), o->output, out, err);
}

static int print(const struct ctl_options *o, const struct node_findings *f, struct err *err)
{
	struct buf out = BUF_INIT(MAX_TEXT);
	int result = 0;

	if (o->output == CTL_JSON || o->output == CTL_YAML)
		result = print_json(o, f, &out, err);
	else
		print_table(o, f, &out);
	if (result == 0)
		result = ctl_write_out(buf_str(&out), err);
	buf_done(&out);
	return result;
}

/* ---- the command ---- */

int ctl_rdma_check_network(const struct ctl_options *o, struct err *err)
{
	struct str ns, name;

	if (str_cut(str_of(ctl_rdma_network(o)), '/', &ns, &name))
		return err_set(err, ERR_INVALID, 0,
			       "--network: \"%s\" has a namespace: say --network %.*s "
			       "--network-namespace %.*s",
			       ctl_rdma_network(o), STR_ARG(name), STR_ARG(ns));
	if (kube_check_name("--network", str_of(ctl_rdma_network(o)), true, err) < 0)
		return -1;
	return kube_check_name("--network-namespace", str_of(ctl_rdma_network_ns(o)), false, err);
}

static int check_names(const struct ctl_options *o, struct err *err)
{
	if (ctl_rdma_check_network(o, err) < 0)
		return -1;
	return o->node ? kube_check_name("--node", str_of(o->node), true, err) : 0;
}

static void check_cluster(const struct ctl_options *o, struct ctl_rdma *r, struct node_findings *f)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *facts = jmut_object(doc), *pod = jmut_object(doc);
	CLEANUP_FREE char *resource = NULL;
	const struct json *left;
	struct ctl_rdma_question q;

	question_of(o, &q);
	if (!r->link) {
		ctl_rdma_judge_cluster(NULL, r->local, &q, f);
		return;
	}
	q.ns = ctl_link_namespace(r->link);
	ctl_progress("asking the cluster");
	ctl_rdma_gather_cluster(r->link, o, doc, facts);
	ctl_progress(NULL);
	resource = ctl_rdma_worker_resource(jmut_view(facts));
	if (!q.resource)
		q.resource = resource;
	q.elsewhere = ctl_rdma_is_elsewhere(jmut_view(facts), &q);
	ctl_rdma_judge_cluster(jmut_view(facts), r->local, &q, f);
	if (!o->test_pod || !json_bool(json_get(jmut_view(facts), "answers"), false))
		return;
	ctl_rdma_pod_run(r->link, o, jmut_view(facts), &q, doc, pod);
	ctl_rdma_judge_pod(jmut_view(pod), jmut_view(facts), r->local, f);
	left = json_get(jmut_view(pod), "left");
	if (left)
		fprintf(stderr, "ipuctl: the test Pod %s/%s is left over: %s\n", q.ns,
			json_cstr(json_get(jmut_view(pod), "name")), json_cstr(left));
}

int ctl_run_rdma_check(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct node_findings f = {0};
	struct ctl_rdma r;
	size_t failed;
	int result;

	(void)link;
	if (o->inside)
		return ctl_rdma_print_inside(err);
	if (check_names(o, err) < 0 || ctl_rdma_gather(o, &r, err) < 0)
		return -1;
	if (o->test_pod && !r.link) {
		ctl_rdma_done(&r);
		return err_set(err, ERR_INVALID, 0,
			       "--test-pod: a kubeconfig is needed for this; see --help");
	}
	node_check_entries(&r.controllers, &f);
	node_check(r.local, &f);
	check_cluster(o, &r, &f);
	result = print(o, &f, err);
	failed = node_findings_count(&f, NODE_FAIL);
	if (result == 0 && failed)
		result = err_set(err, ERR_NOT_FOUND, 0, "%zu of %zu checks failed", failed,
				 f.n + node_findings_left_out(&f));
	node_findings_done(&f);
	ctl_rdma_done(&r);
	return result;
}
