/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publisher of a node's fabric against a simulated API server: the Node's condition, labels and
 * taint, and Events, from facts of the test's own.
 */
#include "partition_rig.h"

#include "kube/event.h"
#include "loop/pulse.h"
#include "node/publisher.h"

#define NODE_JSON(name)                                                                            \
	"{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"" name                  \
	"\",\"labels\":{\"kubernetes.io/os\":\"linux\"}},\"spec\":{\"taints\":[{\"key\":"          \
	"\"others\",\"effect\":\"NoSchedule\"}]},\"status\":{\"conditions\":[{\"type\":"           \
	"\"Ready\",\"status\":\"True\"}]}}"
#define POD_JSON(name, node, labels, owners, phase)                                                \
	"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                   \
	"\",\"namespace\":\"" NS "\",\"labels\":{" labels "},\"ownerReferences\":[" owners         \
	"]},\"spec\":{\"nodeName\":\"" node "\",\"serviceAccountName\":\"default\",\"containers\"" \
	":[{\"name\":\"c\",\"image\":\"i\"}]},\"status\":{\"phase\":\"" phase "\"}}"
#define JOB_LABEL "\"graphcore.ai/job\":\"j\""
#define POD_TOKEN "\"graphcore.ai/pod\":\"00000000000000000000000000000aaa\""
#define OWNER                                                                                      \
	"{\"apiVersion\":\"graphcore.ai/v1alpha1\",\"kind\":\"IPUJob\",\"name\":\"j\",\"uid\":"    \
	"\"u-j\",\"controller\":true}"

static struct publisher *publisher;
static struct kube_recorder *recorder;
static struct vipu_address_list controllers;
static bool announced = true; /* the controllers are known from the beginning */

/* ---- the facts: mlx5_0/1 on eth2 leads to one:8090 ---- */

static struct rdma_port port;
static struct rdma_device device;
static struct fabric_reach reach;
static struct fabric_facts facts;

static void make_facts(void)
{
	port = (struct rdma_port){.number = 1, .state = RDMA_PORT_ACTIVE, .netdev = "eth2"};
	device = (struct rdma_device){
		.name = "mlx5_0", .opened = true, .ports = &port, .n_ports = 1};
	reach = (struct fabric_reach){.controller = "one:8090",
				      .address = "10.5.212.1",
				      .link = "eth2",
				      .up = true,
				      .rdma_device = "mlx5_0",
				      .rdma_port = 1};
	facts = (struct fabric_facts){
		.complete = true,
		.rdma = {.status = RDMA_OK, .devices = &device, .n_devices = 1},
		.reach = &reach,
		.n_reach = 1,
	};
}

static const struct fabric_facts *give_facts(void *arg)
{
	(void)arg;
	return &facts;
}

static void turn_port(bool up)
{
	port.state = up ? RDMA_PORT_ACTIVE : RDMA_PORT_DOWN;
	publisher_look(publisher);
}

/* ---- the process ---- */

static void process_begin(void)
{
	struct publisher_opts opts = {
		.loop = loop,
		.kube = kube,
		.node = "n1",
		.facts = give_facts,
		.controllers = announced ? &controllers : NULL,
		.need = FABRIC_RDMA_ROUTE,
		.settings = {.labels = true, .taint = PUBLISH_TAINT, .calm_ms = 10000},
	};

	recorder = kube_recorder_new(kube, "ipu-operator", "test");
	opts.recorder = recorder;
	publisher = publisher_new(&opts);
}

static void process_end(void)
{
	publisher_free(publisher);
	kube_recorder_free(recorder);
	kube_client_free(kube);
	kube = NULL;
}

static void restart(void)
{
	process_end();
	make_client();
	process_begin();
}

