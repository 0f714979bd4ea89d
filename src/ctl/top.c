/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top: who has IPUs, and for how long, as sums over what the proxy answers; once where nobody
 * watches, else again and again over the whole terminal until q.
 */
#include "ctl/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/map.h"
#include "ctl/table.h"
#include "ctl/term.h"
#include "ctl/views.h"

#define INTERVAL_S 2
#define MAX_TEXT   ((size_t)64 << 20)

/* ---- sums ---- */

struct holder {
	const char *ns, *kind, *name; /* kind and name NULL: of a namespace */
	int64_t ipus, held_ms, ipu_ms, waiting;
	int64_t partitions, jobs, since_ms;
};

struct sums {
	struct map *known; /* key → struct holder, owned by `all` */
	struct holder **all;
	size_t n;
};

static struct holder *holder_of(struct sums *s, const char *ns, const char *kind, const char *name)
{
	CLEANUP_FREE char *key = xasprintf("%s/%s/%s", ns, kind ? kind : "", name ? name : "");
	struct holder *h = map_get(s->known, str_of(key));

	if (h)
		return h;
	h = xcalloc(1, sizeof(*h));
	*h = (struct holder){.ns = ns, .kind = kind, .name = name};
	s->all = xrealloc(s->all, (s->n + 1) * sizeof(*s->all));
	s->all[s->n++] = h;
	map_put(s->known, str_of(key), h);
	return h;
}

static const char *text(const struct json *v)
{
	const char *z = json_cstr(v);

	return z ? z : "";
}

static int64_t product(int64_t a, int64_t b)
{
	int64_t n;

	return __builtin_mul_overflow(a, b, &n) ? INT64_MAX : n;
}

static void add_partition(struct sums *jobs, struct sums *spaces, const struct json *p,
			  const char *ns, int64_t now_ms)
{
	const struct json *owner = json_get(p, "owner");
	const char *in = text(json_get(owner, "namespace"));
	int64_t ipus = ctl_count_of(p, "ipus"), since_ms = now_ms, held_ms;
	struct holder *pair[2];

	if ((ns && strcmp(in, ns) != 0) || json_type(owner) != JSON_OBJECT)
		return;
	(void)clock_parse(json_str(json_get(p, "since")), &since_ms, NULL);
	held_ms = now_ms > since_ms ? now_ms - since_ms : 0;
	pair[0] = holder_of(jobs, in, text(json_get(owner, "kind")), text(json_get(owner, "name")));
	pair[1] = holder_of(spaces, in, NULL, NULL);
	pair[1]->jobs += pair[0]->partitions == 0;
	for (size_t i = 0; i < 2; i++) {
		pair[i]->partitions++;
		pair[i]->ipus = ctl_sum(pair[i]->ipus, ipus);
		pair[i]->ipu_ms = ctl_sum(pair[i]->ipu_ms, product(ipus, held_ms));
		if (held_ms > pair[i]->held_ms)
			pair[i]->held_ms = held_ms;
	}
}

static int by_ipus(const void *a, const void *b)
{
	const struct holder *one = *(struct holder *const *)a, *two = *(struct holder *const *)b;
	int order;

	if (one->ipus != two->ipus)
		return one->ipus < two->ipus ? 1 : -1;
	if (one->held_ms != two->held_ms)
		return one->held_ms < two->held_ms ? 1 : -1;
	order = strcmp(one->ns, two->ns);
	return order ? order : strcmp(one->name ? one->name : "", two->name ? two->name : "");
}

static struct jmut *write_holders(struct jmut_doc *doc, struct sums *s)
{
	struct jmut *out = jmut_array(doc);

	if (s->n)
		qsort(s->all, s->n, sizeof(*s->all), by_ipus);
	for (size_t i = 0; i < s->n; i++) {
		const struct holder *h = s->all[i];
		struct jmut *one = jmut_object(doc);

		jmut_set_str(doc, one, "namespace", h->ns);
		if (h->kind) {
			jmut_set_str(doc, one, "kind", h->kind);
			jmut_set_str(doc, one, "name", h->name);
		} else {
			jmut_set_int(doc, one, "jobs", h->jobs);
			jmut_set_int(doc, one, "waitingIPUs", h->waiting);
		}
		jmut_set_int(doc, one, "ipus", h->ipus);
		jmut_set_int(doc, one, "partitions", h->partitions);
		jmut_set_int(doc, one, "heldSeconds", h->held_ms / 1000);
		jmut_set_int(doc, one, "ipuSeconds", h->ipu_ms / 1000);
		jmut_push(doc, out, one);
	}
	return out;
}

static void sums_done(struct sums *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->all[i]);
	free(s->all);
	map_free(s->known);
}

/* {total, controllers, namespaces, jobs}: namespaces and jobs by IPUs, then by time held, the most
 * first; of jobs their partitions together. ns: only that one's; NULL: all. In doc. */
