/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of controllers against a simulated API server and simulated controllers: sources and
 * their order, what a ConfigMap's edits do, cordon and drain, Secrets, and the manager beside it.
 */
#include "partition_manager_rig.h"
#include "no_memory.h"

#include <stdlib.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/metrics.h"
#include "kube/event.h"
#include "partition/controllers.h"

#define MAP "ipu-operator-vipu-controllers"

static struct controllers *list;
static struct kube_recorder *recorder;
static struct vipu_sim *other; /* a second controller */
static unsigned knowns;
static char sim_name[32], other_name[32];

/* ---- the rig ---- */

static void on_known(void *arg)
{
	(void)arg;
	knowns++;
	partitions_fleet_known(parts);
}

struct keys {
	const char *server, *list, *file;
	bool no_map;
};

static void parse(const char *text, struct vipu_address_list *ret)
{
	*ret = (struct vipu_address_list){0};
	if (text)
		vipu_address_parse(str_of(text), ret);
}

static void operator_begin(const struct keys *k)
{
	struct vipu_address_list alone, fixed;
	struct controllers_config config = {.ns = NS,
					    .server = &alone,
					    .list = &fixed,
					    .file = k->file,
					    .config_map = k->no_map ? "" : MAP};

	parse(k->server, &alone);
	parse(k->list, &fixed);
	knowns = 0;
	process_begin_pending();
	recorder = kube_recorder_new(kube, "ipu-operator", "test");
	list = controllers_new(kube, fleet, recorder, &config, on_known, NULL);
	vipu_address_list_done(&alone);
	vipu_address_list_done(&fixed);
}

static void operator_kill(void)
{
	controllers_free(list);
	kube_recorder_free(recorder);
	process_kill();
}

static void world_begin(const char *name)
{
	struct vipu_sim_config config = {.agents = 16, .create_ms = 300};
	struct err err = ERR_INIT;

	row_begin("%s", name);
	rig_begin(16);
	guarded = false; /* it knows one controller only */
	if (vipu_sim_new(net, &config, &other, &err) < 0)
		bail_out(err.msg);
	snprintf(sim_name, sizeof(sim_name), "127.0.0.1:%u", vipu_sim_port(sim));
	snprintf(other_name, sizeof(other_name), "127.0.0.1:%u", vipu_sim_port(other));
}

static void world_end(void)
{
	controllers_free(list);
	kube_recorder_free(recorder);
	partitions_free(parts);
	vipu_fleet_free(fleet);
	vipu_sim_free(other);
	rig_end();
	row_end();
}

static void start(const char *name, const struct keys *k)
{
	world_begin(name);
	operator_begin(k);
}

static struct sim_object *find_object(const char *plural, const char *name)
{
	return sim_objects_get(objects, sim_resource_find(STR(""), str_of(plural)), STR(NS),
			       str_of(name));
}

/* Makes the object, or merges into what is there. */
static void apply(const char *plural, const char *kind, const char *name, const char *patch)
{
	const struct sim_resource *r = sim_resource_find(STR(""), str_of(plural));
	CLEANUP_FREE char *meta = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"%s\",\"metadata\":{"
					    "\"name\":\"%s\",\"namespace\":\"" NS "\"}}",
					    kind, name);
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root;

	if (!find_object(plural, name))
		make_object(plural, meta);
	if (json_parse(str_of(patch), &p, NULL) < 0)
		bail_out(patch);
	root = jmut_copy(doc, sim_object_json(find_object(plural, name)));
	root = jmut_merge_patch(doc, root, json_root(p));
	jmut_set_root(doc, root);
	sim_objects_put(objects, r, doc, root);
}

/* The ConfigMap's text from now on. */
static void put_map(const char *text)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct jmut *root = jmut_object(doc), *data = jmut_object(doc);
	struct buf out = BUF_INIT(65536);
	CLEANUP_FREE char *patch = NULL;

	jmut_set_str(doc, data, CONTROLLERS_KEY, text);
	jmut_set(doc, root, "data", data);
	if (jmut_write(root, JSON_COMPACT, &out, NULL) < 0)
		bail_out("a patch");
	patch = str_dup(buf_str(&out));
	buf_done(&out);
	apply("configmaps", "ConfigMap", MAP, patch);
}

