/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the proxy's files share. view.c renders the open port's answers and keeps them, request.c
 * takes the partitions' port's requests as far as their authorisation, rest.c does what they ask.
 */
#ifndef IPU_PROXY_INTERNAL_H
#define IPU_PROXY_INTERNAL_H

#include "core/buf.h"
#include "core/json.h"
#include "core/list.h"
#include "core/map.h"
#include "core/str.h"
#include "partition/remote.h"
#include "proxy/auth.h"
#include "proxy/proxy.h"

#define REPLY_LIMIT ((size_t)64 << 20)
#define ETAG_SIZE   19 /* 16 hex digits in quotes */
#define UID_MAX     128

/* Of an exchange, in its `user`: for statistics and logs. */
struct note {
	const char *handler; /* one of few: a label's value */
	const char *caller;  /* an account; NULL: not known, or open to everybody */
};

/* ---- view.c: the open port's answers ---- */

enum view_kind {
	VIEW_STATS,
	VIEW_CAPACITY,
	VIEW_QUEUE,
	VIEW_PARTITIONS,
	VIEW_CONTROLLERS,
	VIEW_OWNERS, /* of the partitions' port: what all owners have */
	N_VIEWS
};
#define N_SIZES 33 /* powers of two up to 2^31, and what is none */

/* Answers as they were rendered, good until something changes. */
struct view {
	struct buf text;
	bool made;
	uint64_t partitions_generation, fleet_generation;
	int64_t made_ms;
};

struct proxy {
	struct loop *loop;
	struct partitions *partitions;
	struct vipu_fleet *fleet;
	bool details;
	struct live *live;     /* NULL: the live page is off */
	struct stream *stream; /* and so is this */
	bool full;             /* the live page names jobs and Pods */
	proxy_pods_fn *pods;   /* of this process; NULL: they are another's */
	proxy_helds_fn *helds; /* likewise */
	void *pods_arg;
	struct told { /* told.c: what isn't this process's to know */
		struct told_paper {
			struct json_doc *doc; /* NULL: it isn't known */
			struct map *items;    /* Pods: by "instance/UID" */
			uint8_t digest[32];   /* of what was told; 0: nothing was */
		} papers[PARTITION_TOLD];
		struct loop_timer timer;
	} told;
	struct follow { /* follow.c: asks who leads for it */
		bool busy;
		unsigned asking;       /* 0: what is held, 1: Pods */
		int64_t not_before_ms; /* mono */
		char etags[2][ETAG_SIZE];
		struct scope calls;
	} follow;
	char *token_file;
	unsigned wait_ms, call_ms;
	struct view views[N_VIEWS];
	struct view sizes[N_SIZES];
	uint64_t fleet_generation;
	struct vipu_fleet_watch fleet_watch;

	proxy_node_labels_fn *node_labels; /* NULL: Nodes aren't known */
	void *node_labels_arg;
	char *accounts;
	struct kube_reviewer *reviewer;
	struct list requests; /* all that aren't answered */
	struct list waiting;  /* of them, those that wait for a change */
	size_t n_waiting;
	bool stopping;

	bool leading;
	char *leader; /* "host:port"; NULL: none */
	struct http_client *http;
	struct tls_config *peer_tls;
	char *peer_name;
};

void view_forget_all(struct proxy *p);
/* Borrowed until control returns to the loop. */
int view_get(struct proxy *p, enum view_kind kind, struct str *ret, struct err *err);
int view_get_query(struct proxy *p, int64_t size, struct str *ret, struct err *err);

/* ---- guard.c ---- */

/* Answers with 403 and returns false where another site's page has had a browser ask. linked: pages
 * elsewhere may lead here. */
bool guard_lets_in(struct http_exchange *ex, bool linked);

/* ---- etag.c ---- */

/* Of what is in it. */
void etag_of(struct str text, char ret_etag[ETAG_SIZE]);

/* ---- status.c ---- */

#define NOT_HELD                                                                                   \
	"nothing is asked for or held under this owner and instance: ask by POST /v1/partitions"

/* One instance's status as text with a line's end, and its ETag. ERR_NOT_FOUND: nothing is asked or
 * held. */
int status_text(const struct partitions *partitions, const char *uid, uint32_t instance,
		struct buf *out, char ret_etag[ETAG_SIZE], struct err *err);
/* {"items":[…],"held":n}, of one owner, or with uid NULL of all; returns how many items. */
size_t status_list_render(const struct partitions *partitions, const char *uid,
			  struct jmut_doc *doc, struct jmut *root);
int status_list(const struct partitions *partitions, const char *uid, struct buf *out,
		size_t *ret_n, struct err *err);

/* ---- ask.c ---- */

/* A request's body as an ask, strictly: ERR_INVALID says where and what would be right.
 * ret_has_attempt: it names one. */
