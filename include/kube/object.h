/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every Kubernetes object has: its metadata, read without asking twice, its key, and the
 * rules for names and labels.
 */
#ifndef IPU_KUBE_OBJECT_H
#define IPU_KUBE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"

/* Accessors: borrowed from the object, empty when absent or of another type. */
struct str kube_name(const struct json *object);
struct str kube_namespace(const struct json *object);
struct str kube_uid(const struct json *object);
struct str kube_version(const struct json *object); /* resourceVersion */
int64_t kube_generation(const struct json *object); /* 0 when absent */
struct str kube_label(const struct json *object, const char *key);
struct str kube_annotation(const struct json *object, const char *key);
bool kube_is_deleting(const struct json *object);    /* has a deletionTimestamp */
int64_t kube_deletion_ms(const struct json *object); /* wall clock; 0: isn't being deleted */
int64_t kube_creation_ms(const struct json *object); /* wall clock; 0: unknown */
bool kube_has_finalizer(const struct json *object, const char *finalizer);
/* The ownerReference with controller: true; NULL if there's none. */
const struct json *kube_controller_ref(const struct json *object);
bool kube_is_owned_by(const struct json *object, struct str uid); /* any ownerReference */

/* Into an object's metadata: its only owner, with controller and blockOwnerDeletion. */
void kube_set_owner(struct jmut_doc *doc, struct jmut *meta, const char *api_version,
		    const char *kind, const char *name, const char *uid);

/* "namespace/name", or "name" when ns is empty. */
#define KUBE_KEY_SIZE (63 + 1 + 253 + 1)
/* Returns a view of ret_z; empty if it doesn't fit or the object has no name. */
struct str kube_key(struct str ns, struct str name, char ret_z[KUBE_KEY_SIZE]);
struct str kube_object_key(const struct json *object, char ret_z[KUBE_KEY_SIZE]);
void kube_key_split(struct str key, struct str *ret_ns, struct str *ret_name);

/* Orders two resourceVersions, as <0, 0, >0. Decimal numbers by value (Kubernetes API Concepts,
 * "Resource versions"); if either isn't one: 0 when equal, else 1. */
int kube_version_cmp(struct str a, struct str b);

/* Names (Kubernetes: Object Names and IDs; Labels and Selectors). */
bool kube_is_dns1123_label(struct str s);     /* at most 63 */
bool kube_is_dns1123_subdomain(struct str s); /* at most 253 */
bool kube_is_label_key(struct str s);         /* [prefix/]name */
bool kube_is_label_value(struct str s);       /* at most 63, may be empty */
/* The same with an error that says what is wrong: `what` names the thing. */
int kube_check_name(const char *what, struct str s, bool subdomain, struct err *err);

#endif
