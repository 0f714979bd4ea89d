/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reviews of IPUJobs ask a scripted API server, and what they make of its answers: good ones,
 * refusals of every kind, none at all, garbage; what is kept, shared, bounded and cancelled.
 */
#include "kube_server.h"

#include "admission/access.h"
#include "core/log.h"

#define SIZE(a)     (sizeof(a) / sizeof((a)[0]))
#define MAX_STEPS   8
#define DEADLINE_MS 8000

static struct srv *srv;
static struct kube_config *config;
static struct kube_client *client;
static struct admission_access *access_;

/* ---- objects ---- */

#define SIZES "\"jobInstances\":1,\"ipusPerJobInstance\":\"1\""
#define GOOD                                                                                       \
	"\"securityContext\":{\"runAsNonRoot\":true,\"seccompProfile\":{\"type\":"                 \
	"\"RuntimeDefault\"}}"
#define CONTAINER                                                                                  \
	"{\"name\":\"c\",\"image\":\"i\",\"env\":[{\"name\":\"A\",\"value\":\"1\"}],"              \
	"\"securityContext\":{\"allowPrivilegeEscalation\":false,"                                 \
	"\"capabilities\":{\"drop\":[\"ALL\"]}}}"
#define TEMPLATE(more)                                                                             \
	"\"workers\":{\"template\":{\"spec\":{" GOOD ",\"containers\":[" CONTAINER "]" more "}}}"
#define LAUNCHER "\"launcher\":{\"command\":[\"mpirun\"]},"
#define SESSION  "\"interactive\":{\"ttl\":60},"
#define JOB(spec)                                                                                  \
	"{\"metadata\":{\"name\":\"j\",\"namespace\":\"ns\",\"uid\":\"u\"},\"spec\":{" SIZES       \
	"," spec "}}"
#define PLAIN    JOB(TEMPLATE(""))
#define HOSTPATH JOB(TEMPLATE(",\"volumes\":[{\"name\":\"v\",\"hostPath\":{\"path\":\"/etc\"}}]"))
#define LOCKS                                                                                      \
	JOB("\"workers\":{\"template\":{\"spec\":{" GOOD ",\"containers\":[{\"name\":\"c\","       \
	    "\"image\":\"i\",\"securityContext\":{\"capabilities\":{\"add\":[\"IPC_LOCK\"]}}}]}}}")

static void review_of(struct admission_review *r, const char *user, const char *object,
		      const char *old)
{
	struct err err = ERR_INIT;
	CLEANUP_FREE char *body = xasprintf(
		"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{"
		"\"uid\":\"1\",\"kind\":{\"group\":\"graphcore.ai\",\"version\":\"v1alpha1\","
		"\"kind\":\"IPUJob\"},\"resource\":{\"group\":\"graphcore.ai\",\"version\":"
		"\"v1alpha1\",\"resource\":\"ipujobs\"},\"namespace\":\"ns\",\"operation\":\"%s\","
		"\"userInfo\":{\"username\":\"%s\",\"groups\":[\"dev\"],\"extra\":{\"k\":[\"v\"]}},"
		"\"object\":%s,\"oldObject\":%s}}",
		old ? "UPDATE" : "CREATE", user, object, old ? old : "null");

	if (admission_review_decode(str_of(body), r, &err) < 0)
		bail_out(err.msg);
}

/* ---- answers ---- */

#define SAR          "POST /apis/authorization.k8s.io/v1/subjectaccessreviews"
#define SAR_EXEC     SAR "|\"subresource\":\"exec\""
#define NAMESPACE    "GET /api/v1/namespaces/ns"
#define PODS         "POST /api/v1/namespaces/ns/pods?dryRun=All"
#define WORKER       PODS "|\"generateName\":\"j-worker-\""
#define LAUNCHER_POD PODS "|\"generateName\":\"j-launcher-\""
#define ALLOWED      "{\"status\":{\"allowed\":true}}"
#define DENIED       "{\"status\":{\"allowed\":false,\"reason\":\"no role\"}}"
#define LABELS(l)    "{\"metadata\":{\"name\":\"ns\",\"labels\":{" l "}}}"
#define ENFORCE(l)   LABELS("\"pod-security.kubernetes.io/enforce\":\"" l "\"")
#define POD          "{\"kind\":\"Pod\",\"metadata\":{}}"
#define STATUS(code, reason, msg, causes)                                                          \
	"{\"kind\":\"Status\",\"code\":" code ",\"reason\":\"" reason "\",\"message\":\"" msg      \
	"\",\"details\":{\"causes\":[" causes "]}}"
#define CAUSE(reason, field, msg)                                                                  \
	"{\"reason\":\"" reason "\",\"field\":\"" field "\",\"message\":\"" msg "\"}"
#define INSECURE                                                                                   \
	STATUS("403", "Forbidden",                                                                 \
	       "pods is forbidden: violates PodSecurity \\\"baseline:latest\\\": hostPath", "")