static void begin(const char *row)
{
	row_begin("%s", row);
	rig_begin(1);
	guarded = false;
	make_facts();
	vipu_address_parse(STR("one:8090:vipu-ctrl=one"), &controllers);
	make_object("namespaces", "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
				  "\"metadata\":{\"name\":\"default\"}}");
	make_object("nodes", NODE_JSON("n1"));
	make_object("nodes", NODE_JSON("n2"));
	make_object("pods", POD_JSON("j-worker-0", "n1", JOB_LABEL, OWNER, "Running"));
	make_object("pods", POD_JSON("j-worker-1", "n1", JOB_LABEL, OWNER, "Running"));
	make_object("pods", POD_JSON("done", "n1", JOB_LABEL, OWNER, "Succeeded"));
	make_object("pods", POD_JSON("elsewhere", "n2", JOB_LABEL, OWNER, "Running"));
	make_object("pods", POD_JSON("annotated", "n1", POD_TOKEN, "", "Running"));
	make_object("pods", POD_JSON("other", "n1", "", "", "Running"));
	process_begin();
}

static void end(void)
{
	process_end();
	make_client();
	vipu_address_list_done(&controllers);
	rig_end();
	row_end();
}

/* ---- what the API server has ---- */

static const struct json *node_json(const char *name)
{
	const struct sim_object *o = sim_objects_get(
		objects, sim_resource_find(STR(""), STR("nodes")), STR(""), str_of(name));

	return o ? sim_object_json(o) : NULL;
}

static const struct json *condition(const char *type)
{
	struct json_iter it = json_iter(json_at(node_json("n1"), "status", "conditions", NULL));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "type")), type))
			return it.value;
	}
	return NULL;
}

static bool is_condition(const char *status)
{
	return str_eqz(json_str(json_get(condition("IPUFabricReady"), "status")), status);
}

static bool has_taint(const char *key)
{
	struct json_iter it = json_iter(json_at(node_json("n1"), "spec", "taints", NULL));

	while (json_next(&it)) {
		if (str_eqz(json_str(json_get(it.value, "key")), key))
			return true;
	}
	return false;
}

static const char *label(const char *key)
{
	const char *z = json_cstr(json_at(node_json("n1"), "metadata", "labels", key, NULL));

	return z ? z : "";
}

/* Of all objects: "KIND/NAME" names one, "" all of them. */
static unsigned n_events(const char *reason, const char *about)
{
	struct sim_object **list;
	unsigned found = 0;
	size_t n;

	list = sim_objects_list(objects, sim_resource_find(STR(""), STR("events")), STR(""), &n);
	for (size_t i = 0; i < n; i++) {
		const struct json *e = sim_object_json(list[i]);
		const struct json *of = json_get(e, "involvedObject");
		CLEANUP_FREE char *is = xasprintf("%.*s/%.*s",
						  STR_ARG(json_str(json_get(of, "kind"))),
						  STR_ARG(json_str(json_get(of, "name"))));

		if (str_eqz(json_str(json_get(e, "reason")), reason) &&
		    (!about[0] || strcmp(is, about) == 0))
			found += (unsigned)json_int(json_get(e, "count"), 1);
	}
	free(list);
	return found;
}

static void edit_node(const char *patch)
{
	CLEANUP_JSON struct json_doc *p = NULL;
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();

	if (json_parse(str_of(patch), &p, NULL) < 0)
		bail_out("a patch of the test");
	jmut_set_root(doc, jmut_merge_patch(doc, jmut_copy(doc, node_json("n1")), json_root(p)));
	sim_objects_put(objects, sim_resource_find(STR(""), STR("nodes")), doc, jmut_root(doc));
}

static int64_t writes(void)
{
	return api_calls("patch nodes") + api_calls("patch nodes/status");
}

/* ---- a port that goes down and comes back ---- */

