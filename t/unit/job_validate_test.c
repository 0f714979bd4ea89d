/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of doc/reference/validation.md through job_validate: each row breaks one, by its id,
 * and path, kind and message are read from the reference itself, so that the two can't drift apart.
 */
#include "core/str.h"
#include "job/model.h"
#include "tap.h"

/* ---- the reference ---- */

struct rule {
	char id[64], path[512], kind[32], message[256];
	bool in_words;  /* of a table of CEL rules: its message is the whole message */
	bool of_update; /* judges a change */
	bool tested;
};

static struct rule rules[64];
static size_t n_rules;

static void take_cell(char *to, size_t size, const char *from, size_t len)
{
	while (len && *from == ' ') {
		from++;
		len--;
	}
	while (len && from[len - 1] == ' ')
		len--;
	snprintf(to, size, "%.*s", (int)len, from);
}

/* "| id | path | kind | rule | message |"; ids have no blanks. */
static void take_line(const char *line, bool in_words, bool of_update)
{
	const char *cells[6];
	size_t n = 0;
	struct rule *r = &rules[n_rules];
	char rule[1024];

	for (const char *p = line; *p && n < 6; p++) {
		if (*p == '|')
			cells[n++] = p + 1;
	}
	if (n != 6 || line[2] == ' ' || line[1] == '-' || strncmp(line, "| id |", 6) == 0)
		return;
	take_cell(r->id, sizeof(r->id), cells[0], (size_t)(cells[1] - cells[0]) - 1);
	take_cell(r->path, sizeof(r->path), cells[1], (size_t)(cells[2] - cells[1]) - 1);
	take_cell(r->kind, sizeof(r->kind), cells[2], (size_t)(cells[3] - cells[2]) - 1);
	take_cell(rule, sizeof(rule), cells[3], (size_t)(cells[4] - cells[3]) - 1);
	take_cell(r->message, sizeof(r->message), cells[4], (size_t)(cells[5] - cells[4]) - 1);
	r->kind[strcspn(r->kind, "*")] = '\0';
	while (r->kind[0] && r->kind[strlen(r->kind) - 1] == ' ')
		r->kind[strlen(r->kind) - 1] = '\0';
	r->in_words = in_words;
	r->of_update = of_update;
	n_rules++;
}

static void read_reference(void)
{
	CLEANUP_FREE char *path = xasprintf("%s/doc/reference/validation.md",
					    getenv("TOP_SRCDIR") ? getenv("TOP_SRCDIR") : ".");
	FILE *f = fopen(path, "re");
	char line[2048];
	bool in_words = true, of_update = false;

	if (!f)
		bail_out(path);
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, "## Rules of the schema", 22) == 0)
			in_words = false;
		if (strncmp(line, "## Rules on updates", 19) == 0)
			in_words = of_update = true;
		if (strncmp(line, "## Rules of the webhook", 23) == 0)
			break; /* admission_job_test's */
		if (line[0] == '|')
			take_line(line, in_words, of_update);
	}
	fclose(f);
	ok(n_rules > 25, "%zu rules in the reference", n_rules);
}

static struct rule *find_rule(const char *id)
{
	for (size_t i = 0; i < n_rules; i++) {
		if (strcmp(rules[i].id, id) == 0)
			return &rules[i];
	}
	return NULL;
}

/* ---- what is reported ---- */

struct reported {
	size_t n;
	char path[8][128], kind[8][32], message[8][256];
};

static void note_report(void *arg, const char *path, const char *kind, const char *message)
{
	struct reported *r = arg;

	if (r->n < 8) {
		snprintf(r->path[r->n], sizeof(r->path[0]), "%s", path);
		snprintf(r->kind[r->n], sizeof(r->kind[0]), "%s", kind);
		snprintf(r->message[r->n], sizeof(r->message[0]), "%s", message);
	}
	r->n++;
}

/* A job with nothing wrong, and a merge patch over its spec. The root of doc is the result. */
static void make_job(struct jmut_doc *doc, const char *name, const char *patch)
{
	CLEANUP_FREE char *text = xasprintf(
		"{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"jobInstances\":1,"
		"\"ipusPerJobInstance\":\"4\",\"workers\":{\"template\":{\"spec\":{\"containers\":"
		"[{\"name\":\"c\"}]}}}}}",
		name);
	CLEANUP_FREE char *whole = xasprintf("{\"spec\":%s}", patch);
	CLEANUP_JSON struct json_doc *base = NULL, *change = NULL;
	struct err err = ERR_INIT;

	if (json_parse(str_of(text), &base, &err) < 0 ||
	    json_parse(str_of(whole), &change, &err) < 0)
		bail_out(err.msg);
	jmut_set_root(doc,
		      jmut_merge_patch(doc, jmut_copy(doc, json_root(base)), json_root(change)));
}

