/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes into a support bundle: what is taken out of texts and objects, and the archive's format
 * (t/65-ipuctl-bundle.t has it read by tar).
 */
#include <stdlib.h>

#include "ctl/redact.h"
#include "ctl/tar.h"
#include "tap.h"

#define JWT "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl"

static const struct {
	const char *name, *in, *out;
} texts[] = {
	{"plain words", "all is well: 5 of 6\n", "all is well: 5 of 6\n"},
	{"a token", "got " JWT " from x", "got <redacted> from x"},
	{"no token", "eyJust a word", "eyJust a word"},
	{"a bearer", "Authorization: Bearer abc.def", "Authorization: <redacted>"},
	{"... in another place", "curl -H 'bearer abc' x", "curl -H 'bearer <redacted>' x"},
	{"a URL's password", "at https://me:pass@host:80/x", "at https://me:<redacted>@host:80/x"},
	{"... without one", "at https://host:80/a", "at https://host:80/a"},
	{"... with a slash and an at", "postgres://u:p/w@d@h/db x",
	 "postgres://u:<redacted>@h/db x"},
	{"... as the user", "https://abc@host/a@b x", "https://<redacted>@host/a@b x"},
	{"YAML", "accessKey: abc\nuserId: me\n", "accessKey: <redacted>\nuserId: me\n"},
	{"... in quotes", "  password: \"a b\" # x", "  password: <redacted> # x"},
	{"... in quotes with quotes", "password: 'a'' b'\nc: 1", "password: <redacted>\nc: 1"},
	{"... with blanks", "password: a b c\nd: 1", "password: <redacted>\nd: 1"},
	{"... on more lines", "a:\n  password: |\n    x\n\n    y\n  b: 1\n",
	 "a:\n  password: <redacted>\n<redacted>\n\n  b: 1\n"},
	{"... on the next", "passwd:\n  x\nb: 1", "passwd:\n<redacted>\nb: 1"},
	{"... in a list", "- tokens:\n  - x\n  - y\n- b", "- tokens:\n<redacted>\n- b"},
	{"... beside others of a list", "- token: x\n  b: 1", "- token: <redacted>\n  b: 1"},
	{"a flag", "--token=abc --level=2", "--token=<redacted> --level=2"},
	{"... and a space", "run --pass abc --level 2", "run --pass <redacted> --level 2"},
	{"... of a password", "run --password=SeCret -x", "run --password=<redacted> -x"},
	{"... with one dash", "run -password abc -passin pass:abc x",
	 "run -password <redacted> -passin pass:<redacted> x"},
	{"... in the middle of a line", "failed with password:abc for me",
	 "failed with password:<redacted> for me"},
	{"a value right behind -p", "login -pS3cret -u me", "login -p<redacted> -u me"},
	{"... in quotes", "login -p'a b' x", "login -p<redacted> x"},
	{"... in JSON", "{\"args\":[\"-pS3cret\",\"x\"]}", "{\"args\":[\"-p<redacted>\",\"x\"]}"},
	{"... in JSON in a text", "[\\\"-pS3cret\\\",\\\"x\\\"]",
	 "[\\\"-p<redacted>\\\",\\\"x\\\"]"},
	{"... that is a word, to a program that has passwords there",
	 "/usr/bin/mysql -h db -phunter; vipu-cli -p 1234 -x; sshpass -p -x",
	 "/usr/bin/mysql -h db -p<redacted>; vipu-cli -p <redacted> -x; sshpass -p -x"},
	{"another -p",
	 "mkdir -p a; mkdir -p/a/b; docker -p8080:80 -p 127.0.0.1:1:1 -p127.0.0.1:1:1; "
	 "gcc -pthread -pipe; x -path=a -profile:v 1 -p",
	 "mkdir -p a; mkdir -p/a/b; docker -p8080:80 -p 127.0.0.1:1:1 -p127.0.0.1:1:1; "
	 "gcc -pthread -pipe; x -path=a -profile:v 1 -p"},
	{"... within a word", "a-pX1 b/my-pSec", "a-pX1 b/my-pSec"},
	{"... alone", "--with-token --level=2", "--with-token --level=2"},
	{"JSON in a text", "{\"token\":\"a\",\"b\":1}", "{\"token\":<redacted>,\"b\":1}"},
	{"... with a quote", "{\"password\":\"a\\\"b\",\"c\":1}",
	 "{\"password\":<redacted>,\"c\":1}"},
	{"... in JSON in a text", "{\\\"password\\\":\\\"a\\\\\\\"b\\\",\\\"c\\\":1}",
	 "{\\\"password\\\":<redacted>,\\\"c\\\":1}"},
	{"... on lines of its own", "{\n  \"auths\": {\n    \"auth\": \"x\",\n    \"b\": 1\n",
	 "{\n  \"auths\": {\n    \"auth\": <redacted>,\n    \"b\": 1\n"},
	{"... a list", "{\"tokens\":[\"a]\",\"b\"],\"c\":1}", "{\"tokens\":<redacted>,\"c\":1}"},
	{"... a variable",
	 "{\"name\":\"DB_PASS\",\"value\":\"x\"},{\"name\":\"B\",\"value\":\"y\"}",
	 "{\"name\":\"DB_PASS\",\"value\":<redacted>},{\"name\":\"B\",\"value\":\"y\"}"},
	{"a header", "curl -H \"Authorization: token abc\" x",
	 "curl -H \"Authorization: <redacted>"},
	{"variables", "MY_API_KEY=x,OTHER=y", "MY_API_KEY=<redacted>,OTHER=y"},
	{"... with a comma", "password=x,REST;of&it y=1", "password=<redacted> y=1"},
	{"... with brackets", "f(DB_PASS=a)b) (SSH_KEY=c) d",
	 "f(DB_PASS=<redacted>) (SSH_KEY=<redacted>) d"},
	{"... as a shell has it", "PGPASS='a'\"b c\"d e", "PGPASS=<redacted> e"},
	{"other words", "author: x\npassed=5\ntopologyKey: y\n",
	 "author: x\npassed=5\ntopologyKey: y\n"},
	{"a name of one", "secretName: vipu\nclientKeyFile: /x",
	 "secretName: vipu\nclientKeyFile: /x"},
	{"a key", "a\n-----BEGIN EC PRIVATE KEY-----\nMIIB\nxx\n-----END EC PRIVATE KEY-----\nb\n",
	 "a\n<redacted>\nb\n"},
	{"... without end", "-----BEGIN PRIVATE KEY-----\nMIIB\n", "<redacted>\n"},
	{"a certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n",
	 "-----BEGIN CERTIFICATE-----\nMIIB\n"},
	{"nothing behind it", "token:", "token:"},
	{"no line's end", "x", "x"},
	{"nothing", "", ""},
};

