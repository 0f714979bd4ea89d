/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated controller through our client: the life of partitions, placement, every fault,
 * changes by hand, counters; and the client's metrics. On a frozen clock throughout.
 * Uses core, loop, net, grpc, vipu and the simulator.
 */
#include "tap.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/metrics.h"
#include "grpc/status.h"
#include "net/net.h"
#include "sim/vipu_sim.h"
#include "vipu/client.h"

static struct loop *loop;
static struct net *net;
static struct vipu_sim *sim;
static struct vipu_client *client;

struct answer {
	int calls;
	struct err err;
	enum vipu_ready ready;
	enum vipu_operation operation;
	unsigned auto_resets;
	size_t n_errors;
	size_t n;
	char text[64];
};

static void take(struct answer *a, const struct err *err)
{
	a->calls++;
	a->err = err ? *err : (struct err)ERR_INIT;
}

static void on_done(void *arg, const struct err *err)
{
	take(arg, err);
}

static void on_created(void *arg, const struct err *err, const char *id)
{
	struct answer *a = arg;
	take(a, err);
	snprintf(a->text, sizeof(a->text), "%s", id ? id : "");
}

static void on_status(void *arg, const struct err *err, struct vipu_status *got)
{
	struct answer *a = arg;
	take(a, err);
	if (got) {
		a->ready = got->ready;
		a->operation = got->operation;
		a->n_errors = got->n_errors;
		a->auto_resets = got->auto_resets;
	}
}

static void on_list(void *arg, const struct err *err, struct vipu_partitions *got)
{
	struct answer *a = arg;
	take(a, err);
	a->n = got ? got->n : 0;
}

/* Turns until it's answered; the clock moves in small steps, so that deadlines pass. */
static void await(struct answer *a)
{
	for (int i = 0; i < 400 && a->calls == 0; i++) {
		loop_turn(loop, 3);
		if (i > 20)
			clock_advance(20);
	}
}

static void turns(int n)
{
	while (n-- > 0)
		loop_turn(loop, 2);
}

static struct answer create_spec(const struct vipu_create *req)
{
	struct answer a = {0};
	vipu_create_partition_start(client, req, 3000, on_created, &a, NULL);
	await(&a);
	return a;
}

static struct answer create(const char *id, uint32_t size)
{
	return create_spec(&(struct vipu_create){
		.id = id, .size = size, .segments = size > 64 ? size / 64 : 0});
}

static struct answer status_of(const char *id)
{
	struct answer a = {0};
	vipu_get_partition_status_start(client, id, 3000, on_status, &a, NULL);
	await(&a);
	return a;
}

static struct answer remove_it(const char *id, bool force)
{
	struct answer a = {0};
	vipu_remove_partition_start(client, &(struct vipu_remove){id, force}, 3000, on_done, &a,
				    NULL);
	await(&a);
	return a;
}

static struct answer reset_it(const char *id)
{
	struct answer a = {0};
	vipu_reset_partition_start(client, &(struct vipu_reset){id, false}, 3000, on_done, &a,
				   NULL);
	await(&a);
	return a;
}

static void later(int64_t ms)
{
	clock_advance(ms);
	turns(2);
}

static void begin(unsigned agents)
{
	struct vipu_sim_config config = {.agents = agents};
	struct err err = ERR_INIT;

	if (vipu_sim_new(net, &config, &sim, &err) < 0)
		bail_out(err.msg);
	client = vipu_client_new(
		net, &(struct vipu_client_config){.host = "127.0.0.1", .port = vipu_sim_port(sim)});
}

static void end(void)
{
	ok(!vipu_sim_is_broken(sim), "no IPU was in two partitions");
	vipu_client_free(client);
	vipu_sim_free(sim);
	turns(3);
}

static void is_state(const char *id, enum vipu_ready ready, enum vipu_operation operation)
{
	struct answer a = status_of(id);
	ok(a.err.kind == ERR_NONE && a.ready == ready && a.operation == operation,
	   "%s is %s, %s (%s)", id, vipu_ready_name(ready), vipu_operation_name(operation),
	   a.err.msg);
}