static void validate(const char *name, const char *patch, struct reported *ret)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	size_t n;

	*ret = (struct reported){0};
	make_job(doc, name, patch);
	n = job_validate(jmut_view(jmut_root(doc)), note_report, ret);
	is_uint(n, ret->n, "the count");
}

struct row {
	const char *id, *patch;
	const char *path;    /* NULL: the reference's, which is one */
	const char *message; /* of a rule of the schema */
};

#define OLD                "\"jobInstances\":null,\"ipusPerJobInstance\":null"
#define BY_MODELS(n, ipus) OLD ",\"modelReplicas\":\"" n "\",\"ipusPerModelReplica\":\"" ipus "\""
#define BY_MODEL           BY_MODELS("4", "1")
#define ROLLING(s, u)                                                                              \
	"{\"workers\":{\"strategy\":{\"rollingUpdate\":{\"maxSurge\":" s ",\"maxUnavailable\":" u  \
	"}}}}"
#define MUST_BE(z) NULL, "must be " z

/* clang-format off */
#define MANAGER "spec.managedBy", "must be a domain and a name, such as \"example.com/controller\""
#define QUANTITY(q) \
	"quantity-form", "{\"schedulingPolicy\":{\"minResources\":{\"cpu\":" q "}}}", \
	"spec.schedulingPolicy.minResources[cpu]", "must be a quantity, such as 4, \"500m\" or \"8Gi\""
#define TEXT_32   "abcdefghijklmnopqrstuvwxyz012345"
#define LONG_TEXT TEXT_32 TEXT_32 TEXT_32 TEXT_32 TEXT_32 TEXT_32 TEXT_32 TEXT_32

