/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rsh and wait are given: ssh's options, hostfiles; and what an exec's end means.
 */
#include "launcher/hostfile.h"
#include "launcher/remote_status.h"
#include "launcher/rsh.h"
#include "tap.h"

static const struct {
	const char *argv[12];
	const char *host, *command, *error;
	bool no_input;
	unsigned connect_s;
	const char *env;
} lines[] = {
	{{"rsh", "h", "true"}, "h", "true", NULL, false, 0, NULL},
	{{"rsh", "h", "echo", "a  b", "c"}, "h", "echo a  b c", NULL, false, 0, NULL},
	{{"rsh", "u@h", "-n", "x"}, "h", "x", NULL, true, 0, NULL},
	{{"rsh", "u@corp@h", "x"}, "h", "x", NULL, false, 0, NULL},
	{{"rsh", "-xqn", "h", "ls", "-n"}, "h", "ls -n", NULL, true, 0, NULL},
	{{"rsh", "-f", "h", "x"}, "h", "x", NULL, true, 0, NULL},
	{{"rsh", "-lroot", "-p", "22", "h", "x"}, "h", "x", NULL, false, 0, NULL},
	{{"rsh", "-o", "ConnectTimeout=7", "h", "x"}, "h", "x", NULL, false, 7, NULL},
	{{"rsh", "-oconnecttimeout 7", "h", "x"}, "h", "x", NULL, false, 7, NULL},
	{{"rsh", "-o", "SetEnv=A=b=c d", "h", "x"}, "h", "x", NULL, false, 0, "A=b=c d"},
	{{"rsh", "-o", "BatchMode=yes", "h", "x"}, "h", "x", NULL, false, 0, NULL},
	{{"rsh", "--", "h", "-x"}, "h", "COMMAND is missing", "", false, 0, NULL},
	{{"rsh", "h", "--", "-x"}, "h", "-x", NULL, false, 0, NULL},
	{{"rsh", "h", ""}, "h", "", NULL, false, 0, NULL},
	{{"rsh"}, NULL, "HOST is missing", "", false, 0, NULL},
	{{"rsh", "u@", "x"}, NULL, "HOST is empty", "", false, 0, NULL},
	{{"rsh", "h"}, NULL, "COMMAND is missing", "", false, 0, NULL},
	{{"rsh", "-xo"}, NULL, "-o needs a value", "", false, 0, NULL},
	{{"rsh", "-Z", "h", "x"}, NULL, "no option -Z", "", false, 0, NULL},
	{{"rsh", "-oConnectTimeout=0", "h", "x"}, NULL, "ConnectTimeout", "", false, 0, NULL},
	{{"rsh", "-oSetEnv==x", "h", "x"}, NULL, "SetEnv", "", false, 0, NULL},
};

static void options(void)
{
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct rsh_options o;
		struct err err = ERR_INIT;
		char *argv[13] = {NULL};
		int argc = 0;
		for (; lines[i].argv[argc]; argc++)
			argv[argc] = (char *)(uintptr_t)lines[i].argv[argc];
		row_begin("line %zu", i);
		int status = rsh_options_parse(argc, argv, &o, &err);
		is_int(status, lines[i].error ? -1 : 0, "result");
		if (lines[i].error) {
			has_str(err.msg, lines[i].command, "why");
			continue;
		}
		is_str(o.host, lines[i].host, "host");
		is_str(o.command, lines[i].command, "command");
		is_int(o.no_input, lines[i].no_input, "input");
		is_uint(o.connect_s, lines[i].connect_s, "time");
		is_str(o.env[0], lines[i].env, "environment");
		rsh_options_done(&o);
	}
	row_end();
}

static void too_many_settings(void)
{
	char *argv[RSH_MAX_ENV + 4] = {(char *)(uintptr_t)"rsh"};
	struct rsh_options o;
	struct err err = ERR_INIT;
	int argc = 1;
	while (argc <= RSH_MAX_ENV)
		argv[argc++] = (char *)(uintptr_t)"-oSetEnv=A=b";
	argv[argc] = argv[argc + 1] = (char *)(uintptr_t)"h";
	is_int(rsh_options_parse(argc + 2, argv, &o, &err), 0, "as many variables as there may be");
	is_uint(o.n_env, RSH_MAX_ENV, "are all there");
	rsh_options_done(&o);
	argv[argc++] = (char *)(uintptr_t)"-oSetEnv=A=b";
	argv[argc] = argv[argc + 1] = (char *)(uintptr_t)"h";
	is_int(rsh_options_parse(argc + 2, argv, &o, &err), -1, "and one more isn't");
}

