/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of the list, each with its last good list; apply() merges them level-triggered and
 * configures the fleet. Owns sources, watches and Secrets.
 */
#include "partition/controllers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/metrics.h"
#include "core/str.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "partition/list_file.h"
#include "partition/list_text.h"
#include "partition/secrets.h"

/* In the order of their precedence. The last two hold no list, only complaints. */
enum source_kind {
	SOURCE_SERVER,
	SOURCE_KEY,
	SOURCE_FILE,
	SOURCE_CONFIGMAP,
	SOURCE_ANNOTATION,
	SOURCE_SECRET,
	SOURCES,
};

struct source {
	struct controllers *all;
	enum source_kind kind;
	bool used;
	bool known; /* its list is: read once at least, or certainly not there */
	struct vipu_address_list list;
	struct words problems; /* of the list, told */
	struct err err;        /* why it can't be read now; kind ERR_NONE: it can */
	struct loop_timer gone;
};

struct controllers {
	struct kube_client *kube;
	struct vipu_fleet *fleet;
	struct kube_recorder *recorder;
	controllers_synced_fn *on_synced;
	void *arg;
	controllers_list_fn *on_list;
	void *on_list_arg;
	char *ns, *config_map, *file_path, *user_key, *access_key;
	struct source sources[SOURCES];
	struct list_file *file;
	struct kube_watch *watch; /* of the ConfigMap; in scope */
	struct secrets *secrets;
	struct scope scope;
	struct loop_work apply_work;
	struct vipu_fleet_watch fleet_watch;
	struct metric *bad;
	bool synced;

	/* The ConfigMap as it was seen last. */
	char *uid, *version; /* NULL: it isn't there */
	char *cordon, *drain;
	struct words draining; /* names that are being drained, and aren't empty yet */
};

static const char *const source_names[SOURCES] = {
	"server", "key", "file", "configmap", "annotation", "secret",
};

static void apply_soon(struct controllers *c)
{
	loop_work_post(&c->apply_work);
}

/* ---- telling ---- */

static void tell(struct controllers *c, enum kube_event_level level, const char *reason,
		 const char *message)
{
	struct kube_ref about = {
		.api_version = "v1",
		.kind = "ConfigMap",
		.ns = c->ns,
		.name = c->config_map,
		.uid = c->uid,
		.version = c->version,
	};

	log_msg(level == KUBE_EVENT_WARNING ? LOG_WARN : LOG_INFO, "partition", "controllers", "%s",
		message);
	if (c->recorder && c->uid)
		kube_event(c->recorder, &about, level, reason, "%s", message);
}

static const char *reason_of(enum source_kind kind)
{
	switch (kind) {
	case SOURCE_ANNOTATION:
		return "UnknownController";
	case SOURCE_SECRET:
		return "BadSecret";
	default:
		return "BadController";
	}
}

static void count_bad(const struct source *s)
{
	bool unread = s->err.kind != ERR_NONE;

	metric_set(s->all->bad, &source_names[s->kind], (double)(s->problems.n + unread));
}

/* What is wrong with a source now; what wasn't yet is said. Takes the words over. */
static void set_problems(struct source *s, struct words *now)
{
	for (size_t i = 0; i < now->n; i++) {
		if (!words_has(&s->problems, now->items[i]))
			tell(s->all, KUBE_EVENT_WARNING, reason_of(s->kind), now->items[i]);
	}
	words_done(&s->problems);
	s->problems = *now;
	*now = (struct words){0};
	count_bad(s);
}

static void set_error(struct source *s, const struct err *err)
{
	bool news = err && (s->err.kind == ERR_NONE || strcmp(s->err.msg, err->msg) != 0);
	bool over = !err && s->err.kind != ERR_NONE;
	char z[512];

	s->err = err ? *err : (struct err)ERR_INIT;
	if (news) {
		snprintf(z, sizeof(z), "%s: %s", err->msg,
			 s->known ? "the list as it was before goes on to serve"
				  : "nothing is done until it can be read");
		tell(s->all, KUBE_EVENT_WARNING, reason_of(s->kind), z);
	} else if (over) {
		log_info("partition", source_names[s->kind],
			 "the list of controllers can be read (again)");
	}
	count_bad(s);
}

/* ---- sources ---- */

/* Takes the list over. */
static void set_list(struct source *s, struct vipu_address_list *list)
{
	vipu_address_list_done(&s->list);
	s->list = *list;
	*list = (struct vipu_address_list){0};
	s->known = true;
	apply_soon(s->all);
}

