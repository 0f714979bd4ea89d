/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server warns of in the head of an answer (Kubernetes: Warning headers; RFC
 * 7234, 5.5).
 */
#ifndef IPU_KUBE_WARNING_H
#define IPU_KUBE_WARNING_H

#include "http/message.h"
#include "kube/client.h"

#define KUBE_MAX_WARNINGS      32
#define KUBE_MAX_WARNING_BYTES 8192 /* of all texts */

/* Owned texts, UTF-8, each once. */
struct kube_warning_list {
	char *items[KUBE_MAX_WARNINGS];
	size_t n, bytes;
};

/* Adds the texts of code 299 of all Warning fields; a field is read as far as it's well-formed. */
void kube_warnings_add(struct kube_warning_list *list, const struct http_headers *headers);
void kube_warnings_clear(struct kube_warning_list *list);

#endif
