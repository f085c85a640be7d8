import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttp, get, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { listenWidely } from './wide-listening.ts';

const host = '127.0.0.1';
const isLinux = process.platform === 'linux';

async function aServer(t: TestContext) {
  const server = createHttp((_, response) => response.end('served'));
  const listening = listenWidely(server);
  await listening.open({ host, port: 0 }, async (options) => {
    server.listen(options);
    await once(server, 'listening');
  });
  const { port } = server.address() as AddressInfo;
  t.after(() => {
    listening.close();
    server.closeAllConnections();
    server.close();
  });
  return { port, server, listening };
}

test('of a hundred that connect while a server is busy, several are let in with each turn', async (t) => {
  const { port, server } = await aServer(t);
  let turn = 0;
  const letIn = new Map<number, number>();
  server.on('connection', () => letIn.set(turn, (letIn.get(turn) ?? 0) + 1));
  const clients: Socket[] = [];
  t.after(() => clients.forEach((client) => client.destroy()));
  // The system connects them; this process is told of none before its next turn.
  for (let n = 0; n < 100; n += 1) clients.push(connect(port, host));
  const letInAll = () => [...letIn.values()].reduce((sum, each) => sum + each, 0);
  while (letInAll() < 100) {
    await new Promise((next) => setImmediate(next));
    turn += 1;
  }
  t.diagnostic(`${letIn.size} turns, at most ${Math.max(...letIn.values())} in one`);
  if (isLinux) assert.ok(letIn.size < 50, `one after the other: ${letIn.size} turns`);
});

test('whichever socket a connection came by, it is served', async (t) => {
  const { port } = await aServer(t);
  const answers = Array.from({ length: 50 }, async () => {
    const [answer] = await once(get({ host, port, agent: false }), 'response');
    return (answer as { statusCode: number }).statusCode;
  });
  assert.deepEqual(new Set(await Promise.all(answers)), new Set([200]));
});

test('a port that somebody listens on is refused, also to a second of the same kind', async (t) => {
  const first = await aServer(t);
  const second = createHttp();
  const again = listenWidely(second).open({ host, port: first.port }, async (options) => {
    second.listen(options);
    await once(second, 'listening');
  });
  await assert.rejects(again, { code: 'EADDRINUSE' });
  assert.equal(second.listening, false);
});

test('what came by any socket is finished before it is closed', async (t) => {
  const { port, server, listening } = await aServer(t);
  const held: (() => void)[] = [];
  server.removeAllListeners('request');
  server.on('request', (_, response) => held.push(() => response.end('late')));
  const answers = Array.from({ length: 20 }, async () => {
    const asked = get({ host, port, agent: false, headers: { connection: 'close' } });
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    return text(answer);
  });
  while (held.length < answers.length) await new Promise((next) => setImmediate(next));
  listening.close();
  const closed = Promise.all([once(server.close(), 'close'), listening.closed()]);
  const isOver = await Promise.race([
    closed.then(() => true),
    new Promise((next) => setImmediate(next)),
  ]);
  assert.equal(isOver, undefined);
  for (const answer of held) answer();
  assert.deepEqual(new Set(await Promise.all(answers)), new Set(['late']));
  await closed;
});

test('once it is closed nobody listens there', async (t) => {
  const { port, server, listening } = await aServer(t);
  listening.close();
  server.close();
  await once(server, 'close');
  const next = createServer().listen(port, host);
  await once(next, 'listening');
  next.close();
});
