#!/usr/bin/env bash
# Title: ogen's clients send an optional field whose schema is `const` in every request, also when
# nobody set it.
#
# The guess that is wrong: `const` says which value a field has if it is there, and `required` says
# whether it is there (JSON Schema 2020-12, 6.1.3 and 6.5.3).
#
# Behaviour: the field has a type with "not set", which is its zero value, and the code that writes
# the request does not look at it: the constant is always written. So a client that never heard of
# it asks for it, here for a manual capture of every payment. As an `enum` of one value, which
# allows exactly the same, the field is written when it is set.
#
# Versions: ogen 1.24.0, Go 1.26.8.
# Date: 2026-11-29. Needs: Go 1.25 or newer; a minute, two with an empty cache.
# Output seen:
#   const: amount alone is sent as {"amount":1,"capture_method":"manual"}
#   enum: amount alone is sent as {"amount":1}
set -euo pipefail

expected=$(sed -n "s/^#   \(const\|enum\):/\1:/p" "$0")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'module example.com/finding\n\ngo 1.25.0\n' >go.mod
go get -tool github.com/ogen-go/ogen/cmd/ogen@v1.24.0 >get.log 2>&1

generate() {
  cat >document.json <<JSON
{
  "openapi": "3.1.0",
  "info": { "title": "one constant", "version": "1" },
  "paths": { "/payments": { "post": {
    "operationId": "pay",
    "requestBody": { "required": true, "content": { "application/json": {
      "schema": { "\$ref": "#/components/schemas/Payment" } } } },
    "responses": { "204": { "description": "paid" } } } } },
  "components": { "schemas": { "Payment": {
    "type": "object",
    "required": ["amount"],
    "properties": {
      "amount": { "type": "integer" },
      "capture_method": { "type": "string", $1 } } } } }
}
JSON
  go tool ogen --target client --package client --clean document.json >ogen.log 2>&1
  cat >main.go <<'GO'
package main

import (
	"fmt"
	"log"

	"example.com/finding/client"
)

func main() {
	sent, err := (&client.Payment{Amount: 1}).MarshalJSON()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("amount alone is sent as %s\n", sent)
}
GO
  go mod tidy >tidy.log 2>&1
  go run .
}
seen=$(
  echo "const: $(generate '"const": "manual"')"
  echo "enum: $(generate '"enum": ["manual"]')"
)
echo "$seen"
[ "$seen" = "$expected" ]
