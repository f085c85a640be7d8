#!/usr/bin/env bash
# Title: From Node 20.3 on a server takes one new connection in a turn of its event loop, so a payment
# behind a burst of connections waits as many turns as came before it.
#
# The guess that is wrong: a server that learns of new connections accepts all that wait, so that a
# new client's request is read in the next turn, however many connected before.
#
# Behaviour: libuv 1.45 accepts once where it went on until nobody waited. A turn is as long as all
# the work in it: a server with 400 busy clients and turns of 50 ms lets in 20 new ones a second, and
# the port beside it, where nobody connects, answers at once. Here 200 clients connect to a Fastify
# server while it is busy for a moment, and it counts how many it lets in with each turn after it.
# Sockets that share the port (`reusePort`, Node 23.1 and later, on Linux) let in one each.
#
# Versions: Node 18.20.8 (libuv 1.44.2), 20.19.0 (1.46.0) and 24.21.0 (1.52.1), of the npm package
# `node`; Fastify 4.29.1, which runs on all of them.
# Date: 2026-11-28. Needs: npm on Linux; about 40 s.
# Output seen:
#   node 18.20.8, libuv 1.44.2, 1 socket: 200 let in, at most 200 in a turn
#   node 20.19.0, libuv 1.46.0, 1 socket: 200 let in, at most 1 in a turn
#   node 24.21.0, libuv 1.52.1, 1 socket: 200 let in, at most 1 in a turn
#   node 24.21.0, libuv 1.52.1, 8 sockets: 200 let in, at most 8 in a turn
set -euo pipefail

expected=$(sed -n "s/^#   node/node/p" "$0")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund fastify@4.29.1 >/dev/null
for version in 18.20.8 20.19.0 24.21.0; do
  npm install --silent --no-audit --no-fund --prefix "node-$version" "node@$version" >/dev/null
done

cat >client.mjs <<'JS'
import { connect } from 'node:net';
const clients = 200;
let open = 0;
for (let n = 0; n < clients; n += 1) {
  connect(Number(process.argv[2]), '127.0.0.1', () => (open += 1) === clients && process.send('open'));
}
process.on('disconnect', () => process.exit());
JS

cat >server.mjs <<'JS'
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import fastify from 'fastify';

const sockets = Number(process.argv[2]);
const shared = sockets > 1 ? { reusePort: true } : {};
const app = fastify();
let turn = 0;
const letIn = new Map();
app.server.on('connection', () => letIn.set(turn, (letIn.get(turn) ?? 0) + 1));
await app.listen({ host: '127.0.0.1', port: 0, ...shared });
const { port } = app.server.address();
for (let other = 1; other < sockets; other += 1) {
  const more = createServer((socket) => app.server.emit('connection', socket));
  await once(more.listen({ host: '127.0.0.1', port, ...shared }), 'listening');
}

const client = fork('client.mjs', [String(port)]);
// Busy, as with a large answer; the system completes the connections meanwhile.
for (const end = Date.now() + 2_000; Date.now() < end; );
const all = () => [...letIn.values()].reduce((sum, each) => sum + each, 0);
while (all() < 200) {
  await new Promise((next) => setImmediate(next));
  turn += 1;
}
const most = Math.max(...letIn.values());
const { node, uv } = process.versions;
const listening = sockets === 1 ? '1 socket' : `${sockets} sockets`;
console.log(`node ${node}, libuv ${uv}, ${listening}: ${all()} let in, at most ${most} in a turn`);
client.kill();
process.exit(0);
JS

seen=$(
  for run in '18.20.8 1' '20.19.0 1' '24.21.0 1' '24.21.0 8'; do
    read -r version sockets <<<"$run"
    "node-$version/node_modules/node/bin/node" server.mjs "$sockets"
  done
)
echo "$seen"
[ "$seen" = "$expected" ]
