/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The IPUoF configuration as files: fetched before an owner hears that its partition is active,
 * once more after a reset and a restart, from a controller that is secure or not, with what can go
 * wrong.
 */
#include "partition_manager_rig.h"
#include "no_memory.h"

#include "grpc/status.h"
#include "net/tls.h"

#define CALLS vipu_sim_calls(sim, VIPU_GET_IPUOF_CONFIG)

/* The only controller, by file or not; with what a secure one shows of itself, and this key. */
static void configure_as(enum vipu_ipuof_mode mode, const char *access)
{
	static const char *const alpn[] = {"h2", NULL};
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	CLEANUP_FREE char *text = xasprintf("127.0.0.1:%u", vipu_sim_port(sim));
	const struct json *shown = jmut_view(vipu_sim_secure_to_json(sim, doc));
	struct tls_client_opts opts = {.ca_pem = json_str(json_get(shown, "ca")), .alpn = alpn};
	struct vipu_address_list list;
	struct tls_config *tls = NULL;
	struct vipu_fleet_entry entry;

	vipu_address_parse(str_of(text), &list);
	list.items[0].ipuof = mode;
	list.items[0].tls = access != NULL;
	entry = (struct vipu_fleet_entry){
		.address = &list.items[0], .user = access ? "me" : NULL, .access = access};
	if (access && tls_config_new_client(&opts, &tls, NULL) < 0)
		bail_out("TLS settings");
	entry.tls = tls;
	vipu_fleet_configure(fleet, &entry, 1);
	tls_config_unref(tls);
	vipu_address_list_done(&list);
}

static void begin_by_file(unsigned agents)
{
	rig_begin(agents);
	process_begin(true);
	configure_as(VIPU_IPUOF_FILE, NULL);
}

/* ---- the files ---- */

struct got {
	size_t n;
	uint64_t hash;
	char names[256];
	char first[4096];
};

static void note_file(const char *name, struct str text, void *arg)
{
	struct got *g = arg;
	size_t len = strlen(g->names);

	g->hash += partition_file_hash(str_of(name), text);
	snprintf(g->names + len, sizeof(g->names) - len, "%s ", name);
	if (strcmp(name, "ipuof-0.conf") == 0)
		snprintf(g->first, sizeof(g->first), "%.*s", STR_ARG(text));
	g->n++;
}

static struct got files(const char *uid)
{
	struct got g = {0};

	size_t n = partition_ipuof_files(parts, uid, 0, note_file, &g);

	is_int((intmax_t)n, (intmax_t)g.n, "as many as it says");
	return g;
}

/* ---- tests ---- */

static void test_files(void)
{
	struct partition_ask ask = ask_of("u", 0, 8);
	struct partition_status st;
	struct got g;

	row_begin("files");
	begin_by_file(16);
	ask.options.gcds = 4;
	ask.options.reconfigurable = false;
	vipu_sim_inject(sim, &(struct vipu_sim_fault){.kind = VIPU_SIM_SLOW,
						      .method = VIPU_GET_IPUOF_CONFIG,
						      .delay_ms = 1000});
	partition_ensure(parts, &ask);
	ok(WITHIN(5000, CALLS == 1), "they are asked for");
	turns(20, 10);
	st = seen("u");
	is_int(st.state, PARTITION_STATE_CREATING, "it isn't active before they are there");
	ok(st.by_file && st.files == 0, "and says so");
	is_int((intmax_t)files("u").n, 0, "none is given");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "then it is");
	g = files("u");
	is_int((intmax_t)CALLS, 1, "all of them by one call");
	is_str(g.names, "ipuof-0.conf ipuof-1.conf ipuof-2.conf ipuof-3.conf ",
	       "a file for each GCD");
	ok(g.hash == seen("u").files, "the status has their hash");
	has_str(g.first, "\"GCD Id\": \"0\"", "attributes");
	has_str(g.first, "\"devices\"", "devices");
	has_str(g.first, "\"server_port\": 12000", "with their addresses");
	WITHIN(60000, false);
	is_int((intmax_t)CALLS, 1, "they aren't asked for again");

	partition_reset(parts, "u", 0);
	ok(!is("u", PARTITION_STATE_ACTIVE), "a reset");
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "has been done");
	is_int((intmax_t)CALLS, 2, "they are asked for anew");
	has_str(files("u").first, "\"server_port\": 12004", "as addresses may have changed");
	ok(g.hash != seen("u").files, "so does the hash");

	partition_release(parts, "u", 0);
	is_int((intmax_t)files("u").n, 0, "nothing once it's given back");
	ok(WITHIN(5000, is_over("u")), "over");
	end();
}

