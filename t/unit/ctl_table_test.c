/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ipuctl prints, without a server: tables from answers, lists of names, exit statuses,
 * options.
 */
#include "core/clock.h"
#include "core/json.h"
#include "ctl/commands.h"
#include "ctl/cordon.h"
#include "ctl/options.h"
#include "ctl/status.h"
#include "ctl/table.h"
#include "ctl/views.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NOON_MS  INT64_C(1709287200000) /* 2024-03-01T10:00:00Z */

static char *written(struct ctl_table *t, bool heads)
{
	struct buf b = BUF_INIT(65536);
	struct err err = ERR_INIT;

	ok(ctl_table_write(t, heads, &b, &err) == 0, "it's written: %s", err.msg);
	ctl_table_free(t);
	return buf_steal(&b, NULL);
}

static void test_columns(void)
{
	static const char *const heads[] = {"A", "LONGER", "C", NULL};
	struct ctl_table *t = ctl_table_new(heads, 2, true);
	CLEANUP_FREE char *all = NULL;
	CLEANUP_FREE char *narrow = NULL;
	CLEANUP_FREE char *empty = NULL;

	ctl_table_add(t, STR("größer"));
	ctl_table_addf(t, "%d", 7);
	ctl_table_add(t, STR("x"));
	ctl_table_add(t, STR("a"));
	ctl_table_add(t, STR(""));
	ctl_table_add(t, STR("\033[31m\n\xc2\x9b\xff"));
	is_int(ctl_table_rows(t), 2, "rows");
	all = written(t, true);
	is_str(all,
	       "A        LONGER   C\n"
	       "größer   7        x\n"
	       "a        <none>   ?[31m ??\n",
	       "aligned by characters, empty cells named, nothing that moves a terminal");
	t = ctl_table_new(heads, 2, false);
	ctl_table_add(t, STR("a"));
	ctl_table_add(t, STR("b"));
	ctl_table_add(t, STR("a very long cell that isn't shown"));
	narrow = written(t, false);
	is_str(narrow, "a   b\n", "without heads they have no part in the widths");
	empty = written(ctl_table_new(heads, 2, false), true);
	is_str(empty, "A   LONGER\n", "heads alone");
}

static const struct json *answer(const char *text, struct json_doc **doc)
{
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), doc, &err) < 0)
		bail_out(err.msg);
	return json_root(*doc);
}

#define PARTITION                                                                                  \
	"{\"items\":[{\"id\":\"mnist-default-0-0123456789\",\"state\":\"active\","                 \
	"\"controller\":\"10.0.0.1:8090\",\"ipus\":4,\"since\":\"2024-03-01T09:54:57Z\","          \
	"\"reason\":\"\",\"owner\":{\"kind\":\"IPUJob\",\"namespace\":\"default\","                \
	"\"name\":\"mnist\",\"uid\":\"u\"},\"instance\":0}]}"
#define WAITING                                                                                    \
	"{\"items\":[{\"position\":1,\"namespace\":\"ns\",\"kind\":\"Pod\",\"name\":\"p\","        \
	"\"instance\":2,\"ipus\":64,\"priority\":-5,\"since\":\"2024-03-01T10:00:00Z\","           \
	"\"reason\":\"WaitingForIPUs\",\"message\":\"64 of 64 are used\"}]}"
#define CAPACITY                                                                                       \
	"{\"controllers\":[{\"name\":\"a:1\",\"reachable\":true,\"reason\":\"\",\"cordoned\":true,"    \
	"\"draining\":false,\"noReadyNode\":true,\"configured\":true,\"totalIPUs\":64,\"usedIPUs\":4," \
	"\"externalIPUs\":8,\"freeIPUs\":52,\"reservedIPUs\":16,\"largest\":0,"                        \
	"\"domains\":[{\"domain\":0,\"totalIPUs\":64,\"freeIPUs\":52}]}],"                             \
	"\"total\":{\"totalIPUs\":64,\"usedIPUs\":4,\"externalIPUs\":8,\"freeIPUs\":52,"               \
	"\"reservedIPUs\":16,\"largest\":0}}"
#define CONTROLLERS                                                                                \
	"{\"items\":[{\"name\":\"a:1\",\"reachable\":true,\"reason\":\"\",\"cordoned\":true,"      \
	"\"draining\":true,\"configured\":true,\"version\":\"1.18\",\"ipus\":64,\"partitions\":1," \
	"\"label\":\"ipunode=a\"},{\"name\":\"b:1\",\"reachable\":false,\"reason\":\"refused\","   \
	"\"cordoned\":false,\"draining\":false,\"configured\":false,\"version\":\"\",\"ipus\":0,"  \
	"\"partitions\":2,\"label\":\"\"}]}"