static void test_port(void)
{
	static const char *const told[] = {"Node/n1", "Pod/j-worker-0", "Pod/j-worker-1",
					   "IPUJob/j", "Pod/annotated"};
	int64_t before, at;
	struct err why = ERR_INIT;

	begin("a port");
	ok(!publisher_ready(publisher, &why), "not ready at first: %s", why.msg);
	ok(WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]), "the condition is there");
	ok(WITHIN(1000, publisher_ready(publisher, &why)), "and the role is ready: %s", why.msg);
	ok(condition("Ready") != NULL, "the kubelet's conditions are as they were");
	is_str(label("graphcore.ai/rdma"), "true", "the label");
	is_str(label("vipu-ctrl"), "one", "the controller's label");
	is_str(label("kubernetes.io/os"), "linux", "others' labels");
	ok(!has_taint(PUBLISH_TAINT), "no taint");
	ok(has_taint("others"), "others' taint");
	before = writes();
	is_int(before, 2, "that took two writes");
	WITHIN(60000, false);
	is_int(writes(), before, "and no more");

	at = clock_mono_ms();
	turn_port(false);
	ok(WITHIN(1000, is_condition("False")), "down: False within a second");
	ok(WITHIN(1000, has_taint(PUBLISH_TAINT)), "and the taint");
	note("%" PRId64 " ms", clock_mono_ms() - at);
	is_str(json_cstr(json_get(condition("IPUFabricReady"), "reason")), "RDMAPortDown",
	       "reason");
	ok(has_taint("others"), "others' taint is there too");
	is_str(label("vipu-ctrl"), "one", "the label stays");
	WITHIN(2000, false);
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		is_uint(n_events("IPUFabricNotReady", told[i]), 1, "an Event about %s", told[i]);
	is_uint(n_events("IPUFabricNotReady", ""), 5, "and about nobody else");

	turn_port(true);
	WITHIN(9000, false);
	ok(is_condition("False"), "back: not believed at once");
	ok(WITHIN(3000, is_condition("True") && !has_taint(PUBLISH_TAINT)),
	   "after ten seconds all is gone");
	ok(has_taint("others"), "but for others' taint");
	WITHIN(2000, false);
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		is_uint(n_events("IPUFabricReady", told[i]), 1, "an Event about %s", told[i]);
	is_uint(n_events("IPUFabricReady", ""), 5, "and about nobody else");
	is_int(writes(), before + 4, "two writes down, two up");
	ok(json_len(json_at(node_json("n2"), "metadata", "labels", NULL)) == 1,
	   "the other Node is left alone");
	end();
}

/* Lines of the log that tell of the fabric. */
static unsigned n_said(FILE *log)
{
	char line[1024];
	unsigned n = 0;

	rewind(log);
	while (fgets(line, sizeof(line), log))
		n += strstr(line, "fabric ready: ") != NULL;
	return n;
}

static void test_flapping(void)
{
	FILE *log = tmpfile();
	int64_t before;

	if (!log)
		bail_out("tmpfile");
	begin("a port that flaps");
	log_init(LOG_INFO, LOG_TEXT, fileno(log));
	WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]);
	WITHIN(1000, false);
	before = writes();
	for (int i = 0; i < 200; i++) {
		turn_port(i % 2 != 0);
		turns(20, 10);
	}
	ok(is_condition("False"), "is down for as long as it flaps");
	is_int(writes(), before + 2, "in two writes");
	is_uint(n_events("IPUFabricNotReady", "Node/n1"), 1, "and one Event");
	is_uint(n_said(log), 2, "the log tells of the beginning and of the first turn");
	ok(WITHIN(12000, is_condition("True")), "it's True when that has ended");
	is_uint(n_said(log), 3, "and of the end");
	log_init(LOG_FATAL, LOG_TEXT, 2);
	fclose(log);
	end();
}

/* ---- crashes, and others' hands ---- */

static void test_restarts(void)
{
	int64_t before;

	begin("restarts");
	WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]);
	before = writes();
	restart();
	WITHIN(5000, false);
	is_int(writes(), before, "a process that finds all as it should be writes nothing");
	turn_port(false);
	WITHIN(2000, has_taint(PUBLISH_TAINT));
	WITHIN(1000, false);
	facts.complete = false;
	restart();
	WITHIN(3000, false);
	ok(is_condition("False") && has_taint(PUBLISH_TAINT),
	   "what the one before has said stays while nothing is known");
	facts.complete = true;
	publisher_look(publisher);
	WITHIN(3000, false);
	is_uint(n_events("IPUFabricNotReady", "Node/n1"), 1, "and isn't told again");
	process_end();
	port.state = RDMA_PORT_ACTIVE;
	make_client();
	process_begin();
	WITHIN(9000, false);
	ok(is_condition("False"), "a port that came back meanwhile isn't believed at once either");
	ok(WITHIN(4000, is_condition("True") && !has_taint(PUBLISH_TAINT)),
	   "what the one before has set, this one takes away");
	ok(WITHIN(2000, n_events("IPUFabricReady", "IPUJob/j") == 1), "the job is told");
	end();
}

