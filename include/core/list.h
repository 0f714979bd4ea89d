/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive doubly linked list: the head and every member are a struct list.
 * A member outside any list points at itself, so unlinking twice is harmless.
 */
#ifndef IPU_CORE_LIST_H
#define IPU_CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#define LIST_INIT(name)                 {&(name), &(name)}

/* Safe against removal of the member that is being looked at. */
/* NOLINTBEGIN(bugprone-macro-parentheses): pos and tmp are names */
#define LIST_FOREACH(pos, tmp, head)                                                               \
	for (struct list *pos = (head)->next, *tmp = pos->next; pos != (head);                     \
	     pos = tmp, tmp = pos->next)
/* NOLINTEND(bugprone-macro-parentheses) */

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void list_unlink(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#endif
