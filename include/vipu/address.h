/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration's list of V-IPU controllers, in the guides' flat string
 *   host:port:label=value[,host:port:label=value…]
 * or as a list of objects. Bad entries are reported, the good ones serve. Uses core.
 */
#ifndef IPU_VIPU_ADDRESS_H
#define IPU_VIPU_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "core/str.h"

#define VIPU_MAX_CONTROLLERS 256

enum vipu_ipuof_mode {
	VIPU_IPUOF_DEFAULT, /* api, or file where the controller is secure */
	VIPU_IPUOF_API,
	VIPU_IPUOF_FILE,
};

/* Owned by its list. Strings are never NULL, "" is "not given". */
struct vipu_address {
	char *name; /* "host:port" or "[v6]:port", host in lower case: the controller's identity */
	char *host; /* without brackets */
	uint16_t port;
	char *label, *value; /* the nodes' label; both "": any node */
	char *cluster;       /* cluster_id of partitions made here */
	char *allocation;
	char *secret_name; /* user id, access key and CA are there */
	char *server_name; /* that the certificate must name; "": host */
	bool tls;
	bool insecure_skip_verify;
	enum vipu_ipuof_mode ipuof;
};

struct vipu_address_problem {
	char *text;   /* the entry as it was written, cut to something printable */
	char *reason; /* for people: "port 80900 is not between 1 and 65535" */
	size_t entry; /* its place in a list, from 1; 0: it isn't in one */
};

struct vipu_address_list {
	struct vipu_address *items;
	size_t n;
	struct vipu_address_problem *problems;
	size_t n_problems;
};
void vipu_address_list_done(struct vipu_address_list *list);

/* The flat form. Default port 8090, IPv6 in brackets, white space between entries, empty entries
 * (a comma at the end) are nothing. Of entries with one host and port the first serves. */
void vipu_address_parse(struct str text, struct vipu_address_list *ret);

/* A JSON (or YAML) value: a string in the flat form, null, or an array of such strings and of
 * objects with address, selector ("label=value"), cluster, allocation, tls (true, false, or an
 * object with serverName, insecureSkipVerify), secretName and ipuofConfig ("api", "file"). */
void vipu_address_from_json(const struct json *v, struct vipu_address_list *ret);

/* The mode with the default worked out. */
enum vipu_ipuof_mode vipu_address_ipuof(const struct vipu_address *a);
bool vipu_address_equal(const struct vipu_address *a, const struct vipu_address *b);
void vipu_address_copy(const struct vipu_address *from, struct vipu_address *ret); /* deep */
void vipu_address_done(struct vipu_address *a);                                    /* of a copy */

#endif
