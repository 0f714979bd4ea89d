/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Secret's keeper: a level-triggered state machine over what a watch shows of it. It serves
 * what is in the Secret; what it makes is served once it's written, or at once where nothing else
 * can be. Owns its watch and call; freed by the loop's reaper. Uses core/, loop/, net/, kube/.
 */
#include "cert/cert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "core/rand.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "loop/backoff.h"
#include "loop/op.h"
#include "set.h"

#define SECRET_TYPE "kubernetes.io/tls"
#define CALL_MS     10000

enum known { UNKNOWN, ABSENT, THERE };
enum doing { LOOKING, WRITING, CREATING, REMOVING };

struct cert {
	struct kube_client *client;
	char *ns, *name, *label;
	char **alpn;
	struct cert_names names;
	struct cert_policy policy;
	cert_change_fn *on_change;
	void *arg;

	struct scope scope;
	struct kube_watch *watch;
	struct op *call;
	enum doing doing;
	struct loop_timer timer;
	struct loop_work work;
	struct backoff backoff;
	int64_t try_at_ms, grace_at_ms; /* monotonic */
	bool freed;

	enum known known;
	bool stale;   /* a write met another version */
	bool replace; /* its type is wrong, or it can't be changed: it's made anew */
	bool leaves;  /* it's being removed, and will have gone when its finalizers have */
	char *version, *uid;
	struct cert_set seen;    /* the Secret's */
	struct cert_set offered; /* of the write under way */
	struct cert_set have;    /* what is served */
	struct tls_config *tls;
	struct cert_judgement good; /* of what is served; until its next_ms it isn't another */
	struct err err, said;
};

static struct metric *expiry_metric;

static void free_cert(void *p)
{
	struct cert *c = p;

	for (char **a = c->alpn; a && *a; a++)
		free(*a);
	free(c->alpn);
	free(c->ns);
	free(c->name);
	free(c->label);
	free(c->version);
	free(c->uid);
	cert_names_done(&c->names);
	cert_set_done(&c->seen);
	cert_set_done(&c->offered);
	cert_set_done(&c->have);
	tls_config_unref(c->tls);
	free(c);
}

/* It checks two signatures and two keys: what is served isn't judged again before its time. */
static void judge(const struct cert *c, const struct cert_set *set, struct cert_judgement *ret)
{
	int64_t now_ms = clock_wall_ms();

	if (c->tls && c->good.need == CERT_NOTHING && now_ms < c->good.next_ms &&
	    cert_set_equal(set, &c->have))
		*ret = c->good;
	else
		cert_judge(set, &c->names, &c->policy, now_ms, ret);
}

static void trouble(struct cert *c, const struct err *err, const char *what)
{
	c->err = *err;
	err_wrap(&c->err, "Secret %s %s", c->label, what);
	if (strcmp(c->err.msg, c->said.msg) != 0)
		log_warn("cert", c->label, "%s", c->err.msg);
	c->said = c->err;
}

static void all_is_well(struct cert *c)
{
	c->err.kind = ERR_NONE;
	c->said.msg[0] = '\0';
	backoff_reset(&c->backoff);
}

/* ---- serving ---- */

/* Takes the set, if it can be served and is another one. j: what it was judged to be. */
static void serve(struct cert *c, const struct cert_set *set, const struct cert_judgement *j)
{
	static const char *const leaf[] = {"serving"}, *const ca[] = {"authority"};
	struct tls_server_opts opts = {.cert_pem = str_of(set->tls),
				       .key_pem = str_of(set->tls_key),
				       .alpn = (const char *const *)c->alpn};
	struct tls_config *tls;
	struct cert_set copy = {0};
	struct err err = ERR_INIT;

	if (cert_set_equal(set, &c->have))
		return;
	if (tls_config_new_server(&opts, &tls, &err) < 0) {
		trouble(c, &err, "can't be served");
		return;
	}
	cert_set_copy(&copy, set);
	cert_set_move(&c->have, &copy);
	tls_config_unref(c->tls);
	c->tls = tls;
	c->good = *j;
	metric_set(expiry_metric, leaf, (double)j->until_ms / 1000);
	metric_set(expiry_metric, ca, (double)j->ca_until_ms / 1000);
	log_info("cert", c->label, "a certificate is served days=%lld",
		 (long long)((j->until_ms - clock_wall_ms()) / CERT_DAY_MS));
	c->on_change(c->arg, c->tls, str_of(c->have.ca));
}

static void serve_offered(struct cert *c)
{
	struct cert_judgement j;

	judge(c, &c->offered, &j);
	serve(c, &c->offered, &j);
}

