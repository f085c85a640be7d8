#!/usr/bin/env bash
# Title: openapi-generator's client for Python finds a header of an answer only in the very letters in
# which the server wrote it.
#
# The guess that is wrong: names of headers have no case (RFC 9110, 5.1), so
# `answer.headers.get("Idempotency-Replayed")` is what the document calls by that name.
#
# Behaviour: the client makes a plain dictionary of the headers, by the letters that came. A server
# in Node that sets a header in lower case sends it so, and the name of the document is not found:
# a retry looks like a new payment. `urllib3.HTTPHeaderDict(answer.headers)` finds it again.
#
# Versions: openapi-generator 7.26.0 (PyPI openapi-generator-cli), pydantic 2.14.4, urllib3 2.8.0.
# Date: 2026-11-29. Needs: Java 11 and Python 3.10 with pip and venv; about a minute.
# Output seen:
#   sent idempotency-replayed: headers.get('Idempotency-Replayed') is None
#   sent Idempotency-Replayed: headers.get('Idempotency-Replayed') is 'true'
#   sent idempotency-replayed: HTTPHeaderDict finds 'true'
set -euo pipefail

expected=$(sed -n "s/^#   sent/sent/p" "$0")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip download --quiet --no-deps --disable-pip-version-check openapi-generator-cli==7.26.0
python3 -m zipfile -e openapi_generator_cli-*.whl .
python3 -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check \
  pydantic==2.14.4 urllib3==2.8.0 python-dateutil==2.9.0.post0 typing-extensions==4.16.0

cat >document.json <<'JSON'
{
  "openapi": "3.1.0",
  "info": { "title": "one header", "version": "1" },
  "paths": {
    "/payments": {
      "get": {
        "operationId": "pay",
        "responses": {
          "200": {
            "description": "paid",
            "headers": { "Idempotency-Replayed": { "schema": { "type": "string" } } },
            "content": { "application/json": { "schema": { "type": "string" } } }
          }
        }
      }
    }
  }
}
JSON
java -jar openapi_generator_cli/openapi-generator.jar generate --input-spec document.json \
  --generator-name python --output client >generate.log 2>&1

cat >look.py <<'PY'
import sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer

sys.path.insert(0, "client")
from openapi_client import ApiClient, Configuration, DefaultApi
from urllib3 import HTTPHeaderDict


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header(self.server.name, "true")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b'""')

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
api = DefaultApi(ApiClient(Configuration(host=f"http://127.0.0.1:{server.server_port}")))


def headers_of(name):
    server.name = name
    return api.pay_with_http_info().headers


asked = "Idempotency-Replayed"
for sent in asked.lower(), asked:
    print(f"sent {sent}: headers.get({asked!r}) is {headers_of(sent).get(asked)!r}")
print(f"sent {asked.lower()}: HTTPHeaderDict finds {HTTPHeaderDict(headers_of(asked.lower()))[asked]!r}")
PY
seen=$(venv/bin/python look.py)
echo "$seen"
[ "$seen" = "$expected" ]
