/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bare program of the benchmarks: sends the requests of a file to an API server over so many
 * connections, with so many watches held, and does nothing else. It also waits until enough objects
 * have a certain value, and says when that was. Uses core, loop, net and kube. Prints one line of
 * JSON.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "core/json.h"
#include "core/log.h"
#include "core/map.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/watch.h"
#include "loop/loop.h"
#include "net/net.h"

#define MAX_WATCHES    16
#define MAX_FILE_BYTES ((size_t)1 << 30)

struct watching {
	struct bench *bench;
	struct kube_watch *watch;
	bool synced;
	bool counts; /* --until is about its objects */
};

struct bench {
	struct loop *loop;
	struct kube_client *client;
	struct scope scope;
	unsigned connections;
	struct watching watches[MAX_WATCHES];
	size_t n_watches, synced;

	struct buf file;
	char *next, *end; /* what hasn't been sent */
	unsigned running, sent, failed;
	double first_at, last_at;

	char *path[4]; /* --until: RESOURCE[:MEMBER.MEMBER=VALUE]:COUNT */
	const char *value;
	size_t wanted;
	struct map *seen;
	double seen_at;
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "bench-api: %s%s%s\n", what, err ? ": " : "", err ? err->msg : "");
	exit(2);
}

static double now_s(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_s(void)
{
	return now_s(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- requests ---- */

static void send_more(struct bench *b);

static void end_if_done(struct bench *b)
{
	if (b->running == 0 && b->next == b->end && (b->wanted == 0 || b->seen_at > 0))
		loop_stop(b->loop, 0);
}

static void on_answer(void *arg, const struct err *err, const struct kube_response *response)
{
	struct bench *b = arg;
	(void)response;
	if (err && b->failed++ == 0)
		fprintf(stderr, "bench-api: %s\n", err->msg);
	b->running--;
	b->last_at = now_s(CLOCK_REALTIME);
	send_more(b);
	end_if_done(b);
}

/* A line is "METHOD PATH BODY"; it's cut in place. */
static void send_line(struct bench *b, char *line)
{
	char *path = strchr(line, ' '), *body = path ? strchr(path + 1, ' ') : NULL;
	struct kube_request r = {.deadline_ms = 120000, .patch = KUBE_PATCH_MERGE};
	if (!body)
		die("a line isn't METHOD PATH BODY", NULL);
	*path++ = '\0';
	*body++ = '\0';
	r.path = path;
	r.body = str_of(body);
	r.verb = strcmp(line, "PATCH") == 0 ? KUBE_PATCH : KUBE_CREATE;
	b->running++;
	b->sent++;
	kube_call_start(b->client, &r, on_answer, b, &b->scope);
}

static void send_more(struct bench *b)
{
	while (b->running < b->connections && b->next < b->end) {
		char *line = b->next, *nl = memchr(line, '\n', (size_t)(b->end - line));
		if (!nl)
			die("the last line has no end", NULL);
		*nl = '\0';
		b->next = nl + 1;
		send_line(b, line);
	}
}

static void read_requests(struct bench *b, const char *path)
{
	struct err err = ERR_INIT;
	FILE *in = fopen(path, "r");
	char *p;
	size_t n;
	if (!in)
		die(path, NULL);
	do {
		if (buf_reserve(&b->file, 1 << 16, &p, &err) < 0)
			die(path, &err);
		n = fread(p, 1, 1 << 16, in);
		buf_commit(&b->file, n);
	} while (n > 0);
	fclose(in);
	b->next = b->file.p;
	b->end = b->file.p + b->file.len;
}

/* ---- watches ---- */

static void begin(struct bench *b)
{
	printf("{\"begins\":true}\n");
	fflush(stdout);
	b->first_at = b->last_at = now_s(CLOCK_REALTIME);
	send_more(b);
	end_if_done(b);
}

static bool fits(const struct bench *b, const struct json *object)
{
	for (size_t i = 0; i < sizeof(b->path) / sizeof(b->path[0]) && b->path[i]; i++)
		object = json_get(object, b->path[i]);
	return !b->value || str_eqz(json_str(object), b->value);
}

static void on_event(void *arg, const struct kube_watch_event *event)
{
	struct watching *w = arg;
	struct bench *b = w->bench;
	if (!w->counts || b->seen_at > 0)
		return;
	if (event->type == KUBE_DELETED)
		map_del(b->seen, event->key);
	else if (fits(b, event->object))
		map_put(b->seen, event->key, b);
	if (map_len(b->seen) < b->wanted)
		return;
	b->seen_at = now_s(CLOCK_REALTIME);
	end_if_done(b);
}

static void on_synced(void *arg)
{
	struct watching *w = arg;
	if (!w->synced && ++w->bench->synced == w->bench->n_watches)
		begin(w->bench);
	w->synced = true;
}

/* PLURAL[,SELECTOR] */
static void watch(struct bench *b, char *text, bool counts)
{
	static const struct kube_resource *const known[] = {
		&KUBE_PODS,       &KUBE_CONFIGMAPS,      &KUBE_SECRETS, &KUBE_NODES,
		&KUBE_NAMESPACES, &KUBE_PRIORITYCLASSES, &KUBE_IPUJOBS};
	static const struct kube_watch_ops ops = {.on_event = on_event, .on_synced = on_synced};
	struct watching *w = &b->watches[b->n_watches];
	char *selector = strchr(text, ',');
	struct kube_watch_opts opts = {.label_selector = selector ? selector + 1 : NULL};
	if (selector)
		*selector = '\0';
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i]->plural, text) == 0)
			opts.resource = known[i];
	if (!opts.resource || b->n_watches == MAX_WATCHES)
		die("no such resource, or too many watches", NULL);
	b->n_watches++;
	w->bench = b;
	w->counts = counts;
	w->watch = kube_watch_start(b->client, &opts, &ops, w, &b->scope);
}

