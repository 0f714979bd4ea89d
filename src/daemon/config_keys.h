/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of keys, for who reads the configuration (config.c) and who reads it again (reload.c).
 */
#ifndef IPU_DAEMON_CONFIG_KEYS_H
#define IPU_DAEMON_CONFIG_KEYS_H

#include "core/str.h"
#include "daemon/config.h"

enum key_type {
	KEY_TEXT,
	KEY_NAMESPACE,
	KEY_NAME,
	KEY_NAME_OR_NONE,
	KEY_METADATA, /* a key of gRPC metadata */
	KEY_NUMBER,
	KEY_BOOL,
	KEY_CHOICE,
	KEY_ADDRESS,
	KEY_PEER, /* an address that others connect to */
	KEY_URL,
	KEY_HTTPS, /* where the API server is to find something: no query */
	KEY_NAMESPACES,
	KEY_INTERFACE,     /* a network interface, or a subnet in CIDR notation */
	KEY_NETWORK,       /* a network of Multus' */
	KEY_RESOURCE,      /* an extended resource */
	KEY_FOLDERS,       /* "*", or absolute paths with commas between */
	KEY_ACCOUNTS,      /* "*", or names with commas between */
	KEY_LABEL_OR_NONE, /* a label's key, a taint's */
	KEY_ROLES,
	KEY_CONTROLLERS,
	KEY_POLICIES
};

struct key {
	const char *name; /* "proxy.listen" */
	enum key_type type;
	size_t offset;    /* in struct config */
	const char *text; /* the default; of numbers and booleans too */
	long min, max;
	const char *choices; /* "auto|true|false" */
};

extern const struct key config_keys[];
extern const size_t config_n_keys;

static inline void *config_field(struct config *c, const struct key *key)
{
	return (char *)c + key->offset;
}

/* config_text.c: ERR_INVALID. */
int config_check_text(const struct key *key, struct str text, struct err *err);

/* config_checks.c: of keys that don't go together, ERR_INVALID. */
typedef int config_check_fn(struct config *c, struct err *err);
extern config_check_fn *const config_checks[];
extern const size_t config_n_checks;

#define CONFIG_PEER_PORT 8445 /* proxy.tlsListen's */

/* The policy for all namespaces, of policy.maxIpus and its like. */
void config_make_fallback(struct config *c);

/* Whether its field is a string of the configuration's own. */
static inline bool config_key_is_text(const struct key *key)
{
	switch (key->type) {
	case KEY_NUMBER:
	case KEY_BOOL:
	case KEY_ROLES:
	case KEY_CONTROLLERS:
	case KEY_POLICIES:
		return false;
	default:
		return true;
	}
}

#endif
