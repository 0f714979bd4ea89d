/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judging and renewing a set. A new authority is also signed by the old one, so that clients that
 * know either accept what is served. Uses core/.
 */
#include "set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/rand.h"

#define BACKDATE_MS INT64_C(3600000) /* for clients whose clocks are behind */
#define MAX_VALUE   131072

/* ---- the value ---- */

static void wipe(char **z)
{
	if (*z)
		str_wipe(*z, strlen(*z));
	free(*z);
	*z = NULL;
}

void cert_set_done(struct cert_set *set)
{
	wipe(&set->ca);
	wipe(&set->ca_key);
	wipe(&set->tls);
	wipe(&set->tls_key);
}

void cert_set_move(struct cert_set *to, struct cert_set *from)
{
	cert_set_done(to);
	*to = *from;
	*from = (struct cert_set){0};
}

void cert_set_copy(struct cert_set *to, const struct cert_set *from)
{
	to->ca = xstrdup(from->ca);
	to->ca_key = xstrdup(from->ca_key);
	to->tls = xstrdup(from->tls);
	to->tls_key = xstrdup(from->tls_key);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool cert_set_equal(const struct cert_set *a, const struct cert_set *b)
{
	return same(a->ca, b->ca) && same(a->ca_key, b->ca_key) && same(a->tls, b->tls) &&
	       same(a->tls_key, b->tls_key);
}

static int read_value(const struct json *v, char **ret, struct err *err)
{
	struct str s = json_str(v);
	struct err why = ERR_INIT;
	uint8_t *bytes;
	size_t len;

	if (s.len == 0 || s.len > MAX_VALUE)
		return 0;
	/* What there is no memory for is there, and not damaged. */
	if (base64_decode(s, &bytes, &len, &why) < 0)
		return why.kind == ERR_LIMIT ? err_copy(err, &why) : 0;
	char *z = (char *)bytes; /* decoding ends it with a NUL */
	if (len > 0 && strlen(z) == len) {
		*ret = z;
		return 0;
	}
	str_wipe(bytes, len);
	free(bytes);
	return 0;
}

int cert_set_read(struct cert_set *ret, const struct json *data, struct err *err)
{
	struct cert_set set = {0};

	if (read_value(json_get(data, "ca.crt"), &set.ca, err) < 0 ||
	    read_value(json_get(data, "ca.key"), &set.ca_key, err) < 0 ||
	    read_value(json_get(data, "tls.crt"), &set.tls, err) < 0 ||
	    read_value(json_get(data, "tls.key"), &set.tls_key, err) < 0) {
		cert_set_done(&set);
		return -1;
	}
	*ret = set;
	return 0;
}

static void write_value(struct jmut_doc *doc, struct jmut *data, const char *key, const char *z)
{
	char *text = base64_encode(z, strlen(z));

	jmut_set_str(doc, data, key, text);
	str_wipe(text, strlen(text));
	free(text);
}

void cert_set_write(const struct cert_set *set, struct jmut_doc *doc, struct jmut *data)
{
	write_value(doc, data, "ca.crt", set->ca);
	write_value(doc, data, "ca.key", set->ca_key);
	write_value(doc, data, "tls.crt", set->tls);
	write_value(doc, data, "tls.key", set->tls_key);
}

void cert_policy_fill(struct cert_policy *p)
{
	if (p->ca_ms == 0)
		p->ca_ms = 3650 * CERT_DAY_MS;
	if (p->ca_renew_ms == 0)
		p->ca_renew_ms = p->ca_ms * 2 / 3;
	if (p->overlap_ms == 0)
		p->overlap_ms = 90 * CERT_DAY_MS;
	if (p->leaf_ms == 0)
		p->leaf_ms = 90 * CERT_DAY_MS;
	if (p->leaf_renew_ms == 0)
		p->leaf_renew_ms = p->leaf_ms * 2 / 3;
}

/* ---- reading a set ---- */

struct parts {
	struct cert_pair ca, leaf;
	struct cert_pair old; /* the authority before, without its key */
	struct err ca_err, leaf_err, old_err;
};

static struct str text(const char *z)
{
	return str_of(z ? z : "");
}

static void parts_done(struct parts *p)
{
	cert_pair_done(&p->ca);
	cert_pair_done(&p->leaf);
	cert_pair_done(&p->old);
}

static void parts_read(struct parts *p, const struct cert_set *set)
{
	struct str old = cert_pem_block(text(set->ca), 1);

	memset(p, 0, sizeof(*p));
	cert_pair_init(&p->ca);
	cert_pair_init(&p->leaf);
	cert_pair_init(&p->old);
	if (cert_pair_read(&p->ca, text(set->ca), text(set->ca_key), &p->ca_err) == 0 &&
	    !cert_is_signed_by(&p->ca.crt, &p->ca.crt))
		err_set(&p->ca_err, ERR_INVALID, 0, "it isn't an authority");
	if (cert_pair_read(&p->leaf, text(set->tls), text(set->tls_key), &p->leaf_err) == 0 &&
	    p->ca.has_crt && !cert_is_signed_by(&p->leaf.crt, &p->ca.crt))
		err_set(&p->leaf_err, ERR_INVALID, 0, "it isn't signed by the authority");
	if (old.len > 0)
		cert_pair_read(&p->old, old, STR_NULL, &p->old_err);
}

/* NULL: there was enough to read all. */
static const struct err *no_memory(const struct parts *p)
{
	const struct err *all[] = {&p->ca_err, &p->leaf_err, &p->old_err};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (err_is_no_memory(all[i]))
			return all[i];
	}
	return NULL;
}

