/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's certificates against the simulated API server: the first start, replicas that
 * race, renewal of the certificate and of the authority, damage, and an API that's away. What is
 * served is verified by real TLS connections on core's clock, and by mbedTLS.
 */
#include "partition_rig.h"
#include "no_memory.h"

#include "cert/cert.h"
#include "cert/set.h"
#include "core/metrics.h"
#include "core/rand.h"
#include "http/client.h"
#include "net_calloc.h"

#define SECRET "the-certificate"

struct replica {
	struct cert *cert;
	unsigned changes;
	struct tls_config *tls;
	char ca[8192];
};

static struct replica a, b;
static const char *const names_a[] = {"proxy.ns.svc", "127.0.0.1", NULL};
static const char *const names_b[] = {"Other.ns.svc", "::1", "127.0.0.1", NULL};

static void on_change(void *arg, struct tls_config *tls, struct str ca_pem)
{
	struct replica *r = arg;

	r->changes++;
	tls_config_unref(r->tls);
	r->tls = tls_config_ref(tls);
	snprintf(r->ca, sizeof(r->ca), "%.*s", STR_ARG(ca_pem));
}

static void begin_replica(struct replica *r, const char *const *names)
{
	struct cert_opts opts = {.ns = NS, .secret = SECRET, .names = names};
	struct err err = ERR_INIT;

	*r = (struct replica){0};
	if (cert_new(kube, &opts, on_change, r, &r->cert, &err) < 0)
		bail_out(err.msg);
}

static void end_replica(struct replica *r)
{
	cert_free(r->cert);
	tls_config_unref(r->tls);
	*r = (struct replica){0};
}

static const struct sim_resource *secrets(void)
{
	return sim_resource_find(STR(""), STR("secrets"));
}

static const struct json *stored(void)
{
	const struct sim_object *o = sim_objects_get(objects, secrets(), STR(NS), STR(SECRET));

	return o ? sim_object_json(o) : NULL;
}

static void stored_set(struct cert_set *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (cert_set_read(ret, json_get(stored(), "data"), NULL) < 0)
		bail_out("no memory");
}

static void edit(const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	if (json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("a patch of the test");
	sim_objects_put(objects, secrets(), doc,
			jmut_merge_patch(doc, jmut_copy(doc, stored()), json_root(p)));
}

static void begin(void)
{
	rig_begin(1);
	begin_replica(&a, names_a);
	ok(WITHIN(2000, a.changes == 1), "something to serve at once");
}

static void finish(void)
{
	end_replica(&a);
	end_replica(&b);
	rig_end();
}

/* Days go by, an hour at a time as far as anybody notices. */
static void days(unsigned n)
{
	while (n-- > 0) {
		clock_advance(CERT_DAY_MS);
		turns(40, 10);
	}
}

/* Of what was served last. */
static double expiry_ms(void)
{
	static const char *const labels[] = {"certificate", NULL};
	const char *leaf = "serving";

	return 1000 * metric_value(metric_new(METRIC_GAUGE,
					      "ipu_operator_certificate_expiry_timestamp_seconds",
					      "When a certificate of the operator's own runs out.",
					      labels, NULL, 0),
				   &leaf);
}

/* ---- connections ---- */

static struct http_server *tls_server;
static unsigned tls_port;

static void on_request(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "text/plain", NULL, 0, STR("here"));
}

static void serve(struct tls_config *tls)
{
	struct err err = ERR_INIT;

	tls_server = http_server_new(net, NULL);
	if (http_server_listen(tls_server, "127.0.0.1:0", tls, on_request, NULL, &tls_port, &err) <
	    0)
		bail_out(err.msg);
}

struct visit {
	bool done;
	struct err err;
	int status;
};

static void on_visit_head(void *arg, const struct http_head *head)
{
	((struct visit *)arg)->status = head->status;
}

static void on_visit_body(void *arg, struct str piece)
{
	(void)arg;
	(void)piece;
}

static void on_visit_done(void *arg, const struct err *err)
{
	struct visit *v = arg;

	v->done = true;
	if (err)
		v->err = *err;
}