static void annotate(const char *key, const char *value)
{
	CLEANUP_FREE char *patch = xasprintf("{\"metadata\":{\"annotations\":{\"%s\":%s%s%s}}}",
					     key, value ? "\"" : "", value ? value : "null",
					     value ? "\"" : "");

	apply("configmaps", "ConfigMap", MAP, patch);
}

static void delete_object(const char *plural, const char *name)
{
	sim_api_delete_now(api, find_object(plural, name));
}

/* The fleet's names, those that are only held in brackets, cordoned ones with "!". */
static const char *fleet_names(void)
{
	static char z[512];

	z[0] = '\0';
	for (size_t i = 0; i < vipu_fleet_len(fleet); i++) {
		const struct vipu_controller *c = vipu_fleet_at(fleet, i);

		snprintf(z + strlen(z), sizeof(z) - strlen(z), "%s%s%s%s%s%s", i ? " " : "",
			 c->configured ? "" : "(", c->name, c->configured ? "" : ")",
			 c->cordoned ? "!" : "", c->draining ? "!" : "");
	}
	return z;
}

static bool fleet_is(const char *want)
{
	if (WITHIN(2000, strcmp(fleet_names(), want) == 0))
		return true;
	diag("the fleet is \"%s\", not \"%s\"", fleet_names(), want);
	return false;
}

/* Is there an Event with this reason whose message has these words? */
static bool has_event(const char *reason, const char *words)
{
	const struct sim_resource *r = sim_resource_find(STR(""), STR("events"));
	size_t n = 0;
	struct sim_object **all = sim_objects_list(objects, r, STR(NS), &n);
	bool found = false;

	for (size_t i = 0; i < n; i++) {
		const struct json *v = sim_object_json(all[i]);

		found = found ||
			(str_eqz(json_str(json_get(v, "reason")), reason) &&
			 str_eqz(json_str(json_at(v, "involvedObject", "name", NULL)), MAP) &&
			 strstr(json_cstr(json_get(v, "message")), words));
	}
	free(all);
	return found;
}

static double bad(const char *source)
{
	static const char *const labels[] = {"source", NULL};
	struct metric *m = metric_new(METRIC_GAUGE, "ipu_operator_controllers_bad",
				      "What can't be used of the list of controllers and what "
				      "belongs to it.",
				      labels, NULL, 0);

	return metric_value(m, &source);
}

/* ---- sources ---- */

static void test_order(void)
{
	char path[] = "/tmp/ipu-controllers-XXXXXX";
	CLEANUP_FREE char *text = NULL;
	int fd = mkstemp(path);

	if (fd < 0)
		bail_out("no temporary file");
	text = xasprintf("- %s:from=file\n- f\n- s\n", other_name);
	world_begin("the order of the sources");
	put_map("m,f,k");
	if (dprintf(fd, "- f:8090:from=file\n- s\n") < 0)
		bail_out("write");
	close(fd);
	operator_begin(&(struct keys){.server = "s", .list = "k:8090:from=key,s", .file = path});
	ok(!controllers_synced(list) && vipu_fleet_len(fleet) == 0, "nothing is known at once");
	ok(fleet_is("s:8090 k:8090 f:8090 m:8090"), "merged");
	ok(controllers_synced(list) && knowns == 1, "known, said once");
	is_str(vipu_fleet_find(fleet, "k:8090")->address.value, "key", "the first one counts");
	put_map("k,m2");
	ok(fleet_is("s:8090 k:8090 f:8090 m2:8090"), "the ConfigMap is edited");
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || dprintf(fd, "m2:8090:from=file") < 0)
		bail_out("write");
	close(fd);
	ok(fleet_is("s:8090 k:8090 m2:8090"), "the file is edited");
	is_str(vipu_fleet_find(fleet, "m2:8090")->address.value, "file", "and goes before");
	unlink(path);
	turns(50, 10);
	is_str(fleet_names(), "s:8090 k:8090 m2:8090", "the file goes: not at once");
	ok(WITHIN(CONTROLLERS_GONE_MS, !vipu_fleet_find(fleet, "m2:8090")->address.value[0]),
	   "it counts as empty, and the ConfigMap's entry counts");
	is_int(knowns, 1, "known is known");
	world_end();
}

