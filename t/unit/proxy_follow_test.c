/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica that follows, without memory: each allocation fails once whose size who leads decides,
 * while it's asked for what is held and for Pods. In the end both are known, and what was known
 * until then stays.
 */
#include "no_memory.h"
#include "proxy_rig.h"

#include <sys/mman.h>

#include "proxy/internal.h"

static bool other; /* who leads says something else by now */

static void say(struct http_exchange *ex, void *arg)
{
	CLEANUP_FREE char *held = xasprintf("{\"held\":%d,\"items\":[]}", other ? 8 : 7);
	CLEANUP_FREE char *pods = xasprintf(
		"{\"items\":[{\"owner\":\"u\",\"instance\":0,\"pods\":[{\"name\":\"p-%d\",\"phase\":"
		"\"Running\",\"node\":\"n\"}]}]}",
		other ? 8 : 7);

	(void)arg;
	fault_alloc_spare(true);
	http_reply(ex, 200, "application/json", NULL, 0,
		   str_of(str_eqz(ex->path, "/v1/held") ? held : pods));
	fault_alloc_spare(false);
}

static void on_held(void *arg, const struct proxy_held *held)
{
	(void)arg;
	(void)held;
}

static void on_pod(void *arg, const struct proxy_pod *pod)
{
	snprintf(arg, 8, "%s", pod->name);
}

/* Looking asks for it anew. */
static bool knows(struct proxy *p, size_t number)
{
	const struct partition_owner owner = {.uid = TEXT("u")};
	char name[8] = "", want[8];
	size_t more = 0;

	snprintf(want, sizeof(want), "p-%zu", number);
	if (!told_each(p, on_held, NULL, &more) || more != number)
		return false;
	told_pods(p, &owner, 0, on_pod, name);
	return strcmp(name, want) == 0;
}

static size_t held_number(struct proxy *p)
{
	size_t more = 0;

	return told_each(p, on_held, NULL, &more) ? more : 0;
}

int main(void)
{
	int fd = memfd_create("token", MFD_CLOEXEC);
	CLEANUP_FREE char *path = xasprintf("/proc/self/fd/%d", fd), *address = NULL;
	struct no_memory m = {0};
	struct http_client *client;
	struct http_server *leader;
	struct proxy_config config;
	struct proxy *p;
	struct err err = ERR_INIT;
	unsigned port, late = 0, lost = 0;

	if (fd < 0 || write(fd, "a-token", 7) != 7)
		bail_out("a file for a token");
	begin();
	client = http_client_new(net, NULL);
	credentials_make();
	config = (struct proxy_config){.loop = loop,
				       .partitions = parts,
				       .fleet = fleet,
				       .kube = kube,
				       .http = client,
				       .page = PROXY_PAGE_FULL,
				       .token_file = path};
	p = proxy_new(&config);
	proxy_set_peer_tls(p, tls.for_client, "localhost");
	leader = http_server_new(net, NULL);
	if (http_server_listen(leader, "127.0.0.1:0", tls.for_server, say, NULL, &port, &err) < 0)
		bail_out(err.msg);
	address = xasprintf("127.0.0.1:%u", port);
	proxy_set_leader(p, false, address);
	ok(WITHIN(10000, knows(p, 7)), "what who leads says is known");
	while (no_memory_next(&m)) {
		size_t before = other ? 8 : 7;

		other = !other;
		no_memory_begin(&m);
		for (int i = 0; i < 3000 && !knows(p, other ? 8 : 7); i++) {
			size_t now = held_number(p);

			lost += now != before && now != (other ? 8 : 7);
			turn(10);
		}
		if (!knows(p, other ? 8 : 7)) {
			diag("allocation %lu", m.n);
			late++;
			WITHIN(60000, knows(p, other ? 8 : 7));
		}
		no_memory_end(&m);
	}
	no_memory_ok(&m, 10);
	is_uint(late, 0, "each time what it says now is known");
	is_uint(lost, 0, "and what it said before, until then");
	proxy_set_leader(p, true, NULL);
	http_server_free(leader);
	proxy_free(p);
	http_client_free(client);
	credentials_done();
	end();
	close(fd);
	return done_testing();
}