/* When the authority before goes. */
static int64_t old_goes_ms(const struct parts *p, const struct cert_policy *policy)
{
	int64_t at = cert_from_ms(&p->ca.crt) + BACKDATE_MS + policy->overlap_ms;
	int64_t end = cert_to_ms(&p->old.crt);

	return end < at ? end : at;
}

/* By its age, or (where it was made under another policy) by what is left of it. */
static int64_t renew_ms(const mbedtls_x509_crt *crt, int64_t life_ms, int64_t age_ms)
{
	int64_t by_age = cert_from_ms(crt) + BACKDATE_MS + age_ms;
	int64_t life = cert_to_ms(crt) - cert_from_ms(crt) - BACKDATE_MS;
	int64_t by_rest = cert_to_ms(crt) - (life < life_ms ? life / 3 : life_ms - age_ms);

	return by_age < by_rest ? by_age : by_rest;
}

/* ---- judging ---- */

__attribute__((format(printf, 4, 5))) static void
needs(struct cert_judgement *j, enum cert_need need, bool damaged, const char *fmt, ...)
{
	va_list ap;

	if (need <= j->need)
		return;
	j->need = need;
	j->damaged = damaged;
	va_start(ap, fmt);
	vsnprintf(j->why, sizeof(j->why), fmt, ap);
	va_end(ap);
}

static void soonest(struct cert_judgement *j, int64_t at_ms)
{
	if (j->next_ms == 0 || at_ms < j->next_ms)
		j->next_ms = at_ms;
}

static void judge_ca(struct parts *p, const struct cert_policy *policy, int64_t now_ms,
		     struct cert_judgement *j)
{
	if (p->ca_err.kind != ERR_NONE) {
		needs(j, CERT_NEW_CA, true, "ca.crt: %.120s", p->ca_err.msg);
		return;
	}
	int64_t renew = renew_ms(&p->ca.crt, policy->ca_ms, policy->ca_renew_ms);
	j->ca_until_ms = cert_to_ms(&p->ca.crt);
	if (now_ms >= j->ca_until_ms)
		needs(j, CERT_NEW_CA, true, "ca.crt has expired");
	else if (now_ms >= renew)
		needs(j, CERT_NEW_CA, false, "the authority is due for renewal");
	soonest(j, renew);
	if (!p->old.has_crt)
		return;
	if (now_ms >= old_goes_ms(p, policy))
		needs(j, CERT_OLD_CA_GOES, false, "the old authority has had its time");
	soonest(j, old_goes_ms(p, policy));
}

static const char *missing_name(const struct parts *p, const struct cert_names *names)
{
	struct cert_names has = {0};
	const char *missing = NULL;

	cert_names_of(&p->leaf.crt, &has);
	for (size_t i = 0; i < names->n && !missing; i++) {
		if (!cert_names_has(&has, names->v[i]))
			missing = names->v[i];
	}
	cert_names_done(&has);
	return missing;
}

