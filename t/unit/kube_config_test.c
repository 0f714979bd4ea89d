/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubeconfigs good and bad as tables, with the exact messages; merging; which one is chosen; files
 * beside them; the Pod's own.
 */
#include "kube/config.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/str.h"
#include "kube/config_priv.h"
#include "tap.h"

#define SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define CERT    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
#define KEY     "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
#define CERT64  "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
#define KEY64   "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUIKLS0tLS1FTkQgUFJJVkFURSBLRVktLS0tLQo="

static char dir[] = "/tmp/kube-config-XXXXXX";

static void write_file(const char *name, const char *text)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		bail_out(path);
}

/* Line 1 to 7; a row's cluster and user begin at lines 8 and 9. */
#define HEAD                                                                                       \
	"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n"                 \
	"  context: {cluster: k, user: u, namespace: ns}\n"
#define CLUSTER(body) "clusters:\n- {name: k, cluster: {" body "}}\n"
#define USER(body)    "users:\n- {name: u, user: {" body "}}\n"
#define SERVER        "server: 'https://api.example:6443'"
#define TOKEN         "token: secret"

static const struct {
	const char *name, *text;
	const char *want; /* as describe() puts it */
} good[] = {
	{"a token", HEAD CLUSTER(SERVER) USER(TOKEN), "https api.example 6443 '' ns token=secret"},
	{"JSON",
	 "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"k\"}}],"
	 "\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":\"http://127.0.0.1:8080\"}}]}",
	 "http 127.0.0.1 8080 '' -"},
	{"a path in the server's URL",
	 HEAD CLUSTER("server: 'https://r.example/k8s/clusters/c-1/'") USER(TOKEN),
	 "https r.example 443 '/k8s/clusters/c-1' ns token=secret"},
	{"IPv6", HEAD CLUSTER("server: 'https://[::1]:6443'") USER(TOKEN),
	 "https ::1 6443 '' ns token=secret"},
	{"inline certificates",
	 HEAD CLUSTER(SERVER ", certificate-authority-data: " CERT64)
		 USER("client-certificate-data: " CERT64 ", client-key-data: " KEY64),
	 "https api.example 6443 '' ns ca=59 cert=59 key=59"},
	{"files beside it",
	 HEAD CLUSTER(SERVER ", certificate-authority: sub/ca.pem")
		 USER("client-certificate: cert.pem, client-key: key.pem"),
	 "https api.example 6443 '' ns ca@sub/ca.pem cert@cert.pem key@key.pem"},
	{"data wins over the file",
	 HEAD CLUSTER(SERVER
		      ", certificate-authority: nowhere, certificate-authority-data: " CERT64)
		 USER(TOKEN),
	 "https api.example 6443 '' ns ca=59 token=secret"},
	{"a token file", HEAD CLUSTER(SERVER) USER("tokenFile: token"),
	 "https api.example 6443 '' ns token@token"},
	{"token and token file", HEAD CLUSTER(SERVER) USER(TOKEN ", tokenFile: nowhere"),
	 "https api.example 6443 '' ns token=secret token@nowhere"},
	{"insecure, with another name",
	 HEAD CLUSTER(SERVER ", insecure-skip-tls-verify: true, tls-server-name: k8s") USER(TOKEN),
	 "https api.example 6443 '' ns insecure name=k8s token=secret"},
	{"no user",
	 "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n" CLUSTER(SERVER),
	 "https api.example 6443 '' -"},
	{"unknown members are passed over",
	 "colour: red\n" HEAD "preferences: {}\n" CLUSTER(SERVER ", disable-compression: true")
		 USER(TOKEN ", x: 1"),
	 "https api.example 6443 '' ns token=secret"},
	{"empty lists and nulls",
	 HEAD CLUSTER(SERVER ", certificate-authority: null, proxy-url: ''")
		 USER(TOKEN ", exec: null"),
	 "https api.example 6443 '' ns token=secret"},
	{"a proxy", HEAD CLUSTER(SERVER ", proxy-url: 'http://u:p@proxy:3128'") USER(TOKEN),
	 "https api.example 6443 '' ns proxy=proxy:3128+ token=secret"},
	{"an exec plugin",
	 HEAD CLUSTER(SERVER) USER(
		 "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./login, "
		 "args: [a, 'b c'], env: [{name: X, value: y}], installHint: get it}"),
	 "https api.example 6443 '' ns exec=./login a|b c| X=y| hint=get it"},
	{"an exec plugin of the older version, by name",
	 HEAD CLUSTER(SERVER)
		 USER("exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: login}"),
	 "https api.example 6443 '' ns exec=login "},
};