#define YES        {SAR, 201, NULL, ALLOWED, SRV_WHOLE}
#define FREE       {NAMESPACE, 200, NULL, LABELS(""), SRV_WHOLE}
#define TAKEN      {PODS, 201, NULL, POD, SRV_WHOLE}
#define HANG(what) {what, 0, NULL, NULL, SRV_HANG}

#define T "spec.workers.template"

struct row {
	const char *name, *object, *old;  /* old: of an update */
	struct srv_step steps[MAX_STEPS]; /* later ones first */
	int code;                         /* refused as a whole; 0: not */
	const char *denied;               /* part of it */
	const char *problems;             /* whole: "PATH KIND MESSAGE\n" each */
	const char *warnings[3];          /* parts, in this order; as many as there are */
	unsigned requests;
	bool off;          /* no dry runs */
	bool host_network; /* worker.hostNetwork and privileged */
	bool rdma;         /* worker.rdmaNetwork, and so IPC_LOCK */
};

/* clang-format off */
static const struct row rows[] = {
	{.name = "all is well", .object = PLAIN, .steps = {YES, FREE, TAKEN, {WORKER, 201, NULL, POD, SRV_WHOLE}}, .requests = 3},
	{.name = "a launcher", .object = JOB(LAUNCHER TEMPLATE("")), .requests = 5,
	 .steps = {YES, FREE, {SAR_EXEC, 201, NULL, ALLOWED, SRV_WHOLE}, {WORKER, 201, NULL, POD, SRV_WHOLE}, {LAUNCHER_POD, 201, NULL, POD, SRV_WHOLE}}},
	{.name = "no dry runs", .object = PLAIN, .off = true, .steps = {YES, FREE}, .requests = 2},
	{.name = "no name yet", .object = "{\"metadata\":{\"generateName\":\"j\"},\"spec\":{" SIZES "," TEMPLATE("") "}}",
	 .steps = {YES, FREE, {PODS "|\"generateName\":\"j12345-worker-\"", 201, NULL, POD, SRV_WHOLE}}, .requests = 3},

	/* the requester's rights */
	{.name = "may not create Pods", .object = HOSTPATH, .requests = 3, .code = 403,
	 .steps = {{SAR, 201, NULL, DENIED, SRV_WHOLE}, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}, {PODS, 403, NULL, INSECURE, SRV_WHOLE}},
	 .denied = "user \"ann\" may not create Pods in namespace ns, and so may not have a job make them there: not allowed: no role"},
	{.name = "may not exec", .object = JOB(LAUNCHER TEMPLATE("")), .requests = 5, .code = 403,
	 .steps = {YES, FREE, TAKEN, {SAR_EXEC, 201, NULL, DENIED, SRV_WHOLE}},
	 .denied = "user \"ann\" may not exec into Pods (create pods/exec) in namespace ns, and so may not have a job's launcher do it: not allowed"},
	{.name = "may not exec, for a session", .object = JOB(SESSION TEMPLATE("")), .requests = 5, .code = 403,
	 .steps = {YES, FREE, TAKEN, {SAR_EXEC, 201, NULL, DENIED, SRV_WHOLE}}, .denied = "may not exec"},
	{.name = "exec isn't asked for without a launcher", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, TAKEN, {SAR_EXEC, 201, NULL, DENIED, SRV_WHOLE}}},
	{.name = "nobody knows who may", .object = PLAIN, .requests = 3, .code = 503,
	 .steps = {FREE, TAKEN, {SAR, 500, NULL, STATUS("500", "InternalError", "etcd", ""), SRV_WHOLE}},
	 .denied = "it couldn't be found out whether user \"ann\" may create Pods in namespace ns: the access couldn't be reviewed: etcd; try again"},
	{.name = "we may not ask who may", .object = PLAIN, .requests = 3, .code = 503,
	 .steps = {FREE, TAKEN, {SAR, 403, NULL, STATUS("403", "Forbidden", "cannot create", ""), SRV_WHOLE}}, .denied = "cannot create; try again"},
	{.name = "who may takes too long", .object = PLAIN, .requests = 3, .code = 503,
	 .steps = {FREE, TAKEN, HANG(SAR)}, .denied = "couldn't be found out in time whether user \"ann\" may create Pods in namespace ns: try again"},
	{.name = "who may is garbage", .object = PLAIN, .requests = 3, .code = 503,
	 .steps = {FREE, TAKEN, {SAR, 201, NULL, "<html>", SRV_WHOLE}}, .denied = "isn't JSON"},
	{.name = "who may says nothing", .object = PLAIN, .requests = 3, .code = 503,
	 .steps = {FREE, TAKEN, {SAR, 201, NULL, "{}", SRV_WHOLE}}, .denied = "has no status"},
	{.name = "everybody is dead", .object = HOSTPATH, .requests = 3, .code = 503,
	 .steps = {HANG(NAMESPACE), HANG(PODS), HANG(SAR)}, .denied = "in time"},

	/* dry runs */
	{.name = "fields that are wrong", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 422, NULL, STATUS("422", "Invalid", "Pod is invalid",
		CAUSE("FieldValueRequired", "spec.containers[0].imagePullSecrets", "Required value") ","
		CAUSE("FieldValueInvalid", "spec.containers[0].image", "Invalid value: \\\"i\\\": must not be i") ","
		CAUSE("FieldValueNotSupported", "spec.containers[0].env[5].name", "Unsupported value: \\\"A\\\": supported values: \\\"B\\\"") ","
		CAUSE("FieldValueForbidden", "metadata.annotations", "Forbidden: no") ","
		CAUSE("FieldValueNotFound", "spec.containers[0].volumeMounts[0].name", "Not found: \\\"v\\\"") ","
		CAUSE("FieldValueTypeInvalid", "spec.nodeSelector", "Invalid value: \\\"x\\\": odd") ","
		CAUSE("FieldValueDuplicate", "spec.containers[0].env[0].name", "Duplicate value: \\\"X\\\"")), SRV_WHOLE}},
	 .problems = T ".spec.containers[0].imagePullSecrets Required is required\n"
		     T ".spec.containers[0].image Invalid \"i\": must not be i\n"
		     T ".spec.containers[0].env[0].name Unsupported \"A\": supported values: \"B\"\n"
		     T " Forbidden doesn't go with what the operator makes of it: metadata.annotations of a worker Pod: no\n"
		     T ".spec.containers[0].volumeMounts[0].name Not found \"v\"\n"
		     T ".spec.nodeSelector Invalid \"x\": odd\n"
		     T " Duplicate doesn't go with what the operator makes of it: spec.containers[0].env[0].name of a worker Pod: \"X\"\n"},
	{.name = "the launcher's fields", .object = JOB(LAUNCHER TEMPLATE("")), .requests = 5,
	 .steps = {YES, FREE, TAKEN, {LAUNCHER_POD, 422, NULL, STATUS("422", "Invalid", "Pod is invalid",
		CAUSE("FieldValueInvalid", "spec.containers[0].command[0]", "Invalid value: \\\"mpirun\\\": no")), SRV_WHOLE}},
	 .problems = "spec.launcher.command[0] Invalid \"mpirun\": no\n"},
	{.name = "told of both Pods, said once", .object = JOB(LAUNCHER TEMPLATE("")), .requests = 5,
	 .steps = {YES, FREE, {PODS, 422, NULL, STATUS("422", "Invalid", "Pod is invalid",
		CAUSE("FieldValueInvalid", "spec.containers[0].image", "Invalid value: \\\"i\\\": no")), SRV_WHOLE}},
	 .problems = T ".spec.containers[0].image Invalid \"i\": no\n"},
	{.name = "no Pod at all", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 400, NULL, STATUS("400", "BadRequest", "Pod in version \\\"v1\\\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field Container.spec.containers.ports", ""), SRV_WHOLE}},
	 .problems = T " Invalid no Pod can be made of it: json: cannot unmarshal string into Go struct field Container.spec.containers.ports\n"},
	{.name = "quota", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 403, NULL, STATUS("403", "Forbidden", "exceeded quota: q", ""), SRV_WHOLE}},
	 .warnings = {"The job's worker Pod wouldn't be taken as things are now: exceeded quota: q"}},
	{.name = "an account that isn't there yet", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 403, NULL, STATUS("403", "Forbidden", "error looking up service account ns/x: not found", ""), SRV_WHOLE}},
	 .warnings = {"error looking up service account ns/x"}},
	{.name = "a webhook that can't do dry runs", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 400, NULL, STATUS("400", "BadRequest", "admission webhook \\\"w\\\" does not support dry run", ""), SRV_WHOLE}},
	 .warnings = {"does not support dry run"}},
	{.name = "a webhook's refusal", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 422, NULL, STATUS("422", "Invalid", "admission webhook \\\"w\\\" denied the request: no", CAUSE("FieldValueInvalid", "spec.containers[0].image", "no")), SRV_WHOLE}},
	 .warnings = {"admission webhook \"w\" denied the request"}},
	{.name = "a policy's refusal", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 422, NULL, STATUS("422", "Invalid", "ValidatingAdmissionPolicy 'p' denied request: no", "{\"message\":\"no\"}"), SRV_WHOLE}},
	 .warnings = {"ValidatingAdmissionPolicy 'p' denied request"}},
	{.name = "garbage for an answer", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 422, NULL, "<html>", SRV_WHOLE}}, .warnings = {"The job's worker Pod wouldn't be taken as things are now"}},
	{.name = "garbage for a Pod", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 201, NULL, "{", SRV_WHOLE}}, .warnings = {"The job's worker Pod hasn't been tried: "}},
	{.name = "too busy for it", .object = PLAIN, .requests = 7,
	 .steps = {YES, FREE, {PODS, 429, "Retry-After: 1\r\n", STATUS("429", "TooManyRequests", "later", ""), SRV_WHOLE}},
	 .warnings = {"hasn't been tried: "}},
	{.name = "a fault of the server's", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 500, NULL, STATUS("500", "InternalError", "oops", ""), SRV_WHOLE}}, .warnings = {"hasn't been tried: oops"}},
	{.name = "no answer about Pods", .object = JOB(LAUNCHER TEMPLATE("")), .requests = 5,
	 .steps = {YES, FREE, HANG(PODS)},
	 .warnings = {"The job's worker Pod hasn't been tried: ", "The job's launcher Pod hasn't been tried: "}},
	/* Once more by the kube client, over a connection that was kept; since that one breaks too, over a fresh one. */
	{.name = "a connection that breaks", .object = PLAIN, .requests = 5,
	 .steps = {YES, FREE, {PODS, 0, NULL, NULL, SRV_RESET}}, .warnings = {"hasn't been tried: "}},

	/* Pod Security */
	{.name = "a level that takes it", .object = PLAIN, .off = true, .requests = 2,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("restricted"), SRV_WHOLE}}},
	{.name = "a level that doesn't", .object = HOSTPATH, .off = true, .requests = 2,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}},
	 .problems = T ".spec.volumes[0].hostPath Forbidden must be left out: the Pod Security level of namespace ns is baseline\n"},
	{.name = "a level that doesn't, and the dry run says so too", .object = HOSTPATH, .requests = 3,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}, {PODS, 403, NULL, INSECURE, SRV_WHOLE}},
	 .problems = T ".spec.volumes[0].hostPath Forbidden must be left out: the Pod Security level of namespace ns is baseline\n"},
	{.name = "a level that doesn't, but we're exempt", .object = HOSTPATH, .requests = 3,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}, TAKEN}},
	{.name = "a level that doesn't, and no dry run in time", .object = HOSTPATH, .requests = 3,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}, HANG(PODS)},
	 .problems = T ".spec.volumes[0].hostPath Forbidden must be left out: the Pod Security level of namespace ns is baseline\n",
	 .warnings = {"hasn't been tried"}},
	{.name = "a level that isn't in a label", .object = HOSTPATH, .requests = 3, .code = 403,
	 .steps = {YES, FREE, {PODS, 403, NULL, INSECURE, SRV_WHOLE}},
	 .denied = "the job's Pods wouldn't be taken: pods is forbidden: violates PodSecurity \"baseline:latest\""},
	{.name = "what the operator itself sets", .object = PLAIN, .off = true, .host_network = true, .requests = 2, .code = 403,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}},
	 .denied = "jobs can't run in namespace ns: its Pod Security level is baseline, and the operator is configured to set hostNetwork, privileged in their Pods (worker.hostNetwork, worker.privileged)"},
	{.name = "the capability that the operator adds", .object = PLAIN, .off = true, .rdma = true, .requests = 2, .code = 403,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}},
	 .denied = "jobs can't run in namespace ns: its Pod Security level is baseline, and the operator is configured to set capabilities.add in their Pods (worker.ipcLock)"},
	{.name = "the same, which the template has too", .object = LOCKS, .off = true, .rdma = true, .requests = 2,
	 .steps = {YES, {NAMESPACE, 200, NULL, ENFORCE("baseline"), SRV_WHOLE}},
	 .problems = T ".spec.containers[0].securityContext.capabilities.add[0] Forbidden must be left out: only capabilities that containers have anyway may be added: the Pod Security level of namespace ns is baseline\n"},
	{.name = "the same, where it may", .object = PLAIN, .off = true, .rdma = true, .requests = 2, .steps = {YES, FREE}},
	/* what the API server warns of */
	{.name = "warnings", .object = PLAIN, .requests = 3,
	 .steps = {YES, FREE, {PODS, 201, "Warning: 299 - \"spec.containers[0].env[5]: hides previous definition of \\\"A\\\"\", 299 - \"one of a webhook's\"\r\n"
		"Warning: 299 - \"would violate PodSecurity \\\"baseline:latest\\\": hostPath\"\r\nWarning: 299 - \"one of a webhook's\"\r\n", POD, SRV_WHOLE}},
	 .warnings = {T ".spec.containers[0].env[0]: hides previous definition of \"A\"", "of the job's worker Pod: one of a webhook's"}},
	{.name = "a level that only warns", .object = HOSTPATH, .requests = 3,
	 .steps = {YES, TAKEN, {NAMESPACE, 200, NULL, LABELS("\"pod-security.kubernetes.io/warn\":\"baseline\""), SRV_WHOLE}},
	 .warnings = {"violate the Pod Security level baseline, of which namespace ns warns, by: hostPath"}},
	{.name = "a strict level that only warns", .object = JOB("\"workers\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"ports\":[{\"containerPort\":1,\"hostPort\":1}]}]}}}"), .requests = 3,
	 .steps = {YES, TAKEN, {NAMESPACE, 200, NULL, LABELS("\"pod-security.kubernetes.io/warn\":\"restricted\""), SRV_WHOLE}},
	 .warnings = {"by: capabilities.drop, hostPort, allowPrivilegeEscalation, seccompProfile.type, runAsNonRoot"}},
	{.name = "no labels to be had, but it's taken", .object = PLAIN, .requests = 3,
	 .steps = {YES, TAKEN, {NAMESPACE, 403, NULL, STATUS("403", "Forbidden", "no", ""), SRV_WHOLE}}},
	{.name = "no labels to be had", .object = PLAIN, .off = true, .requests = 2,
	 .steps = {YES, {NAMESPACE, 403, NULL, STATUS("403", "Forbidden", "no", ""), SRV_WHOLE}},
	 .warnings = {"Pod Security wasn't looked at: the labels of namespace ns couldn't be had: no"}},
	{.name = "no labels in time", .object = PLAIN, .off = true, .steps = {YES, HANG(NAMESPACE)}, .requests = 2,
	 .warnings = {"Pod Security wasn't looked at: the labels of namespace ns couldn't be had in time"}},

	/* what isn't asked */
	{.name = "an update of labels", .object = PLAIN, .old = PLAIN},
	{.name = "an update of the size", .object = PLAIN, .old = "{\"spec\":{\"jobInstances\":7," TEMPLATE("") "}}"},
	{.name = "an update of the template", .object = PLAIN, .old = JOB(TEMPLATE(",\"hostIPC\":true")), .steps = {YES, FREE, TAKEN}, .requests = 3},
	{.name = "an update of the command", .object = JOB(LAUNCHER TEMPLATE("")), .old = JOB("\"launcher\":{\"command\":[\"x\"]}," TEMPLATE("")), .steps = {YES, FREE, TAKEN}, .requests = 5},
	{.name = "another's job", .object = JOB("\"managedBy\":\"example.com/x\"," TEMPLATE(""))},
	{.name = "our own job, by name", .object = JOB("\"managedBy\":\"" JOB_MANAGER "\"," TEMPLATE("")), .steps = {YES, FREE, TAKEN}, .requests = 3},

	/* templates that are no templates */
	{.name = "no containers", .object = JOB("\"workers\":{\"template\":{\"spec\":{}}}"), .steps = {YES, FREE}, .requests = 2,
	 .problems = T " Invalid spec.workers.template.spec.containers: must be a list\n"},
	{.name = "wrong sizes", .object = "{\"metadata\":{\"name\":\"j\"},\"spec\":{" TEMPLATE("") "}}", .steps = {YES, FREE, TAKEN}, .requests = 3},
};
/* clang-format on */

