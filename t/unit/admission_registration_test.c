/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webhook registrations' keeper against the simulated API server: who writes, when and what;
 * and through the renewals of eight years a client that trusts nothing but the registration's
 * bundle, as the API server does.
 */
#include "partition_rig.h"
#include "no_memory.h"

#include "admission/registration.h"
#include "cert/cert.h"
#include "http/client.h"

#define MUTATING   "ipu-operator-mutating-webhook-configuration"
#define VALIDATING "ipu-operator-validating-webhook-configuration"
#define NAME       "ipu-operator-webhook-svc." NS ".svc"

struct replica {
	struct cert *cert;
	struct admission_registration *registration;
	struct http_server *server;
	struct tls_config *tls;
	unsigned port, changes;
};

static struct replica a, b;
static const struct admission_webhooks chart = {.ns = NS};
static const struct admission_webhooks outside = {
	.url = "https://ops.example:8443", .ns = NS, .failure_policy = "Fail", .timeout_s = 30};

/* ---- a replica: certificate, listener, registration ---- */

static void on_request(struct http_exchange *ex, void *arg)
{
	(void)arg;
	http_reply(ex, 200, "text/plain", NULL, 0, STR("here"));
}

static void on_change(void *arg, struct tls_config *tls, struct str ca_pem)
{
	struct replica *r = arg;
	struct tls_config *old = r->tls;
	struct err err = ERR_INIT;

	(void)ca_pem;
	r->changes++;
	r->tls = tls_config_ref(tls);
	if (old)
		http_server_switch_tls(r->server, old, tls);
	else if (http_server_listen(r->server, "127.0.0.1:0", tls, on_request, NULL, &r->port,
				    &err) < 0)
		bail_out(err.msg);
	tls_config_unref(old);
	admission_registration_changed(r->registration);
}

static void on_bundle(void *arg, struct admission_bundle *ret)
{
	struct replica *r = arg;

	ret->known = cert_tls(r->cert) != NULL;
	ret->ca_pem = cert_ca_pem(r->cert);
	ret->shared = cert_is_shared(r->cert);
}

static void begin_registration(struct replica *r, const struct admission_webhooks *w)
{
	struct admission_registration_opts opts = {.mutating = MUTATING,
						   .validating = VALIDATING,
						   .webhooks = *w,
						   .bundle = on_bundle,
						   .bundle_arg = r};

	r->registration = admission_registration_new(kube, &opts);
}

static void begin_replica(struct replica *r, const struct admission_webhooks *w)
{
	static const char *const names[] = {NAME, NULL};
	struct cert_opts opts = {.ns = NS, .secret = "the-certificate", .names = names};
	struct err err = ERR_INIT;

	*r = (struct replica){.server = http_server_new(net, NULL)};
	if (cert_new(kube, &opts, on_change, r, &r->cert, &err) < 0)
		bail_out(err.msg);
	begin_registration(r, w);
}

static void end_replica(struct replica *r)
{
	if (!r->cert)
		return;
	admission_registration_free(r->registration);
	cert_free(r->cert);
	http_server_free(r->server);
	tls_config_unref(r->tls);
	*r = (struct replica){0};
}

static void finish(void)
{
	end_replica(&a);
	end_replica(&b);
	rig_end();
	row_end();
}

static bool ready(const struct replica *r)
{
	return admission_registration_ready(r->registration, NULL);
}

/* ---- the API's objects ---- */

static const struct sim_resource *resource(enum admission_kind kind)
{
	return sim_resource_find(STR("admissionregistration.k8s.io"),
				 str_of(kind == ADMISSION_MUTATING
						? "mutatingwebhookconfigurations"
						: "validatingwebhookconfigurations"));
}

static const struct json *stored(enum admission_kind kind)
{
	const char *name = kind == ADMISSION_MUTATING ? MUTATING : VALIDATING;
	const struct sim_object *o = sim_objects_get(objects, resource(kind), STR_NULL,
						     str_of(name));

	return o ? sim_object_json(o) : NULL;
}

#define ENTRY(name, ca)                                                                            \
	"{\"name\":\"" name "\",\"clientConfig\":{\"caBundle\":\"" ca                              \
	"\",\"service\":{\"name\":\"ipu-operator-webhook-svc\",\"namespace\":\"" NS                \
	"\",\"path\":\"/x\"}},\"rules\":[],\"sideEffects\":\"None\","                              \
	"\"admissionReviewVersions\":[\"v1\"]}"

