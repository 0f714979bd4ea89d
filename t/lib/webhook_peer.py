# SPDX-License-Identifier: Apache-2.0
"""An admission webhook by Python's ssl and http.server, for who calls webhooks. What it answers is
said by the path; each AdmissionReview is a line of JSON on standard output. Writes a line "https PORT" to
the ports file.

    /allow  /deny  /bare (denies without a word)  /warn  /patch/JSON (escaped; any number of operations)
    /deny-patch  /garbage  /status/CODE  /silent  /cut  /other-uid  /other-kind  /no-type
    /again/CODE/N/TEXT (CODE with Retry-After: TEXT, N times; then as /allow)
"""

import argparse
import base64
import http.server
import json
import os
import ssl
import threading
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ended = threading.Event()
    lock = threading.Lock()
    asked = {}  # how often, by uid: /again

    def log_message(self, *args):
        pass

    def reply(self, status, body, again=None):
        self.send_response(status)
        if again is not None:
            self.send_header("Retry-After", again)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            print(json.dumps({"path": self.path, "review": review}), flush=True)
        path = self.path.split("?")[0]
        response = {"uid": review["request"]["uid"], "allowed": True}
        answer = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        if path == "/deny":
            response.update(allowed=False, status={"code": 422, "reason": "Invalid", "message": "two things are wrong",
                "details": {"causes": [{"field": "spec.a", "message": "one"}, {"field": "spec.b", "message": "two"}]}})
        elif path == "/bare":
            response["allowed"] = False
        elif path == "/warn":
            response["warnings"] = ["this is \"unwise\"", "so is this", "so is this", "not\nthis"]
        elif path.startswith("/patch/"):
            patch = urllib.parse.unquote(path[len("/patch/"):]).encode()
            response.update(patch=base64.b64encode(patch).decode(), patchType="JSONPatch")
        elif path == "/no-type":
            response["patch"] = base64.b64encode(b"[]").decode()
        elif path == "/other-uid":
            response["uid"] = "somebody else's"
        elif path == "/other-kind":
            answer["kind"] = "Review"
        elif path == "/garbage":
            self.reply(200, b"{\"kind\":")
            return
        elif path.startswith("/again/"):
            code, times, text = path[len("/again/"):].split("/")
            with self.lock:
                seen = self.asked[response["uid"]] = self.asked.get(response["uid"], 0) + 1
            if seen <= int(times):
                self.reply(int(code), b"{}", text)
                return
        elif path.startswith("/status/"):
            self.reply(int(path[len("/status/"):]), b"{}")
            return
        elif path == "/silent":
            self.ended.wait()
            return
        elif path == "/cut":
            self.close_connection = True
            return
        self.reply(200, json.dumps(answer).encode())


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # handshakes that fail are what is tested


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--cert", required=True)
    options.add_argument("--key", required=True)
    options.add_argument("--ports-file", required=True)
    args = options.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.cert, args.key)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with open(args.ports_file + ".new", "w", encoding="ascii") as out:
        out.write(f"https {server.server_port}\n")
    os.rename(args.ports_file + ".new", args.ports_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