static void open_with(bool off, bool host_network, bool rdma)
{
	struct admission_access_opts opts = {
		.pods = {.host_network = host_network,
			 .privileged = host_network,
			 .rdma = job_rdma_of(!rdma, "rdma-net", NULL, 0, "auto"),
			 .launcher_image = "l",
			 .worker_wait_s = 1},
		.dry_run_pods = !off,
	};
	struct kube_client_opts copts = {
		.loop = loop, .net = net, .max_connections = ADMISSION_ACCESS_CONNECTIONS};
	struct err err = ERR_INIT;

	config = srv_config(srv, "tok");
	copts.config = config;
	if (kube_client_new(&copts, &client, &err) < 0)
		bail_out(err.msg);
	access_ = admission_access_new(client, &opts);
}

static void open_all(bool off, bool host_network)
{
	open_with(off, host_network, false);
}

static void close_all(void)
{
	admission_access_free(access_);
	close_client_of(srv, client, config);
}

static bool was_unheard; /* the last one that ended */

static void on_done(void *arg, bool unheard)
{
	++*(unsigned *)arg;
	was_unheard = unheard;
}

static char *problems_of(const struct admission_findings *f)
{
	char *all = xstrdup("");

	for (size_t i = 0; i < f->n_problems; i++) {
		char *longer = xasprintf("%s%s %s %s\n", all, f->problems[i].path,
					 f->problems[i].kind, f->problems[i].message);

		free(all);
		all = longer;
	}
	return all;
}