static const struct row rows[] = {
	{"size-missing", "{" OLD "}"},
	{"size-twice", "{\"modelReplicas\":\"2\",\"ipusPerModelReplica\":\"2\"}"},
	{"instances-missing", "{\"jobInstances\":null}"},
	{"ipus-missing", "{\"ipusPerJobInstance\":null}"},
	{"model-replicas-missing", "{" OLD ",\"ipusPerModelReplica\":\"2\"}"},
	{"replica-ipus-missing", "{" OLD ",\"modelReplicas\":\"2\"}"},
	{"workers-per-instance-misplaced", "{" BY_MODEL ",\"workersPerJobInstance\":\"1\"}"},
	{"replicas-per-worker-misplaced", "{" BY_MODEL ",\"modelReplicasPerWorker\":\"1\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"3\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"0\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"04\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"-4\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"+4\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\" 4\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"131072\"}"},
	{"ipus-power", "{\"ipusPerJobInstance\":\"9999999999999999\"}"},
	{"workers-per-instance-number", "{\"workersPerJobInstance\":\"0\"}"},
	{"workers-per-instance-number", "{\"workersPerJobInstance\":\"10001\"}"},
	{"workers-per-instance-number", "{\"workersPerJobInstance\":\"two\"}"},
	{"replicas-per-worker-number", "{\"modelReplicasPerWorker\":\"0\"}"},
	{"replicas-per-worker-number", "{\"modelReplicasPerWorker\":\"100000\"}"},
	{"model-replicas-number", "{" OLD ",\"modelReplicas\":\"x\",\"ipusPerModelReplica\":\"1\"}"},
	{"replica-ipus-number", "{" OLD ",\"modelReplicas\":\"1\",\"ipusPerModelReplica\":\"100000\"}"},
	{"product-power", "{" OLD ",\"modelReplicas\":\"3\",\"ipusPerModelReplica\":\"1\"}"},
	{"product-power", "{" OLD ",\"modelReplicas\":\"65536\",\"ipusPerModelReplica\":\"2\"}"},
	{"too-many-workers", "{\"jobInstances\":101,\"workersPerJobInstance\":\"100\"}"},
	{"launcher-and-interactive", "{\"launcher\":{\"command\":[\"x\"]},\"interactive\":{\"ttl\":1}}"},
	{"exit-codes-missing", "{\"restartPolicy\":{\"type\":\"ExitCode\"}}"},
	{"exit-codes-range", "{\"restartPolicy\":{\"type\":\"ExitCode\",\"exitCodes\":\"1,256\"}}"},
	{"exit-codes-range", "{\"restartPolicy\":{\"type\":\"Never\",\"exitCodes\":\"5-3\"}}"},
	{"exit-codes-range", "{\"restartPolicy\":{\"type\":\"Never\",\"exitCodes\":\"0001\"}}"},
	{"strategy-recreate", "{\"workers\":{\"strategy\":{\"type\":\"Recreate\",\"rollingUpdate\":{}}}}"},
	{"strategy-stuck", ROLLING("0", "0")},
	{"strategy-stuck", ROLLING("\"0%\"", "0")},
	{"strategy-stuck", ROLLING("\"000%\"", "\"00%\"")},
	{"group-too-large", "{\"schedulingPolicy\":{\"minAvailable\":2}}"},
	{"group-too-large", "{\"workersPerJobInstance\":\"4\",\"launcher\":{\"command\":[\"x\"]},"
	 "\"schedulingPolicy\":{\"minAvailable\":5}}"},

	{"required", "{\"workers\":null}", "spec.workers", "is required"},
	{"required", "{\"workers\":{\"template\":null}}", "spec.workers.template", "is required"},
	{"required", "{\"workers\":{\"template\":{\"spec\":null}}}", "spec.workers.template.spec",
	 "is required"},
	{"required", "{\"workers\":{\"template\":{\"spec\":{\"containers\":null}}}}",
	 "spec.workers.template.spec.containers", "is required"},
	{"required", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\"},{}]}}}}",
	 "spec.workers.template.spec.containers[1].name", "is required"},
	{"required", "{\"launcher\":{}}", "spec.launcher.command", "is required"},
	{"required", "{\"launcher\":{\"command\":[\"x\"],\"env\":[{\"value\":\"1\"}]}}",
	 "spec.launcher.env[0].name", "is required"},
	{"required", "{\"interactive\":{}}", "spec.interactive.ttl", "is required"},
	{"required", "{\"restartPolicy\":{\"backOffLimit\":1}}", "spec.restartPolicy.type", "is required"},
	{"type", "{\"ipusPerJobInstance\":4}", "spec.ipusPerJobInstance", "must be a string"},
	{"type", "{\"jobInstances\":\"1\"}", "spec.jobInstances", "must be a whole number"},
	{"type", "{\"jobInstances\":1.5}", "spec.jobInstances", "must be a whole number"},
	{"type", "{\"launcher\":\"x\"}", "spec.launcher", "must be an object"},
	{"type", "{\"launcher\":{\"command\":\"x\"}}", "spec.launcher.command", "must be a list"},
	{"type", "{\"launcher\":{\"command\":[1]}}", "spec.launcher.command[0]", "must be a string"},
	{"type", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[7]}}}}",
	 "spec.workers.template.spec.containers[0]", "must be an object"},
	{"type", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":7}]}}}}",
	 "spec.workers.template.spec.containers[0].name", "must be a string"},
	{"type", ROLLING("true", "1"), "spec.workers.strategy.rollingUpdate.maxSurge",
	 "must be a number or a string"},
	{"template-type", "{\"workers\":{\"template\":{\"metadata\":{\"labels\":[]}}}}",
	 "spec.workers.template.metadata.labels", "must be an object"},
	{"template-type", "{\"workers\":{\"template\":{\"metadata\":{\"annotations\":{\"a/b\":1}}}}}",
	 "spec.workers.template.metadata.annotations[a/b]", "must be a string"},
	{"template-type", "{\"workers\":{\"template\":{\"spec\":{\"nodeSelector\":\"x\"}}}}",
	 "spec.workers.template.spec.nodeSelector", "must be an object"},
	{"template-type", "{\"workers\":{\"template\":{\"spec\":{\"volumes\":{}}}}}",
	 "spec.workers.template.spec.volumes", "must be a list"},
	{"template-type", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\",\"env\":{}}]}}}}",
	 "spec.workers.template.spec.containers[0].env", "must be a list"},
	{"template-type", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\",\"volumeMounts\":1}]}}}}",
	 "spec.workers.template.spec.containers[0].volumeMounts", "must be a list"},
	{"template-type", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"a\",\"securityContext\":[]}]}}}}",
	 "spec.workers.template.spec.containers[0].securityContext", "must be an object"},
	{"containers-empty", "{\"workers\":{\"template\":{\"spec\":{\"containers\":[]}}}}",
	 MUST_BE("x")},
	{"command-empty", "{\"launcher\":{\"command\":[]}}", MUST_BE("x")},
	{"enum", "{\"restartPolicy\":{\"type\":\"never\"}}", "spec.restartPolicy.type",
	 "must be one of Always, OnFailure, Never, ExitCode"},
	{"enum", "{\"cleanPodPolicy\":\"\"}", "spec.cleanPodPolicy", "must be one of None, All, Workers"},
	{"enum", "{\"workers\":{\"strategy\":{\"type\":\"Rolling\"}}}", "spec.workers.strategy.type",
	 "must be one of Recreate, RollingUpdate"},
	{"instances-number", "{\"jobInstances\":0}"},
	{"instances-number", "{\"jobInstances\":2001}"},
	{"range", "{\"workers\":{\"replicas\":0}}", "spec.workers.replicas", "must be from 1 to 10000"},
	{"range", "{\"interactive\":{\"ttl\":0}}", "spec.interactive.ttl",
	 "must be from 1 to 2147483647"},
	{"range", "{\"restartPolicy\":{\"type\":\"Never\",\"backOffLimit\":-1}}",
	 "spec.restartPolicy.backOffLimit", "must be from 0 to 2147483647"},
	{"strategy-form", ROLLING("-1", "1"), "spec.workers.strategy.rollingUpdate.maxSurge",
	 "must be a number or a percentage, such as 1 or \"25%\""},
	{"strategy-form", ROLLING("\"1000%\"", "1"), "spec.workers.strategy.rollingUpdate.maxSurge",
	 "must be a number or a percentage, such as 1 or \"25%\""},
	{"strategy-form", ROLLING("1", "\"5\""), "spec.workers.strategy.rollingUpdate.maxUnavailable",
	 "must be a number or a percentage, such as 1 or \"25%\""},
	{"exit-codes-form", "{\"restartPolicy\":{\"type\":\"ExitCode\",\"exitCodes\":\"\"}}", MUST_BE("x")},
	{"exit-codes-form", "{\"restartPolicy\":{\"type\":\"ExitCode\",\"exitCodes\":\"1,\"}}", MUST_BE("x")},
	{"exit-codes-form", "{\"restartPolicy\":{\"type\":\"ExitCode\",\"exitCodes\":\"1-2-3\"}}",
	 MUST_BE("x")},
	{"type", "{\"partition\":{\"reconfigurable\":\"yes\"}}", "spec.partition.reconfigurable",
	 "must be true or false"},
	{"enum", "{\"partition\":{\"release\":\"Never\"}}", "spec.partition.release",
	 "must be one of OnCompletion, OnDeletion"},
	{"enum", "{\"partition\":{\"syncType\":\"x\"}}", "spec.partition.syncType",
	 "must be one of GS2_DEFAULT, POD_NATIVE_DEFAULT, POD_NATIVE_REPLICATED_PIPELINE"},
	{"enum", "{\"partition\":{\"routingType\":\"dnc\"}}", "spec.partition.routingType",
	 "must be one of DNC, SWNC, BTNC, RINGSWNC"},
	{"range", "{\"partition\":{\"gcds\":0}}", "spec.partition.gcds", "must be from 1 to 10000"},
	{"text-too-long", "{\"partition\":{\"allocation\":\"" LONG_TEXT "\"}}",
	 "spec.partition.allocation", "must be at most 253 characters"},
	{"type", "{\"suspend\":\"true\"}", "spec.suspend", "must be true or false"},
	{"type", "{\"activeDeadlineSeconds\":\"60\"}", "spec.activeDeadlineSeconds",
	 "must be a whole number"},
	{"type", "{\"managedBy\":1}", "spec.managedBy", "must be a string"},
	{"type", "{\"schedulingPolicy\":true}", "spec.schedulingPolicy", "must be an object"},
	{"type", "{\"schedulingPolicy\":{\"minResources\":[]}}", "spec.schedulingPolicy.minResources",
	 "must be an object"},
	{"type", "{\"schedulingPolicy\":{\"minResources\":{\"cpu\":1.5}}}",
	 "spec.schedulingPolicy.minResources[cpu]", "must be a number or a string"},
	{"range", "{\"activeDeadlineSeconds\":0}", "spec.activeDeadlineSeconds",
	 "must be from 1 to 2147483647"},
	{"range", "{\"startDeadlineSeconds\":2147483648}", "spec.startDeadlineSeconds",
	 "must be from 1 to 2147483647"},
	{"range", "{\"ttlSecondsAfterFinished\":-1}", "spec.ttlSecondsAfterFinished",
	 "must be from 0 to 2147483647"},
	{"range", "{\"schedulingPolicy\":{\"minAvailable\":0}}", "spec.schedulingPolicy.minAvailable",
	 "must be from 1 to 10000"},
	{"manager-form", "{\"managedBy\":\"\"}", MANAGER},
	{"manager-form", "{\"managedBy\":\"controller\"}", MANAGER},
	{"manager-form", "{\"managedBy\":\"Example.com/a\"}", MANAGER},
	{"manager-form", "{\"managedBy\":\"example.com/\"}", MANAGER},
	{"manager-form", "{\"managedBy\":\"example.com/-a\"}", MANAGER},
	{"manager-form", "{\"managedBy\":\"a/b\\u0000c\"}", MANAGER},
	{QUANTITY("\"\"")},
	{QUANTITY("\".\"")},
	{QUANTITY("\"-1\"")},
	{QUANTITY("\"1ki\"")},
	{QUANTITY("\"1e+\"")},
	{QUANTITY("\"1 Gi\"")},
	{QUANTITY("\"8Gi8\"")},
	{QUANTITY("-1")},
	{"text-too-long", "{\"schedulingPolicy\":{\"queue\":\"" LONG_TEXT "\"}}",
	 "spec.schedulingPolicy.queue", "must be at most 253 characters"},
	{"text-too-long", "{\"managedBy\":\"a/" LONG_TEXT LONG_TEXT "\"}", "spec.managedBy",
	 "must be at most 317 characters"},
	{"too-long", "{\"ipusPerJobInstance\":\"00000000000000004\"}", "spec.ipusPerJobInstance",
	 "must be a number of at most 16 digits"},
};
/* clang-format on */

