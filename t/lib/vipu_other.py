# SPDX-License-Identifier: Apache-2.0
#
# A V-IPU controller that shares nothing with ours: reference gRPC without stubs, messages read and
# written by hand from the wire facts, its own model and its own habits. It takes IPUs from the far end,
# answers lists slowly, is sometimes UNKNOWN, refuses a second removal while one is under way, remembers
# what it removed for a while, and sends fields that nobody knows. On demand it's secure: TLS, a client
# certificate, metadata that each call must carry. Its state goes to a JSON file.

import argparse
import concurrent.futures
import json
import os
import random
import signal
import threading
import time

import grpc

options = argparse.ArgumentParser()
options.add_argument("--listen", default="127.0.0.1")
options.add_argument("--ports-file", required=True)
options.add_argument("--state", required=True)
options.add_argument("--machines", type=int, default=8)
options.add_argument("--seed", type=int, default=1)
options.add_argument("--cert")
options.add_argument("--key")
options.add_argument("--client-ca")
options.add_argument("--metadata", action="append", default=[])
args = options.parse_args()

PENDING, ACTIVE, REMOVED, ERROR = 1, 2, 3, 4
IDLE, CREATING, REMOVING = 1, 2, 3
IPUS = args.machines * 4
DEMANDS = dict(pair.split("=", 1) for pair in args.metadata)
chance = random.Random(args.seed)


# ---- the wire ----


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n) if n else b""


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


# What no version of the API has: a client has to pass it over.
STRANGE = data(99, "from the future") + number(100, 7) + varint(101 << 3 | 5) + b"\0\0\x80\x3f"


def take_varint(raw, at):
    n = shift = 0
    while True:
        byte = raw[at]
        at += 1
        n |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return n, at


