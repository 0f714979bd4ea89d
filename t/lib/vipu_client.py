# SPDX-License-Identifier: Apache-2.0
#
# A V-IPU client by the reference gRPC implementation, for interoperability tests: reads a JSON
# document {"method", "request", "timeout"} a line, prints {"reply"} or {"status", "message"} a line.
# {"clock", "ms"} moves the controller's clock: the page at that path (core/clock.h).
# With --parallel all calls are under way at once. Uses stubs that the test made from our .proto.

import argparse
import concurrent.futures
import json
import struct
import sys

import grpc
from google.protobuf import json_format

options = argparse.ArgumentParser()
options.add_argument("--stubs", required=True)
options.add_argument("--ca")
options.add_argument("--cert")
options.add_argument("--key")
options.add_argument("--server-name", default="vipu.test")
options.add_argument("--metadata", action="append", default=[])
options.add_argument("--parallel", action="store_true")
options.add_argument("address")
args = options.parse_args()

sys.path.insert(0, args.stubs)
import vipu_pb2 as pb  # noqa: E402
import vipu_pb2_grpc as stubs  # noqa: E402

limits = [("grpc.max_receive_message_length", -1)]

def read(path):
    if not path:
        return None
    with open(path, "rb") as file:
        return file.read()


if args.ca:
    credentials = grpc.ssl_channel_credentials(read(args.ca), read(args.key), read(args.cert))
    limits.append(("grpc.ssl_target_name_override", args.server_name))
    channel = grpc.secure_channel(args.address, credentials, limits)
else:
    channel = grpc.insecure_channel(args.address, limits)
services = {"GetVersion": stubs.VersionServiceStub(channel)}
user = stubs.UserServiceStub(channel)
metadata = [tuple(entry.split("=", 1)) for entry in args.metadata]


def call(line):
    if "clock" in line:
        with open(line["clock"], "r+b") as page:
            page.seek(24)
            times = struct.unpack("<qq", page.read(16))
            page.seek(24)
            page.write(struct.pack("<qq", *(ms + line["ms"] for ms in times)))
        return {"moved": True}
    name = line["method"]
    kind = "VersionRequest" if name == "GetVersion" else name + "Request"
    request = json_format.ParseDict(line.get("request", {}), getattr(pb, kind)())
    method = getattr(services.get(name, user), name)
    try:
        reply = method(request, timeout=line.get("timeout", 60), metadata=metadata)
        return {"reply": json_format.MessageToDict(reply, preserving_proto_field_name=True)}
    except grpc.RpcError as error:
        return {"status": error.code().name, "message": error.details()}


lines = [json.loads(line) for line in sys.stdin]
if args.parallel:
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(lines)) as pool:
        answers = list(pool.map(call, lines))
else:
    answers = [call(line) for line in lines]
for answer in answers:
    print(json.dumps(answer, sort_keys=True))
