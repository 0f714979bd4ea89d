/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths and queries of ipu-sim's Kubernetes API: whatever is asked, the parts are texts, and those
 * of a resource's own path lead to it again. Input: the path, a line; the query.
 */
#include "sim/api_internal.h"
#include "fuzz.h"

static bool is_plain(const char *z)
{
	for (; *z; z++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-.", *z))
			return false;
	}
	return true;
}

static struct sim_request *ask(struct str path, struct str query, bool *ret_found)
{
	struct sim_request *req = xcalloc(1, sizeof(*req));
	struct http_exchange ex = {.method = HTTP_METHOD_GET, .path = path, .query = query};

	req->ex = &ex;
	req->limit = req->timeout_s = req->grace_s = -1;
	sim_request_query(req);
	*ret_found = sim_request_path(req);
	MUST(req->ns && req->name && req->subresource);
	MUST(*ret_found == (req->resource != NULL));
	MUST(req->limit >= -1 && req->timeout_s >= -1 && req->grace_s >= -1);
	req->ex = NULL;
	return req;
}

static void ask_again(const struct sim_request *was)
{
	const struct sim_resource *r = was->resource;
	CLEANUP_FREE char *path = xasprintf("/%s%s%s/%s%s%s/%s%s%s%s%s",
					    r->group[0] ? "apis" : "api", r->group[0] ? "/" : "",
					    r->group, r->version, was->ns[0] ? "/namespaces/" : "",
					    was->ns, r->plural, was->name[0] ? "/" : "", was->name,
					    was->subresource[0] ? "/" : "", was->subresource);
	bool found;
	struct sim_request *req = ask(str_of(path), STR_NULL, &found);

	MUST(found && req->resource == r && strcmp(req->ns, was->ns) == 0);
	MUST(strcmp(req->name, was->name) == 0 && strcmp(req->subresource, was->subresource) == 0);
	sim_request_free(req);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str query = fuzz_str(p, len), path = fuzz_line(&query);
	bool found;
	struct sim_request *req = ask(path, query, &found);

	if (found && is_plain(req->ns) && is_plain(req->name) && is_plain(req->subresource) &&
	    (req->name[0] || !req->subresource[0]))
		ask_again(req);
	sim_request_free(req);
	return 0;
}