static const char *beside(const char *path)
{
	return strncmp(path, dir, strlen(dir)) == 0 ? path + strlen(dir) + 1 : path;
}

static void describe_material(char *out, size_t size, const char *name,
			      const struct kube_material *m, bool show)
{
	size_t used = strlen(out);
	if (m->data && show)
		used += (size_t)snprintf(out + used, size - used, " %s=%s", name, m->data);
	else if (m->data)
		used += (size_t)snprintf(out + used, size - used, " %s=%zu", name, m->len);
	if (m->path)
		snprintf(out + used, size - used, " %s@%s", name, beside(m->path));
}

static void describe(const struct kube_config *c, char *out, size_t size)
{
	snprintf(out, size, "%s %s %u '%s' %s%s%s%s", c->url.tls ? "https" : "http", c->url.host,
		 c->url.port, c->prefix, c->ns ? c->ns : "-", c->insecure ? " insecure" : "",
		 c->server_name ? " name=" : "", c->server_name ? c->server_name : "");
	if (c->proxy) {
		size_t used = strlen(out);
		snprintf(out + used, size - used, " proxy=%s:%u%s", c->proxy->host, c->proxy->port,
			 c->proxy->authorization ? "+" : "");
	}
	describe_material(out, size, "ca", &c->ca, false);
	describe_material(out, size, "cert", &c->cert, false);
	describe_material(out, size, "key", &c->key, false);
	describe_material(out, size, "token", &c->token, true);
	if (!c->exec)
		return;
	size_t used = strlen(out);
	const char *command = strrchr(c->exec->command, '/');
	used += (size_t)snprintf(out + used, size - used, " exec=%s%s ", command ? "." : "",
				 command ? command : c->exec->command);
	for (char **a = c->exec->args; *a; a++)
		used += (size_t)snprintf(out + used, size - used, "%s|", *a);
	for (char **e = c->exec->env; *e; e++)
		used += (size_t)snprintf(out + used, size - used, " %s|", *e);
	if (c->exec->install_hint)
		snprintf(out + used, size - used, " hint=%s", c->exec->install_hint);
}

static void test_good(void)
{
	CLEANUP_FREE char *path = xasprintf("%s/config", dir);
	for (size_t i = 0; i < SIZE(good); i++) {
		struct kube_config *c = NULL;
		struct err err = ERR_INIT;
		char got[500] = "";
		write_file("config", good[i].text);
		if (!ok(kube_config_load(path, NULL, &c, &err) == 0, "good, %s", good[i].name)) {
			diag("%s", err.msg);
			continue;
		}
		describe(c, got, sizeof(got));
		is_str(got, good[i].want, "good, %s: what it says", good[i].name);
		kube_config_free(c);
	}
}