static void check_findings(const struct row *row, const struct admission_findings *f)
{
	CLEANUP_FREE char *problems = problems_of(f);
	size_t n = 0;

	is_int(f->denied ? f->code : 0, row->code, "refused with");
	if (row->denied)
		has_str(f->denied, row->denied, "why");
	is_str(problems, row->problems ? row->problems : "", "the problems");
	while (n < SIZE(row->warnings) && row->warnings[n])
		n++;
	is_uint(f->n_warnings, n, "so many warnings");
	for (size_t i = 0; i < n && i < f->n_warnings; i++)
		has_str(f->warnings[i], row->warnings[i], "warning %zu", i);
	for (size_t i = n; i < f->n_warnings; i++)
		diag("warned: %s", f->warnings[i]);
}

static void script(const struct srv_step *steps)
{
	size_t n = 0;

	while (n < MAX_STEPS && steps[n].expect)
		n++;
	srv_script(srv, steps, n, 0);
	srv->any_order = true;
}

static void test_rows(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct admission_review r = {0};
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		int64_t began;
		unsigned done = 0;

		row_begin("%s", row->name);
		script(row->steps);
		open_with(row->off, row->host_network, row->rdma);
		review_of(&r, "ann", row->object, row->old);
		began = clock_mono_ms();
		admission_access_start(access_, &r, &f, DEADLINE_MS, on_done, &done, NULL);
		is_uint(done, 0, "not from within");
		ok(RUN_UNTIL(done, 20), "an answer");
		ok(clock_mono_ms() - began <= DEADLINE_MS + 100, "in time");
		settle();
		is_uint(done, 1, "one");
		check_findings(row, &f);
		is_uint(srv->next, row->requests, "so many requests");
		admission_findings_done(&f);
		admission_review_done(&r);
		close_all();
	}
	row_end();
}