static bool have_is_usable(const struct cert *c)
{
	struct cert_judgement j;

	judge(c, &c->have, &j);
	return j.usable;
}

/* ---- what the Secret is ---- */

static void saw(struct cert *c, const struct json *object)
{
	struct cert_set set = {0};
	struct err err = ERR_INIT;

	c->stale = false;
	c->known = object ? THERE : ABSENT;
	free(c->version);
	free(c->uid);
	c->version = str_dup(kube_version(object));
	c->uid = str_dup(kube_uid(object));
	c->replace = object && (!str_eqz(json_str(json_get(object, "type")), SECRET_TYPE) ||
				json_bool(json_get(object, "immutable"), false));
	c->leaves = kube_is_deleting(object);
	if (cert_set_read(&set, json_get(object, "data"), &err) == 0) {
		cert_set_move(&c->seen, &set);
		return;
	}
	c->stale = true; /* it's read again in a while */
	c->try_at_ms = clock_mono_ms() + backoff_next_ms(&c->backoff, &err);
	trouble(c, &err, "can't be read");
}

static void step(struct cert *c);

static void on_call(void *arg, const struct err *err, const struct kube_response *response)
{
	struct cert *c = arg;
	static const char *const what[] = {[LOOKING] = "can't be read",
					   [WRITING] = "can't be written",
					   [CREATING] = "can't be made",
					   [REMOVING] = "can't be replaced"};

	c->call = NULL;
	if (err && (err->kind == ERR_CONFLICT || err->kind == ERR_EXISTS)) {
		c->stale = true; /* another replica was faster: theirs */
	} else if (err && err->kind == ERR_NOT_FOUND && c->doing != CREATING) {
		saw(c, NULL);
	} else if (err) {
		trouble(c, err, what[c->doing]);
		c->try_at_ms = clock_mono_ms() + backoff_next_ms(&c->backoff, err);
		/* Better than nothing, and than what has run out. */
		if (c->doing != LOOKING && c->offered.tls && !have_is_usable(c))
			serve_offered(c);
	} else if (c->doing == REMOVING) {
		saw(c, NULL);
	} else {
		saw(c, response->json);
	}
	cert_set_done(&c->offered);
	if (!c->freed)
		step(c);
}

static void start(struct cert *c, enum doing doing, struct kube_request *req)
{
	req->resource = &KUBE_SECRETS;
	req->ns = c->ns;
	req->deadline_ms = CALL_MS;
	req->no_retry = true;
	c->doing = doing;
	c->call = kube_call_start(c->client, req, on_call, c, &c->scope);
}

static void write_secret(struct cert *c)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new_secret();
	struct jmut *root = jmut_object(doc), *meta = jmut_need_object(doc, root, "metadata");
	struct kube_request req = {.json = root};

	if (c->known == THERE && c->replace) {
		req = (struct kube_request){.verb = KUBE_DELETE,
					    .name = c->name,
					    .uid = c->uid,
					    .if_version = c->version};
		start(c, REMOVING, &req);
		return;
	}
	cert_set_write(&c->offered, doc, jmut_need_object(doc, root, "data"));
	if (c->known == THERE) {
		req.verb = KUBE_PATCH;
		req.patch = KUBE_PATCH_MERGE;
		req.name = c->name;
		jmut_set_str(doc, meta, "resourceVersion", c->version);
		start(c, WRITING, &req);
		return;
	}
	req.verb = KUBE_CREATE;
	jmut_set_str(doc, root, "apiVersion", "v1");
	jmut_set_str(doc, root, "kind", "Secret");
	jmut_set_str(doc, root, "type", SECRET_TYPE);
	jmut_set_str(doc, meta, "name", c->name);
	jmut_set_str(doc, meta, "namespace", c->ns);
	start(c, CREATING, &req);
}

/* ---- the next step ---- */

/* What the Secret should hold: what is served where that is still good and the Secret's own isn't
 * there or is damaged, else the Secret's with what it needs. */
static int prepare(struct cert *c, const struct cert_judgement *j, struct err *err)
{
	struct cert_judgement mine;

	cert_set_done(&c->offered);
	judge(c, &c->have, &mine);
	if ((c->known != THERE || j->need == CERT_NEW_CA) && mine.need == CERT_NOTHING) {
		cert_set_copy(&c->offered, &c->have);
		return 0;
	}
	if (c->known == THERE)
		return cert_renew(&c->seen, j, &c->names, &c->policy, clock_wall_ms(), &c->offered,
				  err);
	return cert_renew(&c->have, &mine, &c->names, &c->policy, clock_wall_ms(), &c->offered,
			  err);
}

