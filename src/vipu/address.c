/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the list of V-IPU controllers, flat or as objects, entry by entry: a bad one becomes a
 * problem, the others serve. The list owns all strings.
 * Uses core only.
 */
#include "vipu/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <arpa/inet.h>

#include "vipu/client.h"

#define MAX_PROBLEMS 64
#define SHOWN_BYTES  120

/* ---- the list ---- */

static void address_done(struct vipu_address *a)
{
	free(a->name);
	free(a->host);
	free(a->label);
	free(a->value);
	free(a->cluster);
	free(a->allocation);
	free(a->secret_name);
	free(a->server_name);
}

void vipu_address_list_done(struct vipu_address_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		address_done(&list->items[i]);
	for (size_t i = 0; i < list->n_problems; i++) {
		free(list->problems[i].text);
		free(list->problems[i].reason);
	}
	free(list->items);
	free(list->problems);
	*list = (struct vipu_address_list){0};
}

/* An entry as people wrote it, in one printable line. */
static char *shown(struct str text)
{
	size_t len = str_utf8_cut(text, SHOWN_BYTES);
	char *z = xasprintf("%.*s%s", (int)len, text.p ? text.p : "", len < text.len ? "…" : "");

	for (char *c = z; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return z;
}

static void add_problem(struct vipu_address_list *list, struct str text, const char *reason)
{
	if (list->n_problems == MAX_PROBLEMS)
		return;
	list->problems = xrealloc(list->problems, (list->n_problems + 1) * sizeof(*list->problems));
	list->problems[list->n_problems++] = (struct vipu_address_problem){
		.text = shown(text), .reason = xstrdup(reason)};
}

/* Takes the address over. */
static void add_address(struct vipu_address_list *list, struct str text, struct vipu_address *a)
{
	const char *why = NULL;

	for (size_t i = 0; i < list->n && !why; i++)
		if (strcmp(list->items[i].name, a->name) == 0)
			why = "this controller is in the list already; the first entry serves";
	if (!why && list->n == VIPU_MAX_CONTROLLERS)
		why = "too many controllers";
	if (why) {
		add_problem(list, text, why);
		address_done(a);
		return;
	}
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	list->items[list->n++] = *a;
}

/* ---- pieces ---- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A label's name or value, or a part of a DNS name: alphanumeric at both ends, and of these within
 * (https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/). */
static bool is_word(struct str s, const char *within, size_t max)
{
	if (s.len == 0 || s.len > max || !is_alnum(s.p[0]) || !is_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_alnum(s.p[i]) && (!s.p[i] || !strchr(within, s.p[i])))
			return false;
	return true;
}

static bool is_dns_name(struct str s, size_t max)
{
	struct str part, rest = s;

	if (s.len == 0 || s.len > max)
		return false;
	if (s.p[s.len - 1] == '.') /* absolute */
		rest.len--;
	do {
		bool more = str_cut(rest, '.', &part, &rest);
		if (!is_word(part, "-_", 63))
			return false;
		if (!more)
			return true;
	} while (true);
}

static int parse_selector(struct str s, struct vipu_address *a, struct err *err)
{
	struct str key, value, prefix, name;

	if (!str_cut(s, '=', &key, &value))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no node label: write label=value",
			       STR_ARG(s));
	key = str_trim(key);
	value = str_trim(value);
	if (!str_cut(key, '/', &prefix, &name))
		name = key;
	else if (!is_dns_name(prefix, 253))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no prefix of a node label",
			       STR_ARG(prefix));
	if (!is_word(name, "-_.", 63))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no name of a node label",
			       STR_ARG(name));
	if (value.len > 0 && !is_word(value, "-_.", 63))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no value of a node label",
			       STR_ARG(value));
	free(a->label);
	free(a->value);
	a->label = str_dup(key);
	a->value = str_dup(value);
	return 0;
}

