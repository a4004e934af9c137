#!/usr/bin/env python3
"""A server that keeps COUNT customers in memory: GET /NUMBER returns one as JSON.

Listens on a port of 127.0.0.1 that it prints; ends when its standard input does.

usage: server.py COUNT
"""

import http.server
import json
import sys
import threading


def main():
    customers = {
        number: {"number": number, "name": f"customer {number * 7919 % 1000003}", "city": f"city {number % 97}",
                 "orders": [{"item": f"item {number * at % 4999}", "amount": number * at % 1000 / 8} for at in range(1, 4)]}
        for number in range(int(sys.argv[1]))
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(customers.get(int(self.path[1:]))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()


main()
