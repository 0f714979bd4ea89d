/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fault tests: a program that stands between the daemon and its peers, an API server and V-IPU
 * controllers on this machine, and lets go wrong what its seed says (doc/design/faults.md).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/log.h"
#include "daemon/options.h"
#include "fault_http.h"
#include "fault_late.h"
#include "fault_plan.h"
#include "fault_relay.h"
#include "http/server.h"
#include "loop/loop.h"

#define MAX_LINKS       65
#define DEFAULT_HOLD_MS 3000

struct program {
	struct loop *loop;
	struct net *net;
	struct fault_plan plan;
	struct fault_http *api; /* NULL: none */
	struct fault_relay *links[MAX_LINKS];
	size_t n_links;
	struct http_server *control;
	unsigned control_port;
	unsigned hold_ms;
	struct loop_signal term;
};

/* ---- the control port ---- */

static struct jmut *counts_of(const struct program *p, struct jmut_doc *doc,
			      const struct fault_relay *link)
{
	struct jmut *obj = jmut_object(doc);

	for (enum fault_kind k = 0; k < FAULT_KINDS; k++) {
		unsigned n = link ? fault_relay_count(link, k) : fault_http_count(p->api, k);

		if (n > 0)
			jmut_set_int(doc, obj, fault_kind_name(k), n);
	}
	return obj;
}

static void show(struct http_exchange *ex, void *arg)
{
	const struct program *p = arg;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *bytes = jmut_object(doc);
	struct buf out = BUF_INIT(65536);

	for (size_t i = 0; i < p->n_links; i++)
		jmut_set(doc, bytes, fault_relay_name(p->links[i]), counts_of(p, doc, p->links[i]));
	jmut_set(doc, root, "bytes", bytes);
	if (p->api) {
		jmut_set(doc, root, "requests", counts_of(p, doc, NULL));
		jmut_set_bool(doc, root, "held", fault_late_holds(fault_http_late(p->api)));
		jmut_set_str(doc, root, "ca", fault_http_cert_pem(p->api));
	}
	jmut_write(root, JSON_COMPACT, &out, NULL);
	http_reply(ex, 200, "application/json", NULL, 0, buf_str(&out));
	buf_done(&out);
}

static void calm(struct http_exchange *ex, void *arg)
{
	struct program *p = arg;

	p->plan.calm = true;
	for (size_t i = 0; i < p->n_links; i++) {
		fault_relay_mend(p->links[i]);
		fault_relay_cut(p->links[i]);
	}
	http_reply(ex, 204, NULL, NULL, 0, STR_NULL);
}

static int aim(struct program *p, struct fault_relay *link, struct str port)
{
	int64_t n;

	if (str_to_int(port, 1, UINT16_MAX, &n, NULL) < 0)
		return -1;
	if (p->api && strcmp(fault_relay_name(link), "api") == 0)
		fault_http_aim(p->api, (uint16_t)n);
	else
		fault_relay_aim(link, (uint16_t)n);
	return 0;
}

static bool do_to(struct program *p, struct fault_relay *link, const char *action, struct str body)
{
	if (strcmp(action, "part") == 0)
		fault_relay_part(link);
	else if (strcmp(action, "mend") == 0)
		fault_relay_mend(link);
	else if (strcmp(action, "cut") == 0)
		fault_relay_cut(link);
	else
		return strcmp(action, "aim") == 0 && aim(p, link, body) == 0;
	return true;
}

static void act(struct http_exchange *ex, void *arg)
{
	struct program *p = arg;
	const char *name = http_exchange_param(ex, "name");

	for (size_t i = 0; i < p->n_links; i++) {
		if (strcmp(fault_relay_name(p->links[i]), name) == 0 &&
		    do_to(p, p->links[i], http_exchange_param(ex, "action"), ex->body)) {
			http_reply(ex, 204, NULL, NULL, 0, STR_NULL);
			return;
		}
	}
	http_reply_problem(ex, 404, "no such link, or nothing that can be done to it");
}

static void hold_back(struct http_exchange *ex, void *arg)
{
	const struct program *p = arg;
	struct err err;

	if (!p->api)
		http_reply_problem(ex, 404, "there is no API server");
	else if (fault_late_want(fault_http_late(p->api), ex->body, &err) < 0)
		http_reply_err(ex, &err);
	else
		http_reply(ex, 204, NULL, NULL, 0, STR_NULL);
}

static void deliver(struct http_exchange *ex, void *arg)
{
	const struct program *p = arg;

	if (!p->api)
		http_reply_problem(ex, 404, "there is no API server");
	else
		fault_late_deliver(fault_http_late(p->api), fault_http_leads_to(p->api), ex);
}

static void on_control(struct http_exchange *ex, void *arg)
{
	static const struct http_route routes[] = {
		{HTTP_METHOD_GET, "/faults", show},
		{HTTP_METHOD_POST, "/calm", calm},
		{HTTP_METHOD_POST, "/hold", hold_back},
		{HTTP_METHOD_POST, "/deliver", deliver},
		{HTTP_METHOD_POST, "/links/{name}/{action}", act},
		{HTTP_METHOD_NONE, NULL, NULL},
	};

	http_route(ex, routes, arg);
}

