/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the type of a key asks of a text.
 */
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "http/message.h"
#include "job/rdma.h"
#include "kube/object.h"
#include "net/net.h"
#include "config_keys.h"

/* gRPC over HTTP/2, "Custom-Metadata", ASCII headers only. */
static bool is_metadata_key(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", s.p[i]) || !s.p[i])
			return false;
	}
	return s.len > 0 && !str_has_prefix(s, STR("grpc-")) && !str_has_suffix(s, STR("-bin"));
}

/* An interface's name (ip-link(8): no '/', no space, at most 15), or ADDRESS/BITS; several of them
 * with commas, as Open MPI takes them. */
static bool is_interface(struct str s)
{
	char z[64], *slash;
	struct net_addr addr;
	int64_t bits;

	if (s.len == 0 || s.len >= sizeof(z))
		return false;
	snprintf(z, sizeof(z), "%.*s", STR_ARG(s));
	slash = strchr(z, '/');
	if (!slash)
		return s.len <= 15 &&
		       strspn(z, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789-_.:@") == s.len;
	*slash++ = '\0';
	return net_addr_parse(z, 0, &addr) == 0 &&
	       str_to_int(str_of(slash), 0, strchr(z, ':') ? 128 : 32, &bits, NULL) == 0;
}

static bool are_interfaces(struct str text)
{
	struct str one;

	do {
		str_cut(text, ',', &one, &text);
		if (!is_interface(one))
			return false;
	} while (text.len);
	return true;
}

static bool is_folder(struct str s)
{
	return s.len > 0 && s.p[0] == '/';
}

static bool are_all(struct str text, bool (*is_good)(struct str one))
{
	struct str one;

	if (str_eqz(text, "*"))
		return true;
	while (text.len) {
		str_cut(text, ',', &one, &text);
		if (!is_good(str_trim(one)))
			return false;
	}
	return true;
}

/* An address to listen at, or a name by Kubernetes' rules: what its type asks of a text. */
int config_check_text(const struct key *key, struct str text, struct err *err)
{
	CLEANUP_FREE char *z = str_dup(text);
	char host[NET_HOST_SIZE];
	struct http_url url;
	uint16_t port;

	if (key->type == KEY_ADDRESS && text.len && net_split_host_port(z, 0, host, &port, err) < 0)
		return err_wrap(err, "%s: must be HOST:PORT, [IPV6]:PORT, :PORT or \"\"",
				key->name);
	if (key->type == KEY_PEER && text.len &&
	    (net_split_host_port(z, CONFIG_PEER_PORT, host, &port, NULL) < 0 || !host[0] ||
	     port == 0))
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be HOST:PORT or [IPV6]:PORT, which others can connect to, "
			       "or a host alone, for port %d",
			       key->name, CONFIG_PEER_PORT);
	if (key->type == KEY_URL && text.len && http_url_parse(text, &url, err) < 0)
		return err_wrap(err, "%s: must be http://HOST:PORT or https://HOST:PORT",
				key->name);
	if (key->type == KEY_HTTPS && text.len &&
	    (http_url_parse(text, &url, NULL) < 0 || !url.tls || memchr(text.p, '?', text.len)))
		return err_set(err, ERR_INVALID, 0, "%s: must be https://HOST[:PORT][/PATH]",
			       key->name);
	if (key->type == KEY_NAMESPACES && text.len &&
	    (str_eqz(text, "*") || !are_all(text, kube_is_dns1123_label)))
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be namespaces with commas between them, or \"\" for all",
			       key->name);
	if (key->type == KEY_INTERFACE && text.len && !are_interfaces(text))
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be a network interface or a subnet (ADDRESS/BITS), or "
			       "several with commas",
			       key->name);
	if (key->type == KEY_NETWORK && text.len && !job_rdma_is_network(text))
		return err_set(err, ERR_INVALID, 0, "%s: must be [NAMESPACE/]NAME[@INTERFACE]",
			       key->name);
	if (key->type == KEY_RESOURCE && text.len && !job_rdma_is_resource(text))
		return err_set(err, ERR_INVALID, 0, "%s: must be an extended resource, DOMAIN/NAME",
			       key->name);
	if (key->type == KEY_FOLDERS && !are_all(text, is_folder))
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be \"*\", or absolute paths with commas between them",
			       key->name);
	if (key->type == KEY_ACCOUNTS && !are_all(text, kube_is_dns1123_subdomain))
		return err_set(err, ERR_INVALID, 0,
			       "%s: must be \"*\", or names with commas between them", key->name);
	if (key->type == KEY_LABEL_OR_NONE && text.len && !kube_is_label_key(text))
		return err_set(
			err, ERR_INVALID, 0,
			"%s: must be a key as labels have them, such as example.com/name, or "
			"\"\" for none",
			key->name);
	if (key->type == KEY_METADATA && !is_metadata_key(text))
		return err_set(
			err, ERR_INVALID, 0,
			"%s: must be lower-case letters, digits, '-', '_' and '.', not begin "
			"with grpc- and not end with -bin",
			key->name);
	if (((key->type == KEY_NAMESPACE || key->type == KEY_NAME_OR_NONE) && text.len) ||
	    key->type == KEY_NAME)
		return kube_check_name(key->name, text, key->type != KEY_NAMESPACE, err);
	return 0;
}
