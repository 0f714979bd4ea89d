/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List and watch without memory: an allocation whose size a peer decides fails once, and in the end
 * everything is known, by no more lists than that takes.
 */
#include "kube_watch_rig.h"
#include "no_memory.h"

#include "core/log.h"
#include "kube/store.h"

/* Each allocation whose size a peer decides fails once. In the end everything is known. */
static void test_memory(void)
{
	static const struct row row = {
		"memory",
		{{LIST_URL, 200, NULL, LIST("10", MORE("t"), OBJ("a", "1", "5")), SRV_WHOLE},
		 {LIST_URL "&continue=t", 200, NULL, LIST("10", "", OBJ("b", "2", "6")),
		  SRV_STREAM_END},
		 {WATCH_URL("10"), 200, NULL, EVENT("ADDED", OBJ("c", "3", "11")), SRV_STREAM_END},
		 {WATCH_URL("11"), 200, NULL, BOOKMARK("12"), SRV_STREAM_END},
		 {WATCH_URL("12"), 200, NULL, EVENT("MODIFIED", OBJ("c", "3", "13")),
		  SRV_STREAM_END},
		 {WATCH_URL("13"), 200, NULL, NULL, SRV_STREAM}},
		NULL};
	unsigned stuck = 0;
	struct no_memory m = {.most = 150};

	while (no_memory_next(&m)) {
		struct watcher x;
		struct kube_watch_status st;
		begin(&row, m.n % 3 ? 16 : 0, &x, 0);
		srv->any_order = true;
		no_memory_begin(&m);
		bool well = RUN_UNTIL(
			(kube_watch_status(x.w, &st), st.state == KUBE_WATCH_WATCHING) &&
				st.objects == 3 && srv->next >= srv->n_steps &&
				clock_mono_ms() - st.since_ms > 1000,
			10);
		no_memory_end(&m);
		if (!well)
			diag("allocation %lu: %s, %zu objects: %s", m.n,
			     kube_watch_state_name(st.state), st.objects, x.log);
		stuck += !well;
		srv->any_order = false;
		end(&x);
	}
	is_uint(stuck, 0, "each allocation fails once");
}

/* There was no memory to read an object of a page that then broke off: it comes with the page,
 * asked for again, and no list anew for its sake. */
static void test_memory_of_a_cut_page(void)
{
	static const struct row row = {
		"a cut page",
		{PAGE_1,
		 {LIST_URL "&continue=t1", 200, NULL,
		  "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[", SRV_STREAM},
		 {LIST_URL "&continue=t1", 200, NULL, LIST("10", "", OBJ("b", "2", "6")),
		  SRV_WHOLE},
		 HOLD("10")},
		NULL};
	unsigned missed = 0, stuck = 0, more = 0;
	struct no_memory m = {0};
	while (no_memory_next(&m)) {
		struct watcher x;
		struct kube_watch_status st;
		begin(&row, 0, &x, 0);
		RUN_UNTIL(srv->next == 2, 10);
		run(3, 0);
		no_memory_begin(&m);
		srv_push(srv, OBJ("b", "2", "6") ",", SRV_STREAM);
		run(3, 0);
		no_memory_end(&m);
		missed += strstr(x.log, "!n/b(limit)") != NULL;
		kube_watch_status(x.w, &st);
		if (st.state == KUBE_WATCH_LISTING && srv->next == 2)
			srv_push(srv, "", SRV_RESET);
		stuck += !RUN_UNTIL((kube_watch_status(x.w, &st),
				     st.state == KUBE_WATCH_WATCHING && st.objects == 2),
				    10);
		run(500, 10);
		more += srv->surprises > 0;
		end(&x);
	}
	no_memory_ok(&m, 3);
	ok(missed > 0, "without %u of them it can't be read", missed);
	is_uint(stuck, 0, "it comes each time");
	is_uint(more, 0, "by one list");
}

/* ---- a store on top ---- */

static unsigned unkept; /* there's no memory for so many of those that come */

static int project(void *arg, const struct json *object, void **ret, struct err *err)
{
	(void)arg;
	(void)object;
	if (unkept) {
		unkept--;
		return err_set(err, ERR_LIMIT, ENOMEM, "no memory");
	}
	*ret = xcalloc(1, 1);
	return 0;
}

static void free_item(void *arg, void *item)
{
	(void)arg;
	free(item);
}

/* What a store had no memory to keep comes again: of a list, and of a stream. */
static void test_store_memory(void)
{
	static const struct srv_step steps[] = {
		{LIST_URL, 200, NULL, LIST("10", "", OBJ("a", "1", "5") "," OBJ("b", "2", "6")),
		 SRV_WHOLE},
		HOLD("10")};
	static const struct kube_store_ops ops = {
		.component = "test", .project = project, .free_item = free_item};
	struct kube_watch_opts opts = {
		.resource = &KUBE_PODS, .label_selector = "l", .page_limit = 2};
	struct kube_watch_status st;
	struct watcher none = {.w = NULL};
	for (int streamed = 0; streamed < 2; streamed++) {
		struct kube_store *store = kube_store_new(&ops, NULL);
		row_begin(streamed ? "an event that can't be kept"
				   : "an object that can't be kept");
		srv_script(srv, steps, 2, 0);
		srv->any_order = true;
		config = srv_config(srv, NULL);
		client = client_for(config, NULL);
		unkept = streamed ? 0 : 1;
		kube_store_watch(store, client, &opts);
		RUN_UNTIL((kube_watch_status(kube_store_get_watch(store), &st),
			   st.state == KUBE_WATCH_WATCHING),
			  10);
		is_uint(kube_store_len(store), streamed ? 2 : 1, "what there was memory for");
		if (streamed) {
			unkept = 1;
			srv_push(srv, EVENT("MODIFIED", OBJ("a", "1", "11")), SRV_STREAM);
		}
		run(500, 10);
		kube_watch_status(kube_store_get_watch(store), &st);
		ok(unkept == 0 && st.lists == 2, "a list more: %u", (unsigned)st.lists);
		is_uint(kube_store_len(store), 2, "has it all");
		srv->any_order = false;
		kube_store_free(store);
		end(&none);
	}
	row_end();
}

int main(void)
{
	log_set_level(LOG_FATAL);
	test_begin();
	rand_seed(11);
	srv = srv_new(NULL);
	test_memory();
	test_memory_of_a_cut_page();
	test_store_memory();
	srv_free(srv);
	test_end();
	return done_testing();
}
