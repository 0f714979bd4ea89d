/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's files and hot-plug messages say of RDMA devices, by tables. Uses core and node.
 */
#include "tap.h"

#include <sys/sysmacros.h>

#include "node/rdma_sysfs.h"
#include "node/pause.h"
#include "node/uevent.h"

static void test_states(void)
{
	static const struct {
		const char *text;
		int want; /* -1: refused */
	} rows[] = {
		{"4: ACTIVE\n", RDMA_PORT_ACTIVE},
		{"1: DOWN\n", RDMA_PORT_DOWN},
		{"0: NOP", RDMA_PORT_NOP},
		{"5: ACTIVE_DEFER\n", RDMA_PORT_ACTIVE_DEFER},
		{"2:", RDMA_PORT_INIT},
		{"6: MORE\n", -1},
		{"ACTIVE\n", -1},
		{"4", -1},
		{"-1: DOWN\n", -1},
		{"4294967297: DOWN\n", -1},
		{"", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum rdma_state state = RDMA_PORT_ARMED;
		bool good = rdma_parse_state(str_of(rows[i].text), &state);

		is_int(good ? (int)state : -1, rows[i].want, "state %s", rows[i].text);
		if (!good)
			is_int(state, RDMA_PORT_ARMED, "... and it's left alone");
	}
}

static void test_rates(void)
{
	static const struct {
		const char *text;
		int64_t want;
	} rows[] = {
		{"100 Gb/sec (4X EDR)\n", 100000},
		{"2.5 Gb/sec (1X SDR)\n", 2500},
		{"800 Gb/sec (4X XDR)\n", 800000},
		{"10 Gb/sec", 10000},
		{"999999 Gb/sec", 999999000},
		{"1000000 Gb/sec", -1},
		{"2.55 Gb/sec\n", -1},
		{"2. Gb/sec\n", -1},
		{".5 Gb/sec\n", -1},
		{"100 Mb/sec\n", -1},
		{"-1 Gb/sec\n", -1},
		{"100", -1},
		{"", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t mbps = 7;
		bool good = rdma_parse_rate(str_of(rows[i].text), &mbps);

		is_int(good ? (int64_t)mbps : -1, rows[i].want, "rate %s", rows[i].text);
	}
}

static void test_speeds(void)
{
	/* IBTA's PortInfo: LinkWidthActive, LinkSpeedActive and its extensions. */
	static const struct {
		unsigned width, speed;
		uint64_t want;
	} rows[] = {
		{1, 1, 2500},     {2, 1, 10000},    {2, 2, 20000},    {2, 4, 40000},
		{2, 8, 40000},    {2, 16, 56000},   {2, 32, 100000},  {2, 64, 200000},
		{2, 128, 400000}, {2, 256, 800000}, {16, 64, 100000}, {4, 32, 200000},
		{8, 32, 300000},  {1, 64, 50000},   {0, 32, 0},       {2, 0, 0},
		{3, 32, 0},       {2, 3, 0},        {32, 1, 0},       {2, 512, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_uint(rdma_speed_mbps(rows[i].width, rows[i].speed), rows[i].want,
			"width %u, speed %u", rows[i].width, rows[i].speed);
}

static void test_gids(void)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"fe80:0000:0000:0000:0e42:a1ff:fe16:054c\n", "fe80::e42:a1ff:fe16:54c"},
		{"0000:0000:0000:0000:0000:ffff:0a05:d407\n", "::ffff:10.5.212.7"},
		{"FE80:0000:0000:0000:0000:0000:0000:0001", "fe80::1"},
		{"0000:0000:0000:0000:0000:0000:0000:0000\n", "::"},
		{"fe80:0000:0000:0000:0e42:a1ff:fe16\n", NULL},
		{"fe80:0000:0000:0000:0e42:a1ff:fe16:054c:0000\n", NULL},
		{"fe80:0000:0000:0000:0e42:a1ff:fe16:054g\n", NULL},
		{"fe80.0000.0000.0000.0e42.a1ff.fe16.054c\n", NULL},
		{"fe80::1", NULL},
		{"", NULL},
	};
	uint64_t guid = 0;
	char text[24];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t bytes[16];
		char got[NODE_ADDR_SIZE] = "";
		bool good = rdma_parse_gid(str_of(rows[i].text), bytes);

		if (good)
			rdma_gid_text(got, bytes);
		is_str(good ? got : NULL, rows[i].want, "GID %s", rows[i].text);
		if (good)
			is_int(rdma_gid_is_empty(bytes), strcmp(got, "::") == 0,
			       "... empty or not");
	}
	ok(rdma_parse_guid(STR("0c42:a103:0016:054c\n"), &guid), "a GUID");
	is_uint(guid, UINT64_C(0x0c42a1030016054c), "... its value");
	rdma_guid_text(text, guid);
	is_str(text, "0c42:a103:0016:054c", "... and its text");
	ok(!rdma_parse_guid(STR("0c42:a103:0016"), &guid), "a short one");
	ok(!rdma_parse_guid(STR("0x0c42a1030016054c"), &guid), "another form");
}