/* What the chart installs. */
static void install(enum admission_kind kind)
{
	if (kind == ADMISSION_MUTATING)
		make_of(resource(kind),
			"{\"kind\":\"MutatingWebhookConfiguration\",\"metadata\":{\"name\":\"" MUTATING
			"\"},\"webhooks\":[" ENTRY("mipujob.graphcore.ai", "Cg==") "," ENTRY(
				"mpod.graphcore.ai", "") "," ENTRY("x.example.org", "") "]}");
	else
		make_of(resource(kind),
			"{\"kind\":\"ValidatingWebhookConfiguration\",\"metadata\":{"
			"\"name\":\"" VALIDATING
			"\"},\"webhooks\":[" ENTRY("vipujob.graphcore.ai", "") "]}");
}

/* Somebody's kubectl edit of an entry; of its clientConfig where that is given. */
static void edit(enum admission_kind kind, size_t entry, const char *member, const char *text)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_copy(doc, stored(kind));
	struct jmut *one = jmut_item(jmut_get(root, "webhooks"), entry);

	if (strcmp(member, "caBundle") == 0)
		one = jmut_get(one, "clientConfig");
	jmut_set_str(doc, one, member, text);
	sim_objects_put(objects, resource(kind), doc, root);
}

static struct str bundle_of(enum admission_kind kind, size_t entry)
{
	return json_str(json_at(json_item(json_get(stored(kind), "webhooks"), entry),
				"clientConfig", "caBundle", NULL));
}

static bool has_bundle(enum admission_kind kind, size_t entry, const struct replica *r)
{
	struct str ca = cert_ca_pem(r->cert);
	CLEANUP_FREE char *encoded = ca.len ? base64_encode(ca.p, ca.len) : NULL;

	return encoded && str_eqz(bundle_of(kind, entry), encoded);
}

static bool all_right(const struct replica *r)
{
	return has_bundle(ADMISSION_MUTATING, 0, r) && has_bundle(ADMISSION_MUTATING, 1, r) &&
	       has_bundle(ADMISSION_VALIDATING, 0, r);
}

static int64_t writes(void)
{
	return api_calls("patch mutatingwebhookconfigurations") +
	       api_calls("patch validatingwebhookconfigurations") +
	       api_calls("create mutatingwebhookconfigurations") +
	       api_calls("create validatingwebhookconfigurations");
}

/* Simulated days, ten minutes a turn. */
static void days(unsigned n)
{
	turns(n * 144, 600000);
}

/* ---- the API server as a client ---- */

struct visit {
	bool done;
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
		note("%s", err->msg);
}

/* Who trusts only what stands in the registration connects to a replica. */
static bool visit(enum admission_kind kind, size_t entry, const struct replica *r)
{
	static const struct http_call_handler handler = {
		.on_head = on_visit_head, .on_body = on_visit_body, .on_done = on_visit_done};
	struct http_client *client = http_client_new(net, NULL);
	struct tls_client_opts opts = {0};
	struct tls_config *tls = NULL;
	struct visit v = {0};
	struct err err = ERR_INIT;
	CLEANUP_FREE char *host = xstrdup("127.0.0.1");
	CLEANUP_FREE uint8_t *pem = NULL;
	size_t len = 0;

	if (base64_decode(bundle_of(kind, entry), &pem, &len, &err) < 0)
		return false;
	opts.ca_pem = (struct str){(const char *)pem, len};
	if (tls_config_new_client(&opts, &tls, &err) < 0)
		return false;
	struct http_request req = {.origin = {.host = host,
					      .port = (uint16_t)r->port,
					      .tls = tls,
					      .server_name = NAME},
				   .method = HTTP_METHOD_GET,
				   .target = STR("/"),
				   .connect_ms = 5000,
				   .first_byte_ms = 5000,
				   .idle_ms = 5000,
				   .total_ms = 5000};
	http_call_start(client, &req, &handler, &v, NULL);
	for (int i = 0; i < 20000 && !v.done; i++)
		loop_turn(loop, 1);
	http_client_free(client);
	tls_config_unref(tls);
	return v.status == 200;
}

/* ---- the chart's objects ---- */

