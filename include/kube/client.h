/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single requests to the Kubernetes API server: create, get, update, patch, delete, one page of a
 * list, subresources, raw paths. Lists that span pages are kube/list.h's, watches kube/watch.h's.
 * Credentials, connections, Status decoding and the one retry policy are in here.
 */
#ifndef IPU_KUBE_CLIENT_H
#define IPU_KUBE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"
#include "kube/config.h"
#include "kube/exec_helper.h"
#include "loop/loop.h"
#include "loop/op.h"

struct net; /* net/net.h */
struct kube_client;

/* ---- resources ---- */

struct kube_resource {
	const char *group; /* "" for core */
	const char *version;
	const char *plural;
	const char *kind;
	bool namespaced;
};

extern const struct kube_resource KUBE_PODS, KUBE_CONFIGMAPS, KUBE_SECRETS, KUBE_NODES,
	KUBE_NAMESPACES, KUBE_PRIORITYCLASSES, KUBE_EVENTS, KUBE_SERVICEACCOUNTS, KUBE_ROLES,
	KUBE_ROLEBINDINGS, KUBE_LEASES, KUBE_TOKENREVIEWS, KUBE_SUBJECTACCESSREVIEWS,
	KUBE_MUTATINGWEBHOOKS, KUBE_VALIDATINGWEBHOOKS, KUBE_CRDS, KUBE_IPUJOBS;

/* "v1", "apps/v1": what apiVersion holds. Cut when it doesn't fit. */
#define KUBE_API_VERSION_SIZE 128
const char *kube_api_version(const struct kube_resource *r, char ret_z[KUBE_API_VERSION_SIZE]);

/* ---- client ---- */

#define KUBE_DEADLINE_MS        30000
#define KUBE_MAX_CONNECTIONS    8
#define KUBE_MAX_RESPONSE_BYTES ((size_t)32 << 20)
#define KUBE_MAX_REQUEST_BYTES  ((size_t)3 << 20) /* the API server takes no more */

struct kube_client_opts {
	struct loop *loop;
	struct net *net;
	struct kube_config *config;      /* borrowed, outlives the client */
	struct kube_exec_helper *helper; /* kube_exec_helper_fork's; NULL: none */
	const char *user_agent;          /* NULL: "ipu-operator/VERSION" */
	unsigned max_connections;        /* for calls, watches apart; 0: KUBE_MAX_CONNECTIONS */
	/* Another one of the same server: what they hear of it is heard by both. It outlives this
	 * one. NULL: none. */
	struct kube_client *hears_with;
};

/* Connects to nobody yet. Errors: ERR_INVALID (certificates or keys that can't be read, exec plugin
 * without a helper). */
int kube_client_new(const struct kube_client_opts *opts, struct kube_client **ret, struct err *err);
/* All calls, lists and watches must have ended. NULL is fine. */
void kube_client_free(struct kube_client *client);

struct loop *kube_client_loop(const struct kube_client *client);
const struct kube_config *kube_client_config(const struct kube_client *client);
/* For how long the API server has not said a word, on any connection, although it was asked since
 * its last one; 0: it has, or nobody has asked since. A word clears what was owed before it, too:
 * one slow answer among others is no silence, so who wants to know of a cut goes on asking. Lists,
 * dry runs and watches may take their time, and don't count as asked. A watch's events are no word:
 * they come also where all that is sent there is lost. */
int64_t kube_client_silence_ms(const struct kube_client *client);
/* So long, and who depends on it should go elsewhere: a server that is merely busy renews Leases.
 */
#define KUBE_SILENT_MS 3000

/* ---- calls ---- */

enum kube_verb {
	KUBE_GET,
	KUBE_LIST, /* one page */
	KUBE_CREATE,
	KUBE_UPDATE, /* PUT; metadata.resourceVersion in the body is the precondition */
	KUBE_PATCH,
	KUBE_DELETE,
};

enum kube_patch {
	KUBE_PATCH_MERGE, /* RFC 7386 */
	KUBE_PATCH_JSON,  /* RFC 6902 */
	/* Lists whose items have a key of their own are merged by it (Kubernetes: Update API
	 * Objects in Place Using kubectl patch); of built-in kinds alone. */
	KUBE_PATCH_STRATEGIC,
};

