/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate that one process makes for itself and keeps in memory: for who shares none with
 * others, such as the role node on each machine. Made anew in time, authority and all; and when the
 * wall clock has left its dates: a machine may start before a time server tells it what time it is.
 */
#include <stdlib.h>

#include "core/clock.h"
#include "core/log.h"
#include "set.h"

#define AGAIN_MS 60000

struct cert_own {
	struct cert_names names;
	struct cert_policy policy;
	struct loop_timer timer;
	struct tls_config *tls;
	int64_t made_ms, due_ms; /* wall: when it was, and another one is to be */
	cert_own_fn *on_change;
	void *arg;
};

static void look_later(struct cert_own *o)
{
	int64_t left_ms = o->due_ms - clock_wall_ms();

	loop_timer_start_in(&o->timer, left_ms < CERT_LOOK_MS ? left_ms : CERT_LOOK_MS);
}

static int make(struct cert_own *o, struct tls_config **ret, struct err *err)
{
	struct cert_set none = {0}, set = {0};
	struct cert_judgement j;
	struct tls_server_opts opts = {0};
	int64_t now_ms = clock_wall_ms();
	int rc;

	cert_judge(&none, &o->names, &o->policy, now_ms, &j);
	if (cert_renew(&none, &j, &o->names, &o->policy, now_ms, &set, err) < 0)
		return -1;
	cert_judge(&set, &o->names, &o->policy, now_ms, &j);
	opts.cert_pem = str_of(set.tls);
	opts.key_pem = str_of(set.tls_key);
	rc = tls_config_new_server(&opts, ret, err);
	cert_set_done(&set);
	if (rc < 0)
		return -1;
	o->made_ms = now_ms;
	o->due_ms = j.next_ms > now_ms ? j.next_ms : now_ms + AGAIN_MS;
	return 0;
}

static void on_timer(struct loop_timer *timer, void *arg)
{
	struct cert_own *o = arg;
	struct tls_config *old = o->tls, *tls;
	int64_t now_ms = clock_wall_ms();
	struct err err = ERR_INIT;

	if (now_ms >= o->made_ms && now_ms < o->due_ms) {
		look_later(o);
		return;
	}
	if (make(o, &tls, &err) < 0) {
		log_warn("cert", NULL, "this process's own certificate can't be made anew: %s",
			 err.msg);
		loop_timer_start_in(timer, AGAIN_MS);
		return;
	}
	look_later(o);
	o->tls = tls;
	log_info("cert", NULL, "this process's own certificate is made anew");
	if (o->on_change)
		o->on_change(o->arg, old, tls);
	tls_config_unref(old);
}

int cert_own_new(struct loop *loop, const char *const *names, struct cert_own **ret,
		 struct err *err)
{
	struct cert_own *o = xcalloc(1, sizeof(*o));

	loop_timer_init(&o->timer, loop, on_timer, o);
	cert_policy_fill(&o->policy);
	for (size_t i = 0; names[i]; i++) {
		if (cert_names_add(&o->names, str_of(names[i]), err) < 0) {
			cert_own_free(o);
			return -1;
		}
	}
	if (make(o, &o->tls, err) < 0) {
		cert_own_free(o);
		return -1;
	}
	look_later(o);
	*ret = o;
	return 0;
}

void cert_own_follow(struct cert_own *o, cert_own_fn *on_change, void *arg)
{
	o->on_change = on_change;
	o->arg = arg;
}

struct tls_config *cert_own_tls(const struct cert_own *o)
{
	return o->tls;
}

void cert_own_free(struct cert_own *o)
{
	if (!o)
		return;
	loop_timer_stop(&o->timer);
	tls_config_unref(o->tls);
	cert_names_done(&o->names);
	free(o);
}
