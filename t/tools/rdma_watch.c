/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what node/rdma.h knows, for the tests: the inventory as lines of text at the start and
 * after every change, each ended by a line ".". USR1 rescans, USR2 shows it again, TERM ends.
 * --once: ends at once. Uses core, loop, node.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/str.h"
#include "loop/loop.h"
#include "node/rdma.h"

static struct loop *the_loop;
static struct rdma *the_rdma;

static const char *const status_names[] = {
	[RDMA_UNKNOWN] = "unknown",     [RDMA_OK] = "ok",
	[RDMA_NO_DRIVER] = "no driver", [RDMA_NO_DEVICE] = "no device",
	[RDMA_FAILED] = "failed",       [RDMA_NO_PERMISSION] = "no permission",
};

static void show_port(const struct rdma_port *p)
{
	printf(" port %u %s %s %llu Mb/s mtu %u netdev %s\n", p->number, rdma_state_name(p->state),
	       rdma_layer_name(p->layer), (unsigned long long)p->speed_mbps, p->mtu_bytes,
	       p->netdev[0] ? p->netdev : "-");
	for (size_t i = 0; i < p->n_gids; i++)
		printf("  gid %u %s %s %s\n", p->gids[i].index, rdma_gid_type_name(p->gids[i].type),
		       p->gids[i].text, p->gids[i].netdev[0] ? p->gids[i].netdev : "-");
}

static void show(void)
{
	const struct rdma_inventory *inv = rdma_inventory(the_rdma);

	printf("status %s%s%s\n", status_names[inv->status], inv->error.msg[0] ? ": " : "",
	       inv->error.msg);
	if (inv->n_left_out > 0)
		printf("left out %zu\n", inv->n_left_out);
	for (size_t i = 0; i < inv->n_devices; i++) {
		const struct rdma_device *d = &inv->devices[i];

		printf("device %s %s%s guid %s firmware %s driver %s%s%s\n", d->name,
		       d->opened ? "open" : "closed", d->fatal ? " fatal" : "",
		       d->node_guid[0] ? d->node_guid : "-", d->firmware[0] ? d->firmware : "-",
		       d->driver[0] ? d->driver : "-", d->error.msg[0] ? ": " : "", d->error.msg);
		for (size_t j = 0; j < d->n_ports; j++)
			show_port(&d->ports[j]);
	}
	printf(".\n");
	fflush(stdout);
}

static void on_changed(void *arg)
{
	(void)arg;
	show();
}

static void on_signal(struct loop_signal *s, int signum, void *arg)
{
	(void)s;
	(void)arg;
	if (signum == SIGUSR1)
		rdma_rescan(the_rdma);
	else if (signum == SIGUSR2)
		show();
	else
		loop_stop(the_loop, 0);
}

int main(int argc, char **argv)
{
	struct loop_signal rescan, again, term;
	struct err err = ERR_INIT;
	const char *page = getenv("IPU_CLOCK_PAGE");
	int status = 0;

	log_init(LOG_DEBUG, LOG_TEXT, STDERR_FILENO);
	if ((page && clock_use_page(page, &err) < 0) || loop_new(&the_loop, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	loop_signal_start(&rescan, the_loop, SIGUSR1, on_signal, NULL);
	loop_signal_start(&again, the_loop, SIGUSR2, on_signal, NULL);
	loop_signal_start(&term, the_loop, SIGTERM, on_signal, NULL);
	the_rdma = rdma_new(the_loop, on_changed, NULL);
	show();
	if (argc < 2 || strcmp(argv[1], "--once") != 0)
		status = loop_run(the_loop);
	loop_signal_stop(&rescan);
	loop_signal_stop(&again);
	loop_signal_stop(&term);
	rdma_free(the_rdma);
	loop_free(the_loop);
	return status;
}
