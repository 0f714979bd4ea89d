/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs says of RDMA devices. Values stay within their sizes, text is printable, and what was
 * read and written is read again.
 * Input: the file's text; all parsers read it.
 */
#include "fuzz.h"
#include "node/rdma_sysfs.h"

static void try_ids(struct str s)
{
	uint8_t gid[16];
	uint64_t guid, again;
	char text[NODE_ADDR_SIZE], guid_text[24];

	if (rdma_parse_gid(s, gid)) {
		memset(text, 'x', sizeof(text));
		rdma_gid_text(text, gid);
		MUST(text[0] && memchr(text, '\0', sizeof(text)));
		MUST((strcmp(text, "::") == 0) == rdma_gid_is_empty(gid));
	}
	if (rdma_parse_guid(s, &guid)) {
		rdma_guid_text(guid_text, guid);
		MUST(strlen(guid_text) == 19);
		MUST(rdma_parse_guid(str_of(guid_text), &again) && again == guid);
	}
}

static void try_text(struct str s)
{
	char text[NODE_LINK_SIZE], again[NODE_LINK_SIZE];

	rdma_text(text, sizeof(text), s);
	MUST(memchr(text, '\0', sizeof(text)));
	for (const char *c = text; *c; c++)
		MUST(*c >= ' ' && *c <= '~');
	/* A cut may leave a blank at the end. */
	rdma_text(again, sizeof(again), str_of(text));
	MUST(strncmp(text, again, strlen(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
	struct str s = fuzz_str(p, len);
	enum rdma_state state = RDMA_PORT_NOP;
	enum rdma_layer layer = RDMA_LAYER_UNKNOWN;
	enum rdma_gid_type type = RDMA_GID_IB;
	uint64_t mbps;
	dev_t number;
	unsigned value;

	if (rdma_parse_state(s, &state))
		MUST(state <= RDMA_PORT_ACTIVE_DEFER && rdma_state_name(state)[0]);
	rdma_parse_layer(s, &layer);
	if (rdma_parse_gid_type(s, layer, &type))
		MUST(type <= RDMA_GID_ROCE_V2);
	if (rdma_parse_rate(s, &mbps))
		MUST(mbps < UINT64_C(1000) * 1000 * 1000 && mbps % 100 == 0);
	if (rdma_parse_number(s, &value))
		MUST(value <= 0xffffff);
	rdma_parse_devnum(s, &number);
	try_ids(s);
	try_text(s);
	return 0;
}