static void test_views(void)
{
	static const struct {
		const char *name;
		struct ctl_table *(*view)(const struct json *, bool);
		bool wide;
		const char *in, *want;
	} rows[] = {
		{"stats", ctl_view_stats, false,
		 "{\"a\":{\"used\":4,\"available\":60},\"namespace/total\":{\"used\":0,\"available\":60},"
		 "\"total\":{\"used\":4,\"available\":60}}",
		 "NAMESPACE   USED   AVAILABLE\n"
		 "a           4      60\n"
		 "total       0      60\n"
		 "TOTAL       4      60\n"},
		{"query", ctl_view_query, false,
		 "{\"available\":true,\"numOfPartitions\":30,\"message\":\"\"}",
		 "AVAILABLE   PARTITIONS   MESSAGE\n"
		 "yes         30           <none>\n"},
		{"partitions", ctl_view_partitions, false, PARTITION,
		 "NAMESPACE   OWNER          INSTANCE   IPUS   STATE    CONTROLLER      AGE    PARTITION\n"
		 "default     ipujob/mnist   0          4      active   10.0.0.1:8090   5m3s   "
		 "mnist-default-0-0123456789\n"},
		{"partitions of a server that says less", ctl_view_partitions, false,
		 "{\"items\":[{}]}",
		 "NAMESPACE   OWNER   INSTANCE   IPUS     STATE    CONTROLLER   AGE         PARTITION\n"
		 "<none>      /       <none>     <none>   <none>   <none>       <unknown>   <none>\n"},
		{"queue, wide", ctl_view_queue, true, WAITING,
		 "POSITION   NAMESPACE   OWNER   INSTANCE   IPUS   PRIORITY   AGE   REASON           "
		 "MESSAGE\n"
		 "1          ns          pod/p   2          64     -5         0s    WaitingForIPUs   64 of "
		 "64 are used\n"},
		{"capacity, wide", ctl_view_capacity, true, CAPACITY,
		 "CONTROLLER   STATUS                       IPUS   USED   EXTERNAL   RESERVED   FREE   "
		 "LARGEST   DOMAINS\n"
		 "a:1          Ready,Cordoned,NoReadyNode   64     4      8          16         52     "
		 "0         0:52/64\n"
		 "TOTAL        -                            64     4      8          16         52     0         -\n"},
		{"nothing", ctl_view_queue, false, "[]",
		 "POSITION   NAMESPACE   OWNER   INSTANCE   IPUS   PRIORITY   AGE   REASON\n"},
	};

	clock_freeze(1000, NOON_MS);
	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		CLEANUP_FREE char *got = NULL;

		row_begin("%s", rows[i].name);
		got = written(rows[i].view(answer(rows[i].in, &doc), rows[i].wide), true);
		is_str(got, rows[i].want, "table");
	}
	row_end();
	clock_unfreeze();
}

static void test_controllers(void)
{
	CLEANUP_JSON struct json_doc *controllers = NULL, *capacity = NULL;
	CLEANUP_FREE char *got = NULL;

	answer(CONTROLLERS, &controllers);
	answer(CAPACITY, &capacity);
	got = written(ctl_view_controllers(json_root(controllers), json_root(capacity), true),
		      true);
	is_str(got,
	       "NAME   STATUS                IPUS   USED     EXTERNAL   FREE     PARTITIONS   LABEL       "
	       "VERSION   REASON\n"
	       "a:1    Ready,Draining        64     4        8          52       1            ipunode=a   "
	       "1.18      <none>\n"
	       "b:1    Unreachable,Removed   0      <none>   <none>     <none>   2            <none>      "
	       "<none>    refused\n",
	       "controllers, with IPUs from the capacity where it has them");
}

static void test_lists(void)
{
	static const struct {
		const char *list, *names[2], *want;
		bool with;
	} rows[] = {
		{"", {"a:1", NULL}, "a:1", true},
		{"", {"a:1", NULL}, "", false},
		{"a:1", {"a:1", NULL}, "a:1", true},
		{"a:1", {"a:1", NULL}, "", false},
		{" b:1 ,, a:1", {"c:1", "a:1"}, "b:1,a:1,c:1", true},
		{"b:1,a:1,c:1", {"c:1", "a:1"}, "b:1", false},
		{"a:11", {"a:1", NULL}, "a:11", false},
		{"a:1,a:1", {"b:1", "b:1"}, "a:1,b:1", true},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_FREE char *got = ctl_list_edit(str_of(rows[i].list), rows[i].names,
						       rows[i].names[1] ? 2 : 1, rows[i].with);

		row_begin("\"%s\" %s", rows[i].list, rows[i].with ? "with" : "without");
		is_str(got, rows[i].want, "list");
	}
	row_end();
}