static void run_row(const struct row *row)
{
	struct rule *rule = find_rule(row->id);
	struct reported got;
	char path[512];

	row_begin("%s %s", row->id, row->patch);
	if (!ok(rule != NULL, "the reference has it"))
		return;
	rule->tested = true;
	snprintf(path, sizeof(path), "%s", row->path ? row->path : rule->path + 1);
	path[strcspn(path, "`")] = '\0';
	validate("j", row->patch, &got);
	is_uint(got.n, 1, "one rule is broken");
	if (got.n == 0)
		return;
	is_str(got.path[0], path, "path");
	is_str(got.kind[0], rule->kind, "kind");
	is_str(got.message[0], rule->in_words || !row->path ? rule->message : row->message,
	       "message");
	if (got.n > 1)
		diag("also: %s %s: %s", got.kind[1], got.path[1], got.message[1]);
}

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run_row(&rows[i]);
	row_end();
}

/* ---- names: the longest that fits, and one more ---- */

static void test_names(void)
{
	static const struct {
		const char *patch, *id;
		size_t most;
	} cases[] = {
		{"{}", "name-worker", 54},
		{"{\"workersPerJobInstance\":\"5\"}", "name-worker", 54},
		{"{\"workersPerJobInstance\":\"6\"}", "name-worker", 53},
		{"{\"workers\":{\"replicas\":51}}", "name-worker", 52},
		{"{\"jobInstances\":2,\"launcher\":{\"command\":[\"x\"]}}", "name-launcher", 52},
		{"{\"jobInstances\":2,\"interactive\":{\"ttl\":1}}", "name-launcher", 52},
		{"{\"launcher\":{\"command\":[\"x\"]}}", "name-worker", 54},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[80];
		struct reported got;
		struct rule *rule = find_rule(cases[i].id);

		row_begin("%s %s", cases[i].id, cases[i].patch);
		memset(name, 'n', sizeof(name));
		name[cases[i].most] = '\0';
		validate(name, cases[i].patch, &got);
		is_uint(got.n, 0, "%zu characters are fine", cases[i].most);
		name[cases[i].most] = 'n';
		name[cases[i].most + 1] = '\0';
		validate(name, cases[i].patch, &got);
		is_uint(got.n, 1, "one more isn't");
		if (!got.n || !rule)
			continue;
		rule->tested = true;
		is_str(got.path[0], "metadata.name", "path");
		is_str(got.kind[0], rule->kind, "kind");
		is_str(got.message[0], rule->message, "message");
	}
	row_end();
}

