/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Secret holds, as a value: judged, and made anew in the part that needs it. Pure: time
 * is handed in, randomness is core's.
 */
#ifndef IPU_CERT_SET_H
#define IPU_CERT_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "cert/cert.h"
#include "core/json.h"
#include "x509.h"

/* What is served is looked at so often at least: the wall clock may jump. */
#define CERT_LOOK_MS INT64_C(3600000)

/* PEM texts, owned; NULL: not there. */
struct cert_set {
	char *ca;     /* the authority, then the one before it while that is trusted */
	char *ca_key; /* the first one's */
	char *tls;    /* the serving certificate, then the authority as signed by the old one */
	char *tls_key;
};
void cert_set_done(struct cert_set *set); /* wipes its keys */
void cert_set_move(struct cert_set *to, struct cert_set *from);
void cert_set_copy(struct cert_set *to, const struct cert_set *from); /* to is empty */
bool cert_set_equal(const struct cert_set *a, const struct cert_set *b);
/* From a Secret's data; what isn't base64 isn't there. Without memory for it: ERR_LIMIT, ret is as
 * it was. And into an object for it. */
int cert_set_read(struct cert_set *ret, const struct json *data, struct err *err);
void cert_set_write(const struct cert_set *set, struct jmut_doc *doc, struct jmut *data);

/* What it needs, the least first. */
enum cert_need { CERT_NOTHING, CERT_OLD_CA_GOES, CERT_NEW_LEAF, CERT_NEW_CA };

struct cert_judgement {
	enum cert_need need;
	bool damaged;     /* it isn't its age, nor the names */
	bool adds_names;  /* what it needs is names besides those that it has */
	bool usable;      /* it can be served now */
	bool unread;      /* there was no memory to judge it: it needs nothing that is known */
	int64_t next_ms;  /* with CERT_NOTHING: when it will need something */
	int64_t until_ms; /* the serving certificate's end, 0: there's none */
	int64_t ca_until_ms;
	char why[192];
};

void cert_policy_fill(struct cert_policy *policy);
void cert_judge(const struct cert_set *set, const struct cert_names *names,
		const struct cert_policy *policy, int64_t now_ms, struct cert_judgement *ret);
/* ret is empty before. */
int cert_renew(const struct cert_set *from, const struct cert_judgement *judged,
	       const struct cert_names *names, const struct cert_policy *policy, int64_t now_ms,
	       struct cert_set *ret, struct err *err);

#endif