static struct jmut *sum_up(struct jmut_doc *doc, const struct json *capacity,
			   const struct json *partitions, const struct json *queue, const char *ns,
			   int64_t now_ms)
{
	struct sums jobs = {.known = map_new()}, spaces = {.known = map_new()};
	struct json_iter it = json_iter(json_get(partitions, "items"));
	struct jmut *root = jmut_object(doc);

	while (json_next(&it))
		add_partition(&jobs, &spaces, it.value, ns, now_ms);
	it = json_iter(json_get(queue, "items"));
	while (json_next(&it)) {
		const char *in = text(json_get(it.value, "namespace"));

		if (!ns || strcmp(in, ns) == 0) {
			struct holder *h = holder_of(&spaces, in, NULL, NULL);

			h->waiting = ctl_sum(h->waiting, ctl_count_of(it.value, "ipus"));
		}
	}
	jmut_set(doc, root, "total", jmut_copy(doc, json_get(capacity, "total")));
	jmut_set(doc, root, "controllers", jmut_copy(doc, json_get(capacity, "controllers")));
	jmut_set(doc, root, "namespaces", write_holders(doc, &spaces));
	jmut_set(doc, root, "jobs", write_holders(doc, &jobs));
	sums_done(&jobs);
	sums_done(&spaces);
	return root;
}

/* ---- tables ---- */

static int add_table(struct ctl_table *t, struct buf *out, struct err *err)
{
	int result = 0;

	if (ctl_table_rows(t) > 0 && (out->len == 0 || buf_append(out, "\n", 1, err) == 0))
		result = ctl_table_write(t, true, out, err);
	ctl_table_free(t);
	return result;
}

static void add_number(struct ctl_table *t, const struct json *o, const char *key)
{
	ctl_table_addf(t, "%" PRId64, json_int(json_get(o, key), 0));
}

static void add_held(struct ctl_table *t, const struct json *o)
{
	char z[CLOCK_AGE_SIZE];

	clock_format_age(json_int(json_get(o, "heldSeconds"), 0) * 1000, z);
	ctl_table_add(t, str_of(z));
	ctl_table_addf(t, "%.1f", (double)json_int(json_get(o, "ipuSeconds"), 0) / 3600);
}

static struct ctl_table *namespaces(const struct json *top)
{
	static const char *const heads[] = {"NAMESPACE", "IPUS", "JOBS",      "PARTITIONS",
					    "WAITING",   "HELD", "IPU-HOURS", NULL};
	struct ctl_table *t = ctl_table_new(heads, 7, true);
	struct json_iter it = json_iter(json_get(top, "namespaces"));

	while (json_next(&it)) {
		ctl_table_add(t, json_str(json_get(it.value, "namespace")));
		add_number(t, it.value, "ipus");
		add_number(t, it.value, "jobs");
		add_number(t, it.value, "partitions");
		add_number(t, it.value, "waitingIPUs");
		add_held(t, it.value);
	}
	return t;
}

static struct ctl_table *jobs(const struct json *top)
{
	static const char *const heads[] = {"NAMESPACE", "OWNER",     "IPUS", "PARTITIONS",
					    "HELD",      "IPU-HOURS", NULL};
	struct ctl_table *t = ctl_table_new(heads, 6, true);
	struct json_iter it = json_iter(json_get(top, "jobs"));

	while (json_next(&it)) {
		ctl_table_add(t, json_str(json_get(it.value, "namespace")));
		ctl_view_owner(t, it.value);
		add_number(t, it.value, "ipus");
		add_number(t, it.value, "partitions");
		add_held(t, it.value);
	}
	return t;
}

static int write_tables(const struct json *top, struct buf *out, struct err *err)
{
	return add_table(ctl_view_capacity(top, false), out, err) < 0 ||
			       add_table(namespaces(top), out, err) < 0 ||
			       add_table(jobs(top), out, err) < 0
		       ? -1
		       : 0;
}

/* ---- one look ---- */

static int look(struct ctl_link *link, const struct ctl_options *o, struct jmut_doc *doc,
		struct jmut **ret, struct err *err)
{
	CLEANUP_JSON struct json_doc *capacity = NULL, *partitions = NULL, *queue = NULL;

	if (ctl_link_ask(link, "/capacity", STR_NULL, &capacity, err) < 0 ||
	    ctl_link_ask(link, "/partitions", STR_NULL, &partitions, err) < 0 ||
	    ctl_link_ask(link, "/queue", STR_NULL, &queue, err) < 0)
		return -1;
	*ret = sum_up(doc, json_root(capacity), json_root(partitions), json_root(queue), o->job_ns,
		      clock_wall_ms());
	return 0;
}

static int top_once(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = BUF_INIT(MAX_TEXT);
	struct jmut *top;
	int result = look(link, o, doc, &top, err);

	if (result == 0 && (o->output == CTL_JSON || o->output == CTL_YAML))
		result = ctl_write_value(jmut_view(top), o->output, &out, err);
	else if (result == 0)
		result = write_tables(jmut_view(top), &out, err);
	if (result == 0)
		result = ctl_write_out(buf_str(&out), err);
	buf_done(&out);
	return result;
}