static void test_good(void)
{
	static const char *const good[] = {
		"{}",
		"{\"ipusPerJobInstance\":\"65536\",\"jobInstances\":2000}",
		"{" BY_MODEL "}",
		"{" BY_MODEL ",\"workersPerJobInstance\":null}",
		"{" OLD ",\"modelReplicas\":\"256\",\"ipusPerModelReplica\":\"256\"}",
		"{\"workersPerJobInstance\":\"10000\",\"modelReplicasPerWorker\":\"99999\"}",
		"{\"restartPolicy\":{\"type\":\"ExitCode\",\"exitCodes\":\"0,1,3-5,137,255\"}}",
		"{\"restartPolicy\":{\"type\":\"Always\",\"backOffLimit\":0}}",
		ROLLING("\"25%\"", "0"),
		ROLLING("0", "1"),
		"{\"workers\":{\"strategy\":{\"type\":\"Recreate\"}}}",
		"{\"cleanPodPolicy\":\"All\",\"whatever\":{\"a\":1}}",
		"{\"launcher\":{\"command\":[\"mpirun\"],\"env\":[{\"name\":\"A\"}]}}",
		"{\"suspend\":true,\"activeDeadlineSeconds\":1,\"startDeadlineSeconds\":2147483647,"
		"\"ttlSecondsAfterFinished\":0,\"managedBy\":\"graphcore.ai/ipu-operator\"}",
		"{\"managedBy\":\"a/B_c.d-e\",\"interactive\":{\"ttl\":1},\"suspend\":true}",
		"{\"schedulingPolicy\":{}}",
		"{\"workers\":{\"replicas\":4},\"schedulingPolicy\":{\"minAvailable\":4,"
		"\"queue\":\"q\",\"priorityClass\":\"high\",\"scheduleTimeoutSeconds\":60,"
		"\"minResources\":{\"cpu\":4,\"memory\":\"8Gi\",\"x/y\":\"1e3\",\"a\":\"2E\","
		"\"b\":\"0.5\",\"c\":\".5\",\"d\":\"5.\",\"e\":\"100m\",\"f\":\"1E-2\"}}}",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct reported got;

		row_begin("%s", good[i]);
		validate("j", good[i], &got);
		if (!is_uint(got.n, 0, "nothing is wrong"))
			diag("%s: %s", got.path[0], got.message[0]);
	}
	row_end();
}