static void judge_leaf(struct parts *p, const struct cert_names *names,
		       const struct cert_policy *policy, int64_t now_ms, struct cert_judgement *j)
{
	if (p->leaf_err.kind != ERR_NONE) {
		needs(j, CERT_NEW_LEAF, true, "tls.crt: %.120s", p->leaf_err.msg);
		return;
	}
	int64_t renew = renew_ms(&p->leaf.crt, policy->leaf_ms, policy->leaf_renew_ms);
	const char *missing = missing_name(p, names);
	j->until_ms = cert_to_ms(&p->leaf.crt);
	j->usable = now_ms < j->until_ms && !missing && now_ms < j->ca_until_ms;
	if (now_ms >= j->until_ms) {
		needs(j, CERT_NEW_LEAF, true, "tls.crt has expired");
	} else if (now_ms >= renew) {
		needs(j, CERT_NEW_LEAF, false, "the serving certificate is due for renewal");
	} else if (missing) {
		needs(j, CERT_NEW_LEAF, false, "it isn't for %.120s", missing);
		j->adds_names = true;
	}
	soonest(j, renew);
}

void cert_judge(const struct cert_set *set, const struct cert_names *names,
		const struct cert_policy *policy, int64_t now_ms, struct cert_judgement *ret)
{
	const struct err *why;
	struct parts p;

	memset(ret, 0, sizeof(*ret));
	parts_read(&p, set);
	why = no_memory(&p);
	if (why) {
		ret->unread = true;
		snprintf(ret->why, sizeof(ret->why), "%.180s", why->msg);
	} else {
		judge_ca(&p, policy, now_ms, ret);
		judge_leaf(&p, names, policy, now_ms, ret);
	}
	parts_done(&p);
}

/* ---- renewing ---- */

static char *join(const char *a, struct str b)
{
	return b.len > 0 ? xasprintf("%s%s%.*s\n", a, a[strlen(a) - 1] == '\n' ? "" : "\n",
				     STR_ARG(b))
			 : xstrdup(a);
}

/* The certificate that the old authority gives to the new one: what ties both. */
static int make_cross(const struct parts *p, const struct cert_pair *ca, const char *subject,
		      int64_t now_ms, char **ret, struct err *err)
{
	int64_t to = cert_to_ms(&p->ca.crt), ca_to = cert_to_ms(&ca->crt);
	struct cert_spec spec = {.subject = subject,
				 .key = (mbedtls_pk_context *)(uintptr_t)&ca->key,
				 .issuer = &p->ca,
				 .is_ca = true,
				 .from_ms = now_ms - BACKDATE_MS,
				 .to_ms = to < ca_to ? to : ca_to};

	return cert_make(&spec, ret, err);
}

static int make_ca(const struct parts *p, const struct cert_set *from,
		   const struct cert_policy *policy, int64_t now_ms, struct cert_set *ret,
		   struct cert_pair *ret_ca, char **ret_cross, struct err *err)
{
	bool keep = p->ca.has_crt && now_ms < cert_to_ms(&p->ca.crt) &&
		    mbedtls_x509_crt_get_ca_istrue(&p->ca.crt) == 1;
	char subject[64];
	mbedtls_pk_context key;
	CLEANUP_FREE char *own = NULL;

	snprintf(subject, sizeof(subject), "CN=ipu-operator CA %08x", (unsigned)rand_u64());
	mbedtls_pk_init(&key);
	struct cert_spec spec = {.subject = subject,
				 .key = &key,
				 .is_ca = true,
				 .from_ms = now_ms - BACKDATE_MS,
				 .to_ms = now_ms + policy->ca_ms};
	int rc = cert_make_key(&key, err);
	if (rc == 0)
		rc = cert_make(&spec, &own, err);
	if (rc == 0)
		rc = cert_key_pem(&key, &ret->ca_key, err);
	mbedtls_pk_free(&key);
	if (rc != 0)
		return -1;
	ret->ca = join(own, keep ? cert_pem_block(text(from->ca), 0) : STR_NULL);
	if (cert_pair_read(ret_ca, text(ret->ca), text(ret->ca_key), err) < 0)
		return -1;
	if (keep && p->ca.has_key)
		return make_cross(p, ret_ca, subject, now_ms, ret_cross, err);
	return 0;
}

/* The authority stays; the one before it goes when its time has come. */
static int keep_ca(const struct parts *p, const struct cert_set *from,
		   const struct cert_policy *policy, int64_t now_ms, struct cert_set *ret,
		   struct cert_pair *ret_ca, char **ret_cross, struct err *err)
{
	bool keep = p->old.has_crt && now_ms < old_goes_ms(p, policy);
	struct cert_pair cross;
	struct str block = cert_pem_block(text(from->tls), 1);

