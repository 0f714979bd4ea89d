/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judgement of a peer's certificates, in words. mbedTLS calls back for each certificate of the
 * chain, from the authority down to the peer's own (depth 0). Uses core's clock.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <mbedtls/oid.h>

#include "core/clock.h"
#include "core/str.h"
#include "tls_impl.h"

/* Which of several faults is told: the higher rank. */
enum rank { RANK_OTHER = 1, RANK_NAME, RANK_CLIENT_NAME, RANK_DATE, RANK_UNKNOWN_CA };

__attribute__((format(printf, 3, 4))) static void tell(struct tls_session *s, enum rank rank,
						       const char *fmt, ...)
{
	char text[256];
	va_list ap;
	if (s->worst >= (unsigned)rank)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	s->worst = rank;
	s->alert = rank == RANK_DATE          ? MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED
		   : rank == RANK_UNKNOWN_CA  ? MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA
		   : rank == RANK_CLIENT_NAME ? MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED
					      : MBEDTLS_SSL_ALERT_MSG_BAD_CERT;
	err_set(&s->verify_err, ERR_DENIED, 0, "%s %s", s->label, text);
}

static int64_t date_ms(const mbedtls_x509_time *t, char ret_z[CLOCK_RFC3339_SIZE])
{
	int64_t ms;
	snprintf(ret_z, CLOCK_RFC3339_SIZE, "%04d-%02d-%02dT%02d:%02d:%02dZ", t->year % 10000,
		 t->mon % 100, t->day % 100, t->hour % 100, t->min % 100, t->sec % 100);
	return clock_parse(str_of(ret_z), &ms, NULL) < 0 ? INT64_MIN : ms;
}

static void name_of(const mbedtls_x509_name *dn, char *ret_z, size_t size)
{
	if (mbedtls_x509_dn_gets(ret_z, size, dn) < 0)
		snprintf(ret_z, size, "?");
}

static void judge_dates(struct tls_session *s, const mbedtls_x509_crt *crt, int depth,
			uint32_t *flags)
{
	char from[CLOCK_RFC3339_SIZE], to[CLOCK_RFC3339_SIZE], whose[160] = "", dn[128];
	int64_t now_ms = clock_wall_ms();
	int64_t from_ms = date_ms(&crt->valid_from, from), to_ms = date_ms(&crt->valid_to, to);
	*flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE);
	if (depth > 0) {
		name_of(&crt->subject, dn, sizeof(dn));
		snprintf(whose, sizeof(whose), "isn't valid: its authority %s ", dn);
	}
	if (now_ms / 1000 > to_ms / 1000) {
		*flags |= MBEDTLS_X509_BADCERT_EXPIRED;
		tell(s, RANK_DATE, "%shas expired (%s)", whose, to);
	} else if (now_ms < from_ms) {
		*flags |= MBEDTLS_X509_BADCERT_FUTURE;
		tell(s, RANK_DATE, "%sisn't valid yet (from %s)", whose, from);
	}
}

/* The raw bytes of the next subject alternative name of a kind; NULL when there is none. */
static const mbedtls_x509_sequence *next_san(const mbedtls_x509_sequence *cur, int kind)
{
	for (; cur; cur = cur->next)
		if (cur->buf.p &&
		    (cur->buf.tag & (MBEDTLS_ASN1_TAG_CLASS_MASK | MBEDTLS_ASN1_TAG_VALUE_MASK)) ==
			    (MBEDTLS_ASN1_CONTEXT_SPECIFIC | kind))
			return cur;
	return NULL;
}

static bool is_for_address(const mbedtls_x509_crt *crt, const struct net_addr *addr)
{
	const void *want = &addr->in.sin_addr;
	size_t len = sizeof(addr->in.sin_addr);
	if (addr->sa.sa_family == AF_INET6) {
		want = &addr->in6.sin6_addr;
		len = sizeof(addr->in6.sin6_addr);
	}
	const mbedtls_x509_sequence *san = next_san(&crt->subject_alt_names,
						    MBEDTLS_X509_SAN_IP_ADDRESS);
	for (; san; san = next_san(san->next, MBEDTLS_X509_SAN_IP_ADDRESS))
		if (san->buf.len == len && memcmp(san->buf.p, want, len) == 0)
			return true;
	return false;
}