static const struct {
	const char *name, *text;
	const char *want; /* behind "DIR/config" */
} bad[] = {
	{"not YAML", "a: [", NULL},
	{"a list", "- a\n", ":1:1: a kubeconfig is an object, and this is an array"},
	{"a Pod", "kind: Pod\n", ":1:7: this is of kind Pod; a kubeconfig has kind: Config"},
	{"two documents", HEAD "---\na: 1\n",
	 ":8:1: a kubeconfig is one document, and a second begins here"},
	{"empty", "", " has no current-context: name one of its contexts (none)"},
	{"no current-context", "contexts: [{name: a}, {name: b}]\n",
	 " has no current-context: name one of its contexts (a, b)"},
	{"an unknown context", "current-context: z\ncontexts: [{name: a}]\n",
	 ":1:18: there is no context \"z\" (there are: a)"},
	{"contexts of another type", "current-context: z\ncontexts: {a: b}\n",
	 ":2:11: contexts must be a list, and this is an object"},
	{"a context without a cluster",
	 "current-context: a\ncontexts:\n- name: a\n  context: {user: u}\n",
	 ":4:12: context \"a\" names no cluster"},
	{"a cluster that isn't there", HEAD, ":6:22: there is no cluster \"k\""},
	{"a user that isn't there", HEAD CLUSTER(SERVER), ":6:31: there is no user \"u\""},
	{"no server", HEAD CLUSTER("a: b") USER(TOKEN),
	 ":8:22: the cluster has no server: add the API server's URL"},
	{"a server that is no URL", HEAD CLUSTER("server: 'api.example:6443'") USER(TOKEN), NULL},
	{"a number for a name", HEAD CLUSTER("server: 7") USER(TOKEN),
	 ":8:31: server must be a string, and this is an integer: put it in quotes"},
	{"a proxy by another protocol",
	 HEAD CLUSTER(SERVER ", proxy-url: 'https://u:p@p:1'") USER(TOKEN),
	 ":8:71: https://p:1: write http://HOST:PORT: proxies are reached by http only"},
	{"base64 that isn't",
	 HEAD CLUSTER(SERVER ", certificate-authority-data: '***'") USER(TOKEN), NULL},
	{"data without a certificate",
	 HEAD CLUSTER(SERVER ", certificate-authority-data: aGVsbG8=") USER(TOKEN),
	 ":8:87: certificate-authority-data holds no PEM block with \"-----BEGIN CERTIFICATE-----\""},
	{"insecure with an authority",
	 HEAD CLUSTER(SERVER
		      ", insecure-skip-tls-verify: true, certificate-authority-data: " CERT64)
		 USER(TOKEN),
	 NULL},
	{"yes isn't true", HEAD CLUSTER(SERVER ", insecure-skip-tls-verify: yes") USER(TOKEN),
	 ":8:85: insecure-skip-tls-verify must be true or false, and this is a string"},
	{"a password", HEAD CLUSTER(SERVER) USER("username: a, password: b"),
	 ":10:30: username isn't supported: use a token or a client certificate"},
	{"an auth-provider", HEAD CLUSTER(SERVER) USER("auth-provider: {name: gcp}"),
	 ":10:35: auth-provider isn't supported: use exec"},
	{"impersonation", HEAD CLUSTER(SERVER) USER("as: admin"),
	 ":10:24: as isn't supported: give the operator credentials of its own"},
	{"half a certificate", HEAD CLUSTER(SERVER) USER("client-certificate-data: " CERT64),
	 ":10:19: the user has a client certificate without a client key: give both"},
	{"a token of two words", HEAD CLUSTER(SERVER) USER("token: a b"),
	 ":10:27: token holds a space or a character that can't be in a token"},
	{"a token file that isn't there", HEAD CLUSTER(SERVER) USER("tokenFile: nowhere"), NULL},
	{"an exec of an old version",
	 HEAD CLUSTER(SERVER)
		 USER("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"),
	 ":10:39: exec's apiVersion client.authentication.k8s.io/v1alpha1 isn't supported: "
	 "client.authentication.k8s.io/v1 and v1beta1 are"},
	{"an exec without a command",
	 HEAD CLUSTER(SERVER) USER(
		 "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"),
	 ":10:26: exec names no command"},
	{"an exec without a mode",
	 HEAD CLUSTER(SERVER)
		 USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x}"),
	 ":10:26: exec needs an interactiveMode: Never or IfAvailable"},
	{"an exec that wants a terminal",
	 HEAD CLUSTER(SERVER) USER(
		 "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}"),
	 ":10:101: this plugin wants a terminal (interactiveMode: Always), and the operator has none: use other credentials"},
	{"exec's args as numbers",
	 HEAD CLUSTER(SERVER) USER(
		 "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never, args: [a, 1]}"),
	 ":10:114: args must be strings, and number 2 is an integer: put it in quotes"},
	{"a token and an exec", HEAD CLUSTER(SERVER) USER(TOKEN ", exec: {command: x}"),
	 ":10:41: the user has both a token and exec: remove one of them"},
};

static void test_bad(void)
{
	CLEANUP_FREE char *path = xasprintf("%s/config", dir);
	for (size_t i = 0; i < SIZE(bad); i++) {
		struct kube_config *c = NULL;
		struct err err = ERR_INIT;
		row_begin("bad, %s", bad[i].name);
		write_file("config", bad[i].text);
		is_int(kube_config_load(path, NULL, &c, &err), -1, "refused");
		is_int(err.kind, ERR_INVALID, "kind");
		ok(!c, "nothing came of it");
		has_str(err.msg, path, "names the file");
		if (bad[i].want)
			is_str(err.msg + strlen(path), bad[i].want, "the place and the reason");
		ok(!strstr(err.msg, "secret"), "no secret in it");
	}
	row_end();
}