static void test_pending(void)
{
	struct err why = ERR_INIT;

	world_begin("until the ConfigMap has been read");
	put_map("m");
	inject_api("{\"kind\":\"status\",\"status\":403,\"verb\":\"list\",\"resource\":"
		   "\"configmaps\",\"count\":0,\"message\":\"not you\"}");
	operator_begin(&(struct keys){.list = "k"});
	WITHIN(20000, false);
	is_int(vipu_fleet_len(fleet), 0, "no controller is configured");
	ok(controllers_check(list, &why) < 0, "not ready");
	has_str(why.msg,
		"controllersConfigMap: ConfigMap " NS "/" MAP " can't be read: ", "says which");
	has_str(why.msg, "not you", "and why");
	ok(bad("configmap") > 0, "a metric too");
	sim_api_clear_faults(api);
	ok(WITHIN(60000, controllers_synced(list)), "it's read");
	ok(fleet_is("k:8090 m:8090"), "all of them");
	ok(controllers_check(list, &why) == 0, "ready");
	ok(bad("configmap") == 0, "well again");
	sim_api_cut_watches(api);
	put_map("m2");
	ok(WITHIN(60000, vipu_fleet_find(fleet, "m2:8090") != NULL),
	   "an edit while the watch is away");
	world_end();
}

static void test_missing_file(void)
{
	char folder[] = "/tmp/ipu-controllers-XXXXXX";
	CLEANUP_FREE char *path = NULL;
	struct err why = ERR_INIT;
	FILE *f;

	if (!mkdtemp(folder))
		bail_out("no temporary folder");
	path = xasprintf("%s/list", folder);
	start("a file that isn't there", &(struct keys){.list = "k", .file = path, .no_map = true});
	WITHIN(5000, false);
	ok(!controllers_synced(list) && vipu_fleet_len(fleet) == 0, "nothing begins");
	ok(controllers_check(list, &why) < 0, "not ready");
	has_str(why.msg, "controllersFile: ", "says which");
	has_str(why.msg, "there is no such file", "and why");
	f = fopen(path, "we");
	if (!f)
		bail_out(path);
	fputs("- [\n", f);
	fclose(f);
	WITHIN(5000, false);
	ok(!controllers_synced(list) && bad("file") > 0, "one that can't be read isn't enough");
	f = fopen(path, "we");
	if (!f)
		bail_out(path);
	fputs("- a\n- b:0\n", f);
	fclose(f);
	ok(fleet_is("k:8090 a:8090"), "it's there: the good entries serve");
	ok(controllers_synced(list) && bad("file") == 1, "one is bad");
	f = fopen(path, "we");
	fclose(f);
	turns(50, 10);
	is_str(fleet_names(), "k:8090 a:8090", "empty: somebody is writing it");
	f = fopen(path, "we");
	fputs("c", f);
	fclose(f);
	ok(fleet_is("k:8090 c:8090"), "written");
	f = fopen(path, "we");
	fclose(f);
	ok(WITHIN(CONTROLLERS_GONE_MS + 500, vipu_fleet_len(fleet) == 1), "meant to be empty");
	unlink(path);
	rmdir(folder);
	world_end();
}

static void test_config_map(void)
{
	start("a ConfigMap's life", &(struct keys){.list = "k"});
	ok(fleet_is("k:8090"), "there is none");
	is_int(knowns, 1, "which is known");
	put_map("controllers:\n- a\n- b:99999\n- c\n");
	ok(fleet_is("k:8090 a:8090 c:8090"), "made: the good ones serve");
	ok(WITHIN(2000, has_event("BadController",
				  CONTROLLERS_KEY ":3:3: \"b:99999\": port \"99999\" isn't a "
						  "number from 1 to 65535")),
	   "an Event for the bad one");
	ok(bad("configmap") == 1, "a metric");
	put_map("- a\n- [");
	ok(WITHIN(2000, has_event("BadController", "the list as it was before goes on to serve")),
	   "not YAML: an Event");
	is_str(fleet_names(), "k:8090 a:8090 c:8090", "and nothing changes");
	apply("configmaps", "ConfigMap", MAP,
	      "{\"data\":{\"controllers.yaml\":null,\"controllers\":\"a\"}}");
	ok(WITHIN(2000, has_event("BadController", "has no key " CONTROLLERS_KEY)),
	   "another key: an Event");
	is_str(fleet_names(), "k:8090 a:8090 c:8090", "and nothing changes");
	apply("configmaps", "ConfigMap", MAP, "{\"data\":{\"controllers\":null}}");
	ok(fleet_is("k:8090"), "no data: none");
	ok(bad("configmap") == 0, "which is fine");
	put_map("a");
	ok(fleet_is("k:8090 a:8090"), "one again");
	delete_object("configmaps", MAP);
	turns(100, 10);
	put_map("a,d");
	turns(CONTROLLERS_GONE_MS / 10, 10);
	is_str(fleet_names(), "k:8090 a:8090 d:8090", "deleted and made again: nothing was lost");
	delete_object("configmaps", MAP);
	turns(100, 10);
	is_str(fleet_names(), "k:8090 a:8090 d:8090", "deleted: not at once");
	ok(WITHIN(CONTROLLERS_GONE_MS, vipu_fleet_len(fleet) == 1), "but then");
	world_end();
}

