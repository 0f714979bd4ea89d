/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of the fault proxy: hashes of the seed and of what is decided about, so that what
 * happens elsewhere at the same time changes none of them.
 */
#include "fault_plan.h"

#include <stdlib.h>

#include "core/map.h"

/* One of so many requests meets a fault; so many times in a row at most. */
#define ONE_OF      5
#define MOST_IN_ROW 2

#define BIT(kind) (1U << (kind))
#define OF_BYTES                                                                                   \
	(BIT(FAULT_DELAY) | BIT(FAULT_DRIP) | BIT(FAULT_RESET) | BIT(FAULT_HALF) |                 \
	 BIT(FAULT_HOLE) | BIT(FAULT_GARBAGE) | BIT(FAULT_ALERT))
#define OF_REQUESTS                                                                                \
	(BIT(FAULT_DELAY) | BIT(FAULT_RESET) | BIT(FAULT_HALF) | BIT(FAULT_HOLE) |                 \
	 BIT(FAULT_GARBAGE) | BIT(FAULT_TRUNCATE) | BIT(FAULT_410) | BIT(FAULT_429) |              \
	 BIT(FAULT_500) | BIT(FAULT_503))

struct asked {
	uint64_t times;
	unsigned in_row;
};

const char *fault_kind_name(enum fault_kind kind)
{
	static const char *const names[] = {
		[FAULT_DELAY] = "delay", [FAULT_DRIP] = "drip",         [FAULT_RESET] = "reset",
		[FAULT_HALF] = "half",   [FAULT_HOLE] = "hole",         [FAULT_GARBAGE] = "garbage",
		[FAULT_ALERT] = "alert", [FAULT_TRUNCATE] = "truncate", [FAULT_410] = "410",
		[FAULT_429] = "429",     [FAULT_500] = "500",           [FAULT_503] = "503",
		[FAULT_NONE] = "none",
	};
	return names[kind];
}

static enum fault_kind kind_of(struct str name)
{
	enum fault_kind kind = 0;

	while (kind < FAULT_KINDS && !str_eqz(name, fault_kind_name(kind)))
		kind++;
	return kind;
}

int fault_plan_init(struct fault_plan *p, uint64_t seed, struct str kinds, struct err *err)
{
	unsigned wanted = 0;
	struct str name;

	for (struct str rest = kinds; rest.len > 0;) {
		str_cut(rest, ',', &name, &rest);
		if (kind_of(name) == FAULT_NONE)
			return err_set(err, ERR_INVALID, 0, "no fault is called \"%.*s\"",
				       STR_ARG(name));
		wanted |= BIT(kind_of(name));
	}
	*p = (struct fault_plan){
		.seed = seed,
		.kinds = wanted ? wanted : BIT(FAULT_KINDS) - 1,
		.gap = 1,
		.asked = map_new(),
	};
	return 0;
}

void fault_plan_done(struct fault_plan *p)
{
	struct map_iter it = MAP_ITER(p->asked);

	while (p->asked && map_next(&it))
		free(it.value);
	map_free(p->asked);
	p->asked = NULL;
}

uint64_t fault_draw(const struct fault_plan *p, struct str name, uint64_t n, uint64_t m)
{
	const uint64_t numbers[] = {p->seed, n, m};
	const struct str parts[] = {{(const char *)numbers, sizeof(numbers)}, name};
	uint8_t digest[32];
	uint64_t lot;

	hash_sha256(parts, 2, digest);
	memcpy(&lot, digest, sizeof(lot));
	return lot;
}

/* One of the kinds of a set, which isn't empty. */
static enum fault_kind choose(unsigned set, uint64_t lot)
{
	unsigned n = (unsigned)(lot % (unsigned)__builtin_popcount(set));
	enum fault_kind kind = 0;

	while (!(set & BIT(kind)) || n-- > 0)
		kind++;
	return kind;
}

enum fault_kind fault_of_bytes(const struct fault_plan *p, struct str link, bool secure, uint64_t n,
			       uint64_t m, uint64_t *ret_bytes)
{
	uint64_t lot = fault_draw(p, link, n, 2 * m);
	unsigned set = p->kinds & OF_BYTES;
	uint64_t least = (secure ? 4000 : 400) * (uint64_t)p->gap, most = 40 * least;

	if (!set || p->calm)
		return FAULT_NONE;
	/* The first words of a connection, such as a handshake, have their faults too. */
	if (m == 0 && n % 3 != 0 && lot % 4 == 0)
		*ret_bytes = (lot >> 8) % 2 ? 0 : (lot >> 16) % least;
	else
		*ret_bytes = least + (lot >> 8) % most;
	return choose(set, fault_draw(p, link, n, 2 * m + 1));
}

/* Those that a real API server could answer by, too. */
static unsigned fitting(enum http_method method, struct str query)
{
	bool is_watch = false, has_version = false;
	struct http_query_iter it = HTTP_QUERY_ITER(query);

	while (http_query_next(&it)) {
		is_watch |= str_eqz(it.name, "watch");
		has_version |= str_eqz(it.name, "resourceVersion") || str_eqz(it.name, "continue");
	}
	return method == HTTP_METHOD_GET && (is_watch || has_version)
		       ? OF_REQUESTS
		       : OF_REQUESTS & ~BIT(FAULT_410);
}

enum fault_kind fault_of_request(struct fault_plan *p, enum http_method method, struct str path,
				 struct str query, uint64_t *ret_lot)
{
	CLEANUP_FREE char *key = xasprintf("%s %.*s", http_method_name(method), STR_ARG(path));
	struct asked *a = map_get(p->asked, str_of(key));
	unsigned set = p->kinds & fitting(method, query);
	uint64_t lot;

	if (!a) {
		a = xcalloc(1, sizeof(*a));
		map_put(p->asked, str_of(key), a);
	}
	lot = fault_draw(p, str_of(key), a->times, 0);
	*ret_lot = fault_draw(p, str_of(key), a->times++, 1);
	if (!set || p->calm || a->in_row >= MOST_IN_ROW || lot % ONE_OF != 0) {
		a->in_row = 0;
		return FAULT_NONE;
	}
	a->in_row++;
	return choose(set, lot >> 8);
}