def fields(raw):
    """Field number → last value: an int, or bytes."""
    found, at = {}, 0
    while at < len(raw):
        key, at = take_varint(raw, at)
        if key & 7 == 0:
            value, at = take_varint(raw, at)
        elif key & 7 == 2:
            size, at = take_varint(raw, at)
            value = raw[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {key & 7}")
        found[key >> 3] = value
    return found


# ---- the model ----

lock = threading.Lock()
partitions = {}
counts = {"created": 0, "refused": 0, "unknown": 0, "removed": 0, "most": 0, "doubled": 0,
          "configs": 0, "denied": 0}


class Partition:
    def __init__(self, name, size, first, more):
        now = time.monotonic()
        self.name, self.size, self.first, self.more = name, size, first, more
        self.active_at = now + chance.uniform(0.1, 0.7)
        self.gone_at = self.forgotten_at = None

    def ipus(self):
        return set(range(self.first, self.first + self.size))


def is_gone(p):
    return p.gone_at is not None and time.monotonic() >= p.gone_at


def holding():
    return [p for p in partitions.values() if not is_gone(p)]


def settle():
    """Time has passed: what was removed long enough ago is forgotten. The file says so before anybody is told."""
    now = time.monotonic()
    for p in list(partitions.values()):
        if p.forgotten_at is not None and now >= p.forgotten_at:
            del partitions[p.name]
    note()


def note():
    taken = [ipu for p in holding() for ipu in p.ipus()]
    counts["most"] = max(counts["most"], len(taken))
    counts["doubled"] += len(taken) != len(set(taken))
    state = {**counts, "taken": len(taken), "partitions": sorted(p.name for p in holding())}
    with open(args.state + ".new", "w", encoding="utf-8") as out:
        json.dump(state, out)
    os.rename(args.state + ".new", args.state)


def sometimes_unknown(context, odds):
    if chance.random() < odds:
        counts["unknown"] += 1
        note()
        context.abort(grpc.StatusCode.UNKNOWN, "stream removed")


def find(name, context):
    p = partitions.get(name)
    if p is None:
        context.abort(grpc.StatusCode.NOT_FOUND, f"no partition {name!r} in cluster 'attic'")
    return p


# ---- the methods: raw request in, raw reply out ----


def get_version(raw, context):
    return data(1, "1.19.0-rc.2+attic") + STRANGE


def list_ipus(raw, context):
    out = b""
    for machine in range(args.machines):
        entry = data(1, f"shelf-{machine * 7}.attic")
        for ipu in (0, 1, 16, 17):
            attribute = data(1, "board") + data(2, "M2000")
            entry += data(2, number(1, ipu) + data(2, data(1, attribute)))
        out += data(1, entry + STRANGE)
    return out


def spec(p):
    out = data(1, "attic")
    for ipu in p.ipus():
        out += data(2, number(1, ipu // 64) + number(3, ipu % 64) + number(4, ipu % 64))
    return out + number(3, 2) + number(5, 1) + number(7, 1) + number(9, 1) + STRANGE


def ready_of(p):
    if is_gone(p):
        return REMOVED
    return ACTIVE if time.monotonic() >= p.active_at else PENDING


def list_partitions(raw, context):
    time.sleep(0.25)
    with lock:
        settle()
        return b"".join(
            data(1, data(1, p.name) + data(2, spec(p)) + number(3, ready_of(p)) + STRANGE)
            for p in partitions.values()
            if not is_gone(p)
        )


def choose(size):
    """The last aligned place that is free."""
    taken = {ipu for p in holding() for ipu in p.ipus()}
    for first in range(IPUS - size, -1, -size):
        if not taken & set(range(first, first + size)):
            return first
    return None


def create(raw, context):
    wants = fields(fields(raw).get(2, b""))
    name, size = wants.get(1, b"").decode(), wants.get(2, 0)
    with lock:
        settle()
        if not name or not size or size & (size - 1):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad requirements")
        if name in partitions:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{name} exists")
        first = choose(size)
        if first is None:
            counts["refused"] += 1
            note()
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not enough IPUs on the shelves")
        partitions[name] = Partition(name, size, first, wants)
        counts["created"] += 1
        note()
        sometimes_unknown(context, 0.15)
        return data(1, name) + STRANGE


def status(raw, context):
    name = fields(raw).get(1, b"").decode()
    with lock:
        settle()
        p = find(name, context)
        sometimes_unknown(context, 0.1)
        ready = ready_of(p)
        doing = CREATING if ready == PENDING else REMOVING if p.gone_at and ready == ACTIVE else IDLE
        return data(1, data(1, name) + number(2, ready) + number(3, doing) + STRANGE)


def remove(raw, context):
    asked = fields(raw)
    name = asked.get(1, b"").decode()
    with lock:
        settle()
        p = find(name, context)
        if p.gone_at is not None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{name}: operation in progress")
        now = time.monotonic()
        p.gone_at = now + chance.uniform(0.2, 1)
        p.forgotten_at = p.gone_at + 1
        counts["removed"] += 1
        sometimes_unknown(context, 0.15)
        return STRANGE


def device(p, ipu, index):
    out = data(1, f"fd00::{ipu // 4 + 1:x}") + number(2, 7000 + ipu) + number(3, 8000 + ipu)
    return out + number(4, index) + number(6, ipu - p.first) + number(7, 2) + number(8, ipu % 4) + data(9, f"{ipu}") + STRANGE


def ipuof_config(raw, context):
    asked = fields(raw)
    name = asked.get(1, b"").decode()
    with lock:
        settle()
        p = find(name, context)
        if ready_of(p) != ACTIVE:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{name} isn't ready")
        sometimes_unknown(context, 0.2)
        gcds = p.more.get(8, 0) or 1
        wanted = [fields(asked[2]).get(1, 0)] if 2 in asked else range(gcds)
        config = number(2, 2) + number(3, 1) + number(5, 1) + STRANGE
        for gcd in reversed(wanted):  # in no order that anybody promised
            ipus = sorted(p.ipus())[gcd * p.size // gcds : (gcd + 1) * p.size // gcds]
            devices = b"".join(data(2, device(p, ipu, index)) for index, ipu in enumerate(ipus))
            config += data(8, devices + data(3, data(1, "GCD Id") + data(2, f"{gcd}")) + STRANGE)
        counts["configs"] += 1
        return data(1, config) + STRANGE


def not_here(raw, context):
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "not on these shelves")


METHODS = {
    "/virmgrpc.VersionService/GetVersion": get_version,
    "/virmgrpc.UserService/ListPartitions": list_partitions,
    "/virmgrpc.UserService/ListIPUAttributes": list_ipus,
    "/virmgrpc.UserService/CreatePartition": create,
    "/virmgrpc.UserService/RemovePartition": remove,
    "/virmgrpc.UserService/ResetPartition": not_here,
    "/virmgrpc.UserService/GetPartitionIpuofConfig": ipuof_config,
    "/virmgrpc.UserService/GetPartitionStatus": status,
}


def guarded(method):
    """The method, for callers that carry what is demanded."""

    def call(raw, context):
        got = dict(context.invocation_metadata())
        lacks = [key for key in DEMANDS if key not in got]
        if lacks or any(got[key] != value for key, value in DEMANDS.items()):
            with lock:
                counts["denied"] += 1
            code = grpc.StatusCode.UNAUTHENTICATED if lacks else grpc.StatusCode.PERMISSION_DENIED
            context.abort(code, "not for you")
        return method(raw, context)

    return call


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        method = METHODS.get(details.method)
        return grpc.unary_unary_rpc_method_handler(guarded(method)) if method else None


def read(path):
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def keep_state():
    """The file follows time too: a removal ends without anybody asking."""
    while not ended.wait(0.1):
        with lock:
            settle()


server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
server.add_generic_rpc_handlers((Handler(),))
if args.cert:
    pair = (read(args.key), read(args.cert))
    demands_cert = args.client_ca is not None
    credentials = grpc.ssl_server_credentials([pair], read(args.client_ca), demands_cert)
    port = server.add_secure_port(f"{args.listen}:0", credentials)
else:
    port = server.add_insecure_port(f"{args.listen}:0")
server.start()
ended = threading.Event()
note()
threading.Thread(target=keep_state, daemon=True).start()
with open(args.ports_file, "w", encoding="ascii") as ports:
    ports.write(f"vipu {port}\n")
signal.signal(signal.SIGTERM, lambda *_: ended.set())
ended.wait()
server.stop(0).wait()