static void test_life(void)
{
	struct answer a;

	begin(16);
	a = create("p", 16);
	is_str(a.text, "p", "created");
	is_state("p", VIPU_PS_PENDING, VIPU_POS_CREATING);
	later(499);
	is_state("p", VIPU_PS_PENDING, VIPU_POS_CREATING);
	later(1);
	is_state("p", VIPU_PS_ACTIVE, VIPU_POS_IDLE);
	is_int(reset_it("p").err.kind, ERR_NONE, "reset");
	is_state("p", VIPU_PS_PENDING, VIPU_POS_RESETTING);
	is_int(reset_it("p").err.kind, ERR_BUSY, "not twice at once");
	later(300);
	is_state("p", VIPU_PS_ACTIVE, VIPU_POS_IDLE);
	vipu_sim_set_in_use(sim, "p", true, NULL);
	is_int(remove_it("p", false).err.kind, ERR_BUSY, "not while it's in use");
	is_int(remove_it("p", true).err.kind, ERR_NONE, "by force");
	is_state("p", VIPU_PS_ACTIVE, VIPU_POS_REMOVING);
	is_uint(vipu_sim_taken_ipus(sim), 16, "its IPUs are taken until it's gone");
	is_int(create("p", 16).err.kind, ERR_EXISTS, "and its name");
	later(300);
	is_int(status_of("p").err.kind, ERR_NOT_FOUND, "gone");
	is_uint(vipu_sim_taken_ipus(sim), 0, "all are free");
	is_int(remove_it("p", false).err.kind, ERR_NOT_FOUND, "nothing to remove");
	is_uint(vipu_sim_created(sim), 1, "one partition was ever made");
	end();
}

static void test_creating(void)
{
	static const struct vipu_ipu first_ipu = {0};
	static const struct vipu_ipu ipu_73 = {.domain_topology_id = 1, .topology_id = 9};
	static const struct {
		const char *name;
		struct vipu_create req;
		enum err_kind kind;
	} rows[] = {
		{"no id", {.size = 4}, ERR_INVALID},
		{"size 0", {.id = "x"}, ERR_INVALID},
		{"size 3", {.id = "x", .size = 3}, ERR_INVALID},
		{"another cluster", {.id = "x", .size = 4, .cluster_id = "y"}, ERR_INVALID},
		{"another allocation", {.id = "x", .size = 4, .allocation_id = "y"}, ERR_DENIED},
		{"128 IPUs in one segment", {.id = "x", .size = 128}, ERR_INVALID},
		{"too many GCDs", {.id = "x", .size = 4, .gcds = 8}, ERR_INVALID},
		{"GCDs that don't divide", {.id = "x", .size = 4, .gcds = 3}, ERR_INVALID},
		{"reconfigurable, wrong sync",
		 {.id = "x", .size = 4, .reconfigurable = true, .sync = VIPU_ST_POD_NATIVE_DEFAULT},
		 ERR_INVALID},
		{"unsupported sync",
		 {.id = "x", .size = 4, .sync = VIPU_ST_GS2_INDEPENDENT_RAILS},
		 ERR_INVALID},
		{"IPUs without a cluster",
		 {.id = "x", .size = 1, .ipus = &first_ipu, .n_ipus = 1},
		 ERR_INVALID},
		{"larger than all", {.id = "x", .size = 512, .segments = 8}, ERR_BUSY},
		{"its cluster", {.id = "c", .size = 4, .cluster_id = "sim"}, ERR_NONE},
		{"this very IPU",
		 {.id = "i", .size = 1, .cluster_id = "sim", .n_ipus = 1, .ipus = &ipu_73},
		 ERR_NONE},
	};
	struct vipu_sim_partition p;

	begin(32);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct answer a = create_spec(&rows[i].req);
		is_int(a.err.kind, rows[i].kind, "%s (%s)", rows[i].name, a.err.msg);
		ok(!a.err.maybe_applied, "%s: a definite answer", rows[i].name);
	}
	ok(vipu_sim_find(sim, "i", &p) && p.first_ipu == 73, "where it was asked for");
	remove_it("i", false);
	later(300);
	is_int(create("a", 32).err.kind, ERR_NONE, "32 IPUs");
	ok(vipu_sim_find(sim, "a", &p) && p.first_ipu == 32, "aligned behind the four");
	is_int(create("b", 64).err.kind, ERR_NONE, "64 IPUs");
	ok(vipu_sim_find(sim, "b", &p) && p.first_ipu == 64, "in the second domain");
	is_int(create("d", 32).err.kind, ERR_BUSY, "28 are free: no room for 32");
	is_int(create("e", 16).err.kind, ERR_NONE, "but for 16");
	vipu_sim_remove_by_hand(sim, "a", NULL);
	vipu_sim_remove_by_hand(sim, "c", NULL);
	vipu_sim_remove_by_hand(sim, "e", NULL);
	vipu_sim_remove_by_hand(sim, "b", NULL);
	is_int(create("w", 128).err.kind, ERR_NONE, "128 over both domains");
	is_uint(vipu_sim_taken_ipus(sim), 128, "all are taken");
	end();
}