static int parse_port(struct str s, uint16_t *ret, struct err *err)
{
	int64_t port;

	if (str_to_int(s, 1, 65535, &port, NULL) < 0)
		return err_set(err, ERR_INVALID, 0, "port \"%.*s\" isn't a number from 1 to 65535",
			       STR_ARG(s));
	*ret = (uint16_t)port;
	return 0;
}

/* Without brackets: more colons than "host:port:label=value" has. */
static bool looks_like_v6(struct str s)
{
	size_t colons = 0;

	for (size_t i = 0; i < s.len && s.p[i] != '='; i++)
		colons += s.p[i] == ':';
	return colons > 2 || memmem(s.p, s.len, "::", 2);
}

/* Cuts the host off; what follows its ':' (or nothing) is *ret_rest. */
static int cut_host(struct str s, struct str *ret_host, bool *ret_v6, struct str *ret_rest,
		    struct err *err)
{
	char z[INET6_ADDRSTRLEN + 1] = "";
	struct in6_addr addr;

	*ret_v6 = s.len > 0 && s.p[0] == '[';
	if (!*ret_v6) {
		str_cut(s, ':', ret_host, ret_rest);
		if (looks_like_v6(s))
			return err_set(err, ERR_INVALID, 0,
				       "an IPv6 address must stand in brackets: [::1]:8090");
		if (ret_host->len == 0)
			return err_set(err, ERR_INVALID, 0, "the host is missing");
		if (!is_dns_name(*ret_host, 253))
			return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no host name or address",
				       STR_ARG(*ret_host));
		return 0;
	}
	struct str inside = {s.p + 1, s.len - 1};
	if (!str_cut(inside, ']', ret_host, ret_rest))
		return err_set(err, ERR_INVALID, 0, "the bracket isn't closed");
	struct str plain, zone;
	bool has_zone = str_cut(*ret_host, '%', &plain, &zone);
	if (plain.len < sizeof(z))
		memcpy(z, plain.p, plain.len);
	if (strlen(z) != plain.len || inet_pton(AF_INET6, z, &addr) != 1 ||
	    (has_zone && !is_word(zone, "-_.", 15)))
		return err_set(err, ERR_INVALID, 0, "\"%.*s\" is no IPv6 address",
			       STR_ARG(*ret_host));
	if (ret_rest->len > 0 && ret_rest->p[0] != ':')
		return err_set(err, ERR_INVALID, 0, "behind the bracket, \":port\" was expected");
	if (ret_rest->len > 0) {
		ret_rest->p++;
		ret_rest->len--;
	}
	return 0;
}