/* All that is wrong, in the reference's order: the schema's rules are looked at first. */
static void test_several(void)
{
	struct reported got;

	validate("j",
		 "{\"ipusPerJobInstance\":\"3\",\"workersPerJobInstance\":\"0\","
		 "\"cleanPodPolicy\":\"some\",\"restartPolicy\":{\"type\":\"ExitCode\"}}",
		 &got);
	is_uint(got.n, 4, "four");
	is_str(got.path[0], "spec.cleanPodPolicy", "first");
	is_str(got.path[1], "spec.ipusPerJobInstance", "second");
	is_str(got.path[2], "spec.workersPerJobInstance", "third");
	is_str(got.path[3], "spec.restartPolicy.exitCodes", "last");
}

static void test_odd_objects(void)
{
	static const char *const odd[] = {"{}",
					  "{\"spec\":null}",
					  "{\"spec\":[]}",
					  "{\"spec\":{}}",
					  "[]",
					  "{\"spec\":{\"workers\":{\"template\":[]}}}"};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct reported got = {0};

		row_begin("%s", odd[i]);
		if (json_parse(str_of(odd[i]), &doc, NULL) < 0)
			bail_out("a row");
		ok(job_validate(json_root(doc), note_report, &got) >= 1, "something is wrong");
	}
	row_end();
}

/* ---- changes ---- */

static size_t validate_change(const char *before, const char *after, struct reported *ret)
{
	CLEANUP_JMUT struct jmut_doc *old = jmut_doc_new(), *new = jmut_doc_new();

	*ret = (struct reported){0};
	make_job(old, "j", before);
	make_job(new, "j", after);
	return job_validate_update(jmut_view(jmut_root(old)), jmut_view(jmut_root(new)),
				   note_report, ret);
}

