/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credential plugins: the helper process with real programs (all that can go wrong with one), and
 * ExecCredentials as a table.
 */
#include "kube/exec_helper.h"

#include <dirent.h>
#include <errno.h>
#include <sys/wait.h>

#include "core/clock.h"
#include "core/json.h"
#include "kube/config_priv.h"
#include "kube/exec_config.h"
#include "tap.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))

struct seen {
	int calls;
	struct err err;
	char out[4000];
	size_t len;
};

static void on_done(void *arg, const struct err *err, const char *output, size_t len)
{
	struct seen *s = arg;
	s->calls++;
	s->err = err ? *err : (struct err)ERR_INIT;
	s->len = len;
	snprintf(s->out, sizeof(s->out), "%.*s", (int)(len < 3000 ? len : 3000),
		 output ? output : "");
}

static struct kube_config *config_for(const char *command, const char *arg0, const char *arg1)
{
	struct kube_config *c = xcalloc(1, sizeof(*c));
	struct kube_exec_config *e = c->exec = xcalloc(1, sizeof(*e));
	e->api_version = xstrdup("client.authentication.k8s.io/v1");
	e->command = xstrdup(command);
	e->args = xcalloc(3, sizeof(*e->args));
	e->args[0] = xstrdup(arg0);
	e->args[1] = xstrdup(arg1);
	e->env = xcalloc(2, sizeof(*e->env));
	e->env[0] = xstrdup("PLUGIN_WORD=from-the-kubeconfig");
	e->install_hint = xstrdup("get it from its maker");
	e->info = xstrdup("{\"kind\":\"ExecCredential\"}");
	return c;
}

static void wait_for(struct loop *loop, const struct seen *s, int calls)
{
	for (int i = 0; i < 5000 && s->calls < calls; i++)
		loop_turn(loop, 20);
}

static const struct {
	const char *name, *command, *arg0, *arg1;
	enum err_kind kind;
	const char *out, *msg;
} rows[] = {
	{"writes and ends", "/bin/sh", "-c", "printf hello", ERR_NONE, "hello", NULL},
	{"found in PATH", "sh", "-c", "printf hi", ERR_NONE, "hi", NULL},
	{"its environment", "/bin/sh", "-c",
	 "printf '%s %s' \"$PLUGIN_WORD\" \"$KUBERNETES_EXEC_INFO\"", ERR_NONE,
	 "from-the-kubeconfig {\"kind\":\"ExecCredential\"}", NULL},
	{"nothing to read", "/bin/sh", "-c", "cat; printf end", ERR_NONE, "end", NULL},
	{"no other descriptors", "/bin/sh", "-c",
	 "for i in 3 4 5 6 7 8 9; do (: <&$i) 2>/dev/null && printf $i; done; printf none",
	 ERR_NONE, "none", NULL},
	{"fails", "/bin/sh", "-c", "echo first >&2; echo log in again >&2; exit 3", ERR_INVALID, "",
	 "the credential plugin /bin/sh ended with status 3: log in again"},
	{"fails, and says its request", "/bin/sh", "-c",
	 "echo denied: Authorization: Bearer abc >&2; exit 1", ERR_INVALID, "",
	 "the credential plugin /bin/sh ended with status 1: denied: Authorization:"},
	{"killed", "/bin/sh", "-c", "kill -9 $$", ERR_INVALID, "",
	 "the credential plugin /bin/sh was killed by signal 9"},
	{"not there", "/nonexistent/plugin", "a", "b", ERR_INVALID, "",
	 "the credential plugin /nonexistent/plugin can't be started: No such file or directory; "
	 "get it from its "
	 "maker"},
	{"too much", "/bin/sh", "-c", "head -c 3000000 /dev/zero", ERR_LIMIT, "",
	 "the credential plugin /bin/sh wrote more than 1048576 bytes"},
	{"much on standard error", "/bin/sh", "-c",
	 "head -c 3000000 /dev/zero | tr '\\0' 'x' >&2; echo ok", ERR_NONE, "ok\n", NULL},
	{"leaves a child behind that holds the pipe", "/bin/sh", "-c", "sleep 1000 & printf done",
	 ERR_NONE, "done", NULL},
};

static void test_runs(void)
{
	for (size_t i = 0; i < SIZE(rows); i++) {
		struct kube_config *c = config_for(rows[i].command, rows[i].arg0, rows[i].arg1);
		struct kube_exec_helper *h = NULL;
		struct err err = ERR_INIT;
		struct loop *loop;
		struct seen s = {.calls = 0};
		row_begin("%s", rows[i].name);
		is_int(kube_exec_helper_fork(c, &h, &err), 0, "forked");
		if (loop_new(&loop, &err) < 0)
			bail_out(err.msg);
		kube_exec_start(h, loop, 0, on_done, &s, NULL);
		is_int(s.calls, 0, "not from within start");
		wait_for(loop, &s, 1);
		is_int(s.calls, 1, "called back");
		is_int(s.err.kind, rows[i].kind, "kind");
		is_str(s.out, rows[i].out, "what it wrote");
		if (rows[i].msg)
			is_str(s.err.msg, rows[i].msg, "why not");
		kube_exec_helper_free(h);
		loop_free(loop);
		kube_config_free(c);
		is_int(waitpid(-1, NULL, WNOHANG), -1, "no process is left");
	}
	row_end();
}

