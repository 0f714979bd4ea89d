/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificate, kubeconfig and other files of ipu-sim.
 */
#include "sim/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#include "core/rand.h"
#include "net/net.h"
#include "sim/files.h"

#define PEM_SIZE  4096
#define CRD_FILE  "crds/graphcore.ai_ipujobs.yaml"
#define MAX_NAMES 4

/* ---- the certificate ---- */

static int random_bytes(void *arg, unsigned char *p, size_t len)
{
	(void)arg;
	rand_bytes(p, len);
	return 0;
}

/* The names that it's good for: the list lives as long as the struct. */
struct names {
	mbedtls_x509_san_list san[MAX_NAMES];
	uint8_t bytes[MAX_NAMES][16];
	size_t n;
};

static void add_name(struct names *names, int type, const void *p, size_t len)
{
	mbedtls_x509_san_list *item = &names->san[names->n];

	memcpy(names->bytes[names->n], p, len);
	item->node.type = type;
	item->node.san.unstructured_name.p = names->bytes[names->n];
	item->node.san.unstructured_name.len = len;
	if (names->n > 0)
		names->san[names->n - 1].next = item;
	names->n++;
}

static void add_address(struct names *names, const char *host)
{
	struct net_addr addr;

	if (net_addr_parse(host, 0, &addr) < 0)
		return;
	if (addr.sa.sa_family == AF_INET)
		add_name(names, MBEDTLS_X509_SAN_IP_ADDRESS, &addr.in.sin_addr, 4);
	else
		add_name(names, MBEDTLS_X509_SAN_IP_ADDRESS, &addr.in6.sin6_addr, 16);
}

static int make_key(mbedtls_pk_context *key)
{
	int status = mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

	return status ? status
		      : mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key),
					    random_bytes, NULL);
}

static int write_certificate(mbedtls_pk_context *key, struct names *names, unsigned char *pem)
{
	static const char subject[] = "CN=ipu-sim";
	unsigned char serial[16];
	mbedtls_x509write_cert w;
	int status;

	rand_bytes(serial, sizeof(serial));
	serial[0] = (serial[0] & 0x7f) | 1; /* positive, and not 0 (RFC 5280, 4.1.2.2) */
	mbedtls_x509write_crt_init(&w);
	mbedtls_x509write_crt_set_version(&w, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(&w, MBEDTLS_MD_SHA256);
	mbedtls_x509write_crt_set_subject_key(&w, key);
	mbedtls_x509write_crt_set_issuer_key(&w, key);
	if ((status = mbedtls_x509write_crt_set_serial_raw(&w, serial, sizeof(serial))) == 0 &&
	    (status = mbedtls_x509write_crt_set_subject_name(&w, subject)) == 0 &&
	    (status = mbedtls_x509write_crt_set_issuer_name(&w, subject)) == 0 &&
	    /* Any time that a test moves the clock to. */
	    (status = mbedtls_x509write_crt_set_validity(&w, "20000101000000", "20491231235959")) ==
		    0 &&
	    (status = mbedtls_x509write_crt_set_basic_constraints(&w, 1, -1)) == 0 &&
	    (status = mbedtls_x509write_crt_set_subject_alternative_name(&w, names->san)) == 0)
		status = mbedtls_x509write_crt_pem(&w, pem, PEM_SIZE, random_bytes, NULL);
	mbedtls_x509write_crt_free(&w);
	return status;
}

int sim_certificate_make(const char *host, char **ret_cert_pem, char **ret_key_pem, struct err *err)
{
	unsigned char cert[PEM_SIZE] = "", key_pem[PEM_SIZE] = "";
	struct names names = {0};
	mbedtls_pk_context key;
	int status;

	add_name(&names, MBEDTLS_X509_SAN_DNS_NAME, "localhost", strlen("localhost"));
	add_address(&names, "127.0.0.1");
	add_address(&names, "::1");
	if (host)
		add_address(&names, host);
	mbedtls_pk_init(&key);
	if ((status = make_key(&key)) == 0 && (status = write_certificate(&key, &names, cert)) == 0)
		status = mbedtls_pk_write_key_pem(&key, key_pem, sizeof(key_pem));
	mbedtls_pk_free(&key);
	if (status != 0)
		return err_set(err, ERR_INTERNAL, 0, "a certificate can't be made: -0x%04x",
			       (unsigned)-status);
	*ret_cert_pem = xstrdup((char *)cert);
	*ret_key_pem = xstrdup((char *)key_pem);
	str_wipe(key_pem, sizeof(key_pem));
	return 0;
}

/* ---- files ---- */

static int write_all(int fd, struct str text)
{
	while (text.len > 0) {
		ssize_t n = write(fd, text.p, text.len);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0)
			text = (struct str){text.p + n, text.len - (size_t)n};
	}
	return 0;
}