int ask_parse(struct str body, struct partition_ask *ret, bool *ret_has_attempt, struct err *err);
bool ask_is_uid(struct str s);

enum ask_type { ASK_INTEGER, ASK_TEXT, ASK_BOOLEAN, ASK_OBJECT, ASK_ARRAY };

struct ask_member { /* of an object in a body; in tables that end with a name of NULL */
	const char *name;
	enum ask_type type;
	bool required;
	int64_t min, max; /* of the number, of the text's bytes, of the list's elements */
};

/* ERR_INVALID: one isn't known, or of another type, or out of its range, or missing. path: what
 * stands in front of its name in words. */
int ask_check_members(const struct json *obj, const char *path, const struct ask_member *members,
		      struct err *err);
/* named: it must have a name. */
int ask_check_owner(const struct json *owner, bool named, struct err *err);
#define INSTANCE_MAX 9999

/* ---- request.c ---- */

#define NOT_READ "the partition tracker hasn't been read yet: ask again"

struct request;
struct endpoint {
	struct note note;
	bool has_uid, has_instance; /* in its path */
	const char *const *params;  /* of the query, that it knows; NULL-terminated */
	void (*run)(struct request *r);
};

struct request {
	struct note note;
	struct list link; /* in its proxy's requests */
	struct proxy *p;
	struct http_exchange *ex;
	const struct endpoint *endpoint;
	struct proxy_caller caller;
	char uid[UID_MAX + 1];
	uint32_t instance;
	struct scope calls;
	char *passed_on; /* to whom; NULL: it wasn't */

	struct list waiting; /* in its proxy's waiting */
	struct loop_timer timer;
	char etag[ETAG_SIZE]; /* that it has, or had when it came */
	bool conditional;     /* it said so itself: 304 when the time is up */
};

/* Each answers and frees the request. */
void request_reply(struct request *r, int status, const struct http_header *headers,
		   size_t n_headers, struct str body);
void request_reply_type(struct request *r, int status, const char *type,
			const struct http_header *headers, size_t n_headers, struct str body);
void request_problem(struct request *r, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void request_unavailable(struct request *r, unsigned seconds, const char *detail);
/* What is wrong with it: 400, but 503 where there's no memory to read it. */
void request_refuse(struct request *r, const struct err *err);
/* A parameter, or NULL; the caller frees it. 503 and false: there's no memory to read it. */
bool request_param(struct request *r, const char *name, char **ret);
/* Answers with 403 and returns false where this caller has no business with that owner. */
bool request_may(struct request *r, const char *uid);
/* 400 and false where the parameter is neither true nor false. */
bool request_flag(struct request *r, const char *name, bool *ret);

/* ---- rest.c ---- */

extern const struct endpoint endpoint_ask, endpoint_list, endpoint_get, endpoint_release,
	endpoint_release_all, endpoint_reset, endpoint_ipuof, endpoint_held, endpoint_pods,
	endpoint_get_held, endpoint_get_pods;
void rest_look(struct request *r); /* one that waits: something may have changed */

/* ---- told.c ---- */

/* The body of PUT /v1/held (which 0) and of PUT /v1/pods/{which - 1}: ERR_INVALID says where and
 * what would be right. */
int told_take(struct told *t, unsigned which, struct str body, struct err *err);
/* What is known of others is known a while longer. */
void told_keep(struct proxy *p);
void told_init(struct proxy *p);
void told_forget(struct proxy *p);
/* A proxy_helds_fn and a proxy_pods_fn, of what this process knows itself or has been told; arg:
 * the proxy. */
bool told_each(void *arg, proxy_held_fn *fn, void *fn_arg, size_t *ret_more);
void told_pods(void *arg, const struct partition_owner *owner, uint32_t instance, proxy_pod_fn *fn,
	       void *fn_arg);

/* ---- follow.c ---- */

#define FOLLOW_BYTES ((size_t)4 << 20) /* of one answer */

/* Somebody looks: who follows asks who leads for what it can't know. */
void follow_want(struct proxy *p);
/* This process's own token; the caller's, to be dropped. NULL: it has none. */
char *follow_read_token(const struct proxy *p);
void follow_drop_token(char *token); /* wiped */
void follow_init(struct proxy *p);
void follow_stop(struct proxy *p);

/* ---- forward.c ---- */

#define FORWARD_MARK "Ipu-Operator-Passed-On" /* such a request goes no further */

/* True: this process doesn't lead, and the request has been seen to. */
bool forward(struct request *r);
/* Somebody else may lead now: answers it, if it was passed on to another one. */
void forward_look(struct request *r);

/* ---- ipuof.c ---- */

void ipuof_fetch(struct request *r, const struct partition_status *status);

#endif
