/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ui: a listener on loopback that has the live page for one user, as long as this runs. The page's
 * files are ipuctl's own, since they run where the user's names are; the operator's are the data.
 */
#include "ctl/ui.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/commands.h"
#include "proxy/page.h"

#define MAX_CONNECTIONS 256
#define MAX_BODY_BYTES  4096 /* nothing has one */

struct ui {
	struct http_server *http;
	struct ui_guard guard;
	struct ui_passes *passes;
	struct ui_names *names;
	struct ui_browser *browser;
};

static const char *const files[N_PAGE_FILES] = {
	[PAGE_HTML] = "",
	[PAGE_CSS] = "page.css",
	[PAGE_JS] = "page.js",
	[PAGE_SVG] = "icon.svg",
};

static void reply_redirect(struct http_exchange *ex, int status, const struct ui_guard *guard)
{
	CLEANUP_FREE char *where = xasprintf("/%s/", guard->token);
	const struct http_header headers[] = {{STR("Location"), str_of(where)},
					      HTTP_H("Cache-Control", "no-store"),
					      HTTP_H("Referrer-Policy", "no-referrer")};

	http_reply(ex, status, NULL, headers, 3, STR(""));
}

static void reply_page(struct ui *ui, struct http_exchange *ex, struct str name)
{
	static const struct http_header allow = HTTP_H("Allow", "GET, HEAD");

	if (ex->method != HTTP_METHOD_GET && ex->method != HTTP_METHOD_HEAD) {
		http_reply(ex, 405, NULL, &allow, 1, STR(""));
		return;
	}
	for (size_t i = 0; i < N_PAGE_FILES; i++) {
		if (str_eqz(name, files[i])) {
			page_reply(ex, (enum page_file)i);
			return;
		}
	}
	if (str_eqz(name, "names"))
		ui_names_answer(ui->names, ex);
	else if (str_eqz(name, "live"))
		ui_pass(ui->passes, ex, "/live", false);
	else if (str_eqz(name, "live/events"))
		ui_pass(ui->passes, ex, "/live/events", true);
	else
		http_reply(ex, 404, NULL, NULL, 0, STR(""));
}

static void on_request(struct http_exchange *ex, void *arg)
{
	struct ui *ui = arg;
	struct str name = STR_NULL;

	switch (ui_guard_judge(&ui->guard, ex, &name)) {
	case UI_PASS:
		reply_page(ui, ex, name);
		break;
	case UI_FIRST:
		reply_redirect(ex, 303, &ui->guard);
		break;
	case UI_BARE:
		reply_redirect(ex, 308, &ui->guard);
		break;
	case UI_STRANGER:
		http_reply(ex, 403, NULL, NULL, 0, STR(""));
		break;
	case UI_USED_TWICE:
		fprintf(stderr, "ipuctl: the address that the browser was started with was used "
				"twice: if that wasn't you, another user of this machine may see "
				"the page; end this, and start it with --no-browser\n");
		http_reply(ex, 404, NULL, NULL, 0, STR(""));
		break;
	case UI_UNKNOWN:
		http_reply(ex, 404, NULL, NULL, 0, STR(""));
		break;
	}
}

/* ---- the command ---- */

/* What a person must mend is told before there is an address. */
static int look(struct ctl_link *link, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL, *stats = NULL;

	if (ctl_link_ask(link, "/live", STR_NULL, &doc, err) == 0)
		return 0;
	if (err->code != 404 || ctl_link_ask(link, "/stats", STR_NULL, &stats, NULL) < 0)
		return -1;
	return err_wrap(err, "this operator has no page (proxy.page is off, or it is older)");
}

static int open_ui(struct ui *ui, struct ctl_link *link, const struct ctl_options *o,
		   struct err *err)
{
	const struct http_server_config config = {
		.limits = {.max_body_bytes = MAX_BODY_BYTES},
		.max_connections = MAX_CONNECTIONS,
		.name = "ui",
	};
	CLEANUP_FREE char *where = xasprintf("127.0.0.1:%u", o->port);

	ui_guard_init(&ui->guard);
	ui->passes = ui_passes_new(link);
	if (ui_names_new(link, o, &ui->names, err) < 0)
		return -1;
	ui->http = http_server_new(ctl_link_net(link), &config);
	return http_server_listen(ui->http, where, NULL, on_request, ui, &ui->guard.port, err);
}

static void close_ui(struct ui *ui)
{
	http_server_free(ui->http);
	ui_browser_free(ui->browser);
	ui_names_free(ui->names);
	ui_passes_free(ui->passes);
}

static void on_end(struct loop_signal *signal, int signum, void *arg)
{
	(void)signum;
	(void)arg;
	loop_stop(signal->loop, 0);
}

static char *address_of(const struct ui *ui, const char *key, const char *behind)
{
	return xasprintf("http://127.0.0.1:%u/%s%s", ui->guard.port, key, behind);
}

static int serve(struct ui *ui, struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct loop_signal signals[3];
	CLEANUP_FREE char *address = address_of(ui, ui->guard.token, "/\n");
	CLEANUP_FREE char *once = address_of(ui, ui->guard.once, "");
	struct loop *loop = ctl_link_loop(link);
	int result;

	for (size_t i = 0; i < 3; i++)
		loop_signal_start(&signals[i], loop, ends[i], on_end, NULL);
	result = ctl_write_out(str_of(address), err);
	if (result == 0) {
		fprintf(stderr, "ipuctl: the page is at this address until Ctrl-C; whoever has it "
				"sees what you see\n");
		if (o->no_browser)
			ui->guard.once[0] = '\0';
		else
			ui->browser = ui_browser_start(loop, once);
		loop_run(loop);
	}
	for (size_t i = 0; i < 3; i++)
		loop_signal_stop(&signals[i]);
	return result;
}

int ctl_run_ui(struct ctl_link *link, const struct ctl_options *o, struct err *err)
{
	struct ui ui = {0};
	int result = -1;

	if (look(link, err) == 0 && open_ui(&ui, link, o, err) == 0)
		result = serve(&ui, link, o, err);
	close_ui(&ui);
	return result;
}
