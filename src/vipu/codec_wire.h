/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the codec's two halves share around the code that protoc makes: packing, unpacking within a
 * memory budget, checked strings. Private to src/vipu.
 */
#ifndef IPU_VIPU_CODEC_WIRE_H
#define IPU_VIPU_CODEC_WIRE_H

/* The generated header's initialisers cast const away. */
#include "vipu/vipu.pb-c.h"

#include "core/buf.h"
#include "core/err.h"
#include "core/str.h"
#include "vipu/api.h"

#define WIRE_UNPACKED_BYTES ((size_t)64 << 20)

struct wire_budget {
	ProtobufCAllocator allocator; /* points at its own struct: don't copy */
	size_t left;
	bool exceeded;
};

void wire_budget_init(struct wire_budget *b);
/* NULL and err: ERR_PROTOCOL, ERR_LIMIT. Free with protobuf_c_message_free_unpacked. */
ProtobufCMessage *wire_unpack(struct wire_budget *b, const ProtobufCMessageDescriptor *type,
			      struct str bytes, struct err *err);
int wire_pack(const ProtobufCMessage *msg, struct buf *out, struct err *err);

/* Takes a string out of an unpacked message; never NULL. *ret_bad becomes true if it isn't UTF-8.
 */
char *wire_take(char **from, bool *ret_bad);
char *wire_text(const char *z); /* for a message that is only packed */
int wire_bad_text(const ProtobufCMessageDescriptor *type, struct err *err);

void wire_put_ipu(Virmgrpc__PartitionIpu *to, const struct vipu_ipu *from);
struct vipu_ipu *wire_get_ipus(Virmgrpc__PartitionIpu *const *from,
			       size_t n); /* NULL for none, or no memory */

#endif
