/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controllers' configuration: the flat string, the list of objects, and what is said about bad
 * entries. Uses core and vipu.
 */
#include "tap.h"

#include "core/json.h"
#include "vipu/address.h"

/* "name label=value cluster allocation tls ipuof", one line an address, then "! text: reason". */
static void describe(const struct vipu_address_list *list, struct buf *out)
{
	buf_clear(out);
	for (size_t i = 0; i < list->n; i++) {
		const struct vipu_address *a = &list->items[i];
		buf_printf(out, NULL, "%s", a->name);
		if (a->label[0])
			buf_printf(out, NULL, " %s=%s", a->label, a->value);
		if (a->cluster[0])
			buf_printf(out, NULL, " cluster:%s", a->cluster);
		if (a->allocation[0])
			buf_printf(out, NULL, " allocation:%s", a->allocation);
		if (a->secret_name[0])
			buf_printf(out, NULL, " secret:%s", a->secret_name);
		if (a->tls)
			buf_printf(out, NULL, " tls");
		if (a->server_name[0])
			buf_printf(out, NULL, " as:%s", a->server_name);
		if (a->insecure_skip_verify)
			buf_printf(out, NULL, " unverified");
		if (vipu_address_ipuof(a) == VIPU_IPUOF_FILE)
			buf_printf(out, NULL, " file");
		buf_printf(out, NULL, ";");
	}
	for (size_t i = 0; i < list->n_problems; i++)
		buf_printf(out, NULL, "! %s: %s;", list->problems[i].text,
			   list->problems[i].reason);
}

static const struct {
	const char *text, *want;
} flat[] = {
	{"", ""},
	{"  \n ,, ", ""},
	{"pod1:8090:pod=a", "pod1:8090 pod=a;"},
	{"pod1:8090:pod=a,pod2:8091:pod=b", "pod1:8090 pod=a;pod2:8091 pod=b;"},
	{" pod1:8090:pod=a ,\n\tpod2:8091:pod=b,\n", "pod1:8090 pod=a;pod2:8091 pod=b;"},
	{"pod1", "pod1:8090;"},
	{"POD1.Example.COM", "pod1.example.com:8090;"},
	{"pod1:9000", "pod1:9000;"},
	{"pod1:pod=a", "pod1:8090 pod=a;"},
	{"10.1.2.3:8090:graphcore.ai/pod=pod-1_x.y", "10.1.2.3:8090 graphcore.ai/pod=pod-1_x.y;"},
	{"[fe80::1]:8090:a=b", "[fe80::1]:8090 a=b;"},
	{"[::1]", "[::1]:8090;"},
	{"[::1]:a=b", "[::1]:8090 a=b;"},
	{"[fe80::1%eth0]:1", "[fe80::1%eth0]:1;"},
	{"pod1:8090:empty=", "pod1:8090 empty=;"},
	{"pod1:8090:", "pod1:8090;"},
	{"pod1:8090:a = b", "pod1:8090 a=b;"},
	{"pod1:8090,pod1:8090:a=b",
	 "pod1:8090;! pod1:8090:a=b: this controller is in the list already; the first entry serves;"},
	{"pod1,POD1:8090",
	 "pod1:8090;! POD1:8090: this controller is in the list already; the first "
	 "entry serves;"},
	{"pod1:80900,pod2",
	 "pod2:8090;! pod1:80900: port \"80900\" isn't a number from 1 to 65535;"},
	{"pod1:0", "! pod1:0: port \"0\" isn't a number from 1 to 65535;"},
	{"pod1:x", "! pod1:x: port \"x\" isn't a number from 1 to 65535;"},
	{"pod1:-1", "! pod1:-1: port \"-1\" isn't a number from 1 to 65535;"},
	{"pod1:", "pod1:8090;"},
	{":8090", "! :8090: the host is missing;"},
	{"po d1", "! po d1: \"po d1\" is no host name or address;"},
	{"-pod", "! -pod: \"-pod\" is no host name or address;"},
	{"a..b", "! a..b: \"a..b\" is no host name or address;"},
	{"fe80::1:8090", "! fe80::1:8090: an IPv6 address must stand in brackets: [::1]:8090;"},
	{"::1:8090", "! ::1:8090: an IPv6 address must stand in brackets: [::1]:8090;"},
	{"[fe80::1", "! [fe80::1: the bracket isn't closed;"},
	{"[nonsense]:1", "! [nonsense]:1: \"nonsense\" is no IPv6 address;"},
	{"[::1]8090", "! [::1]8090: behind the bracket, \":port\" was expected;"},
	{"pod1:8090:label", "! pod1:8090:label: \"label\" is no node label: write label=value;"},
	{"pod1:8090:=v", "! pod1:8090:=v: \"\" is no name of a node label;"},
	{"pod1:8090:a=b c", "! pod1:8090:a=b c: \"b c\" is no value of a node label;"},
	{"pod1:8090:-/a=b", "! pod1:8090:-/a=b: \"-\" is no prefix of a node label;"},
	{"http://pod1:8090", "! http://pod1:8090: port \"//pod1\" isn't a number from 1 to 65535;"},
};

static void test_flat(void)
{
	struct buf out = BUF_INIT(65536);

	for (size_t i = 0; i < sizeof(flat) / sizeof(flat[0]); i++) {
		struct vipu_address_list list;
		vipu_address_parse(str_of(flat[i].text), &list);
		describe(&list, &out);
		is_mem(out.p ? out.p : "", out.len, flat[i].want, strlen(flat[i].want), "\"%s\"",
		       flat[i].text);
		vipu_address_list_done(&list);
	}
	buf_done(&out);
}