static void test_turns(void)
{
	struct kube_config *c = config_for("/bin/sh", "-c", "echo run");
	struct kube_exec_helper *h = NULL;
	struct err err = ERR_INIT;
	struct loop *loop;
	struct seen s[3] = {{.calls = 0}, {.calls = 0}, {.calls = 0}};
	is_int(kube_exec_helper_fork(c, &h, &err), 0, "forked");
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	struct op *first = kube_exec_start(h, loop, 0, on_done, &s[0], NULL);
	kube_exec_start(h, loop, 0, on_done, &s[1], NULL);
	kube_exec_start(h, loop, 0, on_done, &s[2], NULL);
	op_cancel(first);
	op_cancel(first);
	wait_for(loop, &s[2], 1);
	is_int(s[0].calls, 0, "cancelled: never called back");
	is_int(s[1].calls, 1, "the second had its turn");
	is_int(s[2].calls, 1, "and the third");
	is_str(s[2].out, "run\n", "with its output");
	kube_exec_helper_free(h);
	loop_free(loop);
	kube_config_free(c);
}

static void test_deadline(void)
{
	struct kube_config *c = config_for("/bin/sh", "-c", "exec sleep 1000");
	struct kube_exec_helper *h = NULL;
	struct err err = ERR_INIT;
	struct loop *loop;
	struct seen s = {.calls = 0}, t = {.calls = 0};
	is_int(kube_exec_helper_fork(c, &h, &err), 0, "forked");
	clock_freeze(5000, 5000);
	if (loop_new(&loop, &err) < 0)
		bail_out(err.msg);
	kube_exec_start(h, loop, 10000, on_done, &s, NULL);
	for (int i = 0; i < 5; i++)
		loop_turn(loop, 5);
	is_int(s.calls, 0, "the clock stands, it runs");
	clock_advance(10000);
	wait_for(loop, &s, 1);
	is_int(s.err.kind, ERR_TIMEOUT, "its deadline");
	is_str(s.err.msg, "the credential plugin /bin/sh didn't end within 10 s", "in words");
	struct op *op = kube_exec_start(h, loop, 10000, on_done, &t, NULL);
	for (int i = 0; i < 20; i++)
		loop_turn(loop, 5);
	is_int(t.calls, 0, "the next one runs");
	op_cancel(op);
	kube_exec_helper_free(h); /* with a plugin that still runs: it goes along */
	pass("the helper ended with its plugin");
	clock_unfreeze();
	loop_free(loop);
	kube_config_free(c);
}

/* ---- what they answer ---- */

#define API "\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\""

static const struct {
	const char *name, *in, *token, *cert;
	int64_t expires_s; /* -1: never */
	const char *msg;   /* NULL: fine */
} cred_rows[] = {
	{"a token", "{" API ",\"status\":{\"token\":\"abc\"}}\n", "abc", NULL, -1, NULL},
	{"a token that expires",
	 "{" API
	 ",\"status\":{\"token\":\"abc\",\"expirationTimestamp\":\"2024-03-01T10:00:00Z\"}}",
	 "abc", NULL, 1709287200, NULL},
	{"a certificate",
	 "{" API ",\"status\":{\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\"}}", NULL,
	 "C", -1, NULL},
	{"no JSON", "token: abc", NULL, NULL, 0, "bad ExecCredential"},
	{"nothing", "", NULL, NULL, 0, "bad ExecCredential"},
	{"another kind", "{\"kind\":\"Secret\"}", NULL, NULL, 0, "it isn't of kind ExecCredential"},
	{"another version",
	 "{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":\"ExecCredential\"}",
	 NULL, NULL, 0,
	 "its apiVersion is client.authentication.k8s.io/v1beta1, the kubeconfig asks for"},
	{"no status", "{" API "}", NULL, NULL, 0, "it has no status"},
	{"an empty status", "{" API ",\"status\":{}}", NULL, NULL, 0,
	 "it has neither token nor clientCertificateData"},
	{"half a certificate", "{" API ",\"status\":{\"clientKeyData\":\"K\",\"token\":\"t\"}}",
	 NULL, NULL, 0, "it must have both"},
	{"a line break in the token", "{" API ",\"status\":{\"token\":\"a\\r\\nX-Evil: 1\"}}", NULL,
	 NULL, 0, "its token holds characters that no token has"},
	{"a bad time", "{" API ",\"status\":{\"token\":\"abc\",\"expirationTimestamp\":\"soon\"}}",
	 NULL, NULL, 0, "its expirationTimestamp"},
};

static void test_credentials(void)
{
	struct kube_config *c = config_for("plugin", "a", "b");
	for (size_t i = 0; i < SIZE(cred_rows); i++) {
		struct kube_exec_credential cred = {.token = NULL};
		struct err err = ERR_INIT;
		row_begin("ExecCredential, %s", cred_rows[i].name);
		int rc = kube_exec_credential_parse(c->exec, str_of(cred_rows[i].in), &cred, &err);
		is_int(rc, cred_rows[i].msg ? -1 : 0, "result");
		if (cred_rows[i].msg) {
			is_int(err.kind, ERR_INVALID, "kind");
			has_str(err.msg, cred_rows[i].msg, "what is wrong");
			has_str(err.msg, "plugin", "whose fault it is");
			ok(!strstr(err.msg, "abc"), "no secret in the message");
		} else {
			is_str(cred.token, cred_rows[i].token, "token");
			is_str(cred.cert, cred_rows[i].cert, "certificate");
			is_int(cred.expires_wall_ms,
			       cred_rows[i].expires_s < 0 ? INT64_MAX
							  : cred_rows[i].expires_s * 1000,
			       "expires");
		}
		kube_exec_credential_done(&cred);
	}
	row_end();
	kube_config_free(c);
}

int main(void)
{
	struct kube_exec_helper *none = (void *)1;
	struct kube_config plain = {.exec = NULL};
	struct err err = ERR_INIT;
	is_int(kube_exec_helper_fork(&plain, &none, &err), 0, "no plugin: nothing to fork");
	ok(!none, "and no helper");
	test_runs();
	test_turns();
	test_deadline();
	test_credentials();
	return done_testing();
}