static void test_annotations(void)
{
	start("cordon and drain", &(struct keys){.list = "k,[fd00::7]:9000"});
	annotate(CONTROLLERS_CORDON, "K, nobody:1");
	ok(fleet_is("k:8090! [fd00::7]:9000"), "cordoned, by a name without its port");
	ok(WITHIN(2000, has_event("UnknownController", "there is no controller \"nobody:1\"")),
	   "an unknown name");
	ok(bad("annotation") == 1, "a metric");
	annotate(CONTROLLERS_DRAIN, "[fd00::7]:9000");
	ok(fleet_is("k:8090! [fd00::7]:9000!!"), "drained");
	ok(WITHIN(2000, has_event("ControllerDrained", "[fd00::7]:9000 is drained")),
	   "and empty already");
	put_map("- [");
	annotate(CONTROLLERS_CORDON, NULL);
	ok(fleet_is("k:8090 [fd00::7]:9000!!"), "annotations count whatever the list is like");
	annotate(CONTROLLERS_DRAIN, NULL);
	ok(fleet_is("k:8090 [fd00::7]:9000"), "taken back");
	annotate(CONTROLLERS_DRAIN, "k:8090");
	ok(fleet_is("k:8090!! [fd00::7]:9000"), "drained");
	delete_object("configmaps", MAP);
	ok(WITHIN(CONTROLLERS_GONE_MS + 500, strchr(fleet_names(), '!') == NULL),
	   "without the ConfigMap: not any more");
	world_end();
}

/* ---- Secrets ---- */

static const char *reason_of(const char *name)
{
	const struct vipu_controller *c = vipu_fleet_find(fleet, name);

	return c ? c->reason : "(not there)";
}

static bool reaches(const char *name, enum vipu_reach reach)
{
	return WITHIN(8000,
		      vipu_fleet_find(fleet, name) && vipu_fleet_find(fleet, name)->reach == reach);
}

static unsigned long calls(struct vipu_sim *s)
{
	return vipu_sim_calls(s, VIPU_GET_VERSION) + vipu_sim_calls(s, VIPU_LIST_PARTITIONS);
}

static void secure(const char *json)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &doc, NULL) < 0 ||
	    vipu_sim_secure(other, json_root(doc), &err) < 0)
		bail_out(err.msg);
}

/* The Secret as the controller wants it now; key NULL: that one. */
static void put_secret(const char *key)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new(), *patch = jmut_doc_new();
	const struct json *want = jmut_view(vipu_sim_secure_to_json(other, doc));
	struct jmut *root = jmut_object(patch), *data = jmut_object(patch);
	struct buf out = BUF_INIT(65536);
	CLEANUP_FREE char *text = NULL;
	static const char *const keys[][2] = {{"userId", "userId"},
					      {"accessKey", "accessKey"},
					      {"ca.crt", "ca"},
					      {"tls.crt", "cert"},
					      {"tls.key", "key"}};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct str v = json_str(json_get(want, keys[i][1]));
		CLEANUP_FREE char *b64 = NULL;

		if (i == 1 && key)
			v = str_of(key);
		b64 = base64_encode(v.p ? v.p : "", v.len);
		jmut_set_str(patch, data, keys[i][0], b64);
	}
	jmut_set(patch, root, "data", data);
	if (jmut_write(root, JSON_COMPACT, &out, NULL) < 0)
		bail_out("a patch");
	text = str_dup(buf_str(&out));
	buf_done(&out);
	apply("secrets", "Secret", "vipu", text);
}

static void put_secure_map(const char *more)
{
	CLEANUP_FREE char *text = xasprintf("- {address: '%s', secretName: vipu%s}\n", other_name,
					    more);

	put_map(text);
}