static void test_hands(void)
{
	begin("others' hands");
	WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]);
	turn_port(false);
	WITHIN(2000, has_taint(PUBLISH_TAINT));
	edit_node("{\"spec\":{\"taints\":null},\"metadata\":{\"labels\":{\"vipu-ctrl\":null}}}");
	ok(WITHIN(2000, has_taint(PUBLISH_TAINT)), "a taint that is taken off comes back");
	is_str(label("vipu-ctrl"), "", "a label doesn't while the controller isn't reached");
	turn_port(true);
	ok(WITHIN(12000, label("vipu-ctrl")[0]), "but then");
	edit_node("{\"status\":{\"conditions\":[]}}");
	ok(WITHIN(2000, is_condition("True")), "a condition that is gone comes back");
	sim_api_delete_now(api, sim_objects_get(objects, sim_resource_find(STR(""), STR("nodes")),
						STR(""), STR("n1")));
	WITHIN(2000, false);
	ok(!publisher_ready(publisher, NULL), "a Node that is gone");
	make_object("nodes", NODE_JSON("n1"));
	ok(WITHIN(3000, is_condition("True") && label("vipu-ctrl")[0]), "… and back is told again");
	end();
}

/* ---- a machine that only runs other things ---- */

static void test_no_head(void)
{
	begin("a machine without RDMA");
	facts.rdma = (struct rdma_inventory){.status = RDMA_NO_DEVICE};
	reach.rdma_device[0] = '\0';
	publisher_look(publisher);
	ok(WITHIN(2000, is_condition("False")), "it says so");
	WITHIN(1000, false);
	ok(!has_taint(PUBLISH_TAINT) && !publisher_is_head(publisher), "no taint");
	is_uint(n_events("IPUFabricNotReady", "Node/n1"), 0, "and no Event");
	is_uint(writes(), 1, "only the condition was written");
	edit_node("{\"metadata\":{\"labels\":{\"vipu-ctrl\":\"one\"}}}");
	ok(WITHIN(2000, has_taint(PUBLISH_TAINT)) && publisher_is_head(publisher),
	   "a person says that it belongs to a controller");
	end();
}

/* ---- an API server in trouble ---- */

static void test_faults(void)
{
	struct err why = ERR_INIT;

	begin("an API server in trouble");
	WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]);
	inject_api(
		"{\"kind\":\"status\",\"verb\":\"patch\",\"resource\":\"nodes\",\"status\":409,\"count\":1}");
	turn_port(false);
	ok(WITHIN(5000, is_condition("False") && has_taint(PUBLISH_TAINT)), "a conflict");
	turn_port(true);
	WITHIN(12000, is_condition("True") && !has_taint(PUBLISH_TAINT));
	inject_api(
		"{\"kind\":\"status\",\"verb\":\"patch\",\"resource\":\"nodes\",\"status\":403,\"count\":4}");
	turn_port(false);
	ok(WITHIN(2000, !publisher_ready(publisher, &why)), "refused: not ready: %s", why.msg);
	ok(strstr(why.msg, "the Node can't be written"), "for what reason");
	ok(WITHIN(60000, is_condition("False") && has_taint(PUBLISH_TAINT)), "tried again");
	ok(WITHIN(1000, publisher_ready(publisher, &why)), "and ready");
	WITHIN(1000, false);
	is_uint(n_events("IPUFabricNotReady", "Node/n1"), 2, "each turn is told once");
	end();
}

/* A write that lasts to its deadline isn't a queue that is stuck. */
static void test_slow(void)
{
	bool stuck = false;

	begin("an API server that doesn't answer");
	WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]);
	inject_api("{\"kind\":\"hang\",\"verb\":\"patch\",\"resource\":\"nodes\",\"count\":1}");
	turn_port(false);
	for (int s = 0; s < 9; s++) {
		WITHIN(1000, false);
		pulses_tick();
		stuck = stuck || pulses_stuck(5, 1000);
	}
	ok(!is_condition("False"), "the write hangs");
	ok(!stuck, "and the role isn't stuck");
	ok(WITHIN(20000, is_condition("False") && has_taint(PUBLISH_TAINT)), "it's tried again");
	end();
}