/* ---- many ---- */

#define MANY 120

static struct admission_review reviews[MANY];
static struct admission_findings found[MANY];
static unsigned done_all;

static void start_many(unsigned n, struct op **ops)
{
	done_all = 0;
	for (unsigned i = 0; i < n; i++) {
		struct op *op;

		found[i] = (struct admission_findings)ADMISSION_FINDINGS_INIT;
		review_of(&reviews[i], "ann", PLAIN, NULL);
		op = admission_access_start(access_, &reviews[i], &found[i], DEADLINE_MS, on_done,
					    &done_all, NULL);
		if (ops)
			ops[i] = op;
	}
}

static void end_many(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		admission_findings_done(&found[i]);
		admission_review_done(&reviews[i]);
	}
}

static void test_shared(void)
{
	static const struct srv_step steps[MAX_STEPS] = {YES, FREE, TAKEN};

	script(steps);
	open_all(false, false);
	srv->most_open = 0;
	start_many(60, NULL);
	ok(RUN_UNTIL(done_all == 60, 5), "sixty at once are answered");
	is_uint(srv->hits[0], 1, "the right is asked for once");
	is_uint(srv->hits[1], 1, "and the namespace");
	is_uint(srv->hits[2], 60, "each Pod is tried");
	ok(srv->most_open <= ADMISSION_ACCESS_CONNECTIONS, "over few connections (%u)",
	   srv->most_open);
	for (unsigned i = 0; i < 60; i++)
		if (!admission_is_allowed(&found[i]) || found[i].n_warnings)
			fail("review %u: %s", i, found[i].denied ? found[i].denied : "warned");
	end_many(60);
	close_all();
}