static void change(struct cert *c, const struct cert_judgement *j)
{
	struct err err = ERR_INIT;

	if (prepare(c, j, &err) < 0) {
		trouble(c, &err, "has nothing to hold");
		c->try_at_ms = clock_mono_ms() + backoff_next_ms(&c->backoff, &err);
		return;
	}
	write_secret(c);
}

/* The Secret must be made anew, and is there until others let it go: what it should hold is served
 * from memory until then, where nothing else can be. */
static void wait_until_gone(struct cert *c, const struct cert_judgement *j)
{
	struct err err = ERR_INIT;

	err_set(&err, ERR_UNAVAILABLE, 0,
		"it has another type or is immutable, and stays until its finalizers are removed");
	trouble(c, &err, "can't be replaced");
	if (have_is_usable(c))
		return;
	if (prepare(c, j, &err) == 0)
		serve_offered(c);
	cert_set_done(&c->offered);
}

/* The Secret can't be read, and nothing is served yet. */
static void serve_from_memory(struct cert *c)
{
	struct kube_watch_status status;
	struct cert_judgement j;
	struct err err = ERR_INIT;

	kube_watch_status(c->watch, &status);
	if (status.err.kind == ERR_NONE)
		err_set(&status.err, ERR_TIMEOUT, 0, "no answer yet");
	trouble(c, &status.err, "can't be read");
	if (c->have.tls)
		return;
	judge(c, &c->have, &j);
	if (cert_renew(&c->have, &j, &c->names, &c->policy, clock_wall_ms(), &c->offered, &err) ==
	    0)
		serve_offered(c);
	cert_set_done(&c->offered);
}

static void step_there(struct cert *c, int64_t *ret_wait_ms)
{
	struct cert_judgement j = {.need = CERT_NEW_CA};
	struct err err = ERR_INIT;

	if (c->known == THERE)
		judge(c, &c->seen, &j);
	if (c->known == THERE && j.unread) {
		err_set(&err, ERR_LIMIT, ENOMEM, "%s", j.why);
		trouble(c, &err, "can't be read");
		*ret_wait_ms = backoff_next_ms(&c->backoff, &err);
		return;
	}
	if (c->known == THERE && j.need == CERT_NOTHING && !c->replace) {
		int64_t wait = j.next_ms - clock_wall_ms();
		serve(c, &c->seen, &j);
		if (c->freed)
			return;
		if (!cert_set_equal(&c->seen, &c->have)) {
			*ret_wait_ms = backoff_next_ms(&c->backoff, &c->err);
			return;
		}
		all_is_well(c);
		*ret_wait_ms = wait < CERT_LOOK_MS ? wait : CERT_LOOK_MS;
		return;
	}
	/* Until the next one is written, what can be served is. */
	if (c->known == THERE && j.usable && !have_is_usable(c))
		serve(c, &c->seen, &j);
	if (c->freed || clock_mono_ms() < c->try_at_ms)
		return;
	if (c->known == THERE && c->replace && c->leaves) {
		wait_until_gone(c, &j);
		return;
	}
	if (c->known == THERE && (j.damaged || c->replace)) {
		err_set(&err, ERR_INVALID, 0, "%s", j.why[0] ? j.why : "its type is another one");
		trouble(c, &err, "is damaged");
	} else if (c->known == THERE) {
		log_info("cert", c->label, "the Secret is renewed: %s", j.why);
	}
	change(c, &j);
}

static void step(struct cert *c)
{
	int64_t wait = CERT_LOOK_MS, now = clock_mono_ms();

	if (c->freed || c->call)
		return;
	if (c->known == UNKNOWN) {
		wait = c->grace_at_ms - now;
		if (wait <= 0) {
			serve_from_memory(c);
			wait = CERT_GRACE_MS;
		}
	} else if (c->stale) {
		struct kube_request req = {.verb = KUBE_GET, .name = c->name};
		if (now >= c->try_at_ms)
			start(c, LOOKING, &req);
	} else {
		step_there(c, &wait);
	}
	if (c->freed)
		return;
	if (c->try_at_ms > now && c->try_at_ms - now < wait)
		wait = c->try_at_ms - now;
	loop_timer_start_in(&c->timer, wait > 0 ? wait : 0);
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	step(arg);
}

static void on_work(struct loop_work *work, void *arg)
{
	(void)work;
	step(arg);
}