static void set_empty(struct source *s)
{
	struct vipu_address_list none = {0};
	struct words no_words = {0};

	set_problems(s, &no_words);
	set_list(s, &none);
}

static void set_text(struct source *s, const char *name, struct str text)
{
	struct vipu_address_list list;
	struct words problems = {0};
	struct err err;

	loop_timer_stop(&s->gone);
	if (list_text_parse(name, text, &list, &problems, &err) < 0) {
		words_done(&problems);
		set_error(s, &err);
		return;
	}
	set_error(s, NULL);
	set_problems(s, &problems);
	set_list(s, &list);
}

static void on_gone(struct loop_timer *timer, void *arg)
{
	struct source *s = arg;

	(void)timer;
	log_warn("partition", source_names[s->kind],
		 "%s is gone: what it listed isn't configured any more: %zu",
		 s->kind == SOURCE_FILE ? "the file with controllers" : "the ConfigMap", s->list.n);
	set_empty(s);
}

/* It isn't there any more; one that is replaced comes back at once. */
static void set_gone(struct source *s)
{
	if (!loop_timer_active(&s->gone))
		loop_timer_start_in(&s->gone, CONTROLLERS_GONE_MS);
}

static void on_file(void *arg, const struct err *err, struct str text)
{
	struct controllers *c = arg;
	struct source *s = &c->sources[SOURCE_FILE];

	if (err) {
		set_error(s, err);
		if (err->kind == ERR_NOT_FOUND && s->known)
			set_gone(s);
		else
			loop_timer_stop(&s->gone);
	} else if (text.len == 0 && s->known && s->list.n > 0) {
		/* Somebody is writing it, or wants none. */
		set_gone(s);
	} else {
		set_text(s, c->file_path, text);
	}
}

/* ---- the ConfigMap ---- */

static void replace(char **to, struct str s)
{
	free(*to);
	*to = s.len ? str_dup(s) : NULL;
}

static void take_config_map(struct controllers *c, const struct json *object)
{
	struct source *s = &c->sources[SOURCE_CONFIGMAP];
	const struct json *data = json_get(object, "data");
	const struct json *text = json_get(data, CONTROLLERS_KEY);

	replace(&c->uid, kube_uid(object));
	replace(&c->version, kube_version(object));
	replace(&c->cordon, kube_annotation(object, CONTROLLERS_CORDON));
	replace(&c->drain, kube_annotation(object, CONTROLLERS_DRAIN));
	if (!text && json_len(data) > 0) {
		struct err err;

		err_set(&err, ERR_INVALID, 0,
			"ConfigMap %s/%s has no key " CONTROLLERS_KEY ", but others", c->ns,
			c->config_map);
		loop_timer_stop(&s->gone);
		set_error(s, &err);
		apply_soon(c);
		return;
	}
	set_text(s, CONTROLLERS_KEY, json_str(text));
	apply_soon(c); /* the annotations count, whatever the list is like */
}

static void on_event(void *arg, const struct kube_watch_event *event)
{
	struct controllers *c = arg;

	if (event->type != KUBE_DELETED) {
		take_config_map(c, event->object);
		return;
	}
	/* Its annotations went with it, and what is wrong with it too. */
	replace(&c->uid, STR_NULL);
	replace(&c->version, STR_NULL);
	set_error(&c->sources[SOURCE_CONFIGMAP], NULL);
	set_gone(&c->sources[SOURCE_CONFIGMAP]);
}

static void on_gone_config_map(struct loop_timer *timer, void *arg)
{
	struct source *s = arg;

	replace(&s->all->cordon, STR_NULL);
	replace(&s->all->drain, STR_NULL);
	on_gone(timer, s);
}

static void on_synced(void *arg)
{
	struct controllers *c = arg;
	struct source *s = &c->sources[SOURCE_CONFIGMAP];

	/* A list without it, the first time: there is none. */
	if (!s->known && s->err.kind != ERR_INVALID) {
		set_error(s, NULL);
		set_empty(s);
	}
}

/* An object that can't be read at all: the last good list serves. */
static void on_bad(void *arg, struct str ns, struct str name, const struct err *err)
{
	struct controllers *c = arg;
	struct err why = *err;

	(void)ns, (void)name;
	why.kind = ERR_INVALID;
	err_wrap(&why, "ConfigMap %s/%s", c->ns, c->config_map);
	set_error(&c->sources[SOURCE_CONFIGMAP], &why);
}