static void test_controllers(void)
{
	struct err why = ERR_INIT;
	struct vipu_address_list other;

	announced = false;
	begin("controllers that aren't known yet");
	WITHIN(3000, false);
	ok(!condition("IPUFabricReady") && writes() == 0, "nothing is published");
	ok(!publisher_ready(publisher, &why) && strstr(why.msg, "list of controllers"), "%s",
	   why.msg);
	publisher_set_controllers(publisher, &controllers);
	ok(WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]), "until they are");
	vipu_address_parse(STR("one:8090:other-key=x"), &other);
	publisher_set_controllers(publisher, &other);
	ok(WITHIN(2000, label("other-key")[0] && !label("vipu-ctrl")[0]), "a label that changes");
	publisher_set(publisher, FABRIC_RDMA_NONE, &(struct publish_settings){.taint = ""});
	ok(WITHIN(2000, !label("other-key")[0] && !label("graphcore.ai/rdma")[0]),
	   "labels that aren't wanted any more");
	turn_port(false);
	WITHIN(3000, false);
	ok(is_condition("True"), "a port that nobody asks for");
	vipu_address_list_done(&other);
	end();
	announced = true;
}

/* A driver that is loaded again. */
static void test_driver(void)
{
	int64_t before;

	begin("a driver that is loaded again");
	WITHIN(2000, is_condition("True") && label("vipu-ctrl")[0]);
	facts.rdma.status = RDMA_NO_DEVICE;
	publisher_look(publisher);
	ok(WITHIN(1000, is_condition("False") && has_taint(PUBLISH_TAINT)), "no device: False");
	is_str(label("graphcore.ai/rdma"), "true", "the label stays for a while");
	facts.rdma.status = RDMA_OK;
	publisher_look(publisher);
	ok(WITHIN(12000, is_condition("True")), "back in time");
	before = writes();
	WITHIN(20000, false);
	is_str(label("graphcore.ai/rdma"), "true", "the label was there all along");
	is_int(writes(), before + 1, "and costs nothing but the taint's end");
	facts.rdma.status = RDMA_NO_DEVICE;
	publisher_look(publisher);
	WITHIN(9000, false);
	is_str(label("graphcore.ai/rdma"), "true",
	       "gone for good: the label stays for ten seconds");
	ok(WITHIN(2000, !label("graphcore.ai/rdma")[0]), "and goes then");
	is_str(label("vipu-ctrl"), "one", "the controller's stays");
	end();
}

/* One whose way leads by a gateway, and whose RDMA port is another's. */
static void test_gateway(void)
{
	announced = false;
	begin("a way by a gateway");
	strcpy(reach.gateway, "10.9.0.1");
	reach.rdma_device[0] = '\0';
	publisher_set(publisher, FABRIC_RDMA_ANY,
		      &(struct publish_settings){.labels = true, .taint = PUBLISH_TAINT});
	publisher_set_controllers(publisher, &controllers);
	ok(WITHIN(2000, is_condition("True") && label("graphcore.ai/rdma")[0]), "any: all is well");
	WITHIN(2000, false);
	is_str(label("vipu-ctrl"), "", "but that the controller is ours it doesn't say");
	publisher_set(publisher, FABRIC_RDMA_NONE,
		      &(struct publish_settings){.labels = true, .taint = PUBLISH_TAINT});
	WITHIN(2000, false);
	is_str(label("vipu-ctrl"), "", "nor with none");
	reach.gateway[0] = '\0';
	publisher_look(publisher);
	ok(WITHIN(2000, label("vipu-ctrl")[0]), "on the link itself it does");
	strcpy(reach.gateway, "10.9.0.1");
	publisher_look(publisher);
	WITHIN(2000, false);
	is_str(label("vipu-ctrl"), "one", "and what is there stays");
	end();
	announced = true;
}

int main(void)
{
	log_init(LOG_FATAL, LOG_TEXT, 2);
	test_port();
	test_flapping();
	test_restarts();
	test_hands();
	test_no_head();
	test_faults();
	test_slow();
	test_controllers();
	test_driver();
	test_gateway();
	return done_testing();
}
