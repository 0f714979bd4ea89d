/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line an event: time, level, component, object, message, then key=value; text for people,
 * JSON for machines. Repeats from one place are counted instead of printed.
 */
#ifndef IPU_CORE_LOG_H
#define IPU_CORE_LOG_H

#include <stdbool.h>
#include <stdarg.h>

#include "core/err.h"

/* The chart's logLevel, 1..6. */
enum log_level {
	LOG_FATAL = 1,
	LOG_ERROR,
	LOG_WARN,
	LOG_INFO,
	LOG_DEBUG,
	LOG_TRACE,
};

enum log_format { LOG_TEXT, LOG_JSON, LOG_JOURNALD /* text with a "<n>" priority in front */ };

/* The default: INFO, TEXT, 2. */
void log_init(enum log_level level, enum log_format format, int fd);
void log_set_level(enum log_level level);
bool log_on(enum log_level level);

/* component: "kube", "partition", …; object: "namespace/name", an address, or NULL. The message
 * is a printf format; control characters and non-UTF-8 bytes in the result are escaped. Write
 * key=value pairs at its end. errno is kept. */
void log_msg(enum log_level level, const char *component, const char *object, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define log_error(component, object, ...) log_msg(LOG_ERROR, component, object, __VA_ARGS__)
#define log_warn(component, object, ...)  log_msg(LOG_WARN, component, object, __VA_ARGS__)
#define log_info(component, object, ...)  log_msg(LOG_INFO, component, object, __VA_ARGS__)
/* Arguments aren't evaluated when the level is off. */
#define log_debug(component, object, ...)                                                          \
	(log_on(LOG_DEBUG) ? log_msg(LOG_DEBUG, component, object, __VA_ARGS__) : (void)0)
#define log_trace(component, object, ...)                                                          \
	(log_on(LOG_TRACE) ? log_msg(LOG_TRACE, component, object, __VA_ARGS__) : (void)0)

/* At most one line each interval_ms from this place and object; the next one that is printed says
 * how many were left out. */
struct log_limit {
	long long next_ms;
	unsigned long suppressed;
};
bool log_limit_ok(struct log_limit *limit, unsigned interval_ms);

#endif