static const struct {
	const char *text, *hosts;
} files[] = {
	{"a\nb\n", "a b "},
	{"a slots=4\nb slots=4 max_slots=8\n", "a b "},
	{"a:4\nb:4\n", "a b "},
	{"# all\n\n  a\t# first\na\nb", "a b "},
	{"a.job.ns.svc slots=1\r\n", "a.job.ns.svc "},
	{"", NULL},
	{"#\n\n", NULL},
};

static void hostfiles(void)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char **hosts, text[200] = "";
		size_t n;
		struct err err = ERR_INIT;
		if (hostfile_parse(str_of(files[i].text), &hosts, &n, &err) < 0) {
			is_str(NULL, files[i].hosts, "file %zu: refused", i);
			is_int(err.kind, ERR_INVALID, "file %zu: as invalid", i);
			continue;
		}
		for (size_t k = 0; k < n; k++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", hosts[k]);
		is_str(text, files[i].hosts, "file %zu", i);
		hostfile_free(hosts, n);
	}
}

static const struct {
	const char *text;
	int result, status;
	const char *message;
} ends[] = {
	{"{\"metadata\":{},\"status\":\"Success\"}", 0, 0, NULL},
	{"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":[{\"reason\":"
	 "\"ExitCode\",\"message\":\"143\"}]}}",
	 0, 143, NULL},
	{"{\"status\":\"Failure\",\"message\":\"container not found\",\"code\":500}", -1, 0,
	 "container not found"},
	{"{\"status\":\"Failure\",\"message\":\"m\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\","
	 "\"message\":\"x\"}]}}",
	 -1, 0, "m"},
	{"{\"status\":\"Failure\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\",\"message\":"
	 "\"256\"}]}}",
	 -1, 0, "the exec failed"},
	{"[]", -1, 0, "the exec failed"},
	{"command terminated", -1, 0, "command terminated"},
	{"{\"status\":\"Failure\",\"message\":\"denied: Bearer abc\"}", -1, 0, "denied:"},
	{"not for eyJhbGciOi", -1, 0, "the API server ended the exec: not for"},
};

static void statuses(void)
{
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		int status = -1;
		struct err err = ERR_INIT;
		int result = remote_status_decode(str_of(ends[i].text), &status, &err);
		is_int(result, ends[i].result, "end %zu: result", i);
		if (result == 0)
			is_int(status, ends[i].status, "end %zu: exit status", i);
		else
			has_str(err.msg, ends[i].message, "end %zu: message", i);
		ok(!strstr(err.msg, "abc") && !strstr(err.msg, "eyJ"), "end %zu: no token", i);
	}
}

static const struct {
	enum err_kind kind;
	int code;
	const char *message, *advice;
	bool again;
} advices[] = {
	{ERR_DENIED, 401, "m", "doesn't take this Pod's service account: m", false},
	{ERR_DENIED, 403, "m", "get and create on pods/exec of Pod p: m", false},
	{ERR_NOT_FOUND, 404, "m", "no Pod p in namespace n: m", false},
	{ERR_INVALID, 400, "a container name", "IPU_WORKER_CONTAINER must name", false},
	{ERR_INVALID, 400, "m", "Pod p: m", false},
	{ERR_BUSY, 429, "m", "Pod p: m", true},
	{ERR_INTERNAL, 500, "m", "Pod p: m", true},
	{ERR_UNAVAILABLE, 0, "m", "Pod p: m", true},
	{ERR_UNAVAILABLE, 0, "stat /l: no such file or directory", "Pod p has no /l", false},
	{ERR_TIMEOUT, 0, "m", "Pod p: m", true},
	{ERR_PROTOCOL, 0, "m", "Pod p: m", true},
};

static void explanations(void)
{
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		struct err err = ERR_INIT;
		err_set(&err, advices[i].kind, advices[i].code, "%s", advices[i].message);
		remote_explain(&err, "n", "p", "/l");
		has_str(err.msg, advices[i].advice, "error %zu: advice", i);
		is_int(remote_may_retry(&err), advices[i].again, "error %zu: again", i);
	}
}

int main(void)
{
	options();
	too_many_settings();
	hostfiles();
	statuses();
	explanations();
	return done_testing();
}