static const struct {
	const char *name, *in, *out;
} objects[] = {
	{"numbers and such", "[1,2.5,true,null,\"x\"]", "[1,2.5,true,null,\"x\"]"},
	{"a Secret", "{\"kind\":\"Secret\",\"data\":{\"a\":\"b\"},\"metadata\":{\"name\":\"s\"}}",
	 "{\"kind\":\"Secret\",\"data\":\"<redacted>\",\"metadata\":{\"name\":\"s\"}}"},
	{"a variable", "{\"name\":\"DB_PASSWORD\",\"value\":\"x\"}",
	 "{\"name\":\"DB_PASSWORD\",\"value\":\"<redacted>\"}"},
	{"... by reference",
	 "{\"name\":\"DB_PASSWORD\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"n\",\"key\":\"k\"}}}",
	 "{\"name\":\"DB_PASSWORD\",\"valueFrom\":{\"secretKeyRef\":{\"name\":\"n\",\"key\":\"k\"}}}"},
	{"another variable", "{\"name\":\"WANDB\",\"value\":\"2\"}",
	 "{\"name\":\"WANDB\",\"value\":\"<redacted>\"}"},
	{"a variable of the operator's", "{\"name\":\"IPUOPERATOR_LOG_LEVEL\",\"value\":\"2\"}",
	 "{\"name\":\"IPUOPERATOR_LOG_LEVEL\",\"value\":\"2\"}"},
	{"a secret of the operator's", "{\"name\":\"IPUOPERATOR_TOKEN\",\"value\":\"2\"}",
	 "{\"name\":\"IPUOPERATOR_TOKEN\",\"value\":\"<redacted>\"}"},
	{"a word's end",
	 "{\"DB_PASS\":\"x\",\"authToken\":\"y\",\"SSH_KEY\":\"z\",\"passive\":\"w\"}",
	 "{\"DB_PASS\":\"<redacted>\",\"authToken\":\"<redacted>\",\"SSH_KEY\":\"<redacted>\","
	 "\"passive\":\"w\"}"},
	{"several", "{\"tokens\":[\"x\",{\"a\":\"b\"}]}",
	 "{\"tokens\":[\"<redacted>\",{\"a\":\"b\"}]}"},
	{"bytes", "{\"binaryData\":{\"a\":\"eA==\"}}", "{\"binaryData\":\"<redacted>\"}"},
	{"a flag and its value", "[\"--password\",\"x\",\"y\"]",
	 "[\"--password\",\"<redacted>\",\"y\"]"},
	{"a value right behind -p", "[\"login\",\"-pS3cret\",\"-p\",\"a\"]",
	 "[\"login\",\"-p<redacted>\",\"-p\",\"a\"]"},
	{"... a word, by its program", "[\"mysql\",\"-phunter\",\"-p\",\"a\",\"b\"]",
	 "[\"mysql\",\"-p<redacted>\",\"-p\",\"<redacted>\",\"b\"]"},
	{"... which is the command", "{\"command\":[\"vipu-cli\"],\"args\":[\"-phunter\",\"-x\"]}",
	 "{\"command\":[\"vipu-cli\"],\"args\":[\"-p<redacted>\",\"-x\"]}"},
	{"... of another program", "{\"command\":[\"gcc\"],\"args\":[\"-pthread\"]}",
	 "{\"command\":[\"gcc\"],\"args\":[\"-pthread\"]}"},
	{"managedFields", "{\"managedFields\":[1],\"a\":1}", "{\"a\":1}"},
	{"what was applied", "{\"kubectl.kubernetes.io/last-applied-configuration\":\"{}\"}",
	 "{\"kubectl.kubernetes.io/last-applied-configuration\":\"<redacted>\"}"},
	{"a bundle", "{\"caBundle\":\"abcd\"}", "{\"caBundle\":\"<4 bytes>\"}"},
	{"a text in it", "{\"data\":{\"c.yaml\":\"accessKey: x\\n\"}}",
	 "{\"data\":{\"c.yaml\":\"accessKey: <redacted>\\n\"}}"},
};