static void test_troubles(void)
{
	struct partition_status st;

	row_begin("troubles");
	begin_by_file(16);
	inject_status(VIPU_GET_IPUOF_CONFIG, GRPC_PERMISSION_DENIED, "not for you", 2);
	inject(VIPU_SIM_GARBAGE, VIPU_GET_IPUOF_CONFIG, 2);
	want("u", 4);
	ok(WITHIN(5000, CALLS == 1 && seen("u").message[0]), "refused");
	st = seen("u");
	is_int(st.state, PARTITION_STATE_CREATING, "not active");
	is_int(st.why, PARTITION_WHY_CONFIG, "and why");
	has_str(st.message, "not for you", "in the controller's words");
	has_str(st.message, st.id, "with the partition");
	ok(WITHIN(60000, CALLS == 4), "asked again, and garbage comes");
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "in the end it's there");
	is_str(seen("u").message, "", "and the trouble forgotten");
	is_int((intmax_t)CALLS, 5, "after five calls");
	end();

	row_begin("released while they are fetched");
	begin_by_file(16);
	inject(VIPU_SIM_HANG, VIPU_GET_IPUOF_CONFIG, 0);
	want("u", 4);
	ok(WITHIN(5000, CALLS == 1), "nobody answers");
	partition_release(parts, "u", 0);
	ok(WITHIN(5000, is_over("u")), "over all the same");
	end();

	row_begin("too many devices");
	begin_by_file(1024);
	want("u", 4096);
	ok(WITHIN(20000, seen("u").why == PARTITION_WHY_CONFIG), "no files");
	has_str(seen("u").message, "larger than the 960 KiB that a ConfigMap holds", "in words");
	partition_release(parts, "u", 0);
	ok(WITHIN(20000, is_over("u")), "over");
	end();
}

/* Each allocation fails once whose size a peer decides, while they are fetched anew: they come all
 * the same, and aren't said to be too large. */
static void test_memory(void)
{
	unsigned late = 0, blamed = 0, others = 0;
	struct no_memory m = {0};
	char names[256];

	row_begin("without memory");
	begin_by_file(1);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	snprintf(names, sizeof(names), "%s", files("u").names);
	while (no_memory_next(&m)) {
		no_memory_begin(&m);
		partition_reset(parts, "u", 0);
		for (int i = 0; i < 6000 && !(i > 10 && is("u", PARTITION_STATE_ACTIVE)); i++) {
			turn(10);
			if (strstr(seen("u").message, "larger than")) {
				blamed++;
				diag("allocation %lu: %s", m.n, seen("u").message);
				break;
			}
		}
		no_memory_end(&m);
		late += !WITHIN(60000, is("u", PARTITION_STATE_ACTIVE));
		others += strcmp(files("u").names, names) != 0;
	}
	no_memory_ok(&m, 50);
	is_uint(late, 0, "each time they come");
	is_uint(blamed, 0, "nobody says that they are too large");
	is_uint(others, 0, "all of them");
	end();
}

static void test_restart(void)
{
	row_begin("restart");
	begin_by_file(16);
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	turns(20, 10);
	process_kill();
	inject_status(VIPU_GET_IPUOF_CONFIG, GRPC_INTERNAL, "later", 2);
	process_begin(true);
	configure_as(VIPU_IPUOF_FILE, NULL);
	want("u", 4);
	ok(WITHIN(5000, seen("u").files == 0 && is("u", PARTITION_STATE_ACTIVE)),
	   "whoever runs on it isn't disturbed");
	for (int i = 0; i < 1000 && seen("u").files == 0 && is("u", PARTITION_STATE_ACTIVE); i++)
		turn(10);
	ok(is("u", PARTITION_STATE_ACTIVE) && seen("u").files,
	   "until they have been fetched again");
	end();
}

static void test_modes(void)
{
	row_begin("modes");
	begin();
	want("u", 4);
	ok(WITHIN(5000, is("u", PARTITION_STATE_ACTIVE)), "active");
	ok(!seen("u").by_file, "by the controller's address");
	is_int((intmax_t)CALLS, 0, "nothing is fetched");
	configure_as(VIPU_IPUOF_FILE, NULL);
	for (int i = 0; i < 200 && is("u", PARTITION_STATE_ACTIVE); i++)
		turn(10);
	ok(is("u", PARTITION_STATE_ACTIVE), "another mode doesn't disturb");
	ok(seen("u").by_file && seen("u").files, "and files are there for the next Pods");
	configure_as(VIPU_IPUOF_API, NULL);
	ok(WITHIN(5000, seen("u").files == 0), "and back");
	end();
}

static void secure(const char *json)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(json), &doc, &err) < 0 ||
	    vipu_sim_secure(sim, json_root(doc), &err) < 0)
		bail_out(err.msg);
}

static void test_secure(void)
{
	row_begin("secure");
	rig_begin(16);
	secure("{\"userId\":\"me\",\"accessKey\":\"first\"}");
	process_begin(true);
	configure_as(VIPU_IPUOF_DEFAULT, "wrong");
	want("u", 4);
	ok(WITHIN(10000, is_because("u", PARTITION_STATE_WAITING, PARTITION_WHY_UNREACHABLE) &&
				 strstr(seen("u").message, "wrong user id")),
	   "a wrong key: waits, and says so");
	configure_as(VIPU_IPUOF_DEFAULT, "first");
	ok(WITHIN(10000, is("u", PARTITION_STATE_ACTIVE)), "the right one: active");
	ok(seen("u").by_file && seen("u").files, "by file, as it's secure");

	secure("{\"accessKey\":\"second\"}");
	partition_reset(parts, "u", 0);
	WITHIN(5000, false);
	ok(!is("u", PARTITION_STATE_ACTIVE), "the old key is refused");
	configure_as(VIPU_IPUOF_DEFAULT, "second");
	ok(WITHIN(60000, is("u", PARTITION_STATE_ACTIVE)), "the new one isn't");
	partition_release(parts, "u", 0);
	ok(WITHIN(10000, is_over("u")), "over");
	end();
}

int main(void)
{
	log_init(getenv("TEST_LOG") ? LOG_DEBUG : LOG_FATAL, LOG_TEXT, STDERR_FILENO);
	rand_seed(1);
	test_files();
	test_troubles();
	test_memory();
	test_restart();
	test_modes();
	test_secure();
	return done_testing();
}