/* A client that trusts these authorities asks; does it get its answer? */
static bool visit(struct http_client *client, const char *ca, const char *name)
{
	static const struct http_call_handler handler = {
		.on_head = on_visit_head, .on_body = on_visit_body, .on_done = on_visit_done};
	struct tls_client_opts opts = {.ca_pem = str_of(ca)};
	struct tls_config *tls = NULL;
	struct visit v = {0};
	struct err err = ERR_INIT;

	if (tls_config_new_client(&opts, &tls, &err) < 0)
		bail_out(err.msg);
	CLEANUP_FREE char *host = xstrdup("127.0.0.1");
	struct http_request req = {.origin = {.host = host,
					      .port = (uint16_t)tls_port,
					      .tls = tls,
					      .server_name = name},
				   .method = HTTP_METHOD_GET,
				   .target = STR("/"),
				   .connect_ms = 5000,
				   .first_byte_ms = 5000,
				   .idle_ms = 5000,
				   .total_ms = 5000};
	http_call_start(client, &req, &handler, &v, NULL);
	for (int i = 0; i < 2000 && !v.done; i++)
		loop_turn(loop, 1);
	tls_config_unref(tls);
	if (v.err.kind != ERR_NONE)
		note("%s", v.err.msg);
	return v.status == 200;
}

static bool new_visit(const char *ca, const char *name)
{
	struct http_client_config config = {0};
	struct http_client *client = http_client_new(net, &config);
	bool got = visit(client, ca, name);

	http_client_free(client);
	return got;
}

/* ---- tests ---- */

static void test_first(void)
{
	struct cert_set set;

	row_begin("first start");
	begin();
	ok(WITHIN(1000, stored()), "the Secret is made");
	ok(str_eqz(json_str(json_get(stored(), "type")), "kubernetes.io/tls"), "its type");
	is_uint(json_len(json_get(stored(), "data")), 4, "four parts");
	stored_set(&set);
	is_str(set.ca, a.ca, "clients are told the authority in it");
	cert_set_done(&set);
	ok(!cert_error(a.cert), "nothing is wrong");
	ok(expiry_ms() - (double)clock_wall_ms() > 89.0 * CERT_DAY_MS, "good for 90 days");
	serve(a.tls);
	ok(new_visit(a.ca, NULL), "a client by address");
	ok(new_visit(a.ca, "proxy.ns.svc"), "a client by name");
	ok(!new_visit(a.ca, "other.ns.svc"), "not by another name");
	http_server_free(tls_server);
	row_begin("a second replica");
	begin_replica(&b, names_a);
	ok(WITHIN(2000, b.changes == 1), "has something to serve");
	is_str(b.ca, a.ca, "by the same authority");
	turns(500, 10);
	is_int(a.changes, 1, "nothing changes for the first");
	is_int(api_calls("patch secrets"), 0, "nothing is written");
	finish();
	row_begin("two at the same time");
	rig_begin(1);
	begin_replica(&a, names_a);
	begin_replica(&b, names_a);
	ok(WITHIN(5000, a.changes && b.changes), "both serve");
	turns(500, 10);
	is_str(b.ca, a.ca, "by the same authority");
	is_int(a.changes + b.changes, 2, "without a change");
	finish();
	row_begin("after a restart");
	begin();
	CLEANUP_FREE char *ca = xstrdup(a.ca);
	end_replica(&a);
	begin_replica(&a, names_a);
	ok(WITHIN(2000, a.changes == 1), "it serves");
	is_str(a.ca, ca, "by the same authority");
	finish();
	row_end();
}

static void test_names(void)
{
	row_begin("a replica with other names");
	begin();
	CLEANUP_FREE char *ca = xstrdup(a.ca);
	begin_replica(&b, names_b);
	ok(WITHIN(3000, b.changes && a.changes == 2), "both have another certificate");
	turns(1000, 10);
	is_str(a.ca, ca, "by the same authority");
	is_int(api_calls("patch secrets"), 1, "one write: they don't take each other's names away");
	serve(b.tls);
	ok(new_visit(a.ca, "proxy.ns.svc"), "the first one's name");
	ok(new_visit(a.ca, "other.ns.svc"), "the second one's name");
	http_server_free(tls_server);
	finish();
	row_end();
}