static void on_state(void *arg)
{
	struct controllers *c = arg;
	struct source *s = &c->sources[SOURCE_CONFIGMAP];
	struct kube_watch_status st;
	struct err err;

	kube_watch_status(c->watch, &st);
	if (s->known || st.err.kind == ERR_NONE || s->err.kind == ERR_INVALID)
		return;
	err = st.err;
	err_wrap(&err, "ConfigMap %s/%s can't be read", c->ns, c->config_map);
	err.kind = ERR_UNAVAILABLE;
	set_error(s, &err);
}

static void watch_config_map(struct controllers *c)
{
	static const struct kube_watch_ops ops = {
		.on_event = on_event,
		.on_synced = on_synced,
		.on_bad = on_bad,
		.on_state = on_state,
	};
	CLEANUP_FREE char *selector = xasprintf("metadata.name=%s", c->config_map);
	struct kube_watch_opts opts = {
		.resource = &KUBE_CONFIGMAPS, .ns = c->ns, .field_selector = selector};

	c->watch = kube_watch_start(c->kube, &opts, &ops, c, &c->scope);
}

/* ---- merging ---- */

struct merge {
	struct vipu_fleet_entry entries[VIPU_MAX_CONTROLLERS];
	char *unusable[VIPU_MAX_CONTROLLERS]; /* the entries' words */
	size_t n;
	struct words secret_problems;
};

static struct vipu_fleet_entry *find_entry(struct merge *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++) {
		if (strcmp(m->entries[i].address->name, name) == 0)
			return &m->entries[i];
	}
	return NULL;
}

static void add_secure(struct controllers *c, struct merge *m, struct vipu_fleet_entry *e)
{
	const struct vipu_address *a = e->address;
	const char *complaint;
	struct secret_view view = {0};
	struct err err;

	if (!a->tls || !c->fleet)
		return;
	if ((!a->secret_name[0] || secrets_need(c->secrets, a->secret_name, &err) == 0) &&
	    secrets_view(c->secrets, a->secret_name, a->insecure_skip_verify, &view, &complaint,
			 &err) == 0) {
		e->tls = view.tls;
		e->user = view.user;
		e->access = view.access;
		e->user_key = c->user_key;
		e->access_key = c->access_key;
		if (complaint)
			words_add(&m->secret_problems, "%s: its former version goes on to serve %s",
				  complaint, a->name);
		return;
	}
	/* It has no credentials: it's shown with the reason, and never called. */
	m->unusable[m->n] = xstrdup(err.msg);
	e->unusable = m->unusable[m->n];
	e->expected = err.kind == ERR_UNAVAILABLE; /* it hasn't been read yet, and may be well */
	if (!e->expected)
		words_add(&m->secret_problems, "%s: %s isn't called", err.msg, a->name);
}

static void merge_source(struct controllers *c, struct merge *m, const struct source *s)
{
	for (size_t i = 0; i < s->list.n; i++) {
		const struct vipu_address *a = &s->list.items[i];
		struct vipu_fleet_entry *e = find_entry(m, a->name);

		if (e) {
			if (!vipu_address_equal(e->address, a))
				log_info("partition", a->name,
					 "the entry of source %s is passed over: an earlier "
					 "source has another for this controller",
					 source_names[s->kind]);
			continue;
		}
		if (m->n == VIPU_MAX_CONTROLLERS) {
			log_error("partition", a->name, "more than %d controllers: left out",
				  VIPU_MAX_CONTROLLERS);
			continue;
		}
		e = &m->entries[m->n];
		*e = (struct vipu_fleet_entry){.address = a};
		add_secure(c, m, e);
		m->n++;
	}
}

/* One annotation's names. */
static void mark(struct controllers *c, struct merge *m, const char *annotation, const char *text,
		 bool drain, struct words *problems)
{
	struct vipu_address_list names;

	vipu_address_parse(str_of(text), &names);
	for (size_t i = 0; i < names.n_problems; i++)
		words_add(problems, "annotation %s: \"%s\": %s", annotation, names.problems[i].text,
			  names.problems[i].reason);
	for (size_t i = 0; i < names.n; i++) {
		struct vipu_fleet_entry *e = find_entry(m, names.items[i].name);

		if (e) {
			e->cordoned = true;
			e->draining = e->draining || drain;
		} else if (!vipu_fleet_find(c->fleet, names.items[i].name)) {
			/* One that has left the list, and is held, gets nothing new anyway. */
			words_add(
				problems,
				"annotation %s: there is no controller \"%s\": write host:port as "
				"the list has them, with commas between several",
				annotation, names.items[i].name);
		}
	}
	vipu_address_list_done(&names);
}