/* One review by a user; how often its right was asked for. */
static unsigned ask_as(const char *user, int want_code)
{
	struct admission_review r = {0};
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	unsigned done = 0, before = srv->hits[0];

	review_of(&r, user, PLAIN, NULL);
	admission_access_start(access_, &r, &f, DEADLINE_MS, on_done, &done, NULL);
	ok(RUN_UNTIL(done, 1), "%s is answered", user);
	is_int(f.denied ? f.code : 0, want_code, "rightly");
	admission_findings_done(&f);
	admission_review_done(&r);
	return srv->hits[0] - before;
}

static void test_kept(void)
{
	static const struct srv_step yes[MAX_STEPS] = {YES, FREE, TAKEN};
	static const struct srv_step no[MAX_STEPS] = {
		{SAR, 201, NULL, DENIED, SRV_WHOLE}, FREE, TAKEN};
	static const struct srv_step broken[MAX_STEPS] = {
		{SAR, 500, NULL, STATUS("500", "InternalError", "x", ""), SRV_WHOLE}, FREE, TAKEN};

	open_all(false, false);
	script(yes);
	is_uint(ask_as("ann", 0), 1, "asked for");
	clock_advance(4000);
	is_uint(ask_as("ann", 0), 0, "known for seconds");
	is_uint(ask_as("bob", 0), 1, "of her alone");
	clock_advance(6000);
	is_uint(ask_as("ann", 0), 1, "and no longer");
	clock_advance(60000);
	script(no);
	is_uint(ask_as("ann", 403), 1, "a right that is gone");
	is_uint(ask_as("ann", 403), 0, "is known to be");
	clock_advance(2000);
	script(yes);
	is_uint(ask_as("ann", 0), 1, "but not for long");
	clock_advance(60000);
	script(broken);
	is_uint(ask_as("ann", 503), 1, "what isn't known");
	is_uint(ask_as("ann", 503), 1, "isn't kept");
	close_all();
}

