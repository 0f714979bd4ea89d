/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process knows of tokens and keys is nobody else's.
 */
#ifndef IPU_CORE_PRIVACY_H
#define IPU_CORE_PRIVACY_H

/* From now on no dump of this process is left, and nobody of the same user reads its memory
 * (prctl(2), PR_SET_DUMPABLE). To be called before the first secret is read. Who is forked inherits
 * it, until it executes another program, which is as free as it was. */
void privacy_keep(void);

#endif