static void test_chart(void)
{
	row_begin("the chart's objects");
	rig_begin(1);
	install(ADMISSION_MUTATING);
	install(ADMISSION_VALIDATING);
	begin_replica(&a, &chart);
	ok(!ready(&a), "not ready before it's known");
	ok(!admission_registration_fails_closed(a.registration), "nor known to fail closed");
	ok(WITHIN(5000, all_right(&a)), "every entry of ours has the bundle");
	is_int(writes(), 2, "in one write each");
	is_str(bundle_of(ADMISSION_MUTATING, 2).p, "", "the entry of others has none");
	ok(WITHIN(1000, ready(&a)), "ready");
	ok(visit(ADMISSION_MUTATING, 0, &a), "and trusted");
	days(1);
	is_int(writes(), 2, "nothing more is written");

	row_begin("a person edits another field");
	edit(ADMISSION_MUTATING, 0, "failurePolicy", "Ignore");
	edit(ADMISSION_MUTATING, 2, "caBundle", "eA==");
	turns(6000, 10);
	is_int(writes(), 2, "that's theirs");

	row_begin("whether no answer is a refusal");
	ok(admission_registration_fails_closed(a.registration), "as the chart says");
	edit(ADMISSION_VALIDATING, 0, "failurePolicy", "Ignore");
	ok(WITHIN(5000, !admission_registration_fails_closed(a.registration)), "not any more");
	edit(ADMISSION_VALIDATING, 0, "failurePolicy", "Fail");
	ok(WITHIN(5000, admission_registration_fails_closed(a.registration)), "once more");

	row_begin("a person spoils a bundle");
	edit(ADMISSION_MUTATING, 1, "caBundle", "eA==");
	ok(WITHIN(100, !ready(&a)), "not ready meanwhile");
	ok(WITHIN(5000, all_right(&a)), "it's mended");
	ok(WITHIN(1000, ready(&a)), "ready again");
	is_int(writes(), 3, "by one write");
	is_str(json_cstr(json_get(json_item(json_get(stored(ADMISSION_MUTATING), "webhooks"), 0),
				  "failurePolicy")),
	       "Ignore", "that leaves the rest");

	row_begin("a second replica, a restart");
	begin_replica(&b, &chart);
	ok(WITHIN(5000, ready(&b)), "is ready");
	end_replica(&a);
	begin_replica(&a, &chart);
	ok(WITHIN(5000, ready(&a)), "is ready");
	turns(6000, 10);
	is_int(writes(), 3, "nothing is written");
	finish();
}

static void test_absent(void)
{
	row_begin("no registration");
	rig_begin(1);
	begin_replica(&a, &chart);
	ok(WITHIN(5000, ready(&a)), "ready: nobody calls");
	turns(3000, 10);
	is_int(writes(), 0, "none is made");
	install(ADMISSION_VALIDATING);
	ok(WITHIN(5000, has_bundle(ADMISSION_VALIDATING, 0, &a)), "one that comes gets the bundle");
	ok(WITHIN(1000, ready(&a)), "ready");
	sim_objects_remove(objects, sim_objects_get(objects, resource(ADMISSION_VALIDATING),
						    STR_NULL, STR(VALIDATING)));
	turns(3000, 10);
	ok(ready(&a) && !stored(ADMISSION_VALIDATING), "one that goes stays away");
	finish();
}

static void test_replicas_race(void)
{
	row_begin("replicas at the same time");
	rig_begin(1);
	install(ADMISSION_MUTATING);
	install(ADMISSION_VALIDATING);
	begin_replica(&a, &chart);
	begin_replica(&b, &chart);
	ok(WITHIN(10000, all_right(&a) && all_right(&b)), "all is right for both");
	turns(6000, 10);
	ok(writes() <= 4, "at most one write each: %lld", (long long)writes());
	ok(ready(&a) && ready(&b), "both are ready");
	finish();
}