/* ---- the live view ---- */

static struct termios before;
static sigset_t unblocked; /* as it was; between polls the signals below wait */
static volatile sig_atomic_t ended, stopped;

static void on_end(int signo)
{
	ended = signo;
}

static void on_stop(int signo)
{
	stopped = signo;
}

static void on_resize(int signo)
{
	(void)signo; /* the poll is interrupted: drawn anew */
}

/* A signal that comes just before a poll would wait for that poll's end, were it not kept back. */
static void watch_signals(void)
{
	static const struct {
		int signo;
		void (*fn)(int signo);
	} watched[] = {{SIGINT, on_end},
		       {SIGTERM, on_end},
		       {SIGHUP, on_end},
		       {SIGTSTP, on_stop},
		       {SIGWINCH, on_resize}};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
		struct sigaction action = {.sa_handler = watched[i].fn};

		sigaddset(&set, watched[i].signo);
		sigaction(watched[i].signo, &action, NULL);
	}
	sigprocmask(SIG_BLOCK, &set, &unblocked);
}

/* Keys come one by one, and aren't shown; the screen comes back as it was. */
static void enter(void)
{
	struct termios raw;

	tcgetattr(STDIN_FILENO, &before);
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	printf("\033[?1049h\033[?25l");
	fflush(stdout);
}

static void leave(void)
{
	printf("\033[?25h\033[?1049l");
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* ^Z: the terminal is the shell's until we go on. */
static void stop(void)
{
	struct sigaction as_usual = {.sa_handler = SIG_DFL}, ours;
	sigset_t blocked;

	stopped = 0;
	leave();
	sigaction(SIGTSTP, &as_usual, &ours);
	raise(SIGTSTP);
	sigprocmask(SIG_SETMASK, &unblocked, &blocked); /* here it stops */
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	sigaction(SIGTSTP, &ours, NULL);
	enter();
}

/* As many lines and columns as there are. Colours take no room: a line that is cut ends them. */
static void draw(struct str words)
{
	struct winsize size = {.ws_row = 0};
	struct str line, rest = words;

	/* A terminal of nobody's (script(1) in a pipe) has no size. */
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	printf("\033[H");
	for (unsigned row = 1; rest.len && row < size.ws_row; row++) {
		unsigned column = 0;

		str_cut(rest, '\n', &line, &rest);
		for (size_t i = 0; i < line.len; i++) {
			bool begins = ((unsigned char)line.p[i] & 0xc0) != 0x80;

			if (line.p[i] == '\033') {
				while (i < line.len && line.p[i] != 'm')
					putchar(line.p[i++]);
				putchar('m');
				continue;
			}
			column += begins;
			if (column <= size.ws_col)
				putchar(line.p[i]);
		}
		printf("%s\033[K\n", ctl_style_end());
	}
	printf("\033[J");
	fflush(stdout);
}

/* Until it's time for the next look; true: q was typed. */
static bool wait_for_key(unsigned seconds)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	const struct timespec most = {.tv_sec = seconds};
	int n = ppoll(&in, 1, &most, &unblocked);
	char key = 0;

	if (stopped)
		stop();
	if (n <= 0)
		return false;
	return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
}

static int show(struct ctl_link *link, const struct ctl_options *o, unsigned seconds,
		struct err *err)
{
	CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
	struct buf out = BUF_INIT(MAX_TEXT);
	struct err why = ERR_INIT;
	struct jmut *top;
	char now[CLOCK_RFC3339_SIZE];
	int result = look(link, o, doc, &top, &why);

	clock_format(clock_wall_ms(), now);
	if (result < 0 && !err_is_retryable(&why)) {
		buf_done(&out);
		return err_copy(err, &why);
	}
	(void)buf_printf(&out, NULL, "ipuctl top  %s  every %u s, q quits%s%s\n", now, seconds,
			 result < 0 ? "  -  " : "", result < 0 ? why.msg : "");
	if (result == 0)
		result = write_tables(jmut_view(top), &out, err);
	else
		result = 0; /* an operator that is away for a while comes back */
	if (result == 0)
		draw(buf_str(&out));
	buf_done(&out);
	return result;
}

static int top_live(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	unsigned seconds = o->interval_s ? o->interval_s : INTERVAL_S;
	int result;

	watch_signals();
	enter();
	do {
		result = show(link, o, seconds, err);
	} while (result == 0 && !wait_for_key(seconds) && !ended);
	leave();
	sigprocmask(SIG_SETMASK, &unblocked, NULL);
	return result;
}

int ctl_run_top(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	bool live = !o->once && !o->out && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
		    ctl_term_is_able();

	return live ? top_live(link, o, err) : top_once(link, o, err);
}