	ret->ca_key = xstrdup(from->ca_key);
	if (keep) {
		ret->ca = xstrdup(from->ca);
	} else {
		CLEANUP_FREE char *first = str_dup(cert_pem_block(text(from->ca), 0));
		ret->ca = xasprintf("%s\n", first);
	}
	if (keep && block.len > 0) {
		cert_pair_init(&cross);
		cert_pair_read(&cross, block, STR_NULL, NULL);
		if (cross.has_crt &&
		    cert_is_signed_by(&cross.crt, (mbedtls_x509_crt *)(uintptr_t)&p->old.crt))
			*ret_cross = str_dup(block);
		cert_pair_done(&cross);
	}
	return cert_pair_read(ret_ca, text(ret->ca), text(ret->ca_key), err);
}

static int wanted_names(const struct parts *p, bool adds, const struct cert_names *names,
			struct cert_names *ret, struct err *err)
{
	/* Names that another replica has asked for stay; at the next renewal they go if nobody
	 * asks for them then. */
	if (adds)
		cert_names_of(&p->leaf.crt, ret);
	for (size_t i = 0; i < names->n; i++) {
		if (cert_names_add(ret, str_of(names->v[i]), err) < 0)
			return -1;
	}
	if (ret->n <= CERT_MAX_NAMES)
		return 0;
	cert_names_done(ret);
	return wanted_names(p, false, names, ret, err);
}

static int make_leaf(struct cert_pair *ca, const struct cert_names *names, const char *cross,
		     const struct cert_policy *policy, int64_t now_ms, struct cert_set *ret,
		     struct err *err)
{
	int64_t ca_to = cert_to_ms(&ca->crt), to = now_ms + policy->leaf_ms;
	mbedtls_pk_context key;
	CLEANUP_FREE char *own = NULL;

	mbedtls_pk_init(&key);
	struct cert_spec spec = {.subject = "CN=ipu-operator",
				 .key = &key,
				 .issuer = ca,
				 .names = names,
				 .from_ms = now_ms - BACKDATE_MS,
				 .to_ms = to < ca_to ? to : ca_to};
	int rc = cert_make_key(&key, err);
	if (rc == 0)
		rc = cert_make(&spec, &own, err);
	if (rc == 0)
		rc = cert_key_pem(&key, &ret->tls_key, err);
	mbedtls_pk_free(&key);
	if (rc == 0)
		ret->tls = join(own, text(cross));
	return rc;
}

static int renew(const struct parts *p, const struct cert_set *from,
		 const struct cert_judgement *judged, const struct cert_names *names,
		 const struct cert_policy *policy, int64_t now_ms, struct cert_set *ret,
		 struct err *err)
{
	struct cert_names all = {0};
	struct cert_pair ca;
	CLEANUP_FREE char *cross = NULL;
	int rc;

	cert_pair_init(&ca);
	rc = judged->need == CERT_NEW_CA ? make_ca(p, from, policy, now_ms, ret, &ca, &cross, err)
					 : keep_ca(p, from, policy, now_ms, ret, &ca, &cross, err);
	if (rc == 0)
		rc = wanted_names(p, judged->adds_names, names, &all, err);
	if (rc == 0)
		rc = make_leaf(&ca, &all, cross, policy, now_ms, ret, err);
	cert_names_done(&all);
	cert_pair_done(&ca);
	return rc;
}

int cert_renew(const struct cert_set *from, const struct cert_judgement *judged,
	       const struct cert_names *names, const struct cert_policy *policy, int64_t now_ms,
	       struct cert_set *ret, struct err *err)
{
	struct cert_judgement mine = {0}, anew = *judged;
	struct err why = ERR_INIT;
	struct parts p;
	int rc;

	parts_read(&p, from);
	rc = no_memory(&p) ? err_copy(&why, no_memory(&p))
			   : renew(&p, from, judged, names, policy, now_ms, ret, &why);
	if (rc == 0)
		cert_judge(ret, names, policy, now_ms, &mine);
	if (mine.unread)
		rc = err_set(&why, ERR_LIMIT, ENOMEM, "%s", mine.why);
	/* An authority that isn't ours may be unable to sign for us (the bytes of its name, the
	 * uses of its key): then one of our own. */
	if (rc < 0 && err_is_no_memory(&why)) {
		err_copy(err, &why);
	} else if (judged->need != CERT_NEW_CA && (rc < 0 || !mine.usable)) {
		cert_set_done(ret);
		anew.need = CERT_NEW_CA;
		rc = renew(&p, from, &anew, names, policy, now_ms, ret, err);
	} else if (rc < 0) {
		err_copy(err, &why);
	}
	parts_done(&p);
	if (rc < 0)
		cert_set_done(ret);
	return rc;
}