/* What goes wrong with a write, and how often it's tried until then. */
static void test_faults(void)
{
	static const struct {
		const char *name, *fault;
	} rows[] = {
		{"conflicts",
		 "{\"kind\":\"status\",\"status\":409,\"verb\":\"patch\",\"count\":4}"},
		{"refusals", "{\"kind\":\"status\",\"status\":403,\"verb\":\"patch\",\"count\":4}"},
		{"lost answers", "{\"kind\":\"lose\",\"verb\":\"patch\",\"count\":4}"},
		{"connections cut", "{\"kind\":\"cut\",\"verb\":\"patch\",\"count\":4}"},
		{"garbage", "{\"kind\":\"garbage\",\"verb\":\"patch\",\"count\":4}"},
		{"hanging", "{\"kind\":\"hang\",\"verb\":\"patch\",\"count\":2}"},
		{"no list", "{\"kind\":\"status\",\"status\":500,\"verb\":\"list\",\"count\":3}"},
		{"a watch that breaks", "{\"kind\":\"cut\",\"verb\":\"watch\",\"count\":3}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		row_begin("%s", rows[i].name);
		rig_begin(1);
		install(ADMISSION_MUTATING);
		install(ADMISSION_VALIDATING);
		/* The certificate's Secret isn't what is tested here. */
		begin_replica(&a, &chart);
		ok(WITHIN(5000, all_right(&a)), "right at first");
		edit(ADMISSION_MUTATING, 0, "caBundle", "");
		edit(ADMISSION_VALIDATING, 0, "caBundle", "");
		inject_api(rows[i].fault);
		ok(WITHIN(120000, all_right(&a) && ready(&a)), "right in the end");
		ok(writes() <= 10, "after a few tries: %lld", (long long)writes());
		finish();
	}
	row_begin("it may not be read");
	rig_begin(1);
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"list\",\"count\":0,"
		   "\"resource\":\"validatingwebhookconfigurations\"}");
	begin_replica(&a, &chart);
	struct err why = ERR_INIT;
	turns(1000, 10);
	ok(!admission_registration_ready(a.registration, &why), "not ready");
	has_str(why.msg, "ValidatingWebhookConfiguration " VALIDATING " can't be read", "says why");
	sim_api_clear_faults(api);
	ok(WITHIN(120000, ready(&a)), "until it may");
	row_begin("cancelled with a write under way");
	install(ADMISSION_MUTATING);
	ok(WITHIN(5000, writes() > 0), "a write");
	finish();
}

/* Each allocation whose size a peer decides fails once while a person spoils a bundle: it's mended
 * all the same. */
static void test_memory(void)
{
	unsigned late = 0;
	struct no_memory m = {0};

	row_begin("without memory");
	rig_begin(1);
	install(ADMISSION_MUTATING);
	install(ADMISSION_VALIDATING);
	begin_replica(&a, &chart);
	ok(WITHIN(5000, all_right(&a) && ready(&a)), "right at first");
	while (no_memory_next(&m)) {
		turns(3, ADMISSION_BACKOFF_MS); /* whatever was tried before is forgotten */
		turns(50, 10);
		no_memory_begin(&m);
		edit(ADMISSION_MUTATING, 1, "caBundle", "eA==");
		if (!WITHIN(20000, all_right(&a) && ready(&a))) {
			diag("allocation %lu", m.n);
			late++;
		}
		no_memory_end(&m);
	}
	no_memory_ok(&m, 10);
	is_uint(late, 0, "none of which it can't do without");
	ok(all_right(&a), "all is right");
	finish();
}

/* Somebody who undoes each write at once is met at ever longer intervals. */
static void test_fight(void)
{
	row_begin("somebody undoes it");
	rig_begin(1);
	install(ADMISSION_VALIDATING);
	begin_replica(&a, &chart);
	ok(WITHIN(5000, ready(&a)), "right at first");
	for (int i = 0; i < 36000; i++) { /* an hour */
		if (has_bundle(ADMISSION_VALIDATING, 0, &a))
			edit(ADMISSION_VALIDATING, 0, "caBundle", "eA==");
		turn(100);
	}
	ok(writes() > 10 && writes() < 40, "%lld writes in an hour", (long long)writes());
	ok(WITHIN(ADMISSION_BACKOFF_MS, has_bundle(ADMISSION_VALIDATING, 0, &a)),
	   "in the end it's right");
	int64_t before = writes();
	turns(ADMISSION_CALM_MS / 10, 10);
	edit(ADMISSION_VALIDATING, 0, "caBundle", "eA==");
	ok(WITHIN(2000, writes() == before + 1), "and after a calm time mended at once again");
	edit(ADMISSION_VALIDATING, 0, "caBundle", "eA==");
	ok(WITHIN(5000, writes() == before + 2), "and soon once more");
	finish();
}

/* ---- renewals ---- */

