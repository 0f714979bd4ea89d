/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name ends at the first character that can't be in one. Uses core.
 */
#include "launcher/hostfile.h"

#include <stdlib.h>
#include <string.h>

static bool is_known(char *const *hosts, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eqz(name, hosts[i]))
			return true;
	return false;
}

int hostfile_parse(struct str text, char ***ret_hosts, size_t *ret_n, struct err *err)
{
	char **hosts = NULL;
	size_t n = 0;
	struct str line;
	while (text.len > 0) {
		str_cut(text, '\n', &line, &text);
		line = str_trim(line);
		size_t len = 0;
		while (len < line.len && !strchr(" \t:#", line.p[len]))
			len++;
		line.len = len;
		if (len == 0 || is_known(hosts, n, line))
			continue;
		hosts = xrealloc(hosts, (n + 1) * sizeof(*hosts));
		hosts[n++] = str_dup(line);
	}
	if (n == 0)
		return err_set(err, ERR_INVALID, 0, "there is no host in it");
	*ret_hosts = hosts;
	*ret_n = n;
	return 0;
}

void hostfile_free(char **hosts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(hosts[i]);
	free(hosts);
}