/* host[:port][:label=value]. Fills a, whose strings are all there; on failure they're freed. */
static int parse_entry(struct str text, struct vipu_address *a, struct err *err)
{
	struct str host = STR_NULL, rest = STR_NULL, port, selector = STR_NULL;
	bool is_v6 = false;

	*a = (struct vipu_address){
		.port = VIPU_DEFAULT_PORT,
		.label = xstrdup(""),
		.value = xstrdup(""),
		.cluster = xstrdup(""),
		.allocation = xstrdup(""),
		.secret_name = xstrdup(""),
		.server_name = xstrdup(""),
	};
	if (cut_host(text, &host, &is_v6, &rest, err) < 0)
		goto bad;
	port = rest;
	if (rest.len > 0 && !str_cut(rest, ':', &port, &selector) &&
	    memchr(port.p, '=', port.len)) {
		selector = port; /* host:label=value */
		port = STR_NULL;
	}
	port = str_trim(port);
	if (rest.len > 0 && port.len == 0 && selector.len == 0) {
		err_set(err, ERR_INVALID, 0, "the port is missing behind the colon");
		goto bad;
	}
	if (port.len > 0 && parse_port(port, &a->port, err) < 0)
		goto bad;
	selector = str_trim(selector);
	if (selector.len > 0 && parse_selector(selector, a, err) < 0)
		goto bad;
	a->host = str_dup(host);
	for (char *c = a->host; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	a->name = xasprintf(is_v6 ? "[%s]:%u" : "%s:%u", a->host, a->port);
	return 0;
bad:
	address_done(a);
	return -1;
}

/* ---- the flat form ---- */

static void parse_flat(struct str text, struct vipu_address_list *list)
{
	struct str entry, rest = text;
	bool more;

	do {
		struct vipu_address a;
		struct err err = ERR_INIT;
		more = str_cut(rest, ',', &entry, &rest);
		entry = str_trim(entry);
		if (entry.len == 0)
			continue;
		if (parse_entry(entry, &a, &err) < 0)
			add_problem(list, entry, err.msg);
		else
			add_address(list, entry, &a);
	} while (more);
}

void vipu_address_parse(struct str text, struct vipu_address_list *ret)
{
	*ret = (struct vipu_address_list){0};
	parse_flat(text, ret);
}

/* ---- objects ---- */

static int take_string(const struct json *obj, const char *key, char **to, struct err *err)
{
	const struct json *v = json_get(obj, key);

	if (!v || json_type(v) == JSON_NULL)
		return 0;
	if (json_type(v) != JSON_STRING)
		return err_set(err, ERR_INVALID, 0, "%s must be a string, not %s", key,
			       json_type_name(json_type(v)));
	free(*to);
	*to = str_dup(json_str(v));
	return 0;
}

static int take_tls(const struct json *obj, struct vipu_address *a, struct err *err)
{
	const struct json *v = json_get(obj, "tls"), *skip;
	struct json_iter it;

	a->tls = a->secret_name[0] != '\0'; /* a secure controller speaks TLS */
	switch (json_type(v)) {
	case JSON_NONE:
	case JSON_NULL:
		return 0;
	case JSON_BOOL:
		a->tls = json_bool(v, false);
		return 0;
	case JSON_OBJECT:
		break;
	default:
		return err_set(err, ERR_INVALID, 0, "tls must be true, false or an object, not %s",
			       json_type_name(json_type(v)));
	}
	a->tls = true;
	it = json_iter(v);
	while (json_next(&it))
		if (!str_eqz(it.key, "serverName") && !str_eqz(it.key, "insecureSkipVerify"))
			return err_set(err, ERR_INVALID, 0, "tls has no key \"%.*s\"",
				       STR_ARG(it.key));
	skip = json_get(v, "insecureSkipVerify");
	if (skip && json_type(skip) != JSON_BOOL)
		return err_set(err, ERR_INVALID, 0, "tls.insecureSkipVerify must be true or false");
	a->insecure_skip_verify = json_bool(skip, false);
	return take_string(v, "serverName", &a->server_name, err);
}

static int take_ipuof(const struct json *obj, struct vipu_address *a, struct err *err)
{
	const struct json *v = json_get(obj, "ipuofConfig");
	struct str s = json_str(v);

	if (!v || json_type(v) == JSON_NULL || (s.p && s.len == 0))
		return 0;
	if (str_eqz(s, "api"))
		a->ipuof = VIPU_IPUOF_API;
	else if (str_eqz(s, "file"))
		a->ipuof = VIPU_IPUOF_FILE;
	else
		return err_set(err, ERR_INVALID, 0, "ipuofConfig must be \"api\" or \"file\"");
	return 0;
}

static int check_keys(const struct json *obj, struct err *err)
{
	static const char *const keys[] = {"address", "selector",   "cluster",    "allocation",
					   "tls",     "secretName", "ipuofConfig"};
	struct json_iter it = json_iter(obj);

	while (json_next(&it)) {
		bool known = false;
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
			known = known || str_eqz(it.key, keys[i]);
		if (!known)
			return err_set(err, ERR_INVALID, 0, "there is no key \"%.*s\"",
				       STR_ARG(it.key));
	}
	return 0;
}

static int parse_object(const struct json *obj, struct vipu_address *a, struct err *err)
{
	struct str address = str_trim(json_str(json_get(obj, "address")));
	char *selector = NULL;
	int rc = -1;

	if (check_keys(obj, err) < 0)
		return -1;
	if (address.len == 0)
		return err_set(err, ERR_INVALID, 0, "the address is missing");
	if (parse_entry(address, a, err) < 0)
		return -1;
	if (take_string(obj, "selector", &selector, err) == 0 &&
	    (!selector || !selector[0] || parse_selector(str_of(selector), a, err) == 0) &&
	    take_string(obj, "cluster", &a->cluster, err) == 0 &&
	    take_string(obj, "allocation", &a->allocation, err) == 0 &&
	    take_string(obj, "secretName", &a->secret_name, err) == 0 &&
	    take_tls(obj, a, err) == 0 && take_ipuof(obj, a, err) == 0)
		rc = 0;
	free(selector);
	if (rc < 0)
		address_done(a);
	return rc;
}

static void from_entry(const struct json *v, size_t entry, struct vipu_address_list *ret)
{
	struct str text = json_str(json_get(v, "address"));
	struct err err = ERR_INIT;
	struct vipu_address a;
	char place[48];

	if (json_type(v) == JSON_STRING) {
		parse_flat(json_str(v), ret);
		return;
	}
	snprintf(place, sizeof(place), "entry %zu of the list", entry);
	if (!text.p)
		text = str_of(place);
	if (json_type(v) != JSON_OBJECT)
		add_problem(ret, text, "an entry is a string or an object");
	else if (parse_object(v, &a, &err) < 0)
		add_problem(ret, text, err.msg);
	else
		add_address(ret, text, &a);
}

void vipu_address_from_json(const struct json *v, struct vipu_address_list *ret)
{
	struct json_iter it = json_iter(v);

	*ret = (struct vipu_address_list){0};
	if (json_type(v) == JSON_STRING) {
		parse_flat(json_str(v), ret);
		return;
	}
	if (json_type(v) != JSON_ARRAY) {
		if (v && json_type(v) != JSON_NULL)
			add_problem(ret, str_of(json_type_name(json_type(v))),
				    "the controllers are a string or a list");
		return;
	}
	while (json_next(&it)) {
		size_t known = ret->n_problems;

		from_entry(it.value, it.index + 1, ret);
		for (; known < ret->n_problems; known++)
			ret->problems[known].entry = it.index + 1;
	}
}

enum vipu_ipuof_mode vipu_address_ipuof(const struct vipu_address *a)
{
	if (a->ipuof != VIPU_IPUOF_DEFAULT)
		return a->ipuof;
	return a->tls || a->secret_name[0] ? VIPU_IPUOF_FILE : VIPU_IPUOF_API;
}

bool vipu_address_equal(const struct vipu_address *a, const struct vipu_address *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->label, b->label) == 0 &&
	       strcmp(a->value, b->value) == 0 && strcmp(a->cluster, b->cluster) == 0 &&
	       strcmp(a->allocation, b->allocation) == 0 &&
	       strcmp(a->secret_name, b->secret_name) == 0 &&
	       strcmp(a->server_name, b->server_name) == 0 && a->tls == b->tls &&
	       a->insecure_skip_verify == b->insecure_skip_verify && a->ipuof == b->ipuof;
}

void vipu_address_copy(const struct vipu_address *from, struct vipu_address *ret)
{
	*ret = *from;
	ret->name = xstrdup(from->name);
	ret->host = xstrdup(from->host);
	ret->label = xstrdup(from->label);
	ret->value = xstrdup(from->value);
	ret->cluster = xstrdup(from->cluster);
	ret->allocation = xstrdup(from->allocation);
	ret->secret_name = xstrdup(from->secret_name);
	ret->server_name = xstrdup(from->server_name);
}

void vipu_address_done(struct vipu_address *a)
{
	address_done(a);
	*a = (struct vipu_address){0};
}