static bool everybody_connects(void)
{
	return visit(ADMISSION_MUTATING, 0, &a) && visit(ADMISSION_MUTATING, 1, &b) &&
	       visit(ADMISSION_VALIDATING, 0, &a) && visit(ADMISSION_VALIDATING, 0, &b);
}

static void test_years(void)
{
	unsigned bad = 0, unready = 0;

	row_begin("eight years");
	rig_begin(1);
	install(ADMISSION_MUTATING);
	install(ADMISSION_VALIDATING);
	begin_replica(&a, &chart);
	begin_replica(&b, &chart);
	ok(WITHIN(10000, ready(&a) && ready(&b)), "both are ready");
	for (int day = 0; day < 8 * 365; day += 6) {
		turn((unsigned)(6 * CERT_DAY_MS));
		unready += !ready(&a) || !ready(&b);
		turns(12, 10);
		if (day % 30 == 0)
			bad += !everybody_connects();
	}
	is_uint(bad, 0, "the API server always trusted both");
	is_uint(unready, 0, "and both were always ready");
	ok(writes() > 4 && writes() <= 20, "with %lld writes", (long long)writes());
	ok(all_right(&a), "all is right");
	finish();
}

/* Each state of an authority's renewal, with a look at every turn in which something changes. */
static void test_ca_renewal(void)
{
	int64_t seen = 0;
	unsigned bad = 0, looks = 0;

	row_begin("an authority's renewal, turn by turn");
	rig_begin(1);
	install(ADMISSION_MUTATING);
	install(ADMISSION_VALIDATING);
	begin_replica(&a, &chart);
	begin_replica(&b, &chart);
	ok(WITHIN(10000, ready(&a) && ready(&b)), "both are ready");
	clock_advance(2432 * CERT_DAY_MS);
	/* A jump: what was served has run out. */
	ok(WITHIN(120000, a.changes > 1 && b.changes > 1), "both have another certificate");
	turns(1000, 10);
	for (unsigned step = 0; step < 110 * 2; step++) {
		clock_advance(12 * 3600000);
		for (int i = 0; i < 40; i++) {
			int64_t now = writes() * 1000 + api_calls("patch secrets");

			turn(10);
			if (now == seen)
				continue;
			seen = now;
			looks++;
			bad += !everybody_connects() || !ready(&a) || !ready(&b);
		}
	}
	is_uint(bad, 0, "the API server trusted both at each step");
	ok(looks >= 4, "%u steps were looked at", looks);
	ok(all_right(&a) && all_right(&b), "all is right in the end");
	finish();
}

/* Without the Secret each replica has an authority of its own; they don't fight. */
static void test_unshared(void)
{
	row_begin("the Secret can't be had");
	rig_begin(1);
	install(ADMISSION_MUTATING);
	install(ADMISSION_VALIDATING);
	inject_api("{\"kind\":\"status\",\"status\":403,\"resource\":\"secrets\",\"count\":0}");
	begin_replica(&a, &chart);
	ok(WITHIN(20000, all_right(&a)), "the first fills in its own");
	ok(WITHIN(1000, ready(&a)), "and is ready");
	int64_t before = writes();
	begin_replica(&b, &chart);
	turns(6000, 10);
	is_int(writes(), before, "a second one writes nothing");
	struct err why = ERR_INIT;
	ok(!admission_registration_ready(b.registration, &why), "and isn't ready");
	has_str(why.msg, "Secret", "says why");
	ok(ready(&a), "the first one still is");
	sim_api_clear_faults(api);
	ok(WITHIN(900000, ready(&a) && ready(&b) && all_right(&b)), "until the Secret can be had");
	ok(everybody_connects(), "both are trusted");
	finish();
}

/* ---- certificate files, seen by one replica later than by another ---- */

static const char *file_ca[2];

static void on_file_bundle(void *arg, struct admission_bundle *ret)
{
	ret->known = true;
	ret->shared = true;
	ret->ca_pem = str_of(file_ca[(intptr_t)arg]);
}

static struct admission_registration *begin_with_file(intptr_t which)
{
	struct admission_registration_opts opts = {.mutating = MUTATING,
						   .validating = VALIDATING,
						   .webhooks = chart,
						   .bundle = on_file_bundle,
						   .bundle_arg = (void *)which,
						   .lag_ms = ADMISSION_FILE_LAG_MS};