static void test_words(void)
{
	enum rdma_layer layer = RDMA_LAYER_UNKNOWN;
	enum rdma_gid_type type = RDMA_GID_IB;
	dev_t number = 0;
	unsigned value = 0;
	char text[8];

	ok(rdma_parse_layer(STR("InfiniBand\n"), &layer) && layer == RDMA_LAYER_INFINIBAND, "IB");
	ok(rdma_parse_layer(STR("Ethernet\n"), &layer) && layer == RDMA_LAYER_ETHERNET, "RoCE");
	ok(!rdma_parse_layer(STR("Unspecified\n"), &layer), "no layer");
	ok(rdma_parse_gid_type(STR("RoCE v2\n"), layer, &type) && type == RDMA_GID_ROCE_V2, "v2");
	ok(rdma_parse_gid_type(STR("IB/RoCE v1\n"), layer, &type) && type == RDMA_GID_ROCE_V1,
	   "v1 on Ethernet");
	ok(rdma_parse_gid_type(STR("IB/RoCE v1\n"), RDMA_LAYER_INFINIBAND, &type) &&
		   type == RDMA_GID_IB,
	   "the same words on InfiniBand");
	ok(!rdma_parse_gid_type(STR("RoCE v3\n"), layer, &type), "no type");
	ok(rdma_parse_devnum(STR("231:192\n"), &number) && number == makedev(231, 192), "a node");
	ok(!rdma_parse_devnum(STR("231:\n"), &number), "half of one");
	ok(!rdma_parse_devnum(STR("231\n"), &number), "the other half");
	ok(!rdma_parse_devnum(STR("231:192:1\n"), &number), "more than one");
	ok(rdma_parse_number(STR("0x1f\n"), &value) && value == 31, "a hexadecimal number");
	ok(rdma_parse_number(STR("12\n"), &value) && value == 12, "a decimal one");
	ok(!rdma_parse_number(STR("0x\n"), &value), "only its prefix");
	ok(!rdma_parse_number(STR("0xfffffff\n"), &value), "too large");
	ok(!rdma_parse_number(STR("12a\n"), &value), "with something behind");
	rdma_text(text, sizeof(text), STR(" a\x01\xff\tb \n"));
	is_str(text, "a???b", "odd bytes");
	rdma_text(text, sizeof(text), STR("1234567890"));
	is_str(text, "1234567", "cut to its size");
}

#define MESSAGE(literal) ((struct str){(literal), sizeof(literal) - 1})

