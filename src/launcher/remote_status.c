/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the Status that ends an exec (Kubernetes' remotecommand: reason NonZeroExitCode, the status
 * among details.causes), and gives advice. Uses http and core.
 */
#include "launcher/remote_status.h"

#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "http/message.h"

static bool find_exit_code(const struct json *status, int *ret)
{
	const struct json *causes = json_get(json_get(status, "details"), "causes");
	for (size_t i = 0; i < json_len(causes); i++) {
		const struct json *cause = json_item(causes, i);
		const char *reason = json_cstr(json_get(cause, "reason"));
		const char *text = json_cstr(json_get(cause, "message"));
		int64_t code;
		if (!reason || strcmp(reason, "ExitCode") != 0)
			continue;
		if (!text || str_to_int(str_of(text), 0, 255, &code, NULL) < 0)
			return false;
		*ret = (int)code;
		return true;
	}
	return false;
}

int remote_status_decode(struct str text, int *ret_exit_status, struct err *err)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	if (json_parse(text, &doc, NULL) < 0)
		return err_set(err, ERR_PROTOCOL, 0, "the API server ended the exec: %.*s",
			       STR_ARG(http_without_token(text, STR_NULL)));
	const struct json *root = json_root(doc);
	const char *status = json_cstr(json_get(root, "status"));
	struct str message = http_without_token(json_str(json_get(root, "message")), STR_NULL);
	if (status && strcmp(status, "Success") == 0) {
		*ret_exit_status = EXIT_SUCCESS;
		return 0;
	}
	if (find_exit_code(root, ret_exit_status))
		return 0;
	if (message.len == 0)
		message = STR("the exec failed");
	return err_set(err, ERR_UNAVAILABLE, 0, "%.*s", STR_ARG(message));
}

void remote_explain(struct err *err, const char *ns, const char *pod, const char *launcher)
{
	if (err->code == 401) {
		err_wrap(err, "the API server doesn't take this Pod's service account");
	} else if (err->code == 403) {
		err_wrap(err,
			 "this Pod's service account needs get and create on pods/exec of Pod %s",
			 pod);
	} else if (err->code == 404) {
		err_wrap(err, "there is no Pod %s in namespace %s", pod, ns);
	} else if (err->code == 400 && strstr(err->msg, "container")) {
		err_wrap(err, "IPU_WORKER_CONTAINER must name one of Pod %s's containers", pod);
	} else if (strstr(err->msg, launcher) && strstr(err->msg, "no such file")) {
		err_wrap(err, "Pod %s has no %s: it isn't an IPUJob's worker", pod, launcher);
		err->kind = ERR_NOT_FOUND;
	} else {
		err_wrap(err, "Pod %s", pod);
	}
}

bool remote_may_retry(const struct err *err)
{
	return err_is_retryable(err) || err->kind == ERR_INTERNAL;
}