/* ---- drains ---- */

static bool is_drained(const struct vipu_controller *v)
{
	return v->draining && v->holds == 0;
}

static void tell_drained(struct controllers *c, const char *name)
{
	char z[300];

	snprintf(z, sizeof(z), "%.200s is drained: the operator has no partition there", name);
	tell(c, KUBE_EVENT_NORMAL, "ControllerDrained", z);
}

/* Those that were being drained and are empty now; what is left is remembered. */
static void follow_drains(struct controllers *c)
{
	struct words left = {0};

	for (size_t i = 0; i < vipu_fleet_len(c->fleet); i++) {
		const struct vipu_controller *v = vipu_fleet_at(c->fleet, i);

		if (is_drained(v) && words_has(&c->draining, v->name))
			tell_drained(c, v->name);
		else if (v->draining && v->holds > 0)
			words_add(&left, "%s", v->name);
	}
	words_done(&c->draining);
	c->draining = left;
}

static void on_fleet_change(void *arg, const char *name)
{
	(void)name;
	follow_drains(arg);
}

/* A drain that begins now is followed, be it empty or not; what an earlier process was told to
 * drain, only while something is there. */
static void note_new_drains(struct controllers *c, const struct merge *m)
{
	for (size_t i = 0; c->synced && i < m->n; i++) {
		const char *name = m->entries[i].address->name;
		const struct vipu_controller *v = vipu_fleet_find(c->fleet, name);

		if (m->entries[i].draining && v && v->configured && !v->draining)
			words_add(&c->draining, "%s", name);
	}
}

/* ---- the fleet ---- */

static void warn_of_insecure(const struct controllers *c, const struct merge *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct vipu_address *a = m->entries[i].address;
		const struct vipu_controller *v = vipu_fleet_find(c->fleet, a->name);

		if (a->insecure_skip_verify &&
		    !(v && v->configured && v->address.insecure_skip_verify))
			log_warn("partition", a->name,
				 "insecureSkipVerify: anybody on the way can pass for this "
				 "controller and read the operator's key");
	}
}

static struct merge *merge(struct controllers *c)
{
	struct merge *m = xcalloc(1, sizeof(*m));
	struct words problems = {0};

	secrets_begin(c->secrets);
	for (int i = 0; i < SOURCES; i++)
		merge_source(c, m, &c->sources[i]);
	secrets_end(c->secrets);
	if (c->fleet && c->cordon)
		mark(c, m, CONTROLLERS_CORDON, c->cordon, false, &problems);
	if (c->fleet && c->drain)
		mark(c, m, CONTROLLERS_DRAIN, c->drain, true, &problems);
	set_problems(&c->sources[SOURCE_ANNOTATION], &problems);
	set_problems(&c->sources[SOURCE_SECRET], &m->secret_problems);
	return m;
}

static void configure(struct controllers *c, const struct merge *m)
{
	warn_of_insecure(c, m);
	note_new_drains(c, m);
	vipu_fleet_configure(c->fleet, m->entries, m->n);
}

static void give_list(struct controllers *c, const struct merge *m)
{
	struct vipu_address items[VIPU_MAX_CONTROLLERS]; /* views */
	struct vipu_address_list list = {.items = items, .n = m->n};

	for (size_t i = 0; i < m->n; i++)
		items[i] = *m->entries[i].address;
	c->on_list(c->on_list_arg, &list);
}

static void apply(struct loop_work *work, void *arg)
{
	struct controllers *c = arg;
	bool first = !c->synced;
	struct merge *m;

	(void)work;
	/* What isn't known yet may name controllers that hold partitions, or cordon others. */
	for (int i = 0; i < SOURCES; i++) {
		if (c->sources[i].used && !c->sources[i].known)
			return;
	}
	m = merge(c);
	if (c->fleet)
		configure(c, m);
	if (c->on_list)
		give_list(c, m);
	if (first)
		log_info("partition", "controllers", "the list of controllers is known: %zu", m->n);
	for (size_t i = 0; i < m->n; i++)
		free(m->unusable[i]);
	free(m);
	c->synced = true;
	if (c->fleet)
		follow_drains(c);
	if (first && c->on_synced)
		c->on_synced(c->arg);
}

/* ---- the interface ---- */

static void on_secrets(void *arg)
{
	apply_soon(arg);
}

static void take_fixed(struct source *s, const struct vipu_address_list *list)
{
	s->used = s->known = true;
	vipu_address_list_done(&s->list);
	if (!list || list->n == 0)
		return;
	s->list.items = xcalloc(list->n, sizeof(*list->items));
	for (size_t i = 0; i < list->n; i++)
		vipu_address_copy(&list->items[i], &s->list.items[s->list.n++]);
}

