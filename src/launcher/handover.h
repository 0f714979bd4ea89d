/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session whose command has left daemons behind gets another connection when it lost its own:
 * a second exec in the same container hands its standard descriptors over, on a socket whose name
 * only that session's near end knows. Uses core.
 */
#ifndef IPU_LAUNCHER_HANDOVER_H
#define IPU_LAUNCHER_HANDOVER_H

#include "core/err.h"

/* A new name (WIRE_ID_BYTES hex digits and a NUL) and a socket that listens under it, not blocking.
 */
int handover_listen(char *ret_id_z, int *ret_fd, struct err *err);
/* Takes one offer: the descriptors (input, output) and the connection, which says by its end that
 * they aren't needed any more. -1 also where there is none, or it comes from another user. */
int handover_accept(int listener, int ret_fds[2], int *ret_connection, struct err *err);

/* The second exec: offers descriptors 0 and 1 to the session of that name, and returns when it
 * doesn't need them any more. ERR_NOT_FOUND: there is no such session. */
int handover_offer(const char *id, struct err *err);

#endif