static void test_leaf_renewal(void)
{
	struct http_client_config config = {0};

	row_begin("the certificate grows old");
	begin();
	CLEANUP_FREE char *ca = xstrdup(a.ca);
	begin_replica(&b, names_a);
	ok(WITHIN(2000, b.changes == 1), "another replica");
	days(59);
	is_int(a.changes, 1, "59 days later it's the same");
	serve(a.tls);
	struct tls_config *was = tls_config_ref(a.tls);
	struct http_client *client = http_client_new(net, &config);
	ok(visit(client, ca, NULL), "a client that stays");
	days(2);
	is_int(a.changes, 2, "61 days later it's another");
	is_int(b.changes, 2, "the other replica's too");
	is_str(a.ca, ca, "by the same authority");
	ok(cert_tls(a.cert) && strcmp(a.ca, b.ca) == 0 && api_calls("patch secrets") <= 2,
	   "one of them made it");
	http_server_free(tls_server);
	serve(was);
	ok(new_visit(ca, NULL), "the old one still does");
	struct http_client *stays = http_client_new(net, &config);
	ok(visit(stays, ca, NULL), "a connection");
	struct http_server_stats stats;
	http_server_switch_tls(tls_server, was, a.tls);
	tls_config_unref(was);
	http_server_stats(tls_server, &stats);
	ok(stats.connections >= 1, "is open after the switch");
	ok(visit(stays, ca, NULL), "and the client goes on");
	days(40);
	ok(new_visit(ca, NULL), "after the old one's end new clients get the new one");
	http_client_free(stays);
	http_client_free(client);
	http_server_free(tls_server);
	finish();
	row_end();
}

static void test_ca_renewal(void)
{
	struct cert_set set;
	unsigned n = 0;

	row_begin("the authority grows old");
	begin();
	CLEANUP_FREE char *old = xstrdup(a.ca);
	clock_advance(2432 * CERT_DAY_MS);
	ok(WITHIN(CERT_DAY_MS / 1000, a.changes >= 2), "its certificate has run out: another");
	is_str(a.ca, old, "by the same authority");
	for (; n < 5 && strcmp(a.ca, old) == 0; n++)
		days(1);
	ok(strcmp(a.ca, old) != 0, "then there is a new one");
	ok(cert_pem_block(str_of(a.ca), 1).len > 0, "beside the old one");
	CLEANUP_FREE char *fresh = str_dup(cert_pem_block(str_of(a.ca), 0));
	serve(a.tls);
	ok(new_visit(old, NULL), "a client that knows the old one");
	ok(new_visit(fresh, NULL), "a client that knows the new one");
	ok(new_visit(a.ca, NULL), "a client that knows both");
	http_server_free(tls_server);
	days(62);
	serve(a.tls);
	ok(new_visit(old, NULL), "the same after the certificate's next renewal");
	ok(new_visit(fresh, NULL), "for both");
	http_server_free(tls_server);
	days(30);
	ok(!cert_pem_block(str_of(a.ca), 1).len, "in the end the old one goes");
	serve(a.tls);
	ok(!new_visit(old, NULL), "and isn't enough any more");
	ok(new_visit(fresh, NULL), "the new one is");
	http_server_free(tls_server);
	stored_set(&set);
	ok(!strstr(set.tls + 30, "BEGIN CERT"), "the chain is short again");
	cert_set_done(&set);
	finish();
	row_end();
}

