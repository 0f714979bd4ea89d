/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a secure controller asks of its callers: TLS, a client certificate, a user id and an access
 * key. Settings come as JSON, at the start and at run time; certificates are made here or given.
 * The simulator owns them. Uses core, net, grpc.
 */
#include <stdlib.h>

#include "grpc/server.h"
#include "net/tls.h"
#include "sim/certificate.h"
#include "vipu/client.h"
#include "vipu_sim_impl.h"

/* What was named: borrowed from the JSON, NULL where it wasn't. */
struct settings {
	const struct json *tls, *client_cert, *new_certificate;
	const struct json *user, *access, *user_key, *access_key, *cert, *key;
};

static int take_setting(struct settings *s, struct str key, const struct json *v, struct err *err)
{
	const struct {
		const char *key;
		enum json_type type;
		const struct json **to;
	} known[] = {
		{"tls", JSON_BOOL, &s->tls},
		{"clientCert", JSON_BOOL, &s->client_cert},
		{"newCertificate", JSON_BOOL, &s->new_certificate},
		{"userId", JSON_STRING, &s->user},
		{"accessKey", JSON_STRING, &s->access},
		{"userIdMetadata", JSON_STRING, &s->user_key},
		{"accessKeyMetadata", JSON_STRING, &s->access_key},
		{"cert", JSON_STRING, &s->cert},
		{"key", JSON_STRING, &s->key},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!str_eqz(key, known[i].key))
			continue;
		if (json_type(v) != known[i].type)
			return err_set(err, ERR_INVALID, 0, "%s: must be %s", known[i].key,
				       known[i].type == JSON_BOOL ? "true or false" : "a string");
		*known[i].to = v;
		return 0;
	}
	return err_set(err, ERR_INVALID, 0, "%.*s: there is no such key here", STR_ARG(key));
}

static int read_settings(const struct json *v, struct settings *ret, struct err *err)
{
	struct json_iter it = json_iter(v);

	*ret = (struct settings){0};
	if (json_type(v) != JSON_OBJECT)
		return err_set(err, ERR_INVALID, 0, "a JSON object is needed, not %s",
			       json_type_name(json_type(v)));
	while (json_next(&it))
		if (take_setting(ret, it.key, it.value, err) < 0)
			return -1;
	if (!ret->cert != !ret->key)
		return err_set(err, ERR_INVALID, 0, "cert and key: one is there, the other isn't");
	return 0;
}

static void set_text(char **to, const struct json *v)
{
	if (!v)
		return;
	free(*to);
	*to = str_dup(json_str(v));
}

/* "" takes the demand back. */
static void set_demand(char **to, const struct json *v)
{
	set_text(to, v);
	if (v && !(*to)[0]) {
		free(*to);
		*to = NULL;
	}
}

static int make_certificates(struct vipu_sim *sim, const struct settings *s, struct err *err)
{
	char *cert = NULL, *key = NULL;

	if (s->cert) {
		set_text(&sim->cert_pem, s->cert);
		set_text(&sim->key_pem, s->key);
	} else if (!sim->cert_pem || json_bool(s->new_certificate, false)) {
		if (sim_certificate_make(sim->host, &cert, &key, err) < 0)
			return -1;
		free(sim->cert_pem);
		free(sim->key_pem);
		sim->cert_pem = cert;
		sim->key_pem = key;
	}
	if (!sim->client_cert || sim->client_pem)
		return 0;
	return sim_certificate_make(NULL, &sim->client_pem, &sim->client_key_pem, err);
}

static int make_tls(struct vipu_sim *sim, struct err *err)
{
	static const char *const alpn[] = {"h2", NULL};
	struct tls_server_opts opts = {
		.cert_pem = str_of(sim->cert_pem),
		.key_pem = str_of(sim->key_pem),
		.client_ca_pem = sim->client_cert ? str_of(sim->client_pem) : STR_NULL,
		.client_cert_required = sim->client_cert,
		.alpn = alpn,
	};
	struct tls_config *made = NULL;

	if (tls_config_new_server(&opts, &made, err) < 0)
		return -1;
	tls_config_unref(sim->tls);
	sim->tls = made;
	return 0;
}

/* As it was, up or down, with what it speaks from now on; nobody stays connected. */
static int speak_anew(struct vipu_sim *sim, const struct settings *s, bool tls, struct err *err)
{
	bool was_up = sim->server != NULL;

	if (s->client_cert)
		sim->client_cert = json_bool(s->client_cert, false);
	if (tls && (make_certificates(sim, s, err) < 0 || make_tls(sim, err) < 0))
		return -1;
	if (!tls) {
		tls_config_unref(sim->tls);
		sim->tls = NULL;
	}
	vipu_sim_go_down(sim);
	return was_up ? vipu_sim_come_up(sim, err) : 0;
}

int vipu_sim_secure(struct vipu_sim *sim, const struct json *v, struct err *err)
{
	struct settings s;
	bool tls;

	if (read_settings(v, &s, err) < 0)
		return -1;
	tls = s.tls ? json_bool(s.tls, true) : sim->tls || !sim->secure;
	if ((s.tls || s.client_cert || s.new_certificate || s.cert || !sim->secure) &&
	    speak_anew(sim, &s, tls, err) < 0)
		return -1;
	sim->secure = true;
	set_demand(&sim->user, s.user);
	set_demand(&sim->access, s.access);
	set_text(&sim->user_key, s.user_key);
	set_text(&sim->access_key, s.access_key);
	return 0;
}

struct jmut *vipu_sim_secure_to_json(const struct vipu_sim *sim, struct jmut_doc *doc)
{
	struct jmut *root = jmut_object(doc);

	jmut_set_bool(doc, root, "tls", sim->tls != NULL);
	jmut_set_bool(doc, root, "clientCert", sim->tls && sim->client_cert);
	if (sim->tls && sim->cert_pem)
		jmut_set_str(doc, root, "ca", sim->cert_pem);
	if (sim->tls && sim->client_cert) {
		jmut_set_str(doc, root, "cert", sim->client_pem);
		jmut_set_str(doc, root, "key", sim->client_key_pem);
	}
	if (sim->user)
		jmut_set_str(doc, root, "userId", sim->user);
	if (sim->access)
		jmut_set_str(doc, root, "accessKey", sim->access);
	jmut_set_str(doc, root, "userIdMetadata", sim->user_key);
	jmut_set_str(doc, root, "accessKeyMetadata", sim->access_key);
	return root;
}

/* What the call carries under this name, against what it must. */
static enum grpc_status judge(const struct grpc_server_call *call, const char *name,
			      const char *want)
{
	struct str got = grpc_server_call_metadata(call, name);

	if (!want)
		return GRPC_OK;
	if (!got.p)
		return GRPC_UNAUTHENTICATED;
	return str_eqz(got, want) ? GRPC_OK : GRPC_PERMISSION_DENIED;
}

enum grpc_status vipu_sim_admit(const struct vipu_sim *sim, const struct grpc_server_call *call,
				const char **ret_why)
{
	enum grpc_status user = judge(call, sim->user_key, sim->user);
	enum grpc_status access = judge(call, sim->access_key, sim->access);

	if (user == GRPC_UNAUTHENTICATED || access == GRPC_UNAUTHENTICATED) {
		*ret_why = "user id or access key is missing";
		return GRPC_UNAUTHENTICATED;
	}
	*ret_why = "wrong user id or access key";
	return user != GRPC_OK ? user : access;
}