static unsigned warned(unsigned n, const char *part)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++)
		count += found[i].n_warnings == 1 && strstr(found[i].warnings[0], part);
	return count;
}

static void test_bounded(void)
{
	static const struct srv_step steps[MAX_STEPS] = {YES, FREE, HANG(PODS)};

	script(steps);
	open_all(false, false);
	start_many(MANY, NULL);
	ok(RUN_UNTIL(done_all > 0, 20), "those that find no place are answered at once");
	RUN_UNTIL(done_all == MANY, 20);
	is_uint(done_all, MANY, "and all the others at their deadline");
	is_uint(srv->hits[2], ADMISSION_ACCESS_CONNECTIONS - 2, "few dry runs at a time");
	is_uint(warned(MANY, "too many others are being tried") + warned(MANY, "in time"), MANY,
		"each says that it wasn't tried");
	ok(warned(MANY, "too many others") >= MANY - 64 - ADMISSION_ACCESS_CONNECTIONS,
	   "most of them since others were");
	end_many(MANY);
	settle();
	srv_script(srv, (const struct srv_step[]){YES, FREE, TAKEN}, 3, 0);
	is_uint(ask_as("bob", 0), 1, "then it goes on");
	close_all();
}

static void test_cancelled(void)
{
	static const struct srv_step steps[MAX_STEPS] = {HANG(SAR), FREE, HANG(PODS)};
	struct op *ops[20];
	struct scope scope;

	script(steps);
	open_all(false, false);
	start_many(20, ops);
	run(20, 1);
	for (unsigned i = 0; i < 20; i++)
		op_cancel(ops[i]);
	run(50, 1000);
	is_uint(done_all, 0, "those that were cancelled are silent");
	end_many(20);

	/* At once, before anything was sent; and by their scope. */
	start_many(3, ops);
	for (unsigned i = 0; i < 3; i++)
		op_cancel(ops[i]);
	end_many(3);
	scope_init(&scope);
	found[0] = (struct admission_findings)ADMISSION_FINDINGS_INIT;
	review_of(&reviews[0], "ann", PLAIN, NULL);
	admission_access_start(access_, &reviews[0], &found[0], 1000, on_done, &done_all, &scope);
	run(5, 1);
	scope_cancel(&scope);
	run(20, 1000);
	is_uint(done_all, 0, "nor by their scope");
	end_many(1);

	start_many(5, NULL);
	run(5, 1);
	close_all();
	is_uint(done_all, 0, "nor those that outlive it all");
	end_many(5);
}

/* More users than are kept: the oldest answers go, and nothing else happens. */
static void test_crowd(void)
{
	static const struct srv_step steps[MAX_STEPS] = {YES, FREE};

	script(steps);
	open_all(true, false);
	for (int i = 0; i < 1100; i++) {
		CLEANUP_FREE char *user = xasprintf("user%d", i);
		struct admission_review r = {0};
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		unsigned done = 0;

		review_of(&r, user, PLAIN, NULL);
		admission_access_start(access_, &r, &f, DEADLINE_MS, on_done, &done, NULL);
		RUN_UNTIL(done, 0);
		if (!done || !admission_is_allowed(&f))
			fail("%s: %s", user, f.denied ? f.denied : "no answer");
		admission_findings_done(&f);
		admission_review_done(&r);
	}
	is_uint(srv->hits[0], 1100, "each was asked about");
	is_uint(ask_as("user1099", 0), 0, "the last is known");
	is_uint(ask_as("user0", 0), 1, "the first isn't any more");
	close_all();
}

/* This replica alone may have lost the API server: whoever asks again is soon told to. */
static void test_silent(void)
{
	static const struct srv_step steps[MAX_STEPS] = {HANG(SAR), HANG(NAMESPACE), HANG(PODS)};
	static const unsigned after_ms[] = {4000, 0};

	script(steps);
	open_all(false, false);
	for (size_t i = 0; i < SIZE(after_ms); i++) {
		struct admission_review r = {0};
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		int64_t began = clock_mono_ms();
		unsigned done = 0;

		review_of(&r, i ? "bob" : "ann", PLAIN, NULL);
		admission_access_start(access_, &r, &f, DEADLINE_MS, on_done, &done, NULL);
		is_uint(done, 0, "not from within");
		ok(RUN_UNTIL(done, 20), "an answer");
		ok(clock_mono_ms() - began >= after_ms[i] &&
			   clock_mono_ms() - began <= after_ms[i] + 600,
		   i ? "at once, as long as it's known" : "after four seconds of silence");
		ok(was_unheard, "which is said");
		is_int(f.code, 503, "that nobody knows");
		has_str(f.denied, "try again", "for now");
		admission_findings_done(&f);
		admission_review_done(&r);
	}
	close_all();
}

