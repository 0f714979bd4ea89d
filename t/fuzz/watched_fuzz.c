/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon keeps of the objects that it watches: Pods, Nodes, PodGroups, ConfigMaps of
 * files. Made twice of one object, it's the same.
 * Input: the object's JSON.
 */
#include "core/json.h"
#include "fuzz.h"
#include "job/files.h"
#include "job/group.h"
#include "node/nodes.h"
#include "node/publish.h"
#include "pod/model.h"

/* Decodes twice, compares, frees. After what: the decoder's arguments before its result. */
#define TRY(what, ...)                                                                             \
	do {                                                                                       \
		struct what *one = NULL, *other = NULL;                                            \
		struct err err = ERR_INIT;                                                         \
		if (what##_decode(__VA_ARGS__, &one, &err) < 0) {                                  \
			MUST(err.kind != ERR_NONE && err.msg[0] && !one);                          \
			break;                                                                     \
		}                                                                                  \
		MUST(one->name[0] && what##_decode(__VA_ARGS__, &other, NULL) == 0);               \
		MUST(what##_equal(one, other));                                                    \
		what##_free(one);                                                                  \
		what##_free(other);                                                                \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	CLEANUP_JSON struct json_doc *doc = NULL;
	struct publish_condition condition = {0};

	if (json_parse(fuzz_str(p, len), &doc, NULL) < 0)
		return 0;
	const struct json *object = json_root(doc);
	TRY(pod, object);
	TRY(job_files, object, JOB_LABEL_JOB);
	TRY(job_files, object, POD_LABEL);
	TRY(job_group, object);
	TRY(publish_node, object);
	publish_condition_decode(object, &condition);
	publish_condition_done(&condition);
	node_item_free(node_item_decode(object));
	return 0;
}
