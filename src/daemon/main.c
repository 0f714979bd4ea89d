/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-operator: command line and configuration are checked whole, then the daemon runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fault.h"
#include "core/log.h"
#include "core/privacy.h"
#include "core/str.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/internal.h"
#include "daemon/options.h"

#define EXIT_CANT_GO_ON 1
#define EXIT_BAD_INPUT  2

static int complain(int status, const struct err *err)
{
	fprintf(stderr, "ipu-operator: %s\n", err->msg);
	return status;
}

static int check_namespace(const struct config *c, const struct kube_config *kc, struct err *err)
{
	/* A node's process has no objects of its own. */
	if (c->operator_ns[0] || c->roles == ROLE_NODE ||
	    (kube_config_is_in_cluster(kc) && kube_config_namespace(kc)))
		return 0;
	return err_set(err, ERR_INVALID, 0,
		       "operatorNamespace: must be given outside a cluster: the namespace of the "
		       "operator's own objects, such as --set operatorNamespace=ipu-operator");
}

static int run(const struct options *o, const struct config_source *source, struct config *c,
	       struct kube_config *kc)
{
	struct daemon *d;
	struct err err;
	int status;

	if (kube_config_is_insecure(kc))
		log_warn("daemon", NULL, "%s: the API server's certificate isn't checked",
			 kube_config_source(kc));
	if (daemon_new(c, source, kc, o->ports_file, &d, &err) < 0)
		return complain(err.kind == ERR_INVALID ? EXIT_BAD_INPUT : EXIT_CANT_GO_ON, &err);
	status = daemon_run(d);
	daemon_free(d);
	return status;
}

/* What LoadCredential= of systemd gave, where nothing else is named. NULL: nothing. */
static char *credential(const struct config *c)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	char *path;

	if (c->kubeconfig[0] || getenv("KUBECONFIG") || !folder || !folder[0])
		return NULL;
	path = xasprintf("%s/kubeconfig", folder);
	if (access(path, R_OK) == 0)
		return path;
	free(path);
	return NULL;
}

static int with_config(const struct options *o, const struct config_source *source,
		       struct config *c)
{
	CLEANUP_FREE char *given = credential(c);
	struct kube_config *kc;
	struct err err;
	int status = 0;

	logging_use(c);
	config_advise(c);
	if (kube_config_load(c->kubeconfig[0] ? c->kubeconfig : given,
			     c->context[0] ? c->context : NULL, &kc, &err) < 0)
		return complain(EXIT_BAD_INPUT, &err);
	if (!c->kube_http2)
		kube_config_set_http1(kc);
	if (check_namespace(c, kc, &err) < 0)
		status = complain(EXIT_BAD_INPUT, &err);
	else if (o->check_config)
		printf("ipu-operator: the configuration is good\n");
	else
		status = run(o, source, c, kc);
	kube_config_free(kc);
	return status;
}

static void print_fault(void *arg, const char *fault)
{
	(void)arg;
	fprintf(stderr, "ipu-operator: %s\n", fault);
}

static int start(const struct options *o)
{
	const struct config_source source = {
		.path = o->config_path,
		.sets = (const char *const *)o->sets,
		.n_sets = o->n_sets,
		.environ_ = environ,
	};
	struct config c;
	int status;

	if (config_load(&source, print_fault, NULL, &c, NULL) < 0)
		return EXIT_BAD_INPUT;
	status = with_config(o, &source, &c);
	config_done(&c);
	return status;
}

/* Before anything is read. The limit holds for a credential plugin too, whose dump would have what
 * it gives us. */
static void keep_memory_private(void)
{
	privacy_keep();
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

int main(int argc, char **argv)
{
	const char *page = getenv("IPU_CLOCK_PAGE");
	struct options o;
	struct err err;
	int status = 0;

	keep_memory_private();
	if (options_parse(argc, argv, &o, &err) < 0)
		return complain(EXIT_BAD_INPUT, &err);
	fault_set(getenv("IPU_FAULT"));
	if (o.help) {
		options_print_help();
	} else if (o.version) {
		printf("ipu-operator %s\n", PACKAGE_VERSION);
	} else if (page && clock_use_page(page, &err) < 0) {
		status = complain(EXIT_BAD_INPUT, &err);
	} else {
		status = start(&o);
	}
	options_done(&o);
	return status;
}
