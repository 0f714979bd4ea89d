/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live page's files, which are built in, and the fields that all answers around it have
 * (doc/design/page.md). For the proxy role, and for ipuctl ui, which trusts no one else's. Uses
 * http.
 */
#ifndef IPU_PROXY_PAGE_H
#define IPU_PROXY_PAGE_H

#include "http/server.h"

enum page_file { PAGE_HTML, PAGE_CSS, PAGE_JS, PAGE_SVG, N_PAGE_FILES };

#define PAGE_FIELDS 7
extern const struct http_header page_fields[PAGE_FIELDS];

void page_reply(struct http_exchange *ex, enum page_file which);

#endif