/* ---- the watch ---- */

static void on_event(void *arg, const struct kube_watch_event *event)
{
	struct cert *c = arg;

	if (!str_eqz(event->name, c->name))
		return;
	if (event->type == KUBE_DELETED) {
		if (c->known != THERE || str_eqz(event->uid, c->uid))
			saw(c, NULL);
	} else if (c->known != THERE || kube_version_cmp(event->version, str_of(c->version)) > 0) {
		saw(c, event->object);
	}
	loop_work_post(&c->work);
}

static void on_synced(void *arg)
{
	struct cert *c = arg;
	struct kube_watch_status status;

	kube_watch_status(c->watch, &status);
	if (status.objects == 0 && c->known == UNKNOWN)
		saw(c, NULL);
	loop_work_post(&c->work);
}

static void watch_start(struct cert *c)
{
	static const struct kube_watch_ops ops = {.on_event = on_event, .on_synced = on_synced};
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", c->name);
	struct kube_watch_opts opts = {
		.resource = &KUBE_SECRETS, .ns = c->ns, .field_selector = selector};

	c->watch = kube_watch_start(c->client, &opts, &ops, c, &c->scope);
}

/* ---- life ---- */

static int read_names(const struct cert_opts *opts, struct cert_names *ret, struct err *err)
{
	for (size_t i = 0; opts->names && opts->names[i]; i++) {
		if (cert_names_add(ret, str_of(opts->names[i]), err) < 0)
			return -1;
	}
	if (ret->n == 0 || ret->n > CERT_MAX_NAMES)
		return err_set(err, ERR_INVALID, 0, "a certificate is for 1 to %d names, not %zu",
			       CERT_MAX_NAMES, ret->n);
	return 0;
}

static char **copy_list(const char *const *list)
{
	char **copy;
	size_t n = 0;

	while (list && list[n])
		n++;
	if (n == 0)
		return NULL;
	copy = xcalloc(n + 1, sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

int cert_new(struct kube_client *client, const struct cert_opts *opts, cert_change_fn *on_change,
	     void *arg, struct cert **ret, struct err *err)
{
	static const char *const labels[] = {"certificate", NULL};
	struct cert_names names = {0};

	if (read_names(opts, &names, err) < 0) {
		cert_names_done(&names);
		return -1;
	}
	if (!expiry_metric)
		expiry_metric = metric_new(
			METRIC_GAUGE, "ipu_operator_certificate_expiry_timestamp_seconds",
			"When a certificate of the operator's own runs out.", labels, NULL, 0);
	struct cert *c = xcalloc(1, sizeof(*c));
	c->client = client;
	c->ns = xstrdup(opts->ns);
	c->name = xstrdup(opts->secret);
	c->label = xasprintf("%s/%s", opts->ns, opts->secret);
	c->names = names;
	c->alpn = copy_list(opts->alpn);
	c->policy = opts->policy;
	cert_policy_fill(&c->policy);
	c->on_change = on_change;
	c->arg = arg;
	c->backoff = (struct backoff)BACKOFF_INIT(1000, CERT_BACKOFF_MS);
	c->grace_at_ms = clock_mono_ms() + CERT_GRACE_MS;
	/* So that replicas don't all renew at once. */
	int64_t jitter = (int64_t)rand_below((uint64_t)c->policy.leaf_ms / 1000 + 1);
	c->policy.leaf_renew_ms += jitter;
	c->policy.ca_renew_ms += jitter;
	scope_init(&c->scope);
	loop_timer_init(&c->timer, kube_client_loop(client), on_timer, c);
	loop_work_init(&c->work, kube_client_loop(client), on_work, c);
	loop_timer_start_at(&c->timer, c->grace_at_ms);
	watch_start(c);
	*ret = c;
	return 0;
}

struct tls_config *cert_tls(const struct cert *c)
{
	return c->tls;
}

struct str cert_ca_pem(const struct cert *c)
{
	return str_of(c->have.ca ? c->have.ca : "");
}

const struct err *cert_error(const struct cert *c)
{
	return c->err.kind != ERR_NONE ? &c->err : NULL;
}

bool cert_is_shared(const struct cert *c)
{
	return c->known == THERE && cert_set_equal(&c->have, &c->seen);
}

void cert_free(struct cert *c)
{
	if (!c || c->freed)
		return;
	c->freed = true;
	scope_cancel(&c->scope);
	loop_timer_stop(&c->timer);
	loop_work_cancel(&c->work);
	loop_reap(kube_client_loop(c->client), c, free_cert);
}