static void inject(const char *json)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &doc, &err) < 0 ||
	    vipu_sim_inject_json(sim, json_root(doc), &err) < 0)
		bail_out(err.msg);
}

static void test_faults(void)
{
	static const struct {
		const char *fault;
		enum err_kind kind;
		int code;
		bool maybe_applied;
		bool acts; /* the partition is there at once */
	} rows[] = {
		{"{\"kind\":\"status\",\"status\":\"RESOURCE_EXHAUSTED\"}", ERR_BUSY, 8, false,
		 false},
		{"{\"kind\":\"status\",\"status\":\"INTERNAL\"}", ERR_INTERNAL, 13, true, false},
		{"{\"kind\":\"hang\"}", ERR_TIMEOUT, 4, true, false},
		{"{\"kind\":\"lose-reply\"}", ERR_TIMEOUT, 4, true, true},
		{"{\"kind\":\"act-status\",\"status\":\"UNAVAILABLE\"}", ERR_UNAVAILABLE, 14, true,
		 true},
		{"{\"kind\":\"cut\"}", ERR_UNAVAILABLE, 14, true, false},
		{"{\"kind\":\"act-cut\"}", ERR_UNAVAILABLE, 14, true, true},
		{"{\"kind\":\"refuse\"}", ERR_UNAVAILABLE, 14, false, false},
		{"{\"kind\":\"garbage\"}", ERR_PROTOCOL, 0, true, false},
		{"{\"kind\":\"slow\",\"delayMs\":200}", ERR_NONE, 0, false, true},
		{"{\"kind\":\"slow\",\"delayMs\":9000}", ERR_TIMEOUT, 4, true, true},
		{"{\"kind\":\"late\",\"delayMs\":200}", ERR_NONE, 0, false, true},
		{"{\"kind\":\"late\",\"delayMs\":5000}", ERR_TIMEOUT, 4, true, false},
	};

	begin(32);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vipu_sim_partition p;
		char id[16];
		row_begin("%s", rows[i].fault);
		snprintf(id, sizeof(id), "p%zu", i);
		inject(rows[i].fault);
		grpc_channel_retry_now(vipu_client_channel(client));
		struct answer a = create(id, 1);
		is_int(a.calls, 1, "called back once");
		is_int(a.err.kind, rows[i].kind, "kind (%s)", a.err.msg);
		is_int(a.err.code, rows[i].code, "code");
		is_int(a.err.maybe_applied, rows[i].maybe_applied, "maybe applied");
		is_int(vipu_sim_find(sim, id, &p), rows[i].acts, "the partition is there or isn't");
		ok(!(rows[i].acts && a.err.kind != ERR_NONE) || a.err.maybe_applied,
		   "no error that denies what was done");
		is_uint(vipu_sim_faults(sim), 0, "the fault is used up");
	}
	row_end();
	struct vipu_sim_partition p;
	later(6000);
	ok(vipu_sim_find(sim, "p12", &p), "the late one takes effect when nobody waits any more");

	inject("{\"kind\":\"end-in-error\",\"method\":\"CreatePartition\"}");
	create("bad", 4);
	later(500);
	is_state("bad", VIPU_PS_ERROR, VIPU_POS_FAILED);
	is_uint(status_of("bad").n_errors, 1, "with its error");
	inject("{\"kind\":\"status\",\"method\":\"ResetPartition\",\"count\":2,\"skip\":1,"
	       "\"status\":\"ABORTED\"}");
	is_int(reset_it("bad").err.kind, ERR_NONE, "one call passes");
	is_int(status_of("bad").err.kind, ERR_NONE, "another method isn't met");
	is_int(reset_it("bad").err.kind, ERR_CONFLICT, "then two are met");
	is_int(reset_it("bad").err.kind, ERR_CONFLICT, "both");
	is_uint(vipu_sim_faults(sim), 0, "and that's all");
	inject("{\"kind\":\"hang\",\"count\":0}");
	is_int(status_of("bad").err.kind, ERR_TIMEOUT, "until it's cleared");
	is_int(status_of("bad").err.kind, ERR_TIMEOUT, "for all calls");
	vipu_sim_clear_faults(sim);
	is_int(status_of("bad").err.kind, ERR_NONE, "cleared");
	vipu_sim_cut(sim);
	is_int(status_of("bad").err.kind, ERR_NONE, "after all connections were cut");
	vipu_sim_drain(sim);
	is_int(status_of("bad").err.kind, ERR_NONE, "after a GOAWAY");
	end();
}

