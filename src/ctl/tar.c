/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One header block a file, its bytes, and zeroes up to the next block.
 */
#include "ctl/tar.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_BYTES   100
#define PREFIX_BYTES 155
#define MAX_SIZE     077777777777 /* eleven octal digits */

/* Of the header, all bytes that aren't named here stay 0. */
enum {
	AT_NAME = 0,
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_CHECKSUM = 148,
	AT_TYPE = 156,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
};

/* Octal with leading zeroes and a NUL behind it. */
static void put_number(char *block, size_t at, int width, uint64_t n)
{
	char z[24];

	snprintf(z, sizeof(z), "%0*" PRIo64, width, n);
	memcpy(block + at, z, (size_t)width + 1);
}

/* The last slash that leaves a name that fits. */
static int put_name(char *block, const char *name, struct err *err)
{
	size_t len = strlen(name), cut = 0;

	if (len <= NAME_BYTES) {
		memcpy(block + AT_NAME, name, len);
		return 0;
	}
	for (size_t i = 1; i < len && i <= PREFIX_BYTES; i++) {
		if (name[i] == '/' && len - i - 1 <= NAME_BYTES && len - i - 1 > 0)
			cut = i;
	}
	if (!cut)
		return err_set(err, ERR_INVALID, 0, "%.80s…: too long a name for an archive", name);
	memcpy(block + AT_PREFIX, name, cut);
	memcpy(block + AT_NAME, name + cut + 1, len - cut - 1);
	return 0;
}

int ctl_tar_add(struct buf *out, const char *name, struct str content, int64_t mtime_s,
		struct err *err)
{
	static const char zeroes[CTL_TAR_BLOCK];
	char block[CTL_TAR_BLOCK] = {0};
	size_t rest = content.len % CTL_TAR_BLOCK, before = out->len;
	unsigned sum = 0;

	if (put_name(block, name, err) < 0)
		return -1;
	if (content.len > MAX_SIZE)
		return err_set(err, ERR_LIMIT, 0, "%s: too large for an archive", name);
	put_number(block, AT_MODE, 7, 0600);
	put_number(block, AT_UID, 7, 0);
	put_number(block, AT_GID, 7, 0);
	put_number(block, AT_SIZE, 11, content.len);
	put_number(block, AT_MTIME, 11, mtime_s > 0 ? (uint64_t)mtime_s : 0);
	block[AT_TYPE] = '0';
	memcpy(block + AT_MAGIC, "ustar\00000", 8);
	/* The sum of all bytes, its own taken as spaces. */
	memset(block + AT_CHECKSUM, ' ', 8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += (unsigned char)block[i];
	put_number(block, AT_CHECKSUM, 6, sum);
	if (buf_append(out, block, sizeof(block), err) < 0 ||
	    buf_append_str(out, content, err) < 0 ||
	    (rest && buf_append(out, zeroes, CTL_TAR_BLOCK - rest, err) < 0)) {
		out->len = before; /* half a file would spoil what is behind it */
		return -1;
	}
	return 0;
}

int ctl_tar_end(struct buf *out, struct err *err)
{
	static const char zeroes[2 * CTL_TAR_BLOCK];

	return buf_append(out, zeroes, sizeof(zeroes), err);
}
