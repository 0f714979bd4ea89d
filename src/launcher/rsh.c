/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher rsh: runs a command in a worker as ssh would on a host, for MPI's launchers. Uses
 * net, loop and core.
 */
#include "launcher/rsh.h"

#include <stdlib.h>

#include "core/clock.h"
#include "launcher/launcher.h"
#include "launcher/near.h"
#include "loop/loop.h"

#define CONNECT_S 60

static int run(const struct rsh_options *options, struct net *net, const struct cluster *cluster)
{
	const char *const args[] = {"/bin/sh", "-c", options->command, NULL};
	unsigned connect_s = options->connect_s ? options->connect_s : CONNECT_S;
	struct near_opts near = {
		.remote = {.cluster = cluster,
			   .host = options->host,
			   .container = launcher_worker_container(),
			   .launcher = launcher_worker_path(),
			   .deadline_ms = clock_mono_ms() + (int64_t)connect_s * 1000},
		.args = args,
		.env = options->env,
		.no_input = options->no_input,
	};
	return near_run(net, &near);
}

int launcher_rsh(int argc, char **argv)
{
	struct rsh_options options = {0};
	struct cluster cluster = {0};
	struct loop *loop = NULL;
	struct net *net = NULL;
	struct err err = ERR_INIT;
	if (rsh_options_parse(argc, argv, &options, &err) < 0)
		return launcher_fail(NEAR_LOST, "rsh: %s", err.msg);
	int status;
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0 ||
	    cluster_init(&cluster, &err) < 0)
		status = launcher_fail(NEAR_LOST, "rsh: %s: %s", options.host, err.msg);
	else
		status = run(&options, net, &cluster);
	net_free(net);
	loop_free(loop);
	cluster_done(&cluster);
	rsh_options_done(&options);
	return status;
}
