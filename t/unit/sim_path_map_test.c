/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount points in texts: where they are replaced, and where something only looks like one.
 */
#include "tap.h"

#include <stdlib.h>

#include "sim/path_map.h"

static const struct {
	const char *text, *want;
} cases[] = {
	{"", ""},
	{"/data", "/D"},
	{"/data/", "/D/"},
	{"/data/x", "/D/x"},
	{"cat /data/x; ls /data", "cat /D/x; ls /D"},
	{"--file=/data/x,/data/y", "--file=/D/x,/D/y"},
	{"PATH=/data:/bin:/data/bin", "PATH=/D:/bin:/D/bin"},
	{"\"/data\"", "\"/D\""},
	{"/data2", "/data2"},
	{"/data-2", "/data-2"},
	{"/data.old/x", "/data.old/x"},
	{"/my/data/x", "/my/data/x"},
	{"my/data/x", "my/data/x"},
	{"//data", "//data"},
	{"/data/sub", "/S"},
	{"/data/sub/x", "/S/x"},
	{"/data/subs", "/D/subs"},
	/* What is put in isn't looked at again. */
	{"/loop/x", "/data/x"},
	{"/.ipu/ipu-launcher", "/I/ipu-launcher"},
};

int main(void)
{
	struct path_map m = {0};

	path_map_add(&m, STR("/data/"), "/D");
	path_map_add(&m, STR("/data"), "/other");
	path_map_add(&m, STR("/data/sub"), "/S");
	path_map_add(&m, STR("/loop"), "/data");
	path_map_add(&m, STR("/.ipu"), "/I");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = path_map_apply(&m, str_of(cases[i].text));
		is_str(got, cases[i].want, "%s", cases[i].text);
		free(got);
	}
	is_str(path_map_find(&m, "/data"), "/D", "found");
	is_str(path_map_find(&m, "/data/x"), NULL, "only what is there");
	path_map_done(&m);
	path_map_done(&m);
	return done_testing();
}