static const struct {
	const char *json, *want;
} objects[] = {
	{"null", ""},
	{"[]", ""},
	{"\"pod1:8090:a=b,pod2\"", "pod1:8090 a=b;pod2:8090;"},
	{"[\"pod1:8090:a=b\", \"pod2,pod3\"]", "pod1:8090 a=b;pod2:8090;pod3:8090;"},
	{"[{\"address\": \"pod1\"}]", "pod1:8090;"},
	{"[{\"address\": \"pod1:1\", \"selector\": \"a=b\", \"cluster\": \"c\", \"allocation\": \"x\"}]",
	 "pod1:1 a=b cluster:c allocation:x;"},
	{"[{\"address\": \"pod1:1:a=b\", \"selector\": \"c=d\"}]", "pod1:1 c=d;"},
	{"[{\"address\": \"p\", \"selector\": null, \"tls\": null, \"ipuofConfig\": null}]",
	 "p:8090;"},
	{"[{\"address\": \"p\", \"tls\": true}]", "p:8090 tls file;"},
	{"[{\"address\": \"p\", \"secretName\": \"s\"}]", "p:8090 secret:s tls file;"},
	{"[{\"address\": \"p\", \"secretName\": \"s\", \"tls\": false}]", "p:8090 secret:s file;"},
	{"[{\"address\": \"p\", \"tls\": true, \"ipuofConfig\": \"api\"}]", "p:8090 tls;"},
	{"[{\"address\": \"p\", \"ipuofConfig\": \"file\"}]", "p:8090 file;"},
	{"[{\"address\": \"p\", \"tls\": {\"serverName\": \"n\", \"insecureSkipVerify\": true}}]",
	 "p:8090 tls as:n unverified file;"},
	{"[{\"address\": \"p\"}, {\"address\": \"p:8090\"}]",
	 "p:8090;! p:8090: this controller is in the list already; the first entry serves;"},
	{"[{\"selector\": \"a=b\"}, {\"address\": \"p\"}]",
	 "p:8090;! entry 1 of the list: the address is missing;"},
	{"[{\"address\": \"p\", \"selektor\": \"a=b\"}]", "! p: there is no key \"selektor\";"},
	{"[{\"address\": \"p\", \"tls\": 1}]", "! p: tls must be true, false or an object, not "
					       "an integer;"},
	{"[{\"address\": \"p\", \"tls\": {\"x\": 1}}]", "! p: tls has no key \"x\";"},
	{"[{\"address\": \"p\", \"cluster\": true}]", "! p: cluster must be a string, not "},
	{"[{\"address\": \"p\", \"ipuofConfig\": \"both\"}]",
	 "! p: ipuofConfig must be \"api\" or \"file\";"},
	{"[1, \"p\"]", "p:8090;! entry 1 of the list: an entry is a string or an object;"},
	{"{\"a\": 1}", "the controllers are a string or a list;"},
};

static void test_objects(void)
{
	struct buf out = BUF_INIT(65536);

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		CLEANUP_JSON struct json_doc *doc = NULL;
		struct vipu_address_list list;
		if (json_parse(str_of(objects[i].json), &doc, NULL) < 0)
			bail_out(objects[i].json);
		vipu_address_from_json(json_root(doc), &list);
		describe(&list, &out);
		buf_append(&out, "", 1, NULL);
		if (objects[i].want[0])
			has_str(out.p, objects[i].want, "%s", objects[i].json);
		else
			is_uint(out.len, 1, "%s", objects[i].json);
		vipu_address_list_done(&list);
	}
	buf_done(&out);
}

static void test_bounds(void)
{
	struct buf text = BUF_INIT(1 << 20);
	struct vipu_address_list list;

	for (int i = 0; i < VIPU_MAX_CONTROLLERS + 200; i++)
		buf_printf(&text, NULL, "pod%d,", i);
	vipu_address_parse(buf_str(&text), &list);
	is_uint(list.n, VIPU_MAX_CONTROLLERS, "as many as there may be");
	ok(list.n_problems > 0 && list.n_problems <= 64, "and a bounded number of complaints");
	vipu_address_list_done(&list);
	buf_clear(&text);
	for (int i = 0; i < 1000; i++)
		buf_printf(&text, NULL, "\xc3\xb6");
	vipu_address_parse(buf_str(&text), &list);
	ok(list.n_problems == 1 && strlen(list.problems[0].text) < 140,
	   "a long entry is shown cut");
	ok(str_is_utf8(str_of(list.problems[0].text)), "between characters");
	vipu_address_list_done(&list);
	buf_done(&text);
}

static void test_copy(void)
{
	struct vipu_address_list list;
	struct vipu_address copy;

	vipu_address_parse(STR("a:1:b=c,a:2:b=c"), &list);
	vipu_address_copy(&list.items[0], &copy);
	ok(vipu_address_equal(&copy, &list.items[0]), "a copy is equal");
	ok(!vipu_address_equal(&copy, &list.items[1]), "another isn't");
	vipu_address_list_done(&list);
	is_str(copy.name, "a:1", "the copy stands alone");
	vipu_address_done(&copy);
}

int main(void)
{
	test_flat();
	test_objects();
	test_bounds();
	test_copy();
	return done_testing();
}