static void test_status(void)
{
	static const struct {
		enum err_kind kind;
		int code, want;
	} rows[] = {
		{ERR_INVALID, 0, 2},  {ERR_INVALID, 400, 1},     {ERR_DENIED, 403, 1},
		{ERR_DENIED, 0, 3},   {ERR_UNAVAILABLE, 503, 3}, {ERR_UNAVAILABLE, 0, 3},
		{ERR_TIMEOUT, 0, 3},  {ERR_PROTOCOL, 0, 3},      {ERR_NOT_FOUND, 404, 1},
		{ERR_CONFLICT, 1, 1}, {ERR_BUSY, 0, 1},          {ERR_INTERNAL, 500, 1},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct err err = {.kind = rows[i].kind, .code = rows[i].code};

		row_begin("%s %d", err_kind_name(rows[i].kind), rows[i].code);
		is_int(ctl_exit_status(&err), rows[i].want, "exit status");
	}
	row_end();
}

static void test_options(void)
{
	static const struct {
		const char *argv[6];
		const char *command; /* NULL: refused */
		const char *words;   /* how the message begins, or the first operand */
	} rows[] = {
		{{"stats"}, "stats", NULL},
		{{"-o", "json", "query", "4"}, "query", "4"},
		{{"query", "4", "--output=wide"}, "query", "4"},
		{{"controllers", "cordon", "a:1"}, "cordon", "a:1"},
		{{"drain", "a:1", "--wait", "60"}, "drain", "a:1"},
		{{"--operator-namespace", "x", "queue", "-w"}, "queue", NULL},
		{{"crd", "apply", "--wait=5"}, "crd apply", NULL},
		{{"-f", "a", "validate", "-fb", "c"}, "validate", "c"},
		{{"explain", "x", "-n", "y"}, "explain", "x"},
		{{"support-bundle", "-o", "x.tar"}, "support-bundle", NULL},
		{{"crd"}, NULL, "crd: there is no crd alone"},
		{{"crd", "remove"}, NULL, "crd: there is no crd remove"},
		{{"queue", "-n", "x"}, NULL, "queue: takes no --namespace"},
		{{"stats", "--color=red"}, NULL, "--color: must be"},
		{{"validate", "-f", ""}, NULL, "--filename: must not be empty"},
		{{NULL}, NULL, "a command is needed"},
		{{"stat"}, NULL, "stat: there is no such command"},
		{{"query"}, NULL, "query: SIZE is missing"},
		{{"query", "1", "2"}, NULL, "query: \"2\" is too much"},
		{{"controllers", "cordon"}, NULL, "cordon: NAME... is missing"},
		{{"controllers", "stats"}, NULL, "controllers: \"stats\" is too much"},
		{{"cordon", "a:1", "-o", "json"}, NULL, "cordon: takes no --output"},
		{{"stats", "-w"}, NULL, "stats: takes no --watch"},
		{{"stats", "-o", "xml"}, NULL, "--output: must be"},
		{{"stats", "--timeout", "0"},
		 NULL,
		 "--timeout: must be a whole number of seconds from 1 to 86400,"},
		{{"ui", "--port", "65535"}, "ui", NULL},
		{{"ui", "--port", "0"}, NULL, "--port: must be a whole number from 1 to 65535,"},
		{{"ui", "--port", "65536"},
		 NULL,
		 "--port: must be a whole number from 1 to 65535,"},
		{{"rdma", "check", "--user", "2147483647"}, "rdma check", NULL},
		{{"ui", "--all"}, NULL, "ui: takes no --all"},
		{{"node", "clean", "--all", "--port=80"}, NULL, "node clean: takes no --port"},
		{{"validate", "--context", "x", "a"}, "validate", "a"},
		{{"stats", "--sevrer=x"}, NULL, "--sevrer=x: there is no such option"},
		{{"stats", "-x"}, NULL, "-x: there is no such option"},
		{{"stats", "--watch", "-xw"}, NULL, "-x: there is no such option"},
		{{"stats", "--server"}, NULL, "--server: needs a value"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char *argv[8] = {(char *)(uintptr_t)"ipuctl"};
		const struct ctl_command *c = NULL;
		struct ctl_options o;
		struct err err = ERR_INIT;
		const char **files = NULL;
		int argc = 1;

		for (; rows[i].argv[argc - 1]; argc++)
			argv[argc] = (char *)(uintptr_t)rows[i].argv[argc - 1];
		row_begin("row %zu: %s %s", i, rows[i].argv[0] ? rows[i].argv[0] : "",
			  rows[i].argv[0] && rows[i].argv[1] ? rows[i].argv[1] : "");
		if (ctl_options_parse(argc, argv, &o, &err) == 0) {
			files = o.files;
			ctl_command_choose(&o, &c, &err);
		}
		is_str(c ? c->name : NULL, rows[i].command, "command");
		if (!c)
			ok(str_has_prefix(str_of(err.msg), str_of(rows[i].words)), "says: %s",
			   err.msg);
		else
			is_str(o.n_words ? o.words[0] : NULL, rows[i].words, "operand");
		free(files);
	}
	row_end();
}

int main(void)
{
	test_columns();
	test_views();
	test_controllers();
	test_lists();
	test_status();
	test_options();
	return done_testing();
}
