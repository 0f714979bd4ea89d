/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library's look-ups of service names, which c-ares refers to, would load plug-ins of the
 * host's C library into a static program. Ports are numbers here, so they find nothing.
 */
#include <netdb.h>
#include <stddef.h>

struct servent *getservbyname(const char *name, const char *proto)
{
	(void)name, (void)proto;
	return NULL;
}

int getservbyport_r(int port, const char *proto, struct servent *result_buf, char *buf,
		    size_t buflen, struct servent **result)
{
	(void)port, (void)proto, (void)result_buf, (void)buf, (void)buflen;
	*result = NULL;
	return 0;
}
