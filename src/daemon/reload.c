/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: the configuration is read again as a whole. A bad one changes nothing; of a good one
 * those keys count at once that a running process can take on, and the others are named.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "admission/admission.h"
#include "core/log.h"
#include "core/str.h"
#include "config_keys.h"
#include "daemon/internal.h"

/* ---- keys ---- */

/* A name that ends with a dot stands for all that begin so. */
static const char *const taken_on[] = {
	"controllers",
	"vipu.serverAddr",
	"vipu.serverPort",
	"vipu.clusterName",
	"worker.",
	"launcher.",
	"jobs.",
	"pods.",
	"queue.choice",
	"policy.",
	"webhook.scope",
	"webhook.failurePolicy",
	"webhook.timeoutSeconds",
	"webhook.drainSeconds",
	"webhook.dryRunPods",
	"templates.",
	"log.",
	"node.rdma",
	"node.labels",
	"node.taint",
	"node.calmSeconds",
	"stopSeconds",
};

static bool is_taken_on(const char *name)
{
	for (size_t i = 0; i < sizeof(taken_on) / sizeof(taken_on[0]); i++) {
		size_t len = strlen(taken_on[i]);

		if (taken_on[i][len - 1] == '.' ? strncmp(name, taken_on[i], len) == 0
						: strcmp(name, taken_on[i]) == 0)
			return true;
	}
	return false;
}

static bool same_addresses(const struct vipu_address_list *a, const struct vipu_address_list *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = vipu_address_equal(&a->items[i], &b->items[i]);
	return same;
}

static bool same_rules(const struct partition_rules *a, const struct partition_rules *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = strcmp(a->named[i].ns, b->named[i].ns) == 0 &&
		       memcmp(&a->named[i].policy, &b->named[i].policy,
			      sizeof(a->named[i].policy)) == 0;
	return same;
}

static bool same_value(struct config *a, struct config *b, const struct key *key)
{
	void *of_a = config_field(a, key), *of_b = config_field(b, key);

	switch (key->type) {
	case KEY_NUMBER:
		return *(long *)of_a == *(long *)of_b;
	case KEY_BOOL:
		return *(bool *)of_a == *(bool *)of_b;
	case KEY_ROLES:
		return *(unsigned *)of_a == *(unsigned *)of_b;
	case KEY_CONTROLLERS:
		return same_addresses(of_a, of_b);
	case KEY_POLICIES:
		return same_rules(of_a, of_b);
	default:
		return strcmp(*(char **)of_a, *(char **)of_b) == 0;
	}
}

#define SWAP(type, a, b)                                                                           \
	do {                                                                                       \
		type kept = *(type *)(a);                                                          \
		*(type *)(a) = *(type *)(b);                                                       \
		*(type *)(b) = kept;                                                               \
	} while (0)

static void swap_value(struct config *a, struct config *b, const struct key *key)
{
	void *of_a = config_field(a, key), *of_b = config_field(b, key);

	switch (key->type) {
	case KEY_NUMBER:
		SWAP(long, of_a, of_b);
		break;
	case KEY_BOOL:
		SWAP(bool, of_a, of_b);
		break;
	case KEY_ROLES:
		SWAP(unsigned, of_a, of_b);
		break;
	case KEY_CONTROLLERS:
		SWAP(struct vipu_address_list, of_a, of_b);
		break;
	case KEY_POLICIES:
		SWAP(struct partition_rules, of_a, of_b);
		break;
	default:
		SWAP(char *, of_a, of_b);
		break;
	}
}

static void add_word(char *z, size_t size, const char *word)
{
	size_t len = strlen(z);

	if (len + strlen(word) + 3 < size)
		snprintf(z + len, size - len, "%s%s", len ? ", " : "", word);
}

/* fresh gets what the running configuration loses. */
void config_take_on(struct config *running, struct config *fresh, struct config_changes *ret)
{
	*ret = (struct config_changes){0};
	for (size_t i = 0; i < config_n_keys; i++) {
		const struct key *key = &config_keys[i];
		bool now = is_taken_on(key->name);

		if (same_value(running, fresh, key))
			continue;
		add_word(now ? ret->now : ret->later, sizeof(ret->now), key->name);
		if (now)
			swap_value(running, fresh, key);
	}
	/* What is made of them. */
	SWAP(struct vipu_address_list, &running->server, &fresh->server);
	config_make_fallback(running);
}

/* ---- parts ---- */

static void tell_parts(struct daemon *d, const struct config_changes *changes)
{
	const struct config *c = d->config;

	logging_use(c);
	config_advise(c);
	loop_set_slow_turn_ms(d->loop, (unsigned)c->slow_turn_ms);
	lead_reload(d);
	if (d->controllers)
		controllers_set_lists(d->controllers, &c->server, &c->controllers);
	webhook_reload(d);
	node_reload(d);
	if (strstr(changes->now, "webhook."))
		register_again(d);
}

static void look_at_files(struct daemon *d)
{
	certfile_look(d->proxy_tls);
	certfile_look(d->proxy_ca_file);
	certfile_look(d->webhook_files);
	certfile_look(advert_clients(d));
	certfile_look(d->scrape ? scrape_files(d->scrape) : NULL);
}

#define AS_IT_WAS "the configuration stays as it was"

static void log_fault(void *arg, const char *fault)
{
	size_t *n = arg;

	++*n;
	log_error("daemon", NULL, AS_IT_WAS ": %s", fault);
}

/* What is wrong is logged; *err says it in one line, and what of the configuration counts. */
static int reload(struct daemon *d, struct err *err)
{
	struct config_changes changes;
	struct config fresh;
	size_t n_faults = 0;

	if (config_load(&d->source, log_fault, &n_faults, &fresh, err) < 0)
		return n_faults == 1
			       ? err_wrap(err, AS_IT_WAS)
			       : err_wrap(err, AS_IT_WAS " for %zu faults, the first", n_faults);
	config_take_on(d->config, &fresh, &changes);
	tell_parts(d, &changes);
	config_done(&fresh); /* only now: nobody has the old strings any more */
	look_at_files(d);
	log_info("daemon", NULL, "the configuration was read again: changed=%s",
		 changes.now[0] ? changes.now : "nothing");
	if (changes.later[0])
		log_warn("daemon", NULL,
			 "changed in the configuration, counts from the next restart: %s",
			 changes.later);
	if (daemon_wants_authority(d->config) && !d->cert && authority_start(d, err) < 0) {
		err_wrap(err, "the new configuration counts, but has no certificates");
		log_error("daemon", NULL, "%s", err->msg);
		return -1;
	}
	return 0;
}

static void on_hangup(struct loop_signal *s, int signum, void *arg)
{
	struct daemon *d = arg;
	struct err err = ERR_INIT;

	(void)s, (void)signum;
	if (d->stopping)
		return;
	notify_reloading(d->notify);
	notify_reloaded(d->notify, reload(d, &err) == 0 ? NULL : &err);
}

void reload_start(struct daemon *d)
{
	loop_signal_start(&d->sighup, d->loop, SIGHUP, on_hangup, d);
}