int sim_file_write(const char *dir, const char *name, struct str text, struct err *err)
{
	CLEANUP_FREE char *path = dir ? xasprintf("%s/%s", dir, name) : xstrdup(name);
	CLEANUP_FREE char *temporary = xasprintf("%s.new", path);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int failed;

	if (fd < 0)
		return err_errno(err, errno, "%s", path);
	failed = write_all(fd, text) < 0 ? errno : 0;
	if (close(fd) < 0 && !failed)
		failed = errno;
	if (!failed && rename(temporary, path) < 0)
		failed = errno;
	if (failed) {
		unlink(temporary);
		return err_errno(err, failed, "%s", path);
	}
	return 0;
}

int sim_dir_make(const char *dir, struct err *err)
{
	struct stat st;

	if (mkdir(dir, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return err_errno(err, errno, "%s", dir);
	if (stat(dir, &st) < 0)
		return err_errno(err, errno, "%s", dir);
	return S_ISDIR(st.st_mode) ? 0 : err_errno(err, ENOTDIR, "%s", dir);
}

char *sim_kubeconfig_text(const char *host, unsigned port, const char *cert_pem, const char *token)
{
	CLEANUP_FREE char *ca = base64_encode(cert_pem, strlen(cert_pem));
	bool brackets = strchr(host, ':') != NULL;

	return xasprintf("apiVersion: v1\n"
			 "kind: Config\n"
			 "clusters:\n"
			 "- name: ipu-sim\n"
			 "  cluster:\n"
			 "    server: https://%s%s%s:%u\n"
			 "    certificate-authority-data: %s\n"
			 "users:\n"
			 "- name: ipu-sim\n"
			 "  user:\n"
			 "    token: %s\n"
			 "contexts:\n"
			 "- name: ipu-sim\n"
			 "  context:\n"
			 "    cluster: ipu-sim\n"
			 "    user: ipu-sim\n"
			 "    namespace: default\n"
			 "current-context: ipu-sim\n",
			 brackets ? "[" : "", host, brackets ? "]" : "", port, ca, token);
}

/* ---- the CRD ---- */

/* The folder that this program is in. */
static char *own_dir(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
	const char *slash;

	if (n <= 0)
		return xstrdup("");
	slash = memrchr(path, '/', (size_t)n);
	return slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");
}

int sim_crd_find(char **ret_path, struct err *err)
{
	CLEANUP_FREE char *here = own_dir();
	char *path;

	if (strcmp(here, IPU_BUILD_DIR) == 0)
		path = xstrdup(IPU_SOURCE_DIR "/" CRD_FILE);
	else
		path = xasprintf("%s/../share/ipu-operator/%s", here, CRD_FILE);
	if (access(path, R_OK) < 0) {
		free(path);
		path = xstrdup(IPU_DATA_DIR "/" CRD_FILE);
	}
	if (access(path, R_OK) < 0) {
		err_set(err, ERR_NOT_FOUND, 0, "%s: no CRD there; name one with --crd", path);
		free(path);
		return -1;
	}
	*ret_path = path;
	return 0;
}
