/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where log lines go, and in which form: the configuration's choice, or what stderr is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "daemon/internal.h"

/* systemd.exec(5), "$JOURNAL_STREAM": device and inode of what leads to the journal. Stderr may
 * have been sent elsewhere since. */
static bool is_journal(int fd)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	char end;

	return text && sscanf(text, "%llu:%llu%c", &device, &inode, &end) == 2 &&
	       fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void logging_use(const struct config *c)
{
	enum log_format format = LOG_TEXT;

	if (strcmp(c->log_format, "json") == 0)
		format = LOG_JSON;
	else if (strcmp(c->log_format, "journald") == 0 ||
		 (strcmp(c->log_format, "auto") == 0 && is_journal(STDERR_FILENO)))
		format = LOG_JOURNALD;
	log_init((enum log_level)c->log_level, format, STDERR_FILENO);
}
