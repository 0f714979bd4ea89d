/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for libFuzzer: runs a target on each file of the folders (or the files) that are named,
 * in the order of their names. Arguments that begin with '-' are libFuzzer's and left out.
 * Prints "NUMBER inputs".
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define MAX_INPUT_BYTES ((size_t)16 << 20)

static _Noreturn void give_up(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	exit(2);
}

static void run_file(const char *path)
{
	struct buf text = BUF_INIT(MAX_INPUT_BYTES);
	FILE *f = fopen(path, "rb");
	char *room;
	size_t n;

	if (!f)
		give_up(path);
	do {
		MUST(buf_reserve(&text, 4096, &room, NULL) == 0);
		n = fread(room, 1, 4096, f);
		buf_commit(&text, n);
	} while (n > 0);
	if (ferror(f))
		give_up(path);
	fclose(f);

	/* Exactly its size, as libFuzzer has it. */
	uint8_t *exact = malloc(text.len);
	MUST(exact || text.len == 0);
	if (text.len > 0)
		memcpy(exact, text.p, text.len);
	LLVMFuzzerTestOneInput(exact, text.len);
	free(exact);
	buf_done(&text);
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static size_t run(const char *path)
{
	struct dirent **entries;
	struct stat st;

	if (stat(path, &st) < 0)
		give_up(path);
	if (!S_ISDIR(st.st_mode)) {
		/* Said first: whatever comes then is this file's. */
		fprintf(stderr, "%s\n", path);
		run_file(path);
		return 1;
	}

	int n = scandir(path, &entries, is_visible, alphasort);
	size_t inputs = 0;
	if (n < 0)
		give_up(path);
	for (int i = 0; i < n; i++) {
		CLEANUP_FREE char *inner = xasprintf("%s/%s", path, entries[i]->d_name);
		inputs += run(inner);
		free(entries[i]);
	}
	free(entries);
	return inputs;
}

int main(int argc, char **argv)
{
	size_t inputs = 0;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			inputs += run(argv[i]);
	}
	printf("%zu inputs\n", inputs);
	return 0;
}
