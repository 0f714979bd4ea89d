# SPDX-License-Identifier: Apache-2.0
"""A client for the tests of listeners, by Python's ssl and by jsonpatch: somebody else's TLS, and somebody
else's JSON Patch. One command a line on standard input, JSON; its answer, JSON, on standard output.

    {"do": "open", "as": NAME, "port": N, "tls": "1.1" | "1.2" | "1.3" | "none" | absent}
    {"do": "send", "as": NAME, "text": TEXT or "fill": N, "piece": BYTES at once, 0: all}; each character of TEXT is a byte
    {"do": "read", "as": NAME}      -> {"status", "headers", "body"}; {"end": true} at the end
    {"do": "rest", "as": NAME}      -> {"text"}: all that comes until the other side ends, as bytes
    {"do": "talk", "port", "tls", "text"}  -> the same: open, send, rest and close in one
    {"do": "close", "as": NAME}
    {"do": "patch", "document": …, "patch": [...]}  -> {"document": …}
Whatever fails answers {"error": TEXT}. A read waits 60 s at most.
"""

import argparse
import json
import socket
import ssl
import sys
import warnings

import jsonpatch


class Client:
    def __init__(self, ca):
        self.ca = ca
        self.connections = {}

    def open(self, command):
        context = ssl.create_default_context(cafile=self.ca)
        versions = {"1.1": ssl.TLSVersion.TLSv1_1, "1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
        tls = command.get("tls")
        if tls in versions:
            if tls == "1.1":  # which OpenSSL speaks only when it's told to be careless
                context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = versions[tls]
        plain = socket.create_connection(("127.0.0.1", command["port"]), timeout=60)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls == "none":
            self.connections[command["as"]] = [plain, plain.makefile("rb")]
            return {}
        connection = context.wrap_socket(plain, server_hostname="localhost")
        self.connections[command["as"]] = [connection, connection.makefile("rb")]
        return {"tls": connection.version()}

    def send(self, command):
        connection = self.connections[command["as"]][0]
        data = b" " * command["fill"] if "fill" in command else command["text"].encode("latin-1")
        piece = command.get("piece") or len(data)
        for at in range(0, len(data), piece):
            connection.sendall(data[at:at + piece])
        return {}

    def read(self, command):
        stream = self.connections[command["as"]][1]
        line = stream.readline()
        if not line:
            return {"end": True}
        headers = {}
        status = int(line.split()[1])
        while True:
            line = stream.readline().decode().rstrip("\r\n")
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", "0")))
        return {"status": status, "headers": headers, "body": body.decode()}

    def rest(self, command):
        stream = self.connections[command["as"]][1]
        data = b""
        try:
            while piece := stream.read1():
                data += piece
        except (ConnectionError, ssl.SSLError):  # its end, if not a kind one
            pass
        return {"text": data.decode("latin-1")}

    def talk(self, command):
        command["as"] = "talk"
        self.open(command)
        try:
            self.send(command)
        except (ConnectionError, ssl.SSLError):  # it has heard enough, and may have said why
            pass
        answer = self.rest(command)
        self.close(command)
        return answer

    def close(self, command):
        connection, stream = self.connections.pop(command["as"])
        stream.close()
        connection.close()
        return {}

    def patch(self, command):
        return {"document": jsonpatch.apply_patch(command["document"], command["patch"])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ca", required=True)
    warnings.simplefilter("ignore", DeprecationWarning)  # TLS 1.1 is asked for to be refused
    client = Client(parser.parse_args().ca)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(client, command["do"])(command)
        except (OSError, jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as failure:
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        print(json.dumps(answer), flush=True)


main()
