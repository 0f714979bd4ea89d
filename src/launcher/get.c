/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipu-launcher get: one request, its answer on standard output. Everything is owned by a struct
 * on launcher_get's stack. Uses http, net, loop and core.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/str.h"
#include "http/client.h"
#include "launcher/cluster.h"
#include "launcher/launcher.h"
#include "net/net.h"
#include "net/tls.h"

#define TIMEOUT_S     30
#define TIMEOUT_MAX_S 86400

struct get {
	const char *ca_file, *token_file;
	int64_t timeout_s;
	struct http_url url;
	struct loop *loop;
	struct net *net;
	struct tls_config *tls;
	struct http_client *client;
	struct scope scope;
	char *authorization; /* "Bearer …", or NULL */
};

/* The words of a Kubernetes Status, where the body is one. */
static void add_status_message(const struct http_response *response, struct str token,
			       struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	if (json_parse(response->body, &doc, NULL) < 0)
		return;
	struct str message = http_without_token(json_str(json_get(json_root(doc), "message")),
						token);
	if (message.len > 0)
		err_set(err, err->kind, err->code, "%d %s: %.*s", err->code,
			http_status_reason(err->code), STR_ARG(message));
}

static void on_fetched(void *arg, const struct http_response *response, const struct err *why)
{
	struct get *get = arg;
	struct str token = http_bearer_token(get->authorization);
	struct err err = ERR_INIT;
	if (why) {
		loop_stop(get->loop, launcher_fail(EXIT_FAILURE, "%s", why->msg));
		return;
	}
	if (http_response_check(response, HTTP_METHOD_GET, get->url.target, token, &err) < 0) {
		add_status_message(response, token, &err);
		loop_stop(get->loop, launcher_fail(EXIT_FAILURE, "%s", err.msg));
		return;
	}
	if (fwrite(response->body.p ? response->body.p : "", 1, response->body.len, stdout) !=
		    response->body.len ||
	    fflush(stdout) != 0) {
		loop_stop(get->loop,
			  launcher_fail(EXIT_FAILURE, "standard output: %s", strerror(errno)));
		return;
	}
	loop_stop(get->loop, EXIT_SUCCESS);
}

static int parse_options(struct get *get, int argc, char **argv)
{
	static const struct option options[] = {
		{"ca", required_argument, NULL, 'c'},
		{"token-file", required_argument, NULL, 't'},
		{"timeout", required_argument, NULL, 's'},
		{NULL, 0, NULL, 0},
	};
	struct err err = ERR_INIT;
	int option;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			get->ca_file = optarg;
			break;
		case 't':
			get->token_file = optarg;
			break;
		case 's':
			if (launcher_number_option("timeout", argv, 1, TIMEOUT_MAX_S,
						   &get->timeout_s) != 0)
				return EXIT_USAGE;
			break;
		default:
			return launcher_bad_option(option, argv);
		}
	}
	if (argc - optind != 1)
		return launcher_fail(EXIT_USAGE, "get: exactly one URL is wanted");
	if (http_url_parse(str_of(argv[optind]), &get->url, &err) < 0)
		return launcher_fail(EXIT_USAGE, "get: %s", err.msg);
	if (get->token_file && !get->url.tls)
		return launcher_fail(EXIT_USAGE, "get: a token is sent over https only");
	return 0;
}

/* Input that a person gave: what is wrong with it is found before anything is connected. */
static int load(struct get *get)
{
	struct err err = ERR_INIT;
	struct tls_client_opts opts = {.ca_file = get->ca_file};
	if (get->token_file && cluster_read_token(get->token_file, &get->authorization, &err) < 0)
		return launcher_fail(EXIT_USAGE, "get: --token-file: %s", err.msg);
	if (get->url.tls && tls_config_new_client(&opts, &get->tls, &err) < 0)
		return launcher_fail(EXIT_USAGE, "get: %s", err.msg);
	return 0;
}

static int fetch(struct get *get)
{
	struct http_header headers[] = {
		HTTP_H("Accept", "*/*"),
		{STR("Authorization"), str_of(get->authorization)},
	};
	unsigned timeout_ms = (unsigned)get->timeout_s * 1000;
	struct http_request request = {
		.origin = {.host = get->url.host, .port = get->url.port, .tls = get->tls},
		.method = HTTP_METHOD_GET,
		.target = get->url.target,
		.headers = headers,
		.n_headers = get->authorization ? 2 : 1,
		.connect_ms = timeout_ms,
		.first_byte_ms = timeout_ms,
		.total_ms = timeout_ms,
	};
	get->client = http_client_new(get->net, NULL);
	http_fetch_start(get->client, &request, on_fetched, get, &get->scope);
	return loop_run(get->loop);
}

int launcher_get(int argc, char **argv)
{
	struct get get = {.timeout_s = TIMEOUT_S};
	struct err err = ERR_INIT;
	scope_init(&get.scope);
	int status = parse_options(&get, argc, argv);
	if (status != 0)
		return status;
	if (loop_new(&get.loop, &err) < 0 || net_new(get.loop, &get.net, &err) < 0)
		status = launcher_fail(EXIT_FAILURE, "%s", err.msg);
	else
		status = load(&get);
	if (status == 0)
		status = fetch(&get);
	scope_cancel(&get.scope);
	http_client_free(get.client);
	tls_config_unref(get.tls);
	net_free(get.net);
	loop_free(get.loop);
	cluster_free_authorization(get.authorization);
	return status;
}
