/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eight methods' messages to and from Protocol Buffers, both directions: the client encodes
 * requests and decodes replies, the simulator the other way round. Uses core; protobuf-c stays
 * behind it.
 */
#ifndef IPU_VIPU_CODEC_H
#define IPU_VIPU_CODEC_H

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"
#include "vipu/api.h"

/* Encoders append to out: ERR_LIMIT when it's full. Decoders: ERR_PROTOCOL for bytes that aren't
 * such a message and, in replies, for strings that aren't UTF-8; ERR_LIMIT for one that needs more
 * memory than there is, or than it may; then nothing is owned. A decoded request's strings are its
 * own, until vipu_request_done. */

struct vipu_request { /* any method's, decoded; the member of its method counts */
	enum vipu_method method;
	struct vipu_create create;
	struct vipu_remove remove;
	struct vipu_reset reset;
	struct vipu_get_ipuof_config ipuof;
	const char *id;            /* GetPartitionStatus */
	const char *allocation_id; /* ListPartitions */
	const char *const *agents; /* ListIPUAttributes */
	size_t n_agents;
	void *hold; /* private: what the strings belong to */
};
int vipu_request_encode(const struct vipu_request *req, struct buf *out, struct err *err);
int vipu_request_decode(enum vipu_method method, struct str bytes, struct vipu_request *ret,
			struct err *err);
void vipu_request_done(struct vipu_request *req);

int vipu_encode_version(const char *version, struct buf *out, struct err *err);
int vipu_encode_partitions(const struct vipu_partitions *p, struct buf *out, struct err *err);
int vipu_encode_agents(const struct vipu_agents *a, struct buf *out, struct err *err);
int vipu_encode_created(const char *id, struct buf *out, struct err *err);
int vipu_encode_status(const struct vipu_status *s, struct buf *out, struct err *err);
int vipu_encode_ipuof_config(const struct vipu_ipuof_config *c, struct buf *out, struct err *err);

int vipu_decode_version(struct str bytes, char **ret, struct err *err);
int vipu_decode_partitions(struct str bytes, struct vipu_partitions *ret, struct err *err);
int vipu_decode_agents(struct str bytes, struct vipu_agents *ret, struct err *err);
int vipu_decode_created(struct str bytes, char **ret, struct err *err);
int vipu_decode_status(struct str bytes, struct vipu_status *ret, struct err *err);
int vipu_decode_ipuof_config(struct str bytes, struct vipu_ipuof_config *ret, struct err *err);

#endif
