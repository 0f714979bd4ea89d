/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch for the benchmarks: what reading, decoding and storing Pods costs, with TLS or without. A
 * process of its own is the API server: it answers the list with nothing, and the watch with so
 * many megabytes of Pods as the operator makes them. Uses core, loop, net, http, kube and job (the
 * projection that is kept). Prints one line of JSON.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/log.h"
#include "http/server.h"
#include "job/pod.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/store.h"
#include "loop/loop.h"
#include "net/net.h"
#include "net/tls.h"
#include "sim/certificate.h"

#define N_PODS         5000
#define MAX_POD_BYTES  65536
#define CHUNK_BYTES    ((size_t)64 << 10)
#define MAX_TEXT_BYTES ((size_t)64 << 20)

static struct loop *loop;
static struct net *net;
static double megabytes = 100;

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "bench-watch: %s: %s\n", what, err ? err->msg : "failed");
	exit(2);
}

static void take_processor(int which)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(which, &set);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		sched_setaffinity(0, sizeof(set), &set);
}

static void make_loop(void)
{
	struct err err = ERR_INIT;
	if (loop_new(&loop, &err) < 0 || net_new(loop, &net, &err) < 0)
		die("start", &err);
}

/* ---- the server ---- */

/* A Pod on one line, with "@N@" where its number goes and "@V@" for its version. */
struct source {
	struct buf pod, chunk;
	uint64_t sent_bytes, wanted_bytes;
	unsigned long events;
	int told; /* the pipe on which it says how much it has sent, once it has */
};

static void add_event(struct source *s)
{
	const char *p = s->pod.p, *mark;
	struct err err = ERR_INIT;
	if (buf_printf(&s->chunk, &err, "{\"type\":\"%s\",\"object\":",
		       s->events < N_PODS ? "ADDED" : "MODIFIED") < 0)
		die("an event", &err);
	while ((mark = strchr(p, '@'))) {
		if (buf_append(&s->chunk, p, (size_t)(mark - p), &err) < 0 ||
		    buf_printf(&s->chunk, &err, "%lu",
			       mark[1] == 'N' ? s->events % N_PODS : s->events + 2) < 0)
			die("an event", &err);
		p = mark + 3;
	}
	if (buf_append(&s->chunk, p, strlen(p), &err) < 0 ||
	    buf_append_str(&s->chunk, STR("}\n"), &err) < 0)
		die("an event", &err);
	s->events++;
}

static void send_events(struct http_exchange *ex, void *arg)
{
	struct source *s = arg;
	bool full = false;
	while (!full && s->sent_bytes < s->wanted_bytes) {
		buf_clear(&s->chunk);
		while (s->chunk.len < CHUNK_BYTES)
			add_event(s);
		s->sent_bytes += s->chunk.len;
		if (s->sent_bytes >= s->wanted_bytes) {
			uint64_t told[2] = {s->sent_bytes, s->events};
			if (write(s->told, told, sizeof(told)) != sizeof(told))
				die("the server", NULL);
		}
		full = http_reply_write(ex, buf_str(&s->chunk));
	}
}

static void on_gone(struct http_exchange *ex, void *arg)
{
	(void)ex;
	(void)arg;
}

static void on_request(struct http_exchange *ex, void *arg)
{
	if (!memmem(ex->query.p, ex->query.len, "watch=", 6)) {
		http_reply(ex, 200, "application/json", NULL, 0,
			   STR("{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":"
			       "{\"resourceVersion\":\"1\"},\"items\":[]}"));
		return;
	}
	http_exchange_on_abort(ex, on_gone, arg);
	http_reply_begin(ex, 200, "application/json", NULL, 0);
	http_exchange_on_drain(ex, send_events, arg);
	send_events(ex, arg);
}

static void on_end(struct loop_signal *s, int signum, void *arg)
{
	(void)s;
	(void)signum;
	(void)arg;
	loop_stop(loop, 0);
}

static struct tls_config *server_tls(void)
{
	CLEANUP_FREE char *cert = NULL, *key = NULL;
	struct tls_config *tls;
	struct err err = ERR_INIT;
	if (sim_certificate_make(NULL, &cert, &key, &err) < 0)
		die("the certificate", &err);
	struct tls_server_opts opts = {.cert_pem = str_of(cert), .key_pem = str_of(key)};
	if (tls_config_new_server(&opts, &tls, &err) < 0)
		die("TLS", &err);
	return tls;
}

static void read_pod(struct buf *to, const char *path)
{
	struct err err = ERR_INIT;
	char *p = NULL;
	FILE *in = fopen(path, "r");
	if (!in || buf_reserve(to, MAX_POD_BYTES, &p, &err) < 0)
		die(path, NULL);
	p[fread(p, 1, MAX_POD_BYTES - 1, in)] = '\0';
	fclose(in);
	p[strcspn(p, "\n")] = '\0';
	buf_commit(to, strlen(p) + 1);
}

static void serve(const char *path, bool with_tls, int ports)
{
	struct source s = {.pod = BUF_INIT(MAX_POD_BYTES * 2),
			   .chunk = BUF_INIT(MAX_TEXT_BYTES),
			   .wanted_bytes = (uint64_t)(megabytes * 1e6),
			   .told = ports};
	struct http_server *server;
	struct loop_signal term;
	struct err err = ERR_INIT;
	unsigned port = 0;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	take_processor(0);
	make_loop();
	read_pod(&s.pod, path);
	struct tls_config *tls = with_tls ? server_tls() : NULL;
	server = http_server_new(net, NULL);
	if (http_server_listen(server, "127.0.0.1:0", tls, on_request, &s, &port, &err) < 0)
		die("the server", &err);
	tls_config_unref(tls);
	if (write(ports, &port, sizeof(port)) != sizeof(port))
		die("the server", NULL);
	loop_signal_start(&term, loop, SIGTERM, on_end, NULL);
	loop_run(loop);
	loop_signal_stop(&term);
	http_server_free(server);
	net_free(net);
	loop_free(loop);
	buf_done(&s.pod);
	buf_done(&s.chunk);
	_exit(0);
}