/* Cut from behind: a selector may hold both signs. */
static void until(struct bench *b, char *text)
{
	char *count = strrchr(text, ':'), *field;
	if (!count)
		die("--until=RESOURCE[:FIELD=VALUE]:COUNT", NULL);
	*count++ = '\0';
	b->wanted = strtoul(count, NULL, 10);
	field = strchr(text, ':');
	if (field) {
		char *value = strchr(field, '='), *rest = NULL;
		*field++ = '\0';
		if (!value)
			die("--until=RESOURCE[:FIELD=VALUE]:COUNT", NULL);
		*value++ = '\0';
		b->value = value;
		for (size_t i = 0; i < sizeof(b->path) / sizeof(b->path[0]); i++)
			b->path[i] = strtok_r(i == 0 ? field : NULL, ".", &rest);
	}
	b->seen = map_new();
	watch(b, text, true);
}

/* ---- the program ---- */

struct words {
	const char *kubeconfig;
	char *watches[MAX_WATCHES], *until;
	size_t n_watches;
	unsigned connections;
	const char *file;
};

static void read_words(int argc, char **argv, struct words *w)
{
	static const struct option options[] = {
		{"kubeconfig", required_argument, NULL, 'k'},
		{"connections", required_argument, NULL, 'c'},
		{"watch", required_argument, NULL, 'w'},
		{"until", required_argument, NULL, 'u'},
		{NULL, 0, NULL, 0},
	};
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'k')
			w->kubeconfig = optarg;
		else if (c == 'c')
			w->connections = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'u')
			w->until = optarg;
		else if (c == 'w' && w->n_watches < MAX_WATCHES)
			w->watches[w->n_watches++] = optarg;
		else
			die("usage: bench-api [--kubeconfig=FILE] [--connections=N] "
			    "[--watch=RESOURCE[,SELECTOR]]… "
			    "[--until=RESOURCE[:FIELD=VALUE]:COUNT] [REQUESTS]",
			    NULL);
	}
	w->file = argv[optind];
}

static void report(const struct bench *b, double cpu_before)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	printf("{\"requests\":%u,\"failed\":%u,\"first_at\":%.6f,\"last_at\":%.6f,\"seen_at\":%.6f,"
	       "\"cpu\":%.6f,\"cpu_all\":%.6f,\"peak_kb\":%ld}\n",
	       b->sent, b->failed, b->first_at, b->last_at, b->seen_at, cpu_s() - cpu_before,
	       cpu_s(), used.ru_maxrss);
}

int main(int argc, char **argv)
{
	struct words words = {.connections = KUBE_MAX_CONNECTIONS};
	struct bench b = {.file = BUF_INIT(MAX_FILE_BYTES)};
	struct kube_config *config = NULL;
	struct net *net = NULL;
	struct err err = ERR_INIT;
	read_words(argc, argv, &words);
	b.connections = words.connections;
	if (words.file)
		read_requests(&b, words.file);
	double cpu_before = cpu_s();
	if (kube_config_load(words.kubeconfig, NULL, &config, &err) < 0 ||
	    loop_new(&b.loop, &err) < 0 || net_new(b.loop, &net, &err) < 0)
		die("start", &err);
	struct kube_client_opts opts = {.loop = b.loop,
					.net = net,
					.config = config,
					.user_agent = "bench-api",
					.max_connections = b.connections};
	if (kube_client_new(&opts, &b.client, &err) < 0)
		die("start", &err);
	scope_init(&b.scope);
	for (size_t i = 0; i < words.n_watches; i++)
		watch(&b, words.watches[i], false);
	if (words.until)
		until(&b, words.until);
	if (b.n_watches == 0)
		begin(&b);
	int status = loop_run(b.loop);
	report(&b, cpu_before);
	scope_cancel(&b.scope);
	kube_client_free(b.client);
	net_free(net);
	loop_free(b.loop);
	kube_config_free(config);
	map_free(b.seen);
	buf_done(&b.file);
	return status != 0 || b.failed > 0;
}