static void test_cluster_info(void)
{
	struct kube_config *c = NULL;
	struct err err = ERR_INIT;
	CLEANUP_FREE char *path = xasprintf("%s/config", dir);
	write_file(
		"config",
		HEAD CLUSTER(
			SERVER
			", certificate-authority: sub/ca.pem, tls-server-name: k8s, extensions: "
			"[{name: client.authentication.k8s.io/exec, extension: {a: b}}]")
			USER("exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable, "
			     "command: x, provideClusterInfo: true}"));
	if (ok(kube_config_load(path, NULL, &c, &err) == 0, "cluster info: %s", err.msg))
		is_str(c->exec->info,
		       "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"spec\":"
		       "{\"cluster\":{\"server\":\"https://api.example:6443\",\"tls-server-name\":\"k8s\","
		       "\"certificate-authority-data\":\"" CERT64 "\",\"config\":{\"a\":\"b\"}},"
		       "\"interactive\":false}}",
		       "what the plugin is told");
	kube_config_free(c);
}

static void expect_error(const char *path, const char *context, const char *part, const char *name)
{
	struct kube_config *c = NULL;
	struct err err = ERR_INIT;
	is_int(kube_config_load(path, context, &c, &err), -1, "%s: refused", name);
	is_int(err.kind, ERR_INVALID, "%s: kind", name);
	has_str(err.msg, part, "%s: why", name);
	kube_config_free(c);
}

static void test_merge(void)
{
	struct kube_config *c = NULL;
	struct err err = ERR_INIT;
	write_file("one", "current-context: c\nusers: [{name: u, user: {token: one}}]\n");
	write_file(
		"two",
		"current-context: d\nusers: [{name: u, user: {token: two}}]\n"
		"contexts: [{name: c, context: {cluster: k, user: u}}, {name: d, context: {cluster: "
		"l, user: v}}]\n");
	write_file("three",
		   "clusters: [{name: k, cluster: {server: 'https://k'}}, {name: l, cluster: "
		   "{server: 'https://l'}}]\nusers: [{name: v, user: {token: three}}]\n");
	CLEANUP_FREE char *list = xasprintf("%s/one:%s/nowhere::%s/two:%s/three", dir, dir, dir,
					    dir);
	setenv("KUBECONFIG", list, 1);
	if (ok(kube_config_load(NULL, NULL, &c, &err) == 0, "merged: %s", err.msg)) {
		is_str(c->url.host, "k", "the first current-context wins");
		is_str(c->token.data, "one", "the first user of that name wins");
		has_str(kube_config_source(c), "two, context c", "where it came from");
	}
	kube_config_free(c);
	c = NULL;
	if (ok(kube_config_load(NULL, "d", &c, &err) == 0, "another context: %s", err.msg)) {
		is_str(kube_config_server(c), "https://l", "its server");
		is_str(c->token.data, "three", "its user");
	}
	kube_config_free(c);
	expect_error(NULL, "e", "there is no context \"e\" (there are: c, d)", "no such context");
	setenv("KUBECONFIG", "/nowhere/a:/nowhere/b", 1);
	expect_error(NULL, NULL, "none of KUBECONFIG's files is there: /nowhere/a, …",
		     "none is there");
	setenv("KUBECONFIG", ":", 1);
	expect_error(NULL, NULL, "KUBECONFIG names no file", "an empty list");
	unsetenv("KUBECONFIG");
	expect_error("/nowhere/config", NULL, "/nowhere/config", "a given file that isn't there");
}

static void test_choice(void)
{
	struct kube_config *c = NULL;
	struct err err = ERR_INIT;
	CLEANUP_FREE char *kube_dir = xasprintf("%s/.kube", dir);
	setenv("HOME", dir, 1);
	expect_error(NULL, NULL, "no Kubernetes configuration: set KUBECONFIG", "nothing at all");
	mkdir(kube_dir, 0700);
	write_file(".kube/config", HEAD CLUSTER(SERVER) USER(TOKEN));
	if (ok(kube_config_load(NULL, NULL, &c, &err) == 0, "~/.kube/config: %s", err.msg)) {
		is_str(kube_config_namespace(c), "ns", "its namespace");
		ok(!kube_config_is_in_cluster(c) && !c->exec && !kube_config_is_insecure(c),
		   "not a Pod's, no plugin, not insecure");
	}
	kube_config_free(c);
	kube_config_free(NULL);
}

