#!/usr/bin/env bash
# Title: openapi-generator writes Python that is none for a webhook of OpenAPI 3.1, and the whole
# client cannot be imported.
#
# The guess that is wrong: `webhooks` describe requests that a client receives, so a generator of
# clients leaves them out, or has at least calls for them that compile.
#
# Behaviour: each webhook becomes a method of the client, in a class of its own, and a parameter of
# it whose type is a text has no type: `webhook_id: ,`. Python reads every file of the package when
# it is imported, so paying does not work either. An operation that says `x-internal: true` is left
# out.
#
# Versions: openapi-generator 7.26.0 (PyPI openapi-generator-cli).
# Date: 2026-11-29. Needs: Java 11 and Python 3.10 with pip; about 30 s.
# Output seen:
#   with a webhook: SyntaxError in api/default_api.py
#   with x-internal: compiles
set -euo pipefail

expected=$(sed -n "s/^#   with/with/p" "$0")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip download --quiet --no-deps --disable-pip-version-check openapi-generator-cli==7.26.0
python3 -m zipfile -e openapi_generator_cli-*.whl .

cat >document.json <<'JSON'
{
  "openapi": "3.1.0",
  "info": { "title": "one webhook", "version": "1" },
  "paths": {
    "/payments": {
      "get": { "operationId": "list", "responses": { "204": { "description": "none" } } }
    }
  },
  "webhooks": {
    "paid": {
      "post": {
        "operationId": "paid",
        "parameters": [
          { "name": "webhook-id", "in": "header", "required": true, "schema": { "type": "string" } }
        ],
        "responses": { "204": { "description": "taken" } }
      }
    }
  }
}
JSON
sed 's/"operationId": "paid"/"x-internal": true, &/' document.json >internal.json

generate() {
  java -jar openapi_generator_cli/openapi-generator.jar generate --input-spec "$1" \
    --generator-name python --output "$2" >"$2.log" 2>&1
}
compiled() {
  python3 - "$1/openapi_client" <<'PY'
import pathlib, sys
wrong = []
package = pathlib.Path(sys.argv[1])
for file in sorted(package.rglob("*.py")):
    try:
        compile(file.read_text(), str(file), "exec")
    except SyntaxError:
        wrong.append(str(file.relative_to(package)))
print(f"SyntaxError in {', '.join(wrong)}" if wrong else "compiles")
PY
}
generate document.json public
generate internal.json internal
seen=$(
  echo "with a webhook: $(compiled public)"
  echo "with x-internal: $(compiled internal)"
)
echo "$seen"
[ "$seen" = "$expected" ]