/* The configuration's limits are told beside everything else. */
static void test_limits(void)
{
	static const struct srv_step steps[MAX_STEPS] = {YES, FREE};
	struct admission_access_opts opts = {
		.pods = {.launcher_image = "l"},
		.templates = {.host_paths = ""},
	};
	struct admission_review r = {0};
	struct admission_findings f = ADMISSION_FINDINGS_INIT;
	unsigned done = 0;

	script(steps);
	open_all(true, false);
	admission_access_free(access_);
	access_ = admission_access_new(client, &opts);
	review_of(&r, "ann", HOSTPATH, NULL);
	admission_access_start(access_, &r, &f, DEADLINE_MS, on_done, &done, NULL);
	ok(RUN_UNTIL(done, 1), "an answer");
	is_uint(f.n_problems, 1, "one problem");
	is_str(f.n_problems ? f.problems[0].path : "", T ".spec.volumes[0].hostPath", "the field");
	admission_findings_done(&f);
	admission_review_done(&r);
	close_all();
}

/* Whatever a template has in the place of what should be there, the review ends. */
static void test_shapeless(void)
{
	static const struct srv_step steps[MAX_STEPS] = {
		YES, TAKEN, {NAMESPACE, 200, NULL, ENFORCE("restricted"), SRV_WHOLE}};
	static const char *const values[] = {"null", "7",         "\"x\"",     "true",
					     "[]",   "[7]",       "[[]]",      "[{}]",
					     "{}",   "{\"a\":7}", "{\"a\":[]}"};
	/* Where they go: 'V' is the value. */
	static const char *const places[] = {
		"{\"metadata\":V,\"spec\":V}",
		"{\"metadata\":{\"name\":V},\"spec\":{\"workers\":V,\"launcher\":V}}",
		"{\"spec\":{\"workers\":{\"template\":V},\"interactive\":V}}",
		"{\"spec\":{\"workers\":{\"template\":{\"metadata\":V,\"spec\":{\"containers\":[{}]}}}}}",
		"{\"spec\":{\"workers\":{\"template\":{\"metadata\":{\"labels\":V,\"annotations\":V},"
		"\"spec\":{\"containers\":[{}]}}}}}",
		"{\"spec\":{\"launcher\":{\"command\":V,\"env\":V},\"workers\":{\"template\":{\"spec\":V}}}}",
		"{\"spec\":{\"launcher\":{},\"workers\":{\"template\":{\"spec\":{\"containers\":V}}}}}",
		"{\"spec\":{\"launcher\":{\"command\":[\"x\"],\"env\":V},\"workers\":{\"template\":{"
		"\"spec\":{\"containers\":[{\"name\":V,\"env\":V,\"volumeMounts\":V,\"ports\":V,"
		"\"securityContext\":V,\"resources\":V,\"livenessProbe\":V,\"lifecycle\":V}],"
		"\"initContainers\":V,\"volumes\":V,\"securityContext\":V,\"nodeSelector\":V,"
		"\"affinity\":V,\"os\":V,\"hostUsers\":V,\"serviceAccountName\":V}}}}}",
		"{\"spec\":{\"interactive\":{},\"workers\":{\"template\":{\"spec\":{"
		"\"securityContext\":{\"sysctls\":V,\"seLinuxOptions\":V,\"seccompProfile\":V},"
		"\"containers\":[{\"securityContext\":{\"capabilities\":{\"add\":V,\"drop\":V},"
		"\"appArmorProfile\":V,\"windowsOptions\":V,\"procMount\":V},\"env\":[V],"
		"\"volumeMounts\":[V]}],\"volumes\":[V,{\"hostPath\":V}]}}}}}",
	};
	unsigned ended = 0;

	script(steps);
	open_all(false, true);
	for (size_t i = 0; i < SIZE(places) * SIZE(values); i++) {
		const char *value = values[i % SIZE(values)];
		struct admission_review r = {0};
		struct admission_findings f = ADMISSION_FINDINGS_INIT;
		struct buf object = BUF_INIT(1 << 20);
		unsigned done = 0;

		for (const char *p = places[i / SIZE(values)]; *p; p++)
			buf_append(&object, *p == 'V' ? value : p, *p == 'V' ? strlen(value) : 1,
				   NULL);
		buf_append(&object, "", 1, NULL);
		review_of(&r, "ann", object.p, NULL);
		admission_access_start(access_, &r, &f, DEADLINE_MS, on_done, &done, NULL);
		ended += RUN_UNTIL(done, 1);
		admission_findings_done(&f);
		admission_review_done(&r);
		buf_done(&object);
	}
	is_uint(ended, SIZE(places) * SIZE(values), "all of them");
	close_all();
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	srv = srv_new(NULL);
	test_rows();
	test_shared();
	test_kept();
	test_bounded();
	test_cancelled();
	test_crowd();
	test_silent();
	test_limits();
	test_shapeless();
	srv_free(srv);
	test_end();
	return done_testing();
}