static void test_secrets(void)
{
	unsigned long before;

	start("a secure controller", &(struct keys){.list = NULL});
	secure("{\"userId\":\"me\",\"accessKey\":\"first\",\"clientCert\":true}");
	put_secure_map("");
	ok(reaches(other_name, VIPU_REACH_NO), "without its Secret");
	ok(WITHIN(2000, strstr(reason_of(other_name), "Secret " NS "/vipu isn't there") != NULL),
	   "says so: %s", reason_of(other_name));
	ok(WITHIN(2000, has_event("BadSecret", "isn't there")), "an Event");
	ok(bad("secret") == 1, "a metric");
	WITHIN(10000, false);
	is_uint(calls(other), 0, "it was never called");
	put_secret("wrong");
	ok(WITHIN(5000, strstr(reason_of(other_name), "there") == NULL && calls(other) > 0),
	   "a Secret with a wrong key: it's called");
	ok(reaches(other_name, VIPU_REACH_NO), "and says no: %s", reason_of(other_name));
	put_secret(NULL);
	ok(reaches(other_name, VIPU_REACH_YES), "with the right one it answers");
	ok(bad("secret") == 0, "all is well");

	secure("{\"accessKey\":\"second\"}");
	vipu_fleet_refresh(fleet, other_name);
	ok(reaches(other_name, VIPU_REACH_NO), "the key is rotated there");
	put_secret(NULL);
	ok(reaches(other_name, VIPU_REACH_YES), "and here");
	secure("{\"newCertificate\":true}");
	vipu_fleet_refresh(fleet, other_name);
	ok(reaches(other_name, VIPU_REACH_NO), "another CA there");
	put_secret(NULL);
	ok(reaches(other_name, VIPU_REACH_YES), "and here");

	apply("secrets", "Secret", "vipu", "{\"data\":{\"ca.crt\":\"bm90IGEgY2VydGlmaWNhdGU=\"}}");
	ok(WITHIN(2000, has_event("BadSecret", "its former version goes on to serve")),
	   "a bad version: an Event");
	WITHIN(40000, false);
	ok(reaches(other_name, VIPU_REACH_YES), "and the former one serves");
	apply("secrets", "Secret", "vipu", "{\"data\":{\"accessKey\":null}}");
	ok(WITHIN(2000, has_event("BadSecret", "it has userId and no accessKey")), "half a pair");
	delete_object("secrets", "vipu");
	ok(reaches(other_name, VIPU_REACH_NO), "deleted: it isn't called any more");
	before = calls(other);
	WITHIN(10000, false);
	is_uint(calls(other), before, "indeed");
	put_secret(NULL);
	ok(reaches(other_name, VIPU_REACH_YES), "made again");
	put_map("");
	ok(WITHIN(2000, vipu_fleet_len(fleet) == 0), "it leaves the list");
	ok(api_calls("list secrets") >= 1, "the Secret was listed");
	world_end();
}

/* Each allocation fails once whose size the API server decides: at the latest a little later the
 * new key counts, without another event. */
static void test_secret_without_memory(void)
{
	unsigned stale = 0;

	start("a Secret that there's no memory for", &(struct keys){.list = NULL});
	secure("{\"userId\":\"me\",\"accessKey\":\"first\",\"clientCert\":true}");
	put_secret(NULL);
	put_secure_map("");
	ok(reaches(other_name, VIPU_REACH_YES), "it answers");
	struct no_memory m = {.most = 40};

	while (no_memory_next(&m)) {
		CLEANUP_FREE char *key = xasprintf("{\"accessKey\":\"key %lu\"}", m.n);

		secure(key);
		put_secret(NULL);
		no_memory_begin(&m);
		WITHIN(200, false);
		no_memory_end(&m);
		WITHIN(20000, false);
		vipu_fleet_refresh(fleet, other_name);
		WITHIN(2000, false);
		if (!reaches(other_name, VIPU_REACH_YES)) {
			diag("allocation %lu: %s", m.n, reason_of(other_name));
			stale++;
			put_secret(NULL);
		}
	}
	is_uint(stale, 0, "the key of each version counts in the end");
	ok(bad("secret") == 0, "all is well");
	world_end();
}

