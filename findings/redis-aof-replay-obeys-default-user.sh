#!/usr/bin/env bash
# Title: Redis 7.0 replays its append-only file as the default user, and drops what that may not run.
#
# The guess that is wrong: an append-only file holds what was done, so a restart brings it back,
# whatever the ACL of a user who did none of it.
#
# Behaviour: writes of a Lua script stand in the file as MULTI … EXEC. At the start the server runs
# them as the user `default`. Where that may not run EXEC's commands (here it may PING alone, a
# usual way to close it), the whole transaction is dropped: the server starts, says in its log that
# the database was loaded, and has no key. A plain SET, which stands there by itself, is loaded all
# the same. Redis 6.2 loads both.
#
# Versions: Redis 7.0.15 (Debian 12, package redis-tools, which carries the server's binary).
# Date: 2026-11-28. Needs: Debian 12 with apt-get and dpkg-deb, no root; about 20 s.
# Output seen:
#   redis 7.0.15
#   before the restart: by-script=1 by-command=1
#   after the restart:  by-script=(none) by-command=1
set -euo pipefail

folder=$(mktemp -d)
pid=''
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

packages='redis-tools libatomic1 libjemalloc2 liblzf1'
# shellcheck disable=SC2086 -- several words.
apt-get download -qq $packages >/dev/null 2>&1
for package in ./*.deb; do dpkg-deb -x "$package" all; done
version=$(dpkg-deb -f redis-tools_*.deb Version)
case "$version" in
*7.0.15*) ;;
*) echo "redis-tools is $version here, and this is about 7.0.15" && exit 1 ;;
esac
export LD_LIBRARY_PATH
LD_LIBRARY_PATH=$(echo "$folder"/all/usr/lib/*-linux-gnu)
mkdir bin
# By its name it knows which of the tools it is.
cp all/usr/bin/redis-check-rdb bin/redis-server
cli() { all/usr/bin/redis-cli -p "$port" --no-auth-warning --user owner --pass owner "$@"; }

port=$((20000 + RANDOM % 10000))
cat >users.acl <<'ACL'
user default on nopass ~* +ping
user owner on >owner ~* &* +@all
ACL

start() {
  bin/redis-server --bind 127.0.0.1 --port "$port" --dir "$folder" --appendonly yes \
    --appendfsync always --aclfile "$folder/users.acl" >>server.log 2>&1 &
  pid=$!
  for _ in $(seq 100); do
    if [ "$(cli ping 2>/dev/null)" = PONG ]; then return; fi
    sleep 0.1
  done
  cat server.log && exit 1
}

show() {
  local script command
  script=$(cli get by-script)
  command=$(cli get by-command)
  echo "by-script=${script:-(none)} by-command=${command:-(none)}"
}

start
echo "redis $(cli info server | tr -d '\r' | sed -n 's/^redis_version://p')"
cli set by-command 1 >/dev/null
cli eval "redis.call('SET', KEYS[1], 1); redis.call('SET', KEYS[2], 1); return 1" 2 by-script by-script-too >/dev/null
before=$(show)
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
start
after=$(show)
echo "before the restart: $before"
echo "after the restart:  $after"
[ "$before" = 'by-script=1 by-command=1' ] && [ "$after" = 'by-script=(none) by-command=1' ]
