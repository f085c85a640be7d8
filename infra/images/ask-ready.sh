#!/bin/bash
# The health check of a container of ours: `ask-ready.sh PORT PATH` ends with 0 when 127.0.0.1 answers
# 200 there, else with 1. By the shell's own socket, because the image has no curl and a Node takes
# longer to start than the answer does.
exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\n\r\n' "$2" "$1" >&3
read -r -t 5 _ status _ <&3 && [ "$status" = 200 ]