enum kube_propagation {
	KUBE_PROPAGATION_DEFAULT,
	KUBE_PROPAGATION_BACKGROUND,
	KUBE_PROPAGATION_FOREGROUND,
	KUBE_PROPAGATION_ORPHAN,
};

/* Strings are copied by kube_call_start; NULL and "" both mean "not given". */
struct kube_request {
	enum kube_verb verb;
	const struct kube_resource *resource; /* borrowed for ever (a constant) */
	const char *path; /* instead of resource: an absolute path like "/version" */
	const char *ns;   /* of a namespaced resource; not given: a list of all namespaces */
	const char *name;
	const char *subresource; /* "status", "scale" */

	/* The body, one of them: serialised or copied at once. */
	const struct jmut *json;
	struct str body;
	enum kube_patch patch;

	/* Query. */
	const char *label_selector, *field_selector; /* written as people do; escaped here */
	unsigned limit;                              /* of a page */
	const char *continue_token;
	const char *resource_version; /* GET, LIST: as the API's resourceVersion parameter */
	bool dry_run;                 /* dryRun=All */
	bool asks;                    /* a create that leaves nothing behind (a review) */
	const char *field_manager;

	/* Delete. */
	const char *uid;        /* precondition: only this very object */
	const char *if_version; /* precondition: only at this resourceVersion */
	bool has_grace;
	unsigned grace_seconds;
	enum kube_propagation propagation;

	unsigned deadline_ms; /* for all attempts together; 0: KUBE_DEADLINE_MS */
	bool urgent;          /* one that others depend on: doesn't wait behind hundreds of them */
	bool no_retry;        /* one attempt (a 401 still gets its second with new credentials) */
	size_t max_response_bytes; /* 0: KUBE_MAX_RESPONSE_BYTES */
};

struct kube_response {
	int status; /* HTTP */
	const struct json
		*json;  /* the root, NULL if the body isn't JSON (raw paths only) or empty */
	struct str raw; /* the body's bytes */
	/* Of a dry run that went well: what the server warns of (Warning headers), as UTF-8. */
	char *const *warnings;
	size_t n_warnings;
};

/*
 * Runs once: err NULL and a response (2xx), or err and, where the server answered at all, its
 * response (a Status with causes), else NULL. Both borrowed until it returns.
 *
 * Kinds, by HTTP status and the Status object's reason: 400, 422 ERR_INVALID, but 422 for
 * metadata.uid ERR_CONFLICT; 401, 403 ERR_DENIED; 404 ERR_NOT_FOUND; 409 AlreadyExists ERR_EXISTS,
 * else ERR_CONFLICT; 410 and reason Expired ERR_GONE; 413 ERR_LIMIT; 415, 405, 406
 * ERR_UNSUPPORTED; 429 ERR_BUSY; 500 ERR_INTERNAL, reason ServerTimeout or 503 ERR_UNAVAILABLE, 504
 * ERR_TIMEOUT with maybe_applied. err.code is the HTTP status, err.retry_after_ms what the server
 * asked for, the message the server's own. err.maybe_applied is true only where a request that
 * changes something may have taken effect.
 *
 * Retries, within the deadline and at most 5 attempts: 429, and 503 with Retry-After; a connection
 * that failed once, if nothing left us or the verb only reads. 401 fetches the credentials again,
 * once. Nothing else is tried again: that's the caller's.
 */
typedef void kube_call_fn(void *arg, const struct err *err, const struct kube_response *response);

/* Never calls back before it returns; a request that can't be sent (a name with a slash, a body
 * over KUBE_MAX_REQUEST_BYTES) fails by callback too. */
struct op *kube_call_start(struct kube_client *client, const struct kube_request *request,
			   kube_call_fn *cb, void *arg, struct scope *scope);

/* Decodes an answer that isn't 2xx, body parsed or NULL; returns -1. For ERROR events of a watch
 * too (http_status 0: the Status object's code counts). token: ours, or empty; err never has it. */
int kube_status_decode(int http_status, const struct json *body, unsigned retry_after_ms,
		       struct str token, struct err *err);

#endif