static void test_damage(void)
{
	static const struct {
		const char *name, *patch;
	} rows[] = {
		{"no data", "{\"data\":null}"},
		{"garbage in all of it",
		 "{\"data\":{\"ca.crt\":\"eA==\",\"ca.key\":\"eA==\",\"tls.crt\":\"eA==\",\"tls.key\":\"eA==\"}}"},
		{"no base64", "{\"data\":{\"ca.crt\":\"***\",\"tls.crt\":5}}"},
		{"no authority's key", "{\"data\":{\"ca.key\":null}}"},
		{"no key", "{\"data\":{\"tls.key\":\"eA==\"}}"},
		{"another type", "{\"type\":\"Opaque\"}"},
		{"immutable, and without a key",
		 "{\"immutable\":true,\"data\":{\"tls.key\":null}}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cert_judgement j;
		struct cert_set set;
		struct cert_names names = {0};
		struct cert_policy policy = {0};

		cert_policy_fill(&policy);
		cert_names_add(&names, STR("proxy.ns.svc"), NULL);
		for (int restarted = 0; restarted < 2; restarted++) {
			row_begin("%s%s", rows[i].name, restarted ? ", seen at the start" : "");
			begin();
			WITHIN(1000, stored());
			CLEANUP_FREE char *ca = xstrdup(a.ca);
			if (restarted)
				end_replica(&a);
			edit(rows[i].patch);
			if (restarted)
				begin_replica(&a, names_a);
			turns(500, 10);
			stored_set(&set);
			cert_judge(&set, &names, &policy, clock_wall_ms(), &j);
			is_int(j.need, CERT_NOTHING, "the Secret is good again: %s", j.why);
			is_str(a.ca, set.ca, "what is served is in it");
			if (!restarted)
				is_str(a.ca, ca, "by the same authority");
			ok(!cert_error(a.cert), "nothing is wrong any more");
			cert_set_done(&set);
			finish();
		}
		cert_names_done(&names);
	}
	row_begin("a key that belongs to another certificate");
	begin();
	struct cert_set set;
	WITHIN(1000, stored());
	stored_set(&set);
	CLEANUP_FREE char *text = base64_encode(set.ca_key, strlen(set.ca_key));
	CLEANUP_FREE char *patch = xasprintf("{\"data\":{\"tls.key\":\"%s\"}}", text);
	cert_set_done(&set);
	inject_api("{\"kind\":\"status\",\"status\":403,\"resource\":\"secrets\",\"count\":1}");
	edit(patch);
	ok(WITHIN(900, cert_error(a.cert)), "an error for health");
	ok(WITHIN(10000, !cert_error(a.cert)), "until it's mended");
	row_begin("deleted");
	sim_objects_remove(objects, sim_objects_get(objects, secrets(), STR(NS), STR(SECRET)));
	unsigned changes = a.changes;
	ok(WITHIN(2000, stored()), "made again");
	turns(100, 10);
	is_uint(a.changes, changes, "as it was");
	finish();
	row_end();
}

static void test_away(void)
{
	row_begin("the API is away at the start");
	rig_begin(1);
	inject_api("{\"kind\":\"cut\",\"count\":0}");
	begin_replica(&a, names_a);
	ok(WITHIN(7000, a.changes == 1), "something is served from memory");
	ok(cert_error(a.cert), "with an error for health");
	CLEANUP_FREE char *ca = xstrdup(a.ca);
	sim_api_clear_faults(api);
	ok(WITHIN(120000, stored()), "it's in the Secret when the API is back");
	is_str(a.ca, ca, "the same");
	ok(WITHIN(1000, !cert_error(a.cert)), "the error has gone");
	finish();
	row_begin("the Secret can't be written");
	rig_begin(1);
	inject_api(
		"{\"kind\":\"status\",\"status\":403,\"verb\":\"create\",\"resource\":\"secrets\","
		"\"count\":0}");
	begin_replica(&a, names_a);
	ok(WITHIN(3000, a.changes == 1), "served from memory");
	has_str(cert_error(a.cert) ? cert_error(a.cert)->msg : "", "can't be made", "and said");
	int64_t tries = api_calls("create secrets");
	turns(6000, 10);
	tries = api_calls("create secrets") - tries;
	ok(tries > 2 && tries < 10, "tried again now and then: %lld", (long long)tries);
	is_int(a.changes, 1, "the same is served");
	sim_api_clear_faults(api);
	ok(WITHIN(400000, !cert_error(a.cert)), "until it can be");
	is_int(a.changes, 1, "which changes nothing");
	finish();
	row_begin("the API is away when it's time to renew");
	begin();
	inject_api("{\"kind\":\"cut\",\"resource\":\"secrets\",\"count\":0}");
	days(70);
	is_int(a.changes, 1, "the old one is good enough");
	ok(cert_error(a.cert), "but it is said");
	days(25);
	is_int(a.changes, 2, "when it has run out there is another, in memory");
	serve(a.tls);
	ok(new_visit(a.ca, NULL), "that clients accept");
	http_server_free(tls_server);
	sim_api_clear_faults(api);
	ok(WITHIN(700000, !cert_error(a.cert)), "in the Secret in the end");
	finish();
	row_end();
}

/* A replica starts where there is an authority, and each allocation fails once whose size the API
 * server decides: it serves by what there is, and takes nothing for damaged. */
static void test_memory(void)
{
	struct cert_set before, after;
	unsigned late = 0, others = 0;
	struct no_memory m = {0};

	begin();
	end_replica(&a);
	stored_set(&before);
	while (no_memory_next(&m)) {
		no_memory_begin(&m);
		begin_replica(&a, names_a);
		late += !WITHIN(120000, a.changes > 0 && strcmp(a.ca, before.ca) == 0);
		no_memory_end(&m);
		stored_set(&after);
		others += !cert_set_equal(&before, &after);
		cert_set_done(&after);
		end_replica(&a);
	}
	no_memory_ok(&m, 20);
	is_uint(late, 0, "each time, what there is is served");
	is_uint(others, 0, "and stays as it was");
	cert_set_done(&before);
	finish();
}

/* The same of mbedTLS's allocations: the first ones, which read certificates, and some of those
 * that check signatures. */
static void test_memory_of_tls(void)
{
	struct cert_set before, after;
	unsigned late = 0, others = 0;
	struct no_memory m = {NO_MEMORY_OF_MBEDTLS, .sparse = 60, .most = 100000};

	begin();
	end_replica(&a);
	stored_set(&before);
	while (no_memory_next(&m)) {
		no_memory_begin(&m);
		begin_replica(&a, names_a);
		late += !WITHIN(120000, a.changes > 0 && strcmp(a.ca, before.ca) == 0);
		no_memory_end(&m);
		stored_set(&after);
		others += !cert_set_equal(&before, &after);
		cert_set_done(&after);
		end_replica(&a);
	}
	no_memory_ok(&m, 20);
	is_uint(late, 0, "each time, what there is is served");
	is_uint(others, 0, "and stays as it was");
	cert_set_done(&before);
	finish();
}

/* Of another type, so it must go, and it can't: somebody's finalizer is on it. */
static void test_goes_slowly(void)
{
	row_begin("a Secret that is long in going");
	begin();
	WITHIN(1000, stored());
	CLEANUP_FREE char *ca = xstrdup(a.ca);
	edit("{\"type\":\"Opaque\",\"metadata\":{\"finalizers\":[\"example.com/keep\"]}}");
	turns(3000, 10);
	ok(api_calls("delete secrets") < 10, "it's told so now and then: %lld times",
	   (long long)api_calls("delete secrets"));
	ok(api_calls("create secrets") < 10, "and another isn't made beside it: %lld times",
	   (long long)api_calls("create secrets"));
	has_str(cert_error(a.cert) ? cert_error(a.cert)->msg : "", "finalizer", "it's said why");
	is_int(a.changes, 1, "what is served stays");
	row_begin("seen at the start");
	end_replica(&a);
	begin_replica(&a, names_a);
	ok(WITHIN(2000, a.changes == 1), "what can be served of it is");
	is_str(a.ca, ca, "by the same authority");
	row_begin("seen at the start, and no good");
	end_replica(&a);
	edit("{\"data\":{\"tls.key\":null}}");
	begin_replica(&a, names_a);
	ok(WITHIN(2000, a.changes == 1), "something is served");
	is_str(a.ca, ca, "by the same authority");
	turns(1000, 10);
	is_int(a.changes, 1, "the same all the time");
	row_begin("it has gone");
	sim_objects_remove(objects, sim_objects_get(objects, secrets(), STR(NS), STR(SECRET)));
	ok(WITHIN(3000, stored() && !cert_error(a.cert)), "another is there");
	ok(str_eqz(json_str(json_get(stored(), "type")), "kubernetes.io/tls"), "its type");
	is_int(a.changes, 1, "what is served stays");
	finish();
	row_end();
}

static int any_bytes(void *arg, unsigned char *p, size_t len)
{
	(void)arg;
	rand_bytes(p, len);
	return 0;
}

static unsigned own_changes;

static void on_own(void *arg, const struct tls_config *from, struct tls_config *to)
{
	(void)arg;
	own_changes += from != to;
}

/* The wall clock alone: a machine's that was wrong until a time server answered. */
static void jump(int64_t ms)
{
	clock_freeze(clock_mono_ms(), clock_wall_ms() + ms);
}

static void test_own(void)
{
	static const char *const names[] = {"localhost", NULL};
	struct cert_own *own;
	struct err err = ERR_INIT;

	row_begin("of a process alone");
	rig_begin(1);
	if (cert_own_new(loop, names, &own, &err) < 0)
		bail_out(err.msg);
	cert_own_follow(own, on_own, NULL);
	days(59);
	is_uint(own_changes, 0, "59 days later it's the same");
	days(2);
	is_uint(own_changes, 1, "61 days later it's another");
	jump(100 * CERT_DAY_MS);
	days(1);
	is_uint(own_changes, 2, "so it is when the clock has gone beyond its end");
	jump(-200 * CERT_DAY_MS);
	days(1);
	is_uint(own_changes, 3, "and when it has gone back before its beginning");
	days(58);
	is_uint(own_changes, 3, "then it lasts");
	cert_own_free(own);
	rig_end();
	row_end();
}

/* As DNS names hold them, which clients don't take for what they look like. */
static void test_names_of(void)
{
	static char address[] = "127.0.0.1", dns[] = "proxy.ns.svc", odd[] = "a.b\0c.d";
	mbedtls_x509_san_list list[3] = {0};
	struct {
		char *p;
		size_t len;
	} values[] = {{address, strlen(address)}, {dns, strlen(dns)}, {odd, sizeof(odd) - 1}};
	mbedtls_x509write_cert w;
	mbedtls_x509_crt crt;
	mbedtls_pk_context key;
	struct cert_names names = {0};
	unsigned char pem[4096];
	struct err err = ERR_INIT;

	for (size_t i = 0; i < 3; i++) {
		list[i].node.type = MBEDTLS_X509_SAN_DNS_NAME;
		list[i].node.san.unstructured_name.p = (unsigned char *)values[i].p;
		list[i].node.san.unstructured_name.len = values[i].len;
		list[i].next = i < 2 ? &list[i + 1] : NULL;
	}
	mbedtls_pk_init(&key);
	mbedtls_x509write_crt_init(&w);
	mbedtls_x509_crt_init(&crt);
	if (cert_make_key(&key, &err) < 0)
		bail_out(err.msg);
	mbedtls_x509write_crt_set_subject_key(&w, &key);
	mbedtls_x509write_crt_set_issuer_key(&w, &key);
	mbedtls_x509write_crt_set_md_alg(&w, MBEDTLS_MD_SHA256);
	if (mbedtls_x509write_crt_set_serial_raw(&w, (unsigned char[]){1}, 1) != 0 ||
	    mbedtls_x509write_crt_set_subject_name(&w, "CN=x") != 0 ||
	    mbedtls_x509write_crt_set_issuer_name(&w, "CN=x") != 0 ||
	    mbedtls_x509write_crt_set_validity(&w, "20240101000000", "20340101000000") != 0 ||
	    mbedtls_x509write_crt_set_subject_alternative_name(&w, list) != 0 ||
	    mbedtls_x509write_crt_pem(&w, pem, sizeof(pem), any_bytes, NULL) != 0 ||
	    mbedtls_x509_crt_parse(&crt, pem, strlen((char *)pem) + 1) != 0)
		bail_out("a certificate of the test");
	cert_names_of(&crt, &names);
	ok(!cert_names_has(&names, address), "an address as a DNS name is none");
	ok(cert_names_has(&names, dns), "a DNS name is one");
	is_uint(names.n, 1, "and the only one");
	cert_names_done(&names);
	mbedtls_x509_crt_free(&crt);
	mbedtls_x509write_crt_free(&w);
	mbedtls_pk_free(&key);
}

static void test_bad_opts(void)
{
	static const char *const rows[][2] = {{NULL}, {"", NULL}, {"a b", NULL}, {"a..b", NULL}};

	rig_begin(1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cert_opts opts = {.ns = NS, .secret = SECRET, .names = rows[i]};
		struct err err = ERR_INIT;

		is_int(cert_new(kube, &opts, on_change, &a, &a.cert, &err), -1,
		       "bad names, row %zu", i);
	}
	rig_end();
}

/* OpenSSL's opinion. */
static void test_openssl(void)
{
	char folder[] = "/tmp/cert_test.XXXXXX", command[512];
	struct cert_set set;

	if (system("openssl version >/dev/null 2>&1") != 0) {
		skip(1, "no openssl here");
		return;
	}
	rig_begin(1);
	clock_unfreeze();
	begin_replica(&a, names_a);
	for (int i = 0; i < 5000 && !stored(); i++)
		loop_turn(loop, 1);
	stored_set(&set);
	if (!mkdtemp(folder) || !set.ca)
		bail_out("no folder, or no certificate");
	const char *const files[][2] = {{"ca", set.ca}, {"tls", set.tls}};
	for (size_t i = 0; i < 2; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", folder, files[i][0]);
		FILE *f = fopen(path, "w");
		if (!f || fputs(files[i][1], f) < 0 || fclose(f) != 0)
			bail_out("a file of the test");
	}
	snprintf(command, sizeof(command),
		 "openssl verify -x509_strict -purpose sslserver -verify_hostname proxy.ns.svc "
		 "-CAfile %s/ca %s/tls >/dev/null",
		 folder, folder);
	is_int(system(command), 0, "openssl accepts it, strictly");
	snprintf(command, sizeof(command), "rm -r %s", folder);
	is_int(system(command), 0, "cleared up");
	cert_set_done(&set);
	end_replica(&a);
	rig_end();
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_first();
	test_names();
	test_leaf_renewal();
	test_ca_renewal();
	test_damage();
	test_away();
	test_goes_slowly();
	test_own();
	test_names_of();
	test_memory();
	test_memory_of_tls();
	test_bad_opts();
	test_openssl();
	return done_testing();
}
