/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes what looks like a secret out of objects and texts before they are given away: values by
 * their key or variable's name, tokens, private keys, passwords in URLs. Pure. Uses core.
 */
#ifndef IPU_CTL_REDACT_H
#define IPU_CTL_REDACT_H

#include <stdbool.h>

#include "core/buf.h"
#include "core/json.h"

#define CTL_REDACTED "<redacted>"

/* KEY: VALUE (with the lines that are indented further), KEY=VALUE and --KEY VALUE of such names,
 * "Bearer …", JSON Web Tokens, who and the password of a URL, the lines of a private key.
 * ERR_LIMIT. */
int ctl_redact_text(struct str text, struct buf *out, struct err *err);

/* The lines at the end of a text, so many bytes at most: whole ones, since of a line's end nobody
 * can tell whose value it is. */
struct str ctl_last_lines(struct str text, size_t most);

/* A copy in doc: the texts of all strings as above; members of such names; the values of variables
 * (name, value) but for those that the operator sets; the data of Secrets; caBundle; managedFields
 * and last-applied-configuration, which repeat it all. */
struct jmut *ctl_redact(struct jmut_doc *doc, const struct json *value);

#endif
