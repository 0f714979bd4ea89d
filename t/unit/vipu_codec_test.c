/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec: bytes as the wire has them, round trips, and messages that are broken, huge or cut.
 * Uses core and vipu.
 */
#include "tap.h"

#include "core/fault.h"
#include "core/str.h"
#include "vipu/codec.h"

/* ---- bytes, by hand from the field numbers ---- */

static void test_bytes(void)
{
	static const struct vipu_ipu ipu = {1, 2, 3, 4};
	static const struct {
		const char *name;
		struct vipu_request req;
		struct str bytes;
	} rows[] = {
		{"version", {.method = VIPU_GET_VERSION}, {"", 0}},
		{"all partitions", {.method = VIPU_LIST_PARTITIONS}, {"", 0}},
		{"of an allocation",
		 {.method = VIPU_LIST_PARTITIONS, .allocation_id = "x"},
		 {"\x0a\1x", 3}},
		{"remove",
		 {.method = VIPU_REMOVE_PARTITION, .remove = {"p", true}},
		 {"\x0a\1p\x10\1", 5}},
		{"reset",
		 {.method = VIPU_RESET_PARTITION, .reset = {"p", true}},
		 {"\x0a\1p\x10\1", 5}},
		{"status", {.method = VIPU_GET_PARTITION_STATUS, .id = "p"}, {"\x0a\1p", 3}},
		{"all GCDs",
		 {.method = VIPU_GET_IPUOF_CONFIG, .ipuof = {"p", false, 9}},
		 {"\x0a\1p", 3}},
		{"GCD 0",
		 {.method = VIPU_GET_IPUOF_CONFIG, .ipuof = {"p", true, 0}},
		 {"\x0a\1p\x12\0", 5}},
		{"GCD 3",
		 {.method = VIPU_GET_IPUOF_CONFIG, .ipuof = {"p", true, 3}},
		 {"\x0a\1p\x12\2\x08\3", 7}},
		{"create",
		 {.method = VIPU_CREATE_PARTITION,
		  .create = {.id = "p",
			     .size = 4,
			     .cluster_id = "c",
			     .routing = 1,
			     .segments = 5,
			     .gw_routing = 2,
			     .sync = 1,
			     .gcds = 6,
			     .reconfigurable = true,
			     .replicas = 7,
			     .allocation_id = "a",
			     .ipus = &ipu,
			     .n_ipus = 1,
			     .disable_auto_reset = true,
			     .relocatable = true}},
		 {"\x12\x23"
		  "\x0a\1p\x10\4\x1a\1c\x20\1\x28\5\x30\2\x38\1\x40\6\x48\1\x50\7\x5a\1a"
		  "\x62\x08\x08\1\x10\2\x18\3\x20\4"
		  "\x18\1\x28\1",
		  2 + 35 + 4}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf out = BUF_INIT(4096);
		row_begin("%s", rows[i].name);
		is_int(vipu_request_encode(&rows[i].req, &out, NULL), 0, "encodes");
		is_mem(out.p ? out.p : "", out.len, rows[i].bytes.p, rows[i].bytes.len, "bytes");
		struct vipu_request back;
		is_int(vipu_request_decode(rows[i].req.method, rows[i].bytes, &back, NULL), 0,
		       "decodes");
		struct buf again = BUF_INIT(4096);
		vipu_request_encode(&back, &again, NULL);
		is_mem(again.p ? again.p : "", again.len, rows[i].bytes.p, rows[i].bytes.len,
		       "and is the same then");
		vipu_request_done(&back);
		buf_done(&out);
		buf_done(&again);
	}
	row_end();
}

static void test_replies(void)
{
	struct vipu_partitions parts;
	struct vipu_status status;
	struct vipu_agents agents;
	char *text = NULL;

	/* A field of a later version (number 99) is ignored, an enum's new value is kept. */
	is_int(vipu_decode_partitions(
		       (struct str){
			       "\x0a\x13\x0a\1p\x12\x08\x12\0\x12\2\x18\7\x28\2\x18\2\x9a\6\1x",
			       21},
		       &parts, NULL),
	       0, "a list");
	is_uint(parts.n, 1, "of one");
	is_str(parts.items[0].id, "p", "its id");
	is_uint(parts.items[0].n_ipus, 2, "two IPUs");
	is_uint(parts.items[0].ipus[1].topology_id, 7, "the second's place");
	is_uint(parts.items[0].gcds, 2, "two GCDs");
	is_str(vipu_ready_name(parts.items[0].ready), "PS_ACTIVE", "active");
	is_str(parts.items[0].cluster_id, "", "a string that isn't there is empty");
	ok(vipu_partitions_find(&parts, STR("p")) == &parts.items[0], "found by its id");
	ok(vipu_partitions_find(&parts, STR("q")) == NULL, "another isn't");
	vipu_partitions_done(&parts);
	is_int(vipu_decode_partitions(STR(""), &parts, NULL), 0, "an empty list");
	is_uint(parts.n, 0, "of none");
	vipu_partitions_done(&parts);
	is_int(vipu_decode_status((struct str){"\x0a\x0c\x0a\1p\x10\x63\x22\1e\x3a\2\x08\1", 14},
				  &status, NULL),
	       0, "a status");
	is_str(vipu_ready_name(status.ready), "?", "with a state that has no name yet");
	is_int((int)status.ready, 99, "but keeps its number");
	is_str(status.errors[0], "e", "with an error");
	is_int(status.last_auto_reset_ms, 1000, "and a time");
	vipu_status_done(&status);
	is_int(vipu_decode_agents(
		       (struct str){"\x0a\x10\x0a\1g\x12\x0b\x08\5\x12\7\x0a\5\x0a\1k\x12\0", 18},
		       &agents, NULL),
	       0, "agents");
	is_uint(agents.n_ipus, 1, "one IPU");
	is_uint(agents.items[0].ipus[0].id, 5, "number 5");
	is_str(agents.items[0].ipus[0].pairs[0].value, "", "an attribute without value");
	vipu_agents_done(&agents);
	is_int(vipu_decode_created((struct str){"\x0a\1p", 3}, &text, NULL), 0, "created");
	is_str(text, "p", "its id");
	free(text);
}

/* ---- broken ---- */

static int decode_any(int which, struct str bytes, struct err *err)
{
	struct vipu_partitions parts;
	struct vipu_agents agents;
	struct vipu_status status;
	struct vipu_ipuof_config config;
	struct vipu_request req;
	char *text;
	int rc;

	switch (which) {
	case 0:
		if ((rc = vipu_decode_partitions(bytes, &parts, err)) == 0)
			vipu_partitions_done(&parts);
		return rc;
	case 1:
		if ((rc = vipu_decode_agents(bytes, &agents, err)) == 0)
			vipu_agents_done(&agents);
		return rc;
	case 2:
		if ((rc = vipu_decode_status(bytes, &status, err)) == 0)
			vipu_status_done(&status);
		return rc;
	case 3:
		if ((rc = vipu_decode_ipuof_config(bytes, &config, err)) == 0)
			vipu_ipuof_config_done(&config);
		return rc;
	case 4:
		if ((rc = vipu_decode_version(bytes, &text, err)) == 0)
			free(text);
		return rc;
	case 5:
		if ((rc = vipu_decode_created(bytes, &text, err)) == 0)
			free(text);
		return rc;
	default:
		if ((rc = vipu_request_decode((enum vipu_method)(which - 6), bytes, &req, err)) ==
		    0)
			vipu_request_done(&req);
		return rc;
	}
}
#define DECODERS (6 + VIPU_METHODS)

static void test_broken(void)
{
	static const struct {
		const char *name;
		int which;
		struct str bytes;
		enum err_kind kind;
	} rows[] = {
		{"garbage", 0, {"\xff\xff\xff\xff\xff\xff", 6}, ERR_PROTOCOL},
		{"cut short", 0, {"\x0a\x05\x0a", 3}, ERR_PROTOCOL},
		{"length over the end", 4, {"\x0a\x7fx", 3}, ERR_PROTOCOL},
		{"not UTF-8", 4, {"\x0a\2\xc3\x28", 4}, ERR_PROTOCOL},
		{"an id that isn't UTF-8", 0, {"\x0a\4\x0a\2\xff\xff", 6}, ERR_PROTOCOL},
		{"an error that isn't UTF-8", 2, {"\x0a\3\x22\1\xff", 5}, ERR_PROTOCOL},
		{"no status", 2, {"", 0}, ERR_PROTOCOL},
		{"no configuration", 3, {"", 0}, ERR_PROTOCOL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		row_begin("%s", rows[i].name);
		is_int(decode_any(rows[i].which, rows[i].bytes, &err), -1, "refused");
		is_int(err.kind, rows[i].kind, "kind (%s)", err.msg);
	}
	row_end();
}

/* Two bytes a partition: four megabytes would be two million structs. */
static void test_bomb(void)
{
	size_t len = (size_t)4 << 20;
	char *bytes = malloc(len);
	struct err err = ERR_INIT;

	for (size_t i = 0; i < len; i += 2)
		memcpy(bytes + i, "\x0a\0", 2);
	is_int(decode_any(0, (struct str){bytes, len}, &err), -1, "a bomb is refused");
	is_int(err.kind, ERR_LIMIT, "by a limit");
	is_int(decode_any(0, (struct str){bytes, 20000}, NULL), 0,
	       "ten thousand of them aren't one");
	free(bytes);
}

/* Every prefix, and every single byte changed, of a rich message: no crash, no leak. */
static void test_mutations(void)
{
	struct vipu_pair pair = {(char[]){"key"}, (char[]){"value"}};
	struct vipu_device device = {.ip = (char[]){"10.0.0.1"},
				     .server_port = 300,
				     .chip_id = (char[]){"c"},
				     .gwsw_version = (char[]){"g"},
				     .ipum_sw_version = (char[]){"i"}};
	struct vipu_gcd gcd = {&device, 1, &pair, 1};
	struct vipu_ipuof_config config = {
		.ipuof_server_version = (char[]){"v"}, .gcds = &gcd, .n_gcds = 1, .segments = 2};
	struct buf out = BUF_INIT(4096);
	int refused = 0, tried = 0;

	vipu_encode_ipuof_config(&config, &out, NULL);
	for (size_t at = 0; at < out.len; at++) {
		char kept = out.p[at];
		for (int bit = 0; bit < 8; bit++) {
			out.p[at] = (char)(kept ^ (1 << bit));
			for (int which = 0; which < DECODERS; which++, tried++)
				refused += decode_any(which, buf_str(&out), NULL) < 0;
		}
		out.p[at] = kept;
		for (int which = 0; which < DECODERS; which++, tried++)
			refused += decode_any(which, (struct str){out.p, at}, NULL) < 0;
	}
	ok(refused > 0 && refused < tried, "%d of %d changed messages are refused", refused, tried);
	is_int(decode_any(3, buf_str(&out), NULL), 0, "the whole one is good");
	buf_done(&out);
}

/* Each allocation whose size the controller decides fails once: its lists, too. */
static void test_memory(void)
{
	struct vipu_pair pair = {(char[]){"key"}, (char[]){"value"}};
	struct vipu_ipu ipu = {1, 2, 3, 4};
	struct vipu_partition partition = {.id = (char[]){"p"}, .ipus = &ipu, .n_ipus = 1};
	struct vipu_partitions partitions = {.items = &partition, .n = 1};
	struct vipu_ipu_attributes attributes = {.id = 1, .pairs = &pair, .n_pairs = 1};
	struct vipu_agent agent = {.name = (char[]){"a"}, .ipus = &attributes, .n_ipus = 1};
	struct vipu_agents agents = {.items = &agent, .n = 1, .n_ipus = 1};
	char *why = (char[]){"e"};
	struct vipu_status status = {.id = (char[]){"p"}, .errors = &why, .n_errors = 1};
	struct vipu_device device = {.ip = (char[]){"10.0.0.1"}};
	struct vipu_gcd gcd = {&device, 1, &pair, 1};
	struct vipu_ipuof_config config = {.gcds = &gcd, .n_gcds = 1};
	static const unsigned lists[] = {2, 3, 1, 3};

	for (int which = 0; which < 4; which++) {
		struct buf out = BUF_INIT(4096);
		row_begin("decoder %d", which);
		is_int(which == 0   ? vipu_encode_partitions(&partitions, &out, NULL)
		       : which == 1 ? vipu_encode_agents(&agents, &out, NULL)
		       : which == 2 ? vipu_encode_status(&status, &out, NULL)
				    : vipu_encode_ipuof_config(&config, &out, NULL),
		       0, "encoded");
		fault_alloc_fail_at(0);
		is_int(decode_any(which, buf_str(&out), NULL), 0, "it takes memory");
		unsigned long total = fault_alloc_count(), limited = 0;
		for (unsigned long n = 1; n <= total; n++) {
			struct err err = ERR_INIT;
			fault_alloc_fail_at(n);
			limited += decode_any(which, buf_str(&out), &err) < 0 &&
				   err.kind == ERR_LIMIT;
		}
		fault_alloc_fail_at(0);
		ok(total > lists[which], "it takes %lu allocations", total);
		is_uint(limited, total, "each that fails is an error");
		buf_done(&out);
	}
	row_end();
}

static void test_names(void)
{
	enum vipu_routing routing;
	enum vipu_sync sync;
	struct err err = ERR_INIT;

	ok(vipu_routing_parse(STR("btnc"), &routing, NULL) == 0 && routing == VIPU_IRT_BTNC,
	   "btnc");
	ok(vipu_routing_parse(STR("IRT_SWNC"), &routing, NULL) == 0 && routing == VIPU_IRT_SWNC,
	   "IRT_SWNC");
	ok(vipu_routing_parse(STR("1"), &routing, NULL) == 0 && routing == VIPU_IRT_DNC, "1");
	ok(vipu_sync_parse(STR("gs2_default"), &sync, NULL) == 0 && sync == VIPU_ST_GS2_DEFAULT,
	   "gs2_default");
	is_int(vipu_routing_parse(STR("nope"), &routing, &err), -1, "nope");
	has_str(err.msg, "DNC, SWNC, BTNC, RINGSWNC", "the message lists what there is");
	for (int i = 0; i < VIPU_METHODS; i++)
		is_int(vipu_method_from_path(str_of(vipu_method_path((enum vipu_method)i))), i,
		       "%s by its path", vipu_method_name((enum vipu_method)i));
	is_int(vipu_method_from_path(STR("/virmgrpc.UserService/Nope")), -1, "no such method");
}

int main(void)
{
	test_bytes();
	test_replies();
	test_broken();
	test_bomb();
	test_mutations();
	test_memory();
	test_names();
	return done_testing();
}