static void redacts(void)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct buf out = BUF_INIT(4096);

		row_begin("%s", texts[i].name);
		is_int(ctl_redact_text(str_of(texts[i].in), &out, NULL), 0, "is done");
		is_mem(out.p ? out.p : "", out.len, texts[i].out, strlen(texts[i].out), "the text");
		buf_done(&out);
	}
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		CLEANUP_JMUT struct jmut_doc *doc = jmut_doc_new();
		struct json_doc *in;
		struct buf out = BUF_INIT(4096);

		row_begin("%s", objects[i].name);
		is_int(json_parse(str_of(objects[i].in), &in, NULL), 0, "is JSON");
		jmut_write(ctl_redact(doc, json_root(in)), JSON_COMPACT, &out, NULL);
		is_mem(out.p, out.len, objects[i].out, strlen(objects[i].out), "the object");
		buf_done(&out);
		json_doc_free(in);
	}
	row_end();
}

static void writes_archives(void)
{
	struct buf out = BUF_INIT(1 << 20);
	char name[300];
	struct err err = ERR_INIT;

	is_int(ctl_tar_add(&out, "a/b.txt", STR("hello\n"), 1700000000, &err), 0, "a file");
	is_int(out.len, 1024, "... takes a header and a block");
	is_str(out.p, "a/b.txt", "... under its name");
	is_mem(out.p + 124, 12, "00000000006", 12, "... with its size");
	is_mem(out.p + 136, 12, "14524770400", 12, "... and its time");
	is_mem(out.p + 257, 8, "ustar\00000", 8, "... as ustar");
	is_mem(out.p + 148, 8, "007175\0 ", 8, "... and the sum");
	is_int(ctl_tar_add(&out, "empty", STR_NULL, 0, &err), 0, "an empty file");
	is_int(out.len, 1536, "... is a header");
	memset(name, 'x', sizeof(name));
	name[120] = '/';
	name[220] = 0;
	is_int(ctl_tar_add(&out, name, STR("y"), 0, &err), 0, "a long name");
	is_mem(out.p + 1536 + 345, 120, name, 120, "... is divided at the slash");
	name[221] = 0;
	name[220] = 'x';
	is_int(ctl_tar_add(&out, name, STR("y"), 0, &err), 0, "one of 100 behind it");
	name[120] = 'x';
	is_int(ctl_tar_add(&out, name, STR("y"), 0, &err), -1, "one that can't be divided");
	is_int(ctl_tar_end(&out, &err), 0, "the end");
	is_int(out.len % 512, 0, "... all of it in blocks");
	buf_done(&out);
	buf_init(&out, 1100);
	is_int(ctl_tar_add(&out, "a", STR("x"), 0, &err), 0, "one fits");
	is_int(ctl_tar_add(&out, "b", STR("x"), 0, &err), -1, "no room for another");
	is_int(out.len, 1024, "... of which nothing is there");
	buf_done(&out);
}

static void cuts(void)
{
	static const struct {
		const char *text;
		size_t most;
		const char *want;
	} rows[] = {
		{"", 4, ""},
		{"a\nb\n", 4, "a\nb\n"},
		{"a\nb\n", 3, "b\n"},
		{"a\nb\n", 2, "b\n"},
		{"a\nb\n", 1, ""},
		{"token=hidden\nb", 8, "b"},
		{"token=hidden", 4, ""},
		{"a\nb", 0, ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct str got = ctl_last_lines(str_of(rows[i].text), rows[i].most);

		is_mem(got.p, got.len, rows[i].want, strlen(rows[i].want), "last lines, row %zu",
		       i);
	}
}

int main(void)
{
	redacts();
	cuts();
	writes_archives();
	return done_testing();
}
