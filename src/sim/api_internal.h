/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the simulated API share: api.c (routing, faults, answers), api_read.c (get,
 * list, watch), api_write.c (create, update, patch), api_delete.c, api_table.c, api_discovery.c,
 * api_auth.c (tokens and reviews), custom.c (what CRDs bring), api_exec.c and api_log.c (what runs
 * in Pods).
 */
#ifndef IPU_SIM_API_INTERNAL_H
#define IPU_SIM_API_INTERNAL_H

#include "core/list.h"
#include "core/map.h"
#include "sim/api.h"

enum sim_verb {
	SIM_GET,
	SIM_LIST,
	SIM_WATCH,
	SIM_CREATE,
	SIM_UPDATE,
	SIM_PATCH,
	SIM_DELETE,
	SIM_DELETE_COLLECTION,
};

struct sim_api {
	struct loop *loop;
	struct sim_objects *objects;
	const struct sim_schema *schema;
	char *token;
	struct list watches;           /* struct watch of api_read.c */
	struct list faults;            /* struct fault of api.c */
	struct map *tokens;            /* struct token of api_auth.c, by its text */
	struct list denied;            /* struct rule of api_auth.c */
	struct map *counts;            /* "create pods" → count, as a pointer to int64_t */
	struct http_client *http;      /* for services/proxy; NULL: not served */
	struct sim_webhooks *webhooks; /* NULL: nobody is asked */
	struct sim_run *run;           /* for exec, attach and log of Pods; NULL: not served */
	struct list streams;           /* struct stream of api_exec.c */
};

/* One request, read; lives as long as its handler runs, or, held, until who holds it frees it. */
struct sim_request {
	struct sim_api *api;
	struct http_exchange *ex;
	enum sim_verb verb;
	const struct sim_resource *resource;
	char *ns, *name, *subresource; /* "" when not there */
	char *labels, *fields, *version, *continue_token, *field_validation, *include_object;
	int64_t limit, timeout_s, grace_s; /* -1: not given */
	bool bookmarks, dry_run, table;
	bool lose; /* a fault: act, and close instead of answering */
	bool held;
	struct str_list {
		char **items;
		size_t n, bytes;
	} warnings; /* for the answer, each once */
};
void sim_request_free(struct sim_request *req);
/* api.c: the query of ex's; returns whether it asks for a watch. */
bool sim_request_query(struct sim_request *req);
/* /api/v1/… or /apis/GROUP/VERSION/… : [namespaces/NS/]PLURAL[/NAME[/SUBRESOURCE]]; false: no
 * resource of ours. */
bool sim_request_path(struct sim_request *req);

#define SIM_FIXED_RESOURCES 18
#define SIM_MAX_RESOURCES   34
/* Those that are always there, then those that CRDs brought: ends with a NULL plural; one whose CRD
 * has gone has an empty one. */
extern struct sim_resource sim_resources[SIM_MAX_RESOURCES];

/* ---- custom.c: a CRD has come, or gone ---- */

void sim_custom_add(struct jmut_doc *doc, struct jmut *crd); /* sets its status */
void sim_custom_remove(struct sim_api *api, const struct json *crd);
void sim_custom_clear(void); /* forgets them all: the table is the process's */

/* ---- answers: each ends the exchange ---- */

void sim_reply(struct sim_request *req, int status, const struct jmut *root);
/* A Status; reason by kind and code of err. causes: NULL or an array in doc. */
void sim_reply_err(struct sim_request *req, struct jmut_doc *doc, const struct err *err,
		   struct jmut *causes);
/* An object, or a Table of it where the client wants one. */
void sim_reply_object(struct sim_request *req, int status, const struct sim_object *o);
/* The object seen through its scale subresource. */
void sim_reply_scale(struct sim_request *req, const struct sim_object *o);
/* A warning that the answer carries; one that the answer has already, or can't carry, is left out.
 */
void sim_warn(struct sim_request *req, struct str text);
/* The Status of a request that is forbidden. */
struct jmut *sim_status_forbidden(struct jmut_doc *doc, const struct sim_request *req,
				  const char *why);
struct jmut *sim_status(struct jmut_doc *doc, const struct sim_request *req, const struct err *err,
			struct jmut *causes);

/* ---- parts ---- */

void sim_read(struct sim_request *req);
void sim_write(struct sim_request *req);
void sim_evict(struct sim_request *req);   /* a Pod, through its eviction subresource */
void sim_forward(struct sim_request *req); /* to a Service; needs api->http */
void sim_stream(struct sim_request *req);  /* exec, attach; needs api->run */
void sim_pod_log(struct sim_request *req); /* needs api->run */
void sim_streams_close(struct sim_api *api);
/* Which container of the Pod is meant: *container is replaced where it's "". Errors: ERR_INVALID.
 */
#define SIM_POD_NAME 254
int sim_choose_container(const struct json *pod, char **container, struct err *err);
void sim_watches_cut(struct sim_api *api);
bool sim_discovery(struct sim_api *api, struct http_exchange *ex); /* false: not one of its paths */
void sim_reply_json(struct http_exchange *ex, int status, const struct jmut *root);

/* ---- tokens and reviews: api_auth.c; body NULL: there was none ---- */

void sim_auth_init(struct sim_api *api);
void sim_auth_done(struct sim_api *api);
/* Who asks, as a UserInfo: by the token, and by whom an administrator impersonates. */
struct jmut *sim_user_info(const struct sim_request *req, struct jmut_doc *doc);
bool sim_token_is_good(const struct sim_api *api, struct str token); /* for the API itself */
void sim_token_request(struct sim_request *req, struct jmut_doc *doc, const struct json *body);
/* From its protobuf form, which kubectl sends. Errors: ERR_INVALID. */
int sim_token_request_decode(struct str body, struct jmut_doc *doc, struct jmut **ret,
			     struct err *err);
void sim_review(struct sim_request *req, struct jmut_doc *doc, const struct json *body);

/* A Table without rows, and one row for an object. */
struct jmut *sim_table(struct sim_api *api, struct jmut_doc *doc, const struct sim_resource *r);
void sim_table_add(struct sim_api *api, struct jmut_doc *doc, struct jmut *table,
		   const struct sim_object *o, const char *include_object);

#endif