#define LAUNCHER    "\"launcher\":{\"command\":[\"x\"]}"
#define INTERACTIVE "\"interactive\":{\"ttl\":1}"

/* clang-format off */
static const struct {
	const char *id, *before, *after; /* id NULL: it's fine */
} changes[] = {
	{"workers-per-instance-fixed", "{\"workersPerJobInstance\":\"2\"}",
	 "{\"workersPerJobInstance\":\"3\"}"},
	{"workers-per-instance-fixed", "{}", "{\"workersPerJobInstance\":\"3\"}"},
	{"workers-per-instance-fixed", "{\"workersPerJobInstance\":\"2\"}", "{}"},
	{"workers-fixed", "{}", "{\"workers\":{\"replicas\":2}}"},
	{"workers-fixed", "{\"workers\":{\"replicas\":3}}", "{\"workers\":{\"replicas\":2}}"},
	{"model-replicas-fixed", "{" BY_MODEL "}", "{" BY_MODELS("8", "1") "}"},
	{"replica-ipus-fixed", "{" BY_MODEL "}", "{" BY_MODELS("4", "2") "}"},
	{"generation-fixed", "{}", "{" BY_MODEL "}"},
	{"generation-fixed", "{" BY_MODEL "}", "{}"},
	{"launcher-fixed", "{}", "{" LAUNCHER "}"},
	{"launcher-fixed", "{" LAUNCHER "}", "{}"},
	{"interactive-fixed", "{}", "{" INTERACTIVE "}"},
	{"interactive-fixed", "{" INTERACTIVE "}", "{}"},
	{"manager-fixed", "{}", "{\"managedBy\":\"a/b\"}"},
	{"manager-fixed", "{\"managedBy\":\"a/b\"}", "{}"},
	{"manager-fixed", "{\"managedBy\":\"a/b\"}", "{\"managedBy\":\"a/c\"}"},
	{NULL, "{}", "{\"jobInstances\":7,\"ipusPerJobInstance\":\"16\",\"suspend\":true}"},
	{NULL, "{}", "{\"workersPerJobInstance\":\"1\",\"workers\":{\"replicas\":5}}"},
	{NULL, "{\"workersPerJobInstance\":\"2\"}",
	 "{\"workersPerJobInstance\":\"2\",\"workers\":{\"replicas\":5}}"},
	{NULL, "{\"workersPerJobInstance\":\"none\"}", "{\"workersPerJobInstance\":\"3\"}"},
	{NULL, "{\"workersPerJobInstance\":\"3\"}", "{\"workersPerJobInstance\":\"none\"}"},
	{NULL, "{\"modelReplicas\":\"2\"}", "{}"},
	{NULL, "{" OLD "}", "{" BY_MODEL "}"},
	{NULL, "{" LAUNCHER "}", "{\"launcher\":{\"command\":[\"y\"]}}"},
	{NULL, "{" INTERACTIVE "}", "{\"interactive\":{\"ttl\":2}}"},
	{NULL, "{\"managedBy\":\"a/b\"}", "{\"managedBy\":\"a/b\",\"cleanPodPolicy\":\"All\"}"},
};
/* clang-format on */

static void test_changes(void)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct rule *rule = changes[i].id ? find_rule(changes[i].id) : NULL;
		struct reported got;

		row_begin("%s to %s", changes[i].before, changes[i].after);
		is_uint(validate_change(changes[i].before, changes[i].after, &got),
			changes[i].id != NULL, "rules that are broken");
		if (!changes[i].id)
			continue;
		if (!ok(rule && rule->of_update, "the reference has it") || got.n == 0)
			continue;
		rule->tested = true;
		is_uint(strcspn(rule->path + 1, "`"), strlen(got.path[0]), "the path's length");
		is_int(strncmp(got.path[0], rule->path + 1, strlen(got.path[0])), 0, "path");
		is_str(got.kind[0], rule->kind, "kind");
		is_str(got.message[0], rule->message, "message");
	}
	row_end();
}

static void test_all_tested(void)
{
	for (size_t i = 0; i < n_rules; i++)
		ok(rules[i].tested, "the reference's rule %s has a row", rules[i].id);
}

int main(void)
{
	read_reference();
	test_rows();
	test_names();
	test_good();
	test_several();
	test_odd_objects();
	test_changes();
	test_all_tested();
	return done_testing();
}
