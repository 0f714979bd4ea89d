/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors as values: the caller owns a struct err, a call that fails fills it and returns -1.
 * Success leaves it alone; it never allocates. Kinds are decided once, where an error arises.
 */
#ifndef IPU_CORE_ERR_H
#define IPU_CORE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

enum err_kind {
	ERR_NONE = 0,
	ERR_INVALID,   /* bad input of a person or a peer: asking again can't help */
	ERR_NOT_FOUND, /* the object isn't there (404, gRPC NOT_FOUND) */
	ERR_EXISTS,    /* it is there already (409 AlreadyExists, gRPC ALREADY_EXISTS) */
	ERR_CONFLICT,  /* somebody else changed it meanwhile (409 Conflict, failed precondition) */
	ERR_GONE,      /* a resource version too old (410): list again */
	ERR_DENIED,    /* no or wrong credentials, or not allowed (401, 403) */
	ERR_LIMIT,     /* larger than a limit of ours or of the peer's; code ENOMEM: no memory */
	ERR_BUSY,      /* no room or no time now (429, gRPC RESOURCE_EXHAUSTED) */
	ERR_UNAVAILABLE, /* the peer can't be reached, or says so itself (503) */
	ERR_TIMEOUT,     /* a deadline of ours passed */
	ERR_PROTOCOL,    /* the peer broke its protocol's rules */
	ERR_IO,          /* the operating system said no: code is an errno */
	ERR_UNSUPPORTED, /* understood, but not something that we do */
	ERR_CANCELLED,   /* given up by its owner */
	ERR_INTERNAL,    /* a fault of ours or of the peer's (500, gRPC INTERNAL, UNKNOWN) */
};

struct err {
	enum err_kind kind;
	int code;                /* errno, HTTP status or gRPC status, by who made it; else 0 */
	unsigned retry_after_ms; /* what the peer asked us to wait, 0: it didn't say */
	bool maybe_applied; /* a request left us and no answer came: it may have taken effect */
	char msg[256];      /* one line for people, without a final stop; cut when too long */
};

#define ERR_INIT {.kind = ERR_NONE}

/* Fills err (which may be NULL) and returns -1, so that a failing call is one line. Replaces
 * whatever was in err. Bytes below 0x20 in the message (a peer's words) become '?'. */
int err_set(struct err *err, enum err_kind kind, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* err_set with ERR_IO, errnum as the code, and ": strerror(errnum)" behind the message. */
int err_errno(struct err *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message; kind, code and the rest stay. Returns -1. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Moves an error out to the caller's. Either may be NULL. Returns -1. */
int err_copy(struct err *err, const struct err *from);

/* Lets the compiler see that these calls return -1, so that it can tell what is set on success and
 * what isn't, at any level of optimisation. */
static inline int err_minus_one(int always)
{
	(void)always;
	return -1;
}
#define err_set(...)   err_minus_one(err_set(__VA_ARGS__))
#define err_errno(...) err_minus_one(err_errno(__VA_ARGS__))
#define err_wrap(...)  err_minus_one(err_wrap(__VA_ARGS__))
#define err_copy(...)  err_minus_one(err_copy(__VA_ARGS__))

/* What a peer's size needed couldn't be allocated: not its fault, and later it may go well. */
bool err_is_no_memory(const struct err *err);

/* True where the same request may succeed later without anybody changing it. */
bool err_is_retryable(const struct err *err);

/* "invalid", "not-found", …: for logs and metric labels. Never NULL. */
const char *err_kind_name(enum err_kind kind);

#endif