/* "a, b, 10.0.0.1"; a certificate without alternative names: its subject. */
static void list_names(const mbedtls_x509_crt *crt, char *ret_z, size_t size)
{
	size_t used = 0;
	const mbedtls_x509_sequence *cur = &crt->subject_alt_names;
	ret_z[0] = '\0';
	for (; cur && used < size; cur = cur->next) {
		char text[NET_ADDR_TEXT];
		struct str name = {(const char *)cur->buf.p, cur->buf.len};
		if (next_san(cur, MBEDTLS_X509_SAN_IP_ADDRESS) == cur) {
			struct net_addr addr = {.sa.sa_family = AF_INET, .len = sizeof(addr.in)};
			if (cur->buf.len == 4)
				memcpy(&addr.in.sin_addr, cur->buf.p, 4);
			else if (cur->buf.len == 16) {
				addr.sa.sa_family = AF_INET6;
				memcpy(&addr.in6.sin6_addr, cur->buf.p, 16);
			} else
				continue;
			net_addr_format(&addr, text);
			name = str_of(text);
			name.len -= 2; /* ":0" */
		} else if (next_san(cur, MBEDTLS_X509_SAN_DNS_NAME) != cur) {
			continue;
		}
		int n = snprintf(ret_z + used, size - used, "%s%.*s", used ? ", " : "",
				 STR_ARG(name));
		used += (size_t)n;
	}
	if (used == 0)
		name_of(&crt->subject, ret_z, size);
}

static void tell_flags(struct tls_session *s, uint32_t flags)
{
	char text[160];
	if (mbedtls_x509_crt_verify_info(text, sizeof(text), "", flags) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	tell(s, RANK_OTHER, "isn't acceptable: %s", text);
}

int tls_verify_cb(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	struct tls_session *s = arg;
	char text[160];
	if (s->config->skip_verify) {
		*flags = 0;
		return 0;
	}
	judge_dates(s, crt, depth, flags);
	if (depth == 0 && s->name_addr.len > 0 && !is_for_address(crt, &s->name_addr))
		*flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
	if (*flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) {
		list_names(crt, text, sizeof(text));
		tell(s, RANK_NAME, "is for %s, not for %s", text, s->name);
	}
	if (*flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) {
		name_of(&crt->issuer, text, sizeof(text));
		tell(s, RANK_UNKNOWN_CA, "is signed by an unknown authority (%s)", text);
	}
	uint32_t others = *flags &
			  ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE |
				      MBEDTLS_X509_BADCERT_CN_MISMATCH |
				      MBEDTLS_X509_BADCERT_NOT_TRUSTED);
	if (others != 0)
		tell_flags(s, others);
	return 0;
}

bool tls_verify_after(struct tls_session *s, uint32_t flags)
{
	if (flags != 0)
		tell_flags(s, flags);
	return flags == 0;
}

/* The last one, as Go's crypto/x509 takes it; empty: there is none. */
static struct str common_name(const mbedtls_x509_crt *crt)
{
	struct str last = STR("");
	for (const mbedtls_x509_name *n = &crt->subject; n; n = n->next)
		if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &n->oid) == 0)
			last = (struct str){(const char *)n->val.p, n->val.len};
	return last;
}

bool tls_verify_client_name(struct tls_session *s, const mbedtls_x509_crt *crt)
{
	char text[160];
	if (!s->config->client_names ||
	    str_list_has(str_of(s->config->client_names), common_name(crt)))
		return true;
	name_of(&crt->subject, text, sizeof(text));
	tell(s, RANK_CLIENT_NAME, "has a common name that isn't let in (%s)", text);
	return false;
}