static void test_uevents(void)
{
	struct uevent e = {.action = UEVENT_OTHER};
	struct err err = ERR_INIT;
	static const struct {
		struct str message;
		const char *name;
	} refused[] = {
		{MESSAGE(""), "nothing"},
		{MESSAGE("add@/devices/x"), "no end of the head"},
		{MESSAGE("libudev\0\xfe\xed\xca\xfe"
			 "add@/x\0ACTION=add\0"),
		 "udev's own"},
		{MESSAGE("add@/x\0DEVPATH=/x\0SUBSYSTEM=net\0"), "no action"},
		{MESSAGE("add@/x\0ACTION=add\0SUBSYSTEM=net\0"), "no path"},
		{MESSAGE("add@/x\0ACTION=add\0DEVPATH=/x\0"), "no subsystem"},
		{MESSAGE("add@/x\0ACTION=\0DEVPATH=/x\0SUBSYSTEM=net\0"), "an empty action"},
	};
	static const struct {
		const char *word;
		enum uevent_action want;
	} actions[] = {
		{"add", UEVENT_ADD},   {"remove", UEVENT_REMOVE}, {"change", UEVENT_CHANGE},
		{"move", UEVENT_MOVE}, {"bind", UEVENT_OTHER},    {"addd", UEVENT_OTHER},
	};

	is_int(uevent_parse(
		       MESSAGE("add@/devices/pci0000:00/0000:00:04.0/infiniband_verbs/uverbs0\0"
			       "ACTION=add\0"
			       "DEVPATH=/devices/pci0000:00/0000:00:04.0/infiniband_verbs/uverbs0\0"
			       "SUBSYSTEM=infiniband_verbs\0MAJOR=231\0MINOR=192\0"
			       "DEVNAME=infiniband/uverbs0\0SEQNUM=4711\0"),
		       &e, &err),
	       0, "a device comes");
	is_int(e.action, UEVENT_ADD, "... action");
	ok(str_eqz(e.subsystem, "infiniband_verbs"), "... subsystem");
	ok(str_eqz(e.name, "uverbs0"), "... name");
	ok(str_eqz(e.devname, "infiniband/uverbs0"), "... node");
	ok(str_has_prefix(e.devpath, STR("/devices/pci0000:00/")), "... path");
	is_uint(e.interface.len, 0, "... no interface");
	is_int(uevent_parse(MESSAGE("remove@/devices/virtual/net/eth0\0ACTION=remove\0"
				    "DEVPATH=/devices/virtual/net/eth0\0SUBSYSTEM=net\0odd\0"
				    "INTERFACE=eth0\0IFINDEX=7"),
			    &e, &err),
	       0, "an interface goes, with a line that has no value and no end of the last");
	is_int(e.action, UEVENT_REMOVE, "... action");
	ok(str_eqz(e.interface, "eth0"), "... interface");
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		char text[96];
		int n = snprintf(text, sizeof(text), "x@/x%cACTION=%s%cDEVPATH=x%cSUBSYSTEM=net%c",
				 0, actions[i].word, 0, 0, 0);

		is_int(uevent_parse((struct str){text, (size_t)n}, &e, &err), 0, "action %s",
		       actions[i].word);
		is_int(e.action, actions[i].want, "... which it is");
		ok(str_eqz(e.name, "x"), "... a path of one part");
	}
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		err = (struct err)ERR_INIT;
		is_int(uevent_parse(refused[i].message, &e, &err), -1, "refused: %s",
		       refused[i].name);
		is_int(err.kind, ERR_PROTOCOL, "... as a fault of the sender's");
	}
}

/* ---- how long a look is followed by none ---- */

static void test_pause(void)
{
	static const struct {
		int64_t took_us, want_ms;
	} rows[] = {
		{0, 50},      {-5, 50},     {2499, 50},     {2600, 52},           {10000, 200},
		{25000, 500}, {25001, 500}, {9000000, 500}, {INT64_MAX / 2, 500},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_int(look_pause_ms(rows[i].took_us, 50), rows[i].want_ms, "after %lld us",
		       (long long)rows[i].took_us);
}

int main(void)
{
	test_states();
	test_rates();
	test_speeds();
	test_gids();
	test_words();
	test_uevents();
	test_pause();
	return done_testing();
}