static void test_people(void)
{
	struct err err = ERR_INIT;
	struct vipu_sim_partition p;
	struct answer a = {0};

	begin(16);
	is_int(vipu_sim_create_by_hand(sim, "hand", 32, NULL), 0, "made by hand");
	is_state("hand", VIPU_PS_ACTIVE, VIPU_POS_IDLE);
	is_int(vipu_sim_create_by_hand(sim, "hand", 4, &err), -1, "once");
	is_int(err.kind, ERR_EXISTS, "it exists");
	is_int(vipu_sim_create_by_hand(sim, "more", 64, &err), -1, "no room");
	is_int(err.kind, ERR_BUSY, "is busy");
	for (unsigned i = 1; i <= 3; i++) {
		vipu_sim_break(sim, "hand", "link down", true, NULL);
		is_state("hand", VIPU_PS_PENDING, VIPU_POS_RESETTING);
		later(300);
		is_uint(status_of("hand").auto_resets, i, "auto-reset %u", i);
	}
	vipu_sim_break(sim, "hand", "link down", true, NULL);
	is_state("hand", VIPU_PS_ERROR, VIPU_POS_FAILED);
	is_int(vipu_sim_set_agents(sim, 4, &err), -1, "agents with partitions can't go");
	is_int(vipu_sim_set_agents(sim, 32, NULL), 0, "more may come");
	is_uint(vipu_sim_total_ipus(sim), 128, "with their IPUs");
	is_int(vipu_sim_remove_by_hand(sim, "hand", NULL), 0, "removed by hand");
	ok(!vipu_sim_find(sim, "hand", &p), "gone");
	is_int(vipu_sim_remove_by_hand(sim, "hand", &err), -1, "once");
	vipu_list_partitions_start(client, NULL, 3000, on_list, &a, NULL);
	await(&a);
	is_uint(a.n, 0, "none is left");

	struct jmut_doc *doc = jmut_doc_new();
	const struct json *v = jmut_view(vipu_sim_to_json(sim, doc));
	is_int(json_int(json_at(v, "ipus", "free", NULL), -1), 128, "all of it as JSON");
	is_int(json_int(json_at(v, "calls", "ListPartitions", NULL), -1), 1, "with its counters");
	jmut_doc_free(doc);
	end();
}

static void test_metrics(void)
{
	struct buf out = BUF_INIT(1 << 20);

	begin(1);
	reset_it("nobody");
	metrics_write(&out, METRICS_TEXT, NULL);
	buf_append(&out, "", 1, NULL);
	has_str(out.p,
		"ipu_operator_vipu_requests_total{method=\"ResetPartition\",code=\"NOT_FOUND\"}",
		"calls are counted by method and code");
	has_str(out.p, "code=\"OK\"", "the good ones too");
	buf_done(&out);
	end();
}

/* Cancelled after any number of turns: no call back, and the client goes on. */
static void test_cancel(void)
{
	begin(16);
	int wrong = 0;
	for (int after = 0; after < 8; after++) {
		struct answer a = {0};
		struct op *op = vipu_get_partition_status_start(client, "x", 3000, on_status, &a,
								NULL);
		for (int i = 0; i < after && a.calls == 0; i++)
			loop_turn(loop, 1);
		int before = a.calls;
		if (before == 0)
			op_cancel(op);
		turns(5);
		wrong += a.calls != before;
	}
	is_int(wrong, 0, "cancelled after any number of turns");
	is_int(status_of("x").err.kind, ERR_NOT_FOUND, "the client goes on");
	struct answer a = {0};
	vipu_get_partition_status_start(client, "x", 3000, on_status, &a, NULL);
	end();
	is_int(a.calls, 0, "a client that is freed calls nobody back");
}

/* 0, or why another socket can't be bound to it. */
static int take_port(uint16_t port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int errnum = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? errno : 0;

	close(fd);
	return errnum;
}

static void test_down(void)
{
	begin(16);
	uint16_t port = vipu_sim_port(sim);
	vipu_sim_go_down(sim);
	is_int(status_of("x").err.kind, ERR_UNAVAILABLE, "down: nobody answers");
	is_int(take_port(port), EADDRINUSE, "... and nobody else gets its port");
	is_int(vipu_sim_come_up(sim, NULL), 0, "up again");
	clock_advance(60000);
	is_int(status_of("x").err.kind, ERR_NOT_FOUND, "... where it was");
	end();
	is_int(take_port(port), 0, "its end gives the port back");
}

int main(void)
{
	struct err err = ERR_INIT;

	clock_freeze(1000000, INT64_C(1700000000000));
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		bail_out(err.msg);
	test_life();
	test_creating();
	test_faults();
	test_people();
	test_metrics();
	test_cancel();
	test_down();
	net_free(net);
	loop_free(loop);
	return done_testing();
}