static void test_in_cluster(void)
{
	struct kube_config *c = NULL;
	struct err err = ERR_INIT;
	CLEANUP_FREE char *sa = xasprintf("%s/sa", dir);
	unsetenv("KUBERNETES_SERVICE_HOST");
	is_int(kube_config_load_in_cluster(sa, &c, &err), -1, "not in a Pod");
	has_str(err.msg, "KUBERNETES_SERVICE_HOST", "what is missing");
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	mkdir(sa, 0700);
	is_int(kube_config_load_in_cluster(sa, &c, &err), -1, "no token");
	has_str(err.msg, "/sa/token: there is no such file", "what is missing");
	is_int(err.kind, ERR_INVALID, "kind");
	write_file("sa/token", "abc\n");
	write_file("sa/ca.crt", CERT);
	write_file("sa/namespace", "ipu-operator\n");
	if (ok(kube_config_load_in_cluster(sa, &c, &err) == 0, "in a Pod: %s", err.msg)) {
		is_str(kube_config_server(c), "https://[fd00::1]:443", "its server");
		is_str(kube_config_namespace(c), "ipu-operator", "its namespace");
		ok(kube_config_is_in_cluster(c), "a Pod's");
	}
	kube_config_free(c);
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
}

/* Which proxy is taken, by the environment, the server and the kubeconfig. */
static void test_proxies(void)
{
	static const char *const names[] = {"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"};
	static const struct {
		const char *env[4], *server, *want; /* "": none; NULL: refused */
	} rows[] = {
		{{"http://e:1"}, "https://api.example", "e"},
		{{"e:1"}, "https://api.example", "e"},
		{{NULL, "http://f:1"}, "https://api.example", "f"},
		{{"http://e:1", "http://f:1"}, "https://api.example", "e"},
		{{"http://e:1", NULL, "example"}, "https://api.example", ""},
		{{"http://e:1", NULL, NULL, "example"}, "https://api.example", ""},
		{{"http://e:1", NULL, "other", "example"}, "https://api.example", "e"},
		{{"http://e:1", NULL, "api.example:6443"}, "https://api.example:6443", ""},
		{{"http://e:1"}, "http://api.example", ""},
		{{"http://e:1"}, "https://localhost:6443", ""},
		{{"http://e:1"}, "https://127.1.2.3:6443", ""},
		{{"http://e:1"}, "'https://[::1]:6443'", ""},
		{{"http://e:1", NULL, "*"}, "https://api.example, proxy-url: 'http://k:1'", "k"},
		{{"ftp://e:1"}, "https://api.example", NULL},
	};
	CLEANUP_FREE char *path = xasprintf("%s/config", dir);

	for (size_t i = 0; i < SIZE(rows); i++) {
		struct kube_config *c = NULL;
		struct err err = ERR_INIT;
		CLEANUP_FREE char *text = xasprintf(
			"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
			"clusters: [{name: k, cluster: {server: %s}}]\n",
			rows[i].server);
		bool taken;

		row_begin("proxy %zu, %s", i, rows[i].server);
		for (size_t k = 0; k < SIZE(names); k++) {
			if (rows[i].env[k])
				setenv(names[k], rows[i].env[k], 1);
		}
		write_file("config", text);
		taken = kube_config_load(path, NULL, &c, &err) == 0;
		is_int(taken, rows[i].want != NULL, "taken: %s", err.msg);
		if (taken)
			is_str(c->proxy ? c->proxy->host : "", rows[i].want, "which");
		else
			has_str(err.msg, "HTTPS_PROXY: ftp://e:1: write http://HOST:PORT", "why");
		kube_config_free(c);
		for (size_t k = 0; k < SIZE(names); k++)
			unsetenv(names[k]);
	}
	row_end();
}

int main(void)
{
	unsetenv("HTTPS_PROXY");
	unsetenv("https_proxy");
	unsetenv("KUBECONFIG");
	unsetenv("HOME");
	unsetenv("KUBERNETES_SERVICE_HOST");
	if (!mkdtemp(dir))
		bail_out("no folder for the tests' files");
	CLEANUP_FREE char *sub = xasprintf("%s/sub", dir);
	mkdir(sub, 0700);
	write_file("sub/ca.pem", CERT);
	write_file("cert.pem", CERT);
	write_file("key.pem", KEY);
	write_file("token", "abc\n");
	test_good();
	test_bad();
	test_cluster_info();
	test_merge();
	test_choice();
	test_in_cluster();
	test_proxies();
	CLEANUP_FREE char *clean = xasprintf("rm -rf '%s'", dir);
	if (system(clean) != 0)
		diag("%s stays", dir);
	return done_testing();
}
