import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { eventually, freePort } from '@triplock/testing';
import { createHome } from '../home.ts';
import { isSameProcess, startTimeOf, withDescendants } from '../processes/identity.ts';
import { openSession } from '../session.ts';
import { testHome } from '../test/home.ts';
import { askPubSub, pubsub } from './pubsub.ts';

const home = testHome({ after });
const host = '127.0.0.1';
let port: number;
let door: ReturnType<typeof spawn>;

before(async () => {
  port = await freePort();
  const signal = new AbortController().signal;
  const session = openSession(createHome(home), { report: () => undefined, signal });
  const fetched = await pubsub.fetch(session);
  const site = { session, folder: join(home, 'data', 'pubsub'), ports: { port } };
  const { file, args, cwd, settings } = fetched.behindDoor!(await fetched.command(site), site);
  const env = { ...process.env, ...settings };
  door = spawn(file, args, { cwd, env, stdio: 'ignore' });
  await eventually(() => pubsub.probe(`${host}:${port}`).then(() => true));
});

after(async () => {
  if (door.exitCode !== null || door.signalCode !== null) return;
  const ended = once(door, 'exit');
  door.kill('SIGTERM');
  await ended;
});

const topic = '/v1/projects/triplock/topics/events';

test('programs make and use topics through the door, by REST and by gRPC', async () => {
  const made = await askPubSub(`${host}:${port}`, { method: 'PUT', name: 'topics/events' });
  assert.equal(made.status, 200, made.text);
  assert.equal(await getByGrpc('projects/triplock/topics/events'), '0');
  assert.equal(await getByGrpc('projects/triplock/topics/no-such'), '5', 'NOT_FOUND');
  // By a container's name too.
  assert.equal(await ask({ method: 'GET', path: topic, headers: { host: 'pubsub:8085' } }), 200);
});

test('no page publishes, deletes or reads through the door, by whatever name it comes', async () => {
  const pages: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: `http://${host}:${port}` },
    { 'sec-fetch-site': 'cross-site' },
    { host: 'rebound.example' },
    { host: `rebound.example:${port}`, origin: `http://rebound.example:${port}` },
  ];
  const asked = [
    { method: 'OPTIONS', path: `${topic}:publish` },
    { method: 'POST', path: `${topic}:publish` },
    { method: 'POST', path: '/reset' },
    { method: 'DELETE', path: topic },
    { method: 'GET', path: '/v1/projects/triplock/topics' },
  ];
  for (const headers of pages) {
    for (const each of asked) {
      assert.equal(await ask({ ...each, headers }), 403, JSON.stringify([each, headers]));
    }
  }
});

test('what is neither HTTP/2 nor a request is let go of, and nothing of it reaches the emulator', async () => {
  for (const bytes of ['PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n', '\x16\x03\x01']) {
    const socket = connect(port, host);
    const read: string[] = [];
    socket.setEncoding('utf8').on('data', (text: string) => read.push(text));
    socket.write(bytes);
    await once(socket, 'close');
    assert.match(read.join(''), /^(HTTP\/1\.1 400 .*)?/);
    assert.doesNotMatch(read.join(''), / 200 /);
  }
});

test('the emulator ends with its door', async () => {
  const family = withDescendants([door.pid!]).map((pid) => ({
    pid,
    startedAt: startTimeOf(pid) ?? '',
  }));
  assert.ok(family.length >= 2, JSON.stringify(family));
  const ended = once(door, 'exit');
  door.kill('SIGTERM');
  await ended;
  assert.deepEqual(family.filter(isSameProcess), []);
});

async function ask(asked: {
  method: string;
  path: string;
  headers: Record<string, string>;
}): Promise<number | undefined> {
  const sent = request({ host, port, agent: false, ...asked });
  sent.end(asked.method === 'POST' ? '{"messages":[{"data":"e30="}]}' : undefined);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.destroy();
  return response.statusCode;
}

/** Asks for a topic by gRPC; gives the call's status (grpc.io, status codes). */
async function getByGrpc(name: string): Promise<string | undefined> {
  const session = connectHttp2(`http://${host}:${port}`);
  const call = session.request({
    ':method': 'POST',
    ':path': '/google.pubsub.v1.Publisher/GetTopic',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  // GetTopicRequest has one field, the topic's name, behind gRPC's five bytes of framing.
  const field = Buffer.concat([Buffer.from([0x0a, name.length]), Buffer.from(name)]);
  const frame = Buffer.concat([Buffer.from([0, 0, 0, 0, field.length]), field]);
  let status: string | undefined;
  const read = (headers: Record<string, unknown>) => {
    status ??= headers['grpc-status'] as string | undefined;
  };
  call.on('response', read).on('trailers', read).resume().end(frame);
  await once(call, 'close');
  session.close();
  return status;
}
