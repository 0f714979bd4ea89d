# SPDX-License-Identifier: Apache-2.0
#
# A V-IPU controller by the reference gRPC implementation, for interoperability tests: all eight
# methods with fixed answers, and misbehaviour that the partition's id asks for. What was asked goes
# to a file, a JSON line a request. Uses stubs that the test made from our .proto.

import argparse
import concurrent.futures
import json
import signal
import sys
import threading
import time

import grpc
from google.protobuf import json_format

options = argparse.ArgumentParser()
options.add_argument("--stubs", required=True)
options.add_argument("--ports-file", required=True)
options.add_argument("--log", required=True)
options.add_argument("--cert")
options.add_argument("--key")
options.add_argument("--user")
options.add_argument("--access")
args = options.parse_args()

sys.path.insert(0, args.stubs)
import vipu_pb2 as pb  # noqa: E402
import vipu_pb2_grpc as stubs  # noqa: E402

log_lock = threading.Lock()
log_file = open(args.log, "w", encoding="utf-8")


def log(method, request, context):
    metadata = {key: value for key, value in context.invocation_metadata()}
    line = {
        "method": method,
        "request": json_format.MessageToDict(request, preserving_proto_field_name=True),
        "metadata": metadata,
        "deadline": context.time_remaining(),
    }
    with log_lock:
        log_file.write(json.dumps(line, sort_keys=True) + "\n")
        log_file.flush()
    if args.user and metadata.get("api-user-id") != args.user:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
    if args.access and metadata.get("api-access-key") != args.access:
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "wrong key")


def misbehave(name, context):
    """By the partition's id: code-N, slow-MS, die; anything else is met as it should be."""
    kind, _, rest = name.partition("-")
    if kind == "code":
        code = {status.value[0]: status for status in grpc.StatusCode}[int(rest)]
        context.abort(code, f"100 % „{name}“ ☃\nline two")
    if kind == "slow":
        time.sleep(int(rest) / 1000)
    if kind == "die":
        raise RuntimeError("dies of it")
    if kind == "missing":
        context.abort(grpc.StatusCode.NOT_FOUND, f'partition "{name}" not found')


def partition(number, name):
    spec = pb.PartitionSpec(
        cluster_id="c1",
        ipus=[
            pb.PartitionIpu(
                ipulink_domain_topology_id=number,
                ipulink_domain_routing_id=1,
                topology_id=ipu,
                routing_id=ipu + 100,
            )
            for ipu in range(4)
        ],
        ipulink_routing_type=pb.IRT_RINGSWNC,
        sync_type=pb.ST_POD_NATIVE_DEFAULT,
        num_gcds=2,
        num_ipulink_segments=1,
        reconfigurable=True,
        gw_routing_type=pb.GRT_SWRING,
        num_replicas=3,
        allocation_id="a1",
    )
    return pb.Partition(
        id=name, spec=spec, ready_state=pb.PS_ACTIVE, ipuof_server_version="1.11"
    )


class Version(stubs.VersionServiceServicer):
    def GetVersion(self, request, context):
        log("GetVersion", request, context)
        return pb.VersionReply(version="1.18.0-пи")


class User(stubs.UserServiceServicer):
    def ListPartitions(self, request, context):
        log("ListPartitions", request, context)
        counts = {"": 2, "none": 0, "large": 10000}
        if request.allocation_id == "huge":  # the same one over and over, which takes Python no time
            one = pb.ListPartitionsReply(partitions=[partition(0, "p-0")]).SerializeToString()
            return pb.ListPartitionsReply.FromString(one * 80000)
        if request.allocation_id not in counts:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not yours")
        return pb.ListPartitionsReply(
            partitions=[
                partition(i, f"p-{i}") for i in range(counts[request.allocation_id])
            ]
            + [pb.Partition(id="bare")]
        )

    def ListIPUAttributes(self, request, context):
        log("ListIPUAttributes", request, context)
        reply = pb.ListIPUAttributesReply()
        for agent in request.agents or ["ag1", "ag2"]:
            entry = reply.entries.add(agent=agent)
            for ipu in (0, 3, 4000000000):
                entry.ipu_attributes[ipu].attributes["board"] = f"{agent}.{ipu}"
                entry.ipu_attributes[ipu].attributes["empty"] = ""
        return reply

    def CreatePartition(self, request, context):
        log("CreatePartition", request, context)
        misbehave(request.requirements.id, context)
        return pb.CreatePartitionReply(partition_id=request.requirements.id)

    def RemovePartition(self, request, context):
        log("RemovePartition", request, context)
        misbehave(request.partition_id, context)
        return pb.RemovePartitionReply()

    def ResetPartition(self, request, context):
        log("ResetPartition", request, context)
        misbehave(request.partition_id, context)
        return pb.ResetPartitionReply()

    def GetPartitionStatus(self, request, context):
        log("GetPartitionStatus", request, context)
        misbehave(request.partition_id, context)
        status = pb.PartitionStatus(
            partition_id=request.partition_id,
            ready_state=pb.PS_ERROR,
            operation_state=pb.POS_FAILED,
            errors=["first", "zweite Ü"],
            max_auto_reset_retries=3,
            auto_reset_retry_count=2,
        )
        status.last_auto_reset_time.seconds = 1700000000
        status.last_auto_reset_time.nanos = 123456789
        return pb.GetPartitionStatusReply(status=status)

    def GetPartitionIpuofConfig(self, request, context):
        log("GetPartitionIpuofConfig", request, context)
        misbehave(request.partition_id, context)
        config = pb.PartitionConfig(
            ipulink_routing_type=pb.IRT_DNC,
            sync_type=pb.ST_GS2_DEFAULT,
            reconfigurable=True,
            gw_routing_type=pb.GRT_RING,
            num_ipulink_segments=2,
            ipuof_server_version="1.11",
        )
        wanted = [request.gcd_id.id] if request.HasField("gcd_id") else [0, 1]
        for gcd in wanted:
            entry = config.gcd_configs.add()
            entry.attributes["GCD Id"] = str(gcd)
            entry.devices.add(
                ip="10.0.0.1", server_port=1, rdma_port=2, device_id=3, ipulink_segment_id=4,
                routing_id=5, ipu_arch_id=6, ipu_id=7, chip_id="8", gwsw_version="9",
                ipum_sw_version="10",
            )
        return pb.GetPartitionIpuofConfigReply(ipuof_config=config)


server = grpc.server(
    concurrent.futures.ThreadPoolExecutor(max_workers=64),
    options=[("grpc.max_send_message_length", -1), ("grpc.max_concurrent_streams", 10)],
)
stubs.add_VersionServiceServicer_to_server(Version(), server)
stubs.add_UserServiceServicer_to_server(User(), server)
if args.cert:
    with open(args.cert, "rb") as cert, open(args.key, "rb") as key:
        credentials = grpc.ssl_server_credentials([(key.read(), cert.read())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
with open(args.ports_file, "w", encoding="ascii") as ports:
    ports.write(f"vipu {port}\n")

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
ended.wait()
server.stop(0).wait()
