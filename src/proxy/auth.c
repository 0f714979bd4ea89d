/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers by their tokens' identities: an account that is trusted speaks for any owner, a Pod for
 * itself, nobody else for anybody.
 */
#include "proxy/auth.h"

#include <stdlib.h>

static char *given(const char *z)
{
	return z[0] ? xstrdup(z) : NULL;
}

void proxy_caller_init(struct proxy_caller *c, const struct kube_identity *who,
		       const char *accounts)
{
	*c = (struct proxy_caller){
		.account = xstrdup(who->username),
		.ns = given(who->ns),
		.pod_name = given(who->pod_name),
		.pod_uid = given(who->pod_uid),
		.node_name = given(who->node_name),
		.trusted = str_list_has(str_of(accounts), str_of(who->username)),
	};
}

void proxy_caller_done(struct proxy_caller *c)
{
	free(c->account);
	free(c->ns);
	free(c->pod_name);
	free(c->pod_uid);
	free(c->node_name);
	*c = (struct proxy_caller){0};
}

bool proxy_caller_may(const struct proxy_caller *c, const char *owner_uid)
{
	return c->trusted || (c->ns && c->pod_uid && strcmp(c->pod_uid, owner_uid) == 0);
}

int proxy_caller_check_ask(const struct proxy_caller *c, const struct partition_ask *ask,
			   struct err *err)
{
	const struct partition_owner *o = &ask->owner;

	if (c->trusted)
		return 0;
	if (!proxy_caller_may(c, o->uid) || strcmp(o->kind, "Pod") != 0 ||
	    strcmp(o->ns, c->ns) != 0 || !c->pod_name || strcmp(o->name, c->pod_name) != 0)
		return err_set(err, ERR_DENIED, 0,
			       "%s may not ask for this owner: a Pod's own token may for its Pod "
			       "(kind Pod, its namespace, name and uid), an account of "
			       "proxy.controllerAccounts for any",
			       c->account);
	if (ask->instance != 0)
		return err_set(err, ERR_DENIED, 0, "a Pod has one partition: instance 0");
	if (ask->priority || ask->adopt || ask->legacy || ask->only_adopt || ask->created_ms)
		return err_set(
			err, ERR_DENIED, 0,
			"priority, adopt, legacy, onlyAdopt and created aren't a Pod's to say: leave "
			"them out");
	return 0;
}