	return admission_registration_new(kube, &opts);
}

static bool holds(const char *pem)
{
	CLEANUP_FREE char *encoded = base64_encode(pem, strlen(pem));

	return str_eqz(bundle_of(ADMISSION_VALIDATING, 0), encoded);
}

static void test_files(void)
{
	static const char *const old_ca = "-----BEGIN CERTIFICATE-----\nOLD\n"
					  "-----END CERTIFICATE-----\n";
	static const char *const new_ca = "-----BEGIN CERTIFICATE-----\nNEW\n"
					  "-----END CERTIFICATE-----\n";
	struct admission_registration *one, *two;

	row_begin("certificate files");
	rig_begin(1);
	install(ADMISSION_VALIDATING);
	file_ca[0] = file_ca[1] = old_ca;
	one = begin_with_file(0);
	two = begin_with_file(1);
	ok(WITHIN(5000, holds(old_ca)), "the authority of the file is written");
	turns(1000, 10);
	int64_t before = writes();
	file_ca[0] = new_ca;
	admission_registration_changed(one);
	ok(WITHIN(5000, holds(new_ca)), "a new file's at once");
	turns(6000, 10);
	is_int(writes(), before + 1, "who still has the old file leaves it");
	ok(admission_registration_ready(one, NULL), "who has the new one is ready");
	ok(!admission_registration_ready(two, NULL), "who has the old one isn't");
	file_ca[1] = new_ca;
	admission_registration_changed(two);
	ok(WITHIN(5000, admission_registration_ready(two, NULL)), "until it has the new one");
	turns(60000, 10);
	is_int(writes(), before + 1, "that was one write");
	edit(ADMISSION_VALIDATING, 0, "caBundle", "eHh4");
	ok(WITHIN(5000, holds(new_ca)), "what trusts nobody is mended at once");
	file_ca[0] = file_ca[1] = "";
	admission_registration_changed(one);
	admission_registration_changed(two);
	edit(ADMISSION_VALIDATING, 0, "caBundle", "eHh4");
	turns(30000, 10);
	is_str(bundle_of(ADMISSION_VALIDATING, 0).p, "eHh4", "without a file it's not ours");
	ok(admission_registration_ready(one, NULL), "and ready");
	admission_registration_free(one);
	admission_registration_free(two);
	finish();
}

/* ---- outside the cluster ---- */

static void test_outside(void)
{
	struct err why = ERR_INIT;

	row_begin("the objects are made");
	rig_begin(1);
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"create\",\"count\":0,"
		   "\"resource\":\"mutatingwebhookconfigurations\"}");
	begin_replica(&a, &outside);
	begin_replica(&b, &outside);
	turns(500, 10);
	ok(!admission_registration_ready(a.registration, &why), "not ready before they can be");
	has_str(why.msg, "MutatingWebhookConfiguration " MUTATING " can't be written", "says why");
	sim_api_clear_faults(api);
	ok(WITHIN(120000, all_right(&a) && all_right(&b)), "they are made");
	ok(WITHIN(5000, ready(&a) && ready(&b)), "both are ready");
	turns(1000, 10);
	int64_t before = writes();
	days(1);
	is_int(writes(), before, "the API's defaults are no difference");

	row_begin("a person edits them");
	edit(ADMISSION_MUTATING, 1, "failurePolicy", "Ignore");
	ok(WITHIN(5000,
		  str_eqz(json_str(json_get(
				  json_item(json_get(stored(ADMISSION_MUTATING), "webhooks"), 1),
				  "failurePolicy")),
			  "Fail")),
	   "it's put back");
	turns(1000, 10);
	ok(writes() <= before + 2, "by one write of each at most");
	row_begin("a person deletes them");
	before = writes();
	sim_objects_remove(objects, sim_objects_get(objects, resource(ADMISSION_MUTATING), STR_NULL,
						    STR(MUTATING)));
	ok(WITHIN(5000, stored(ADMISSION_MUTATING)), "made again");
	turns(1000, 10);
	ok(writes() <= before + 2, "by one create of each at most");
	ok(everybody_connects(), "and trusted");
	finish();
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_chart();
	test_absent();
	test_replicas_race();
	test_faults();
	test_memory();
	test_fight();
	test_years();
	test_ca_renewal();
	test_unshared();
	test_files();
	test_outside();
	return done_testing();
}
