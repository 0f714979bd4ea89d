/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an HTTP/2 response, or the loss of its stream, means as the outcome of a unary call. Pure.
 * Private to src/grpc.
 */
#ifndef IPU_GRPC_REPLY_H
#define IPU_GRPC_REPLY_H

#include "core/err.h"
#include "core/str.h"
#include "h2/session.h"

/* 0 with the message (borrowed from msg), or -1 with what grpc_call_fn promises. */
int grpc_reply_judge(const struct h2_message *msg, struct str *ret_message, struct err *err);

/* The stream of a call whose request has left us was reset. Returns -1. */
int grpc_reply_reset(const struct h2_event *ev, struct err *err);

#endif
