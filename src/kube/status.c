/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status objects, decoded into errors: by their reason, or as HTTP takes their status.
 * Pure. Kubernetes API conventions, "Response status kind"; API Concepts for 410.
 */
#include "kube/client.h"

#include "core/str.h"
#include "http/message.h"

/* Reasons that say more than the HTTP status does. */
static const struct {
	const char *reason;
	enum err_kind kind;
} reasons[] = {
	{"AlreadyExists", ERR_EXISTS},
	{"Conflict", ERR_CONFLICT},
	{"Expired", ERR_GONE},
	{"Gone", ERR_GONE},
	{"ServerTimeout", ERR_UNAVAILABLE},
	{"ServiceUnavailable", ERR_UNAVAILABLE},
	{"Timeout", ERR_TIMEOUT},
	{"TooManyRequests", ERR_BUSY},
	{"RequestEntityTooLarge", ERR_LIMIT},
	{"Unauthorized", ERR_DENIED},
	{"Forbidden", ERR_DENIED},
	{"NotFound", ERR_NOT_FOUND},
	{"Invalid", ERR_INVALID},
	{"BadRequest", ERR_INVALID},
	{"MethodNotAllowed", ERR_UNSUPPORTED},
	{"NotAcceptable", ERR_UNSUPPORTED},
	{"UnsupportedMediaType", ERR_UNSUPPORTED},
};

static enum err_kind kind_of_status(int status)
{
	enum err_kind kind = http_status_kind(status);

	return kind == ERR_NONE ? ERR_PROTOCOL : kind; /* it was to be an error */
}

static enum err_kind kind_of(int status, struct str reason)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (str_eqz(reason, reasons[i].reason))
			return reasons[i].kind;
	return kind_of_status(status);
}

/* A patch of an object that has another UID by now: it can't be given the one that was meant. A PUT
 * or a deletion has 409 for the same. */
static bool is_another(const struct json *st)
{
	struct json_iter causes = json_iter(json_at(st, "details", "causes", NULL));

	while (json_next(&causes)) {
		if (str_eqz(json_str(json_get(causes.value, "field")), "metadata.uid"))
			return true;
	}
	return false;
}

int kube_status_decode(int http_status, const struct json *body, unsigned retry_after_ms,
		       struct str token, struct err *err)
{
	bool is_status = str_eqz(json_str(json_get(body, "kind")), "Status");
	const struct json *st = is_status ? body : NULL;
	/* A server, or what stands in front of it, may say the request again. */
	struct str message = http_without_token(json_str(json_get(st, "message")), token);
	struct str reason = http_without_token(json_str(json_get(st, "reason")), token);
	int64_t code = json_int(json_get(st, "code"), 0);
	int64_t wait_s = json_int(json_at(st, "details", "retryAfterSeconds", NULL), 0);
	int status = http_status;

	if (!err)
		return -1;
	if (status == 0)
		status = code >= 100 && code < 600 ? (int)code : 500;
	enum err_kind kind = kind_of(status, reason);
	if (kind == ERR_INVALID && is_another(st))
		kind = ERR_CONFLICT;
	if (message.len > 0 && message.p[0])
		err_set(err, kind, status, "%.*s", STR_ARG(message));
	else if (reason.len > 0)
		err_set(err, kind, status, "the API server answered %d %.*s", status,
			STR_ARG(reason));
	else
		err_set(err, kind, status, "the API server answered %d", status);
	err->retry_after_ms = retry_after_ms;
	if (retry_after_ms == 0 && wait_s > 0)
		err->retry_after_ms = wait_s > 3600 ? 3600000 : (unsigned)wait_s * 1000;
	/* These two say that time ran out on a request that was being worked on. */
	err->maybe_applied = kind == ERR_TIMEOUT || kind == ERR_INTERNAL || status == 502;
	return -1;
}
