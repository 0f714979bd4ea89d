# SPDX-License-Identifier: Apache-2.0
"""An HTTPS server by Python's ssl and http.server: somebody else's TLS for our clients. Its answers
depend on the path. Writes a line "https PORT" to the ports file, and requests to standard output."""

import argparse
import http.server
import json
import os
import ssl
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ended = threading.Event()

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def say(self):
        """Refuses, and says the request's token."""
        words = "not for " + (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.answer(403, json.dumps({"kind": "Status", "message": words, "detail": words}).encode(), "application/json")

    def do_POST(self):
        print(self.command, self.path, flush=True)
        self.say()

    def do_GET(self):
        print(self.command, self.path, flush=True)
        if self.path == "/":
            self.answer(200, b"hello\n")
        elif self.path == "/token":
            self.answer(200, (self.headers.get("Authorization") or "none").encode())
        elif self.path == "/version":
            self.answer(200, (self.connection.version() + "\n").encode())
        elif self.path == "/cipher":
            self.answer(200, (self.connection.cipher()[0] + "\n").encode())
        elif self.path == "/large":
            self.answer(200, bytes(i * 7 % 251 for i in range(1 << 20)))
        elif self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (b"one ", b"two ", b"three"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        elif self.path == "/denied":
            status = {"kind": "Status", "status": "Failure", "code": 403, "message": "pods is forbidden"}
            self.answer(403, json.dumps(status).encode(), "application/json")
        elif self.path == "/says":
            self.say()
        elif self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"ten bytes.")
            self.close_connection = True
        elif self.path == "/silent":
            self.ended.wait()
        else:
            self.answer(404, b"there is nothing here\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    # The handshake belongs into the connection's own thread.
    def finish_request(self, request, client_address):
        try:
            request.do_handshake()
            super().finish_request(request, client_address)
        except OSError:
            pass

    def shutdown_request(self, request):
        try:
            request.unwrap()
        except (OSError, ValueError):
            pass
        super().shutdown_request(request)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--client-ca")
    parser.add_argument("--tls12", action="store_true")
    parser.add_argument("--tls11", action="store_true")
    parser.add_argument("--client-order", action="store_true")
    parser.add_argument("--ports-file", required=True)
    options = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert, options.key)
    if options.tls12:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if options.tls11:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    if options.client_order:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if options.client_ca:
        context.load_verify_locations(options.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with open(options.ports_file + ".new", "w", encoding="ascii") as out:
        out.write(f"https {server.server_port}\n")
    os.rename(options.ports_file + ".new", options.ports_file)
    server.serve_forever()


main()
