/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to the operator's proxy (a URL, or the API server's proxy to a Service) and to the
 * Kubernetes API. Calls wait for their answer: a program that does one thing needs no callbacks;
 * the one that serves others (ui) starts streams. Uses kube, http, net, loop and core.
 */
#ifndef IPU_CTL_LINK_H
#define IPU_CTL_LINK_H

#include <stdbool.h>

#include "core/err.h"
#include "core/json.h"
#include "ctl/options.h"
#include "http/client.h"
#include "kube/client.h"
#include "kube/pass.h"

/* How the operator's own Pods are found, whatever the chart's release and nameOverride are. */
#define CTL_OPERATOR_PODS "app.kubernetes.io/part-of=ipu-operator"

struct ctl_link;

/* Chooses the way, reads a kubeconfig where one is needed, and connects to nobody yet. needs_kube:
 * ctl_link_kube will be called. May fork (exec plugins): before any loop is there. o outlives the
 * link. Errors: ERR_INVALID with code 0, what a person must mend. */
int ctl_link_new(const struct ctl_options *o, bool needs_kube, struct ctl_link **ret,
		 struct err *err);
/* The same, with the Kubernetes API beside the way to the proxy where there is a kubeconfig. */
int ctl_link_new_with_any(const struct ctl_options *o, struct ctl_link **ret, struct err *err);
/* The same with needs_kube, but for a machine without any kubeconfig: *ret is NULL. */
int ctl_link_new_if_any(const struct ctl_options *o, struct ctl_link **ret, struct err *err);
void ctl_link_free(struct ctl_link *link); /* NULL is fine */

/* One request to the proxy, within --timeout: GET, or POST of body where that isn't STR_NULL.
 * path: "/stats". *ret is the caller's. Errors: err.code is the HTTP status where an answer came,
 * else 0 or an errno; ERR_PROTOCOL where the answer isn't JSON. */
int ctl_link_ask(struct ctl_link *link, const char *path, struct str body, struct json_doc **ret,
		 struct err *err);
/* One call to the Kubernetes API, within --timeout (deadline_ms is set here). */
int ctl_link_kube(struct ctl_link *link, const struct kube_request *request, struct json_doc **ret,
		  struct err *err);
/* A path of the API server's whose answer is text: a log, or what another port says through it.
 * *ret is terminated, and the caller's to free. ERR_LIMIT: more than fits. */
int ctl_link_text(struct ctl_link *link, const char *path, char **ret, size_t *ret_len,
		  struct err *err);
void ctl_link_pause(struct ctl_link *link, unsigned ms);

/* ---- for a command with callbacks of its own, which runs the loop itself ---- */

struct loop *ctl_link_loop(struct ctl_link *link);
struct net *ctl_link_net(struct ctl_link *link);
/* NULL: there is none, and *ret_why says why, for people. */
struct kube_client *ctl_link_client(struct ctl_link *link, const char **ret_why);

/* A GET or HEAD to the proxy that is passed on as it comes. One of the two; both NULL: none. */
struct ctl_stream {
	struct http_call *call;
	struct kube_pass *pass;
};

/* Calls back as http_call_start does. The answer must begin within --timeout; idle_ms: the longest
 * silence within it. After on_done the stream is to be forgotten. */
struct ctl_stream ctl_link_stream_start(struct ctl_link *link, enum http_method method,
					const char *path, const struct http_header *headers,
					size_t n_headers, unsigned idle_ms,
					const struct http_call_handler *handler, void *arg);
void ctl_stream_pause(struct ctl_stream *stream, bool pauses);
void ctl_stream_cancel(struct ctl_stream *stream);

/* --namespace, else the kubeconfig's, else "default". */
const char *ctl_link_namespace(const struct ctl_link *link);

/* The words of an answer that is a problem document or a Status (its detail or message), from its
 * root, without what looks like a token; empty: none. */
struct str ctl_link_words(const struct json *body);

/* For people, after an error of ctl_link_ask: where it was asked, and what may be given instead. */
const char *ctl_link_advice(const struct ctl_link *link);

#endif
