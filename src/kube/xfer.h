/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange with the API server, however many attempts it takes: credentials, 401, the retry
 * policy, Status decoding, metrics. Calls, pages of lists and watches all go through here.
 */
#ifndef IPU_KUBE_XFER_H
#define IPU_KUBE_XFER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "http/message.h"
#include "kube/client.h"
#include "loop/op.h"

struct kube_xfer_req {
	const char *verb, *resource; /* for metrics; static strings */
	enum http_method method;
	char *target;             /* taken over */
	const char *content_type; /* static; NULL: no body */
	char *body;               /* taken over */
	size_t body_len;
	bool reads;     /* the request changes nothing */
	bool streaming; /* a watch: a connection of its own */
	bool urgent;    /* doesn't wait behind others */
	bool secret;    /* the body is wiped */
	bool no_retry;
	bool slow;               /* it may take its time, whether the server is well or not */
	unsigned deadline_ms;    /* of all attempts; streaming: until the answer begins */
	unsigned stream_ms;      /* streaming: of the whole */
	unsigned silent_ms;      /* … and without a word */
	uint64_t max_body_bytes; /* 0: none */
};

/* The handler is borrowed for the operation's life (static). Each may cancel the operation. */
struct kube_xfer_handler {
	/* A 2xx answer begins; comes again when it's tried again. */
	void (*on_head)(void *arg, const struct http_headers *headers);
	void (*on_body)(void *arg, struct str piece); /* of a 2xx answer */
	/* Once. status: 0 when none came. body: of an answer that isn't 2xx, and its JSON or NULL.
	 */
	void (*on_done)(void *arg, const struct err *err, int status, struct str body,
			const struct json *json);
};

struct op *kube_xfer_start(struct kube_client *client, const struct kube_xfer_req *req,
			   const struct kube_xfer_handler *handler, void *arg, struct scope *scope);

#endif