static void test_no_secret(void)
{
	CLEANUP_FREE char *text = NULL;

	start("TLS without a Secret", &(struct keys){.list = NULL});
	secure("{}");
	text = xasprintf("- {address: '%s', tls: true}\n", other_name);
	put_map(text);
	ok(reaches(other_name, VIPU_REACH_NO), "the system's authorities don't know it: %s",
	   reason_of(other_name));
	free(text);
	text = xasprintf("- {address: '%s', tls: {insecureSkipVerify: true}}\n", other_name);
	put_map(text);
	ok(reaches(other_name, VIPU_REACH_YES), "nor need they");
	world_end();
}

/* ---- with the manager ---- */

static bool on(const char *uid, const char *name)
{
	struct partition_status st = seen(uid);

	return st.state == PARTITION_STATE_ACTIVE && strcmp(st.controller, name) == 0;
}

static void test_moves(void)
{
	CLEANUP_FREE char *both = NULL;
	char id[64];

	world_begin("jobs follow the list");
	both = xasprintf("- %s:a=b\n- %s\n", sim_name, other_name);
	put_map(sim_name);
	operator_begin(&(struct keys){0});
	want("one", 64);
	ok(WITHIN(8000, on("one", sim_name)), "the first controller is full");
	want("two", 8);
	WITHIN(5000, false);
	ok(is_because("two", PARTITION_STATE_WAITING, PARTITION_WHY_NO_ROOM), "the next waits");
	put_map(both);
	ok(WITHIN(8000, on("two", other_name)), "a second controller: it goes there");
	snprintf(id, sizeof(id), "%s", seen("one").id);
	put_map(other_name);
	ok(WITHIN(3000, !vipu_fleet_find(fleet, sim_name)->configured),
	   "the first leaves the list");
	WITHIN(60000, false);
	ok(on("one", sim_name) && strcmp(seen("one").id, id) == 0, "its partition goes on");
	is_str(seen("one").host, "127.0.0.1", "and can be used");
	operator_kill();
	operator_begin(&(struct keys){0});
	ok(WITHIN(8000, on("one", sim_name) && on("two", other_name)),
	   "another process finds both");
	WITHIN(700000, false);
	ok(on("one", sim_name), "ten minutes are no reason");
	partition_release_all(parts, "one");
	ok(WITHIN(20000, vipu_sim_len(sim) == 0), "its partition is released there");
	ok(WITHIN(5000, vipu_fleet_find(fleet, sim_name) == NULL), "then the controller goes");
	world_end();
}

/* What is being made when the process ends isn't given up because the list isn't known yet. */
static void test_creating(void)
{
	char id[64];

	world_begin("a create over a restart");
	put_map(sim_name);
	operator_begin(&(struct keys){0});
	vipu_sim_set_delays(sim, 30000, 300, 300);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_CREATING) && vipu_sim_len(sim) == 1), "under way");
	turns(20, 10);
	snprintf(id, sizeof(id), "%s", seen("u").id);
	operator_kill();
	/* The tracker is read, the list isn't. */
	inject_api("{\"kind\":\"status\",\"status\":503,\"verb\":\"list\",\"resource\":"
		   "\"configmaps\",\"skip\":1,\"count\":3}");
	operator_begin(&(struct keys){0});
	want("u", 4);
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "active");
	is_str(seen("u").id, id, "the same one");
	is_uint(vipu_sim_created(sim), 1, "no other was made");
	world_end();
}

static void test_drain(void)
{
	CLEANUP_FREE char *both = NULL;

	world_begin("drained");
	both = xasprintf("%s,%s", sim_name, other_name);
	put_map(both);
	operator_begin(&(struct keys){0});
	want("one", 8);
	ok(WITHIN(8000, on("one", sim_name)), "one on the first");
	annotate(CONTROLLERS_DRAIN, sim_name);
	ok(WITHIN(2000, vipu_fleet_find(fleet, sim_name)->draining), "which is drained");
	want("two", 8);
	ok(WITHIN(8000, on("two", other_name)), "the next goes elsewhere");
	WITHIN(5000, false);
	ok(!has_event("ControllerDrained", sim_name), "it isn't empty");
	partition_release_all(parts, "one");
	ok(WITHIN(20000, has_event("ControllerDrained", sim_name)), "now it is");
	world_end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(3);
	test_order();
	test_pending();
	test_missing_file();
	test_config_map();
	test_annotations();
	test_secrets();
	test_secret_without_memory();
	test_no_secret();
	test_moves();
	test_creating();
	test_drain();
	return done_testing();
}
