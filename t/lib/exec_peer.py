# SPDX-License-Identifier: Apache-2.0
"""An API server's exec over WebSockets (v5.channel.k8s.io), by Python's sockets and ssl: somebody
else's end for the launcher. A Pod is a process on this machine: what the exec names is run here.
Some names misbehave (ANSWERS, serve_exec), some of them as often as the number behind them says. Writes "https PORT" to the ports file, and a line a request to standard output. At SIGUSR1 it
loses all connections."""

import argparse
import base64
import hashlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import threading
import urllib.parse

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR = range(4)
ANSWERS = {
    "gone": (404, "NotFound", 'pods "gone" not found'),
    "denied": (403, "Forbidden", 'pods "denied" is forbidden: User "x" cannot create resource "pods/exec"'),
    "unknown": (401, "Unauthorized", "Unauthorized"),
    "two": (400, "BadRequest", "a container name must be specified for pod two, choose one of: [a b]"),
}
seen = {}
lock = threading.Lock()
connections = set()
print_lock = threading.Lock()


def say(*words):
    with print_lock:
        print(*words, flush=True)


def status_of(code, reason, message):
    return json.dumps({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                       "message": message, "reason": reason, "code": code}).encode()


class Peer:
    """One connection, after its TLS handshake."""

    def __init__(self, sock):
        self.sock = sock
        self.send_lock = threading.Lock()
        self.data = b""

    def read(self, n):
        while len(self.data) < n:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError
            self.data += more
        got, self.data = self.data[:n], self.data[n:]
        return got

    def head(self):
        while b"\r\n\r\n" not in self.data:
            more = self.sock.recv(65536)
            if not more:
                raise EOFError
            self.data += more
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        return lines[0].split(" ")[1], {k.lower(): v for k, v in fields.items()}

    def answer(self, code, reason, message):
        body = status_of(code, reason, message)
        self.sock.sendall(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                          b"Connection: close\r\n\r\n%s" % (code, len(body), body))

    def frame(self, opcode, payload):
        n = len(payload)
        head = bytes([0x80 | opcode]) + (bytes([n]) if n < 126 else struct.pack(">BH", 126, n)
                                         if n < 65536 else struct.pack(">BQ", 127, n))
        with self.send_lock:
            self.sock.sendall(head + payload)

    def message(self):
        """The next message's opcode and payload; control frames come between."""
        first, second = self.read(2)
        n = second & 127
        if n == 126:
            n = struct.unpack(">H", self.read(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.read(8))[0]
        assert second & 128, "a client masks"
        mask = self.read(4)
        payload = self.read(n)
        if n:
            key = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
            payload = (int.from_bytes(payload, "big") ^ key).to_bytes(n, "big")
        return first & 15, payload


def pump_out(peer, pipe, channel):
    while True:
        data = os.read(pipe.fileno(), 32768)
        if not data:
            return
        try:
            peer.frame(2, bytes([channel]) + data)
        except OSError:
            return


def pump_in(peer, process):
    try:
        while True:
            opcode, payload = peer.message()
            if opcode == 8:
                peer.frame(8, payload)
                break
            if opcode == 9:
                peer.frame(10, payload)
            if opcode == 2 and payload[0] == STDIN:
                process.stdin.write(payload[1:])
                process.stdin.flush()
    except (OSError, EOFError, ssl.SSLError, ValueError):
        pass
    try:
        process.stdin.close()
    except OSError:
        pass


def end_status(returncode):
    if returncode == 0:
        return b'{"metadata":{},"status":"Success"}'
    code = returncode if returncode > 0 else 128 - returncode
    return json.dumps({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                       "message": f"command terminated with non-zero exit code: {code}",
                       "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}).encode()


def run(peer, pod, command):
    if not os.path.exists(command[0]):
        message = f'exec failed: unable to start container process: exec: "{command[0]}": stat {command[0]}: no such file or directory: unknown'
        peer.frame(2, bytes([ERROR]) + status_of(500, "InternalError", message))
        return
    env = dict(os.environ, POD=pod)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=env, bufsize=0)
    say("session", pod, process.pid)
    threads = [threading.Thread(target=pump_out, args=(peer, process.stdout, STDOUT), daemon=True),
               threading.Thread(target=pump_out, args=(peer, process.stderr, STDERR), daemon=True)]
    for thread in threads:
        thread.start()
    threading.Thread(target=pump_in, args=(peer, process), daemon=True).start()
    for thread in threads:
        thread.join()
    code = process.wait()
    say("ended", pod, code)
    peer.frame(2, bytes([ERROR]) + end_status(code))


def serve_exec(peer, options):
    target, fields = peer.head()
    path, _, query = target.partition("?")
    parts = path.split("/")
    params = urllib.parse.parse_qs(query)
    say("request", target)
    if parts[:4] != ["", "api", "v1", "namespaces"] or parts[7:] != ["exec"]:
        return peer.answer(404, "NotFound", "no such path")
    pod = parts[6]
    with lock:
        seen[pod] = seen.get(pod, 0) + 1
        n = seen[pod]
    with open(options.token) as f:
        if fields.get("authorization") != "Bearer " + f.read().strip():
            return peer.answer(401, "Unauthorized", "Unauthorized")
    kind, _, times = pod.partition("-")
    if kind in ANSWERS and (kind != "two" or "container" not in params):
        return peer.answer(*ANSWERS[kind])
    if kind.startswith("plain."):
        return peer.answer(403, "Forbidden", "no such name in the Role")
    if kind == "busy" and n <= int(times or 1):
        return peer.answer(429, "TooManyRequests", "later")
    if kind == "broken" and n <= int(times or 1):
        return peer.answer(503, "ServiceUnavailable", "the kubelet is away")
    if kind == "refused" and n <= int(times or 1):
        return None
    if PROTOCOL not in [p.strip() for p in fields.get("sec-websocket-protocol", "").split(",")]:
        return peer.answer(400, "BadRequest", "unable to upgrade: no known protocol")
    accept = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + GUID).encode()).digest()).decode()
    peer.sock.sendall(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n").encode())
    if kind == "cut" and n <= int(times or 1):
        return None
    if kind == "late" and n <= int(times or 1):
        peer.frame(2, bytes([ERROR]) + status_of(500, "InternalError", "container not found"))
    elif kind == "deaf":
        return peer.message()
    elif kind == "strange":
        peer.frame(2, bytes([STDOUT]) + b"Welcome!\n")
    else:
        run(peer, pod, params["command"])
    return peer.frame(8, struct.pack(">H", 1000))


def drop_all(*_):
    """As an API server that is replaced: what goes through it is lost, what it started isn't."""
    for raw in list(connections):
        try:
            raw.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(raw, context, options):
    try:
        sock = context.wrap_socket(raw, server_side=True)
        connections.add(sock)
        serve_exec(Peer(sock), options)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    except (OSError, EOFError, ssl.SSLError):
        pass
    finally:
        raw.close()
        try:
            connections.discard(sock)
            sock.close()
        except (OSError, NameError, UnboundLocalError):
            pass


def main():
    parser = argparse.ArgumentParser()
    for name in ("cert", "key", "token", "ports-file"):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert, options.key)
    signal.signal(signal.SIGUSR1, drop_all)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    with open(options.ports_file + ".new", "w") as f:
        f.write(f"https {listener.getsockname()[1]}\n")
    os.rename(options.ports_file + ".new", options.ports_file)
    listener.settimeout(0.05)  # a signal may come to another thread: its handler runs in this one
    while True:
        try:
            raw, _ = listener.accept()
        except TimeoutError:
            continue
        raw.settimeout(None)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(raw, context, options), daemon=True).start()


main()