static struct metric *make_metric(void)
{
	static const char *const labels[] = {"source", NULL};

	return metric_new(METRIC_GAUGE, "ipu_operator_controllers_bad",
			  "What can't be used of the list of controllers and what belongs to it.",
			  labels, NULL, 0);
}

struct controllers *controllers_new(struct kube_client *kube, struct vipu_fleet *fleet,
				    struct kube_recorder *recorder,
				    const struct controllers_config *config,
				    controllers_synced_fn *on_synced_fn, void *arg)
{
	struct controllers *c = xcalloc(1, sizeof(*c));
	struct loop *loop = kube_client_loop(kube);

	c->kube = kube;
	c->fleet = fleet;
	c->recorder = recorder;
	c->on_synced = on_synced_fn;
	c->arg = arg;
	c->on_list = config->on_list;
	c->on_list_arg = config->on_list_arg;
	c->ns = xstrdup(config->ns);
	c->config_map = xstrdup(config->config_map ? config->config_map : "");
	c->file_path = xstrdup(config->file ? config->file : "");
	c->user_key = xstrdup(config->user_key);
	c->access_key = xstrdup(config->access_key);
	c->bad = make_metric();
	scope_init(&c->scope);
	loop_work_init(&c->apply_work, loop, apply, c);
	for (int i = 0; i < SOURCES; i++) {
		c->sources[i].all = c;
		c->sources[i].kind = (enum source_kind)i;
		loop_timer_init(&c->sources[i].gone, loop,
				i == SOURCE_CONFIGMAP ? on_gone_config_map : on_gone,
				&c->sources[i]);
	}
	c->secrets = secrets_new(kube, c->ns, on_secrets, c);
	take_fixed(&c->sources[SOURCE_SERVER], config->server);
	take_fixed(&c->sources[SOURCE_KEY], config->list);
	c->sources[SOURCE_FILE].used = c->file_path[0] != '\0';
	if (c->sources[SOURCE_FILE].used)
		c->file = list_file_new(loop, c->file_path, on_file, c);
	c->sources[SOURCE_CONFIGMAP].used = c->config_map[0] != '\0';
	if (c->sources[SOURCE_CONFIGMAP].used)
		watch_config_map(c);
	if (fleet)
		vipu_fleet_watch_start(fleet, &c->fleet_watch, on_fleet_change, c);
	apply_soon(c);
	return c;
}

void controllers_set_lists(struct controllers *c, const struct vipu_address_list *server,
			   const struct vipu_address_list *list)
{
	take_fixed(&c->sources[SOURCE_SERVER], server);
	take_fixed(&c->sources[SOURCE_KEY], list);
	apply_soon(c);
}

void controllers_free(struct controllers *c)
{
	if (!c)
		return;
	scope_cancel(&c->scope);
	loop_work_cancel(&c->apply_work);
	if (c->fleet)
		vipu_fleet_watch_stop(&c->fleet_watch);
	list_file_free(c->file);
	secrets_free(c->secrets);
	for (int i = 0; i < SOURCES; i++) {
		loop_timer_stop(&c->sources[i].gone);
		vipu_address_list_done(&c->sources[i].list);
		words_done(&c->sources[i].problems);
	}
	words_done(&c->draining);
	free(c->uid);
	free(c->version);
	free(c->cordon);
	free(c->drain);
	free(c->ns);
	free(c->config_map);
	free(c->file_path);
	free(c->user_key);
	free(c->access_key);
	free(c);
}

bool controllers_synced(const struct controllers *c)
{
	return c->synced;
}

int controllers_check(const struct controllers *c, struct err *err)
{
	static const char *const keys[] = {
		[SOURCE_FILE] = "controllersFile", [SOURCE_CONFIGMAP] = "controllersConfigMap"};

	for (int i = SOURCE_FILE; i <= SOURCE_CONFIGMAP; i++) {
		const struct source *s = &c->sources[i];

		if (!s->used || s->known)
			continue;
		if (s->err.kind == ERR_NONE)
			return err_set(err, ERR_UNAVAILABLE, 0,
				       "%s: the list of controllers hasn't been read yet", keys[i]);
		err_copy(err, &s->err);
		return err_wrap(err, "%s", keys[i]);
	}
	if (c->synced)
		return 0;
	return err_set(err, ERR_UNAVAILABLE, 0, "the list of controllers hasn't been read yet");
}