/* ---- the start ---- */

static int add_link(struct program *p, const char *name, bool secure, uint16_t port,
		    struct err *err)
{
	const struct fault_relay_config config = {
		.name = name,
		.plan = &p->plan,
		.port = port,
		.secure = secure,
		.hold_ms = p->hold_ms,
	};

	if (p->n_links == MAX_LINKS)
		return err_set(err, ERR_LIMIT, 0, "more than %d links", MAX_LINKS);
	if (fault_relay_new(p->net, &config, &p->links[p->n_links], err) < 0)
		return -1;
	p->n_links++;
	return 0;
}

/* TLS ends here, so that requests can be seen; bytes have their faults on the way here. */
static int add_api(struct program *p, uint16_t port, struct err *err)
{
	const struct fault_http_config config = {
		.plan = &p->plan, .port = port, .hold_ms = p->hold_ms};

	if (fault_http_new(p->net, &config, &p->api, err) < 0)
		return -1;
	return add_link(p, "api", true, fault_http_port(p->api), err);
}

/* One of --set: seed=N, kinds=KIND[,KIND…], hold=MS, gap=N, and then api=PORT, plain=NAME:PORT and
 * secure=NAME:PORT. */
static int take(struct program *p, const char *set, struct err *err)
{
	struct str key, value, name, port;
	int64_t n;

	str_cut(str_of(set), '=', &key, &value);
	if (str_eqz(key, "kinds")) {
		uint64_t seed = p->plan.seed;
		unsigned gap = p->plan.gap;

		fault_plan_done(&p->plan);
		if (fault_plan_init(&p->plan, seed, value, err) < 0)
			return -1;
		p->plan.gap = gap;
		return 0;
	}
	port = value;
	name = STR_NULL;
	if (str_eqz(key, "plain") || str_eqz(key, "secure"))
		str_cut(value, ':', &name, &port);
	if (str_to_int(port, 1, INT32_MAX, &n, err) < 0)
		return err_wrap(err, "%s", set);
	CLEANUP_FREE char *link = str_dup(name);
	if (str_eqz(key, "seed"))
		p->plan.seed = (uint64_t)n;
	else if (str_eqz(key, "hold"))
		p->hold_ms = (unsigned)n;
	else if (str_eqz(key, "gap"))
		p->plan.gap = (unsigned)n;
	else if (str_eqz(key, "api"))
		return add_api(p, (uint16_t)n, err);
	else if (name.len > 0)
		return add_link(p, link, str_eqz(key, "secure"), (uint16_t)n, err);
	else
		return err_set(err, ERR_INVALID, 0, "%s: no such setting", set);
	return 0;
}

static int write_ports(const struct program *p, const char *path, struct err *err)
{
	FILE *f = path ? fopen(path, "w") : NULL;

	if (!f)
		return err_set(err, ERR_INVALID, 0, "--ports-file is needed");
	for (size_t i = 0; i < p->n_links; i++)
		fprintf(f, "%s %u\n", fault_relay_name(p->links[i]), fault_relay_port(p->links[i]));
	fprintf(f, "control %u\n", p->control_port);
	if (fclose(f) != 0)
		return err_set(err, ERR_IO, 0, "%s: can't be written", path);
	return 0;
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	(void)s;
	(void)signum;
	loop_stop(arg, 0);
}

static int begin(struct program *p, const struct options *o, struct err *err)
{
	const char *page = getenv("IPU_CLOCK_PAGE");

	log_init(LOG_INFO, LOG_TEXT, 2);
	if ((page && clock_use_page(page, err) < 0) ||
	    fault_plan_init(&p->plan, 1, STR_NULL, err) < 0 || loop_new(&p->loop, err) < 0 ||
	    net_new(p->loop, &p->net, err) < 0)
		return -1;
	for (size_t i = 0; i < o->n_sets; i++) {
		if (take(p, o->sets[i], err) < 0)
			return -1;
	}
	p->control = http_server_new(p->net, NULL);
	if (http_server_listen(p->control, "127.0.0.1:0", NULL, on_control, p, &p->control_port,
			       err) < 0)
		return -1;
	loop_signal_start(&p->term, p->loop, SIGTERM, on_signal, p->loop);
	return write_ports(p, o->ports_file, err);
}

static void end(struct program *p)
{
	if (p->term.loop)
		loop_signal_stop(&p->term);
	if (p->control)
		http_server_free(p->control);
	for (size_t i = 0; i < p->n_links; i++)
		fault_relay_free(p->links[i]);
	fault_http_free(p->api);
	net_free(p->net);
	loop_free(p->loop);
	fault_plan_done(&p->plan);
}

int main(int argc, char **argv)
{
	struct program p = {.hold_ms = DEFAULT_HOLD_MS};
	struct options o = {0};
	struct err err;
	int status;

	if (options_parse(argc, argv, &o, &err) < 0 || begin(&p, &o, &err) < 0) {
		fprintf(stderr, "fault-proxy: %s\n", err.msg);
		status = 2;
	} else {
		status = loop_run(p.loop);
	}
	end(&p);
	options_done(&o);
	return status;
}