/* ---- the client ---- */

struct reader {
	unsigned long events, wanted;
	int told;
	struct loop_io io;
	uint64_t bytes;
	double cpu_before;
	int64_t began_us, ended_us;
};

static double cpu_s(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void end_if_done(struct reader *r)
{
	if (r->wanted == 0 || r->events < r->wanted)
		return;
	r->ended_us = clock_mono_us();
	loop_stop(loop, 0);
}

static void on_told(struct loop_io *io, int revents, void *arg)
{
	struct reader *r = arg;
	uint64_t told[2];
	(void)revents;
	loop_io_stop(io);
	if (read(r->told, told, sizeof(told)) != sizeof(told))
		die("the server", NULL);
	r->bytes = told[0];
	r->wanted = told[1];
	end_if_done(r);
}

static int project(void *arg, const struct json *object, void **ret_item, struct err *err)
{
	struct reader *r = arg;
	struct job_pod *pod;
	r->events++;
	if (job_pod_decode(object, &pod, err) < 0)
		die("a Pod", err);
	*ret_item = pod;
	return 0;
}

static void free_item(void *arg, void *item)
{
	(void)arg;
	job_pod_free(item);
}

static bool same(void *arg, const void *old, const void *item)
{
	end_if_done(arg);
	return job_pod_equal(old, item);
}

static void on_change(void *arg, struct str key, const void *old, const void *item)
{
	(void)key;
	(void)old;
	(void)item;
	end_if_done(arg);
}

static struct str by_job(const void *item)
{
	return str_of(((const struct job_pod *)item)->job_key);
}

static void on_synced(void *arg)
{
	struct reader *r = arg;
	r->cpu_before = cpu_s();
	r->began_us = clock_mono_us();
}

static struct kube_config *configure(unsigned port, bool with_tls)
{
	char path[] = "/tmp/bench-watch-XXXXXX";
	struct kube_config *config = NULL;
	struct err err = ERR_INIT;
	int fd = mkstemp(path);
	if (fd < 0)
		die(path, NULL);
	dprintf(fd,
		"apiVersion: v1\nkind: Config\ncurrent-context: a\n"
		"contexts: [{name: a, context: {cluster: a, user: a}}]\n"
		"users: [{name: a, user: {}}]\n"
		"clusters: [{name: a, cluster: {server: 'http%s://127.0.0.1:%u'%s}}]\n",
		with_tls ? "s" : "", port, with_tls ? ", insecure-skip-tls-verify: true" : "");
	close(fd);
	int rc = kube_config_load(path, NULL, &config, &err);
	unlink(path);
	if (rc < 0)
		die("the kubeconfig", &err);
	return config;
}

static void read_all(unsigned port, bool with_tls, int told)
{
	static const struct kube_store_ops ops = {.component = "bench",
						  .project = project,
						  .free_item = free_item,
						  .same = same,
						  .on_change = on_change,
						  .on_synced = on_synced,
						  .index = {by_job}};
	struct reader r = {.told = told};
	struct kube_client *client;
	struct err err = ERR_INIT;
	take_processor(1);
	make_loop();
	struct kube_config *config = configure(port, with_tls);
	struct kube_client_opts opts = {.loop = loop, .net = net, .config = config};
	if (kube_client_new(&opts, &client, &err) < 0)
		die("the client", &err);
	loop_io_init(&r.io, loop, told, on_told, &r);
	loop_io_watch(&r.io, EV_READ);
	struct kube_store *store = kube_store_new(&ops, &r);
	kube_store_watch(store, client, &(struct kube_watch_opts){.resource = &KUBE_PODS});
	loop_run(loop);
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	printf("{\"bytes\":%lu,\"events\":%lu,\"pods\":%zu,\"seconds\":%.6f,\"cpu\":%.6f,"
	       "\"peak_kb\":%ld}\n",
	       (unsigned long)r.bytes, r.events, kube_store_len(store),
	       (double)(r.ended_us - r.began_us) / 1e6, cpu_s() - r.cpu_before, u.ru_maxrss);
	kube_store_free(store);
	kube_client_free(client);
	kube_config_free(config);
	net_free(net);
	loop_free(loop);
}

int main(int argc, char **argv)
{
	bool with_tls = argc > 3 && strcmp(argv[3], "tls") == 0;
	int ports[2];
	unsigned port = 0;
	if (argc < 3 || pipe(ports) < 0) {
		fprintf(stderr, "usage: bench-watch POD-FILE MEGABYTES [tls]\n");
		return 2;
	}
	megabytes = strtod(argv[2], NULL);
	log_init(LOG_WARN, LOG_TEXT, STDERR_FILENO);
	pid_t server = fork();
	if (server == 0)
		serve(argv[1], with_tls, ports[1]);
	if (server < 0 || read(ports[0], &port, sizeof(port)) != sizeof(port))
		die("the server", NULL);
	read_all(port, with_tls, ports[0]);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return 0;
}
