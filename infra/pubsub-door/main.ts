import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { isLoopback, refusedPage } from '@triplock/runtime/control-access';
import { createBoundedServer } from '@triplock/runtime/http-connections';
import { http } from '@triplock/runtime/node-http';

/*
 * A process that stands before the Pub/Sub emulator, which it starts with the words that it is
 * given, and with which it ends: `node main.ts HOST:PORT COMMAND --host={host} --port={port}`, in
 * which {host} and {port} become those where the emulator has to listen. It tells every origin that
 * it may do anything, and answers to any Host: any page that somebody has open in a browser of this
 * machine could publish an event of any amount, which becomes a signed webhook and a settlement, or
 * have it forget all. So:
 *
 * - What begins as HTTP/2 with prior knowledge passes as it is. That is gRPC, by which services
 *   speak to it, and what no browser does over plain TCP.
 * - Of HTTP/1.1 what a page may have sent is refused. Browsers say where a page is from whenever it
 *   asks for more than a look (Fetch, section 3.2), and a name that was made to point here is no
 *   Host of ours.
 *
 * The emulator itself listens where no page finds it. In a container, where the door has the
 * address of its network, that is the container's own 127.0.0.1. On Linux all of 127.0.0.0/8 is
 * this machine, and it gets an address of 2^24 there. Elsewhere there is 127.0.0.1 alone, and it
 * gets a port by chance, which a page could find by trying all: docs/operating.md says so.
 */

/** What a client that knows that it speaks HTTP/2 begins with (RFC 9113, section 3.4). */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
/** Whoever connects speaks first in both. */
const firstBytesMs = 10_000;
/** Of HTTP/1.1 no request here takes longer. gRPC's streams are silent for as long as they like. */
const silentMs = 60_000;

type Address = { host: string; port: number };

const [listenOn = '', file = '', ...args] = process.argv.slice(2);
const { hostname, port: portText } = new URL(`http://${listenOn}`);
const port = Number(portText);
const emulator = await chooseAddress();
startEmulator();

const pages = createBoundedServer(answerHttp1);
// It never listens by itself, so nothing of it looks for heads and bodies that are late.
pages.setTimeout(silentMs, (socket) => socket.destroy());
const door = createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  socket.setTimeout(firstBytesMs, () => socket.destroy());
  lookAtFirstBytes(socket);
});
door.listen({ host: hostname, port });
await once(door, 'listening');

/**
 * Beside the door on Linux, and in a container within it. On the same port there, because the
 * emulator's REST asks its own gRPC at `localhost` and its port: where that is the door's, it comes
 * back through it.
 */
async function chooseAddress(): Promise<Address> {
  if (/^(0\.0\.0\.0|\[::\])$/.test(hostname)) {
    throw new Error('give one address to listen on: of all there is none left for the emulator');
  }
  if (!isLoopback(hostname)) return { host: '127.0.0.1', port };
  if (process.platform === 'linux') {
    const [one, two, three] = [randomInt(1, 255), randomInt(0, 256), randomInt(1, 255)];
    return { host: `127.${one}.${two}.${three}`, port };
  }
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port: chosen } = free.address() as AddressInfo;
  free.close();
  await once(free, 'close');
  return { host: '127.0.0.1', port: chosen };
}

/**
 * Both end together: who stops the door stops the emulator, and without it there is nothing here.
 */
function startEmulator(): void {
  const words = args.map((word) =>
    word.replace('{host}', emulator.host).replace('{port}', `${emulator.port}`),
  );
  const child = spawn(file, words, { stdio: ['ignore', 'inherit', 'inherit'] });
  child.once('error', (error) => {
    process.stderr.write(`cannot run ${file}: ${error.message}\n`);
    process.exit(1);
  });
  child.once('exit', (code) => process.exit(code ?? 1));
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => child.kill(signal));
}

function lookAtFirstBytes(socket: Socket): void {
  let head = Buffer.alloc(0);
  const look = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk]);
    const known = Math.min(head.length, preface.length);
    const mayBeHttp2 = head.subarray(0, known).equals(preface.subarray(0, known));
    if (mayBeHttp2 && known < preface.length) return;
    socket.off('data', look);
    socket.pause();
    socket.setTimeout(0);
    socket.unshift(head);
    if (mayBeHttp2) passOn(socket);
    else pages.emit('connection', socket);
    socket.resume();
  };
  socket.on('data', look);
}

function passOn(socket: Socket): void {
  const inner = connect({ ...emulator, noDelay: true });
  inner.on('error', () => inner.destroy());
  inner.on('close', () => socket.destroy());
  socket.on('close', () => inner.destroy());
  socket.pipe(inner).pipe(socket);
}

function answerHttp1(asked: IncomingMessage, response: ServerResponse): void {
  const refused = refusedPage(asked, { callers: 'of this machine' });
  if (refused !== undefined) {
    response.writeHead(403, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { code: 403, message: refused } }));
    return;
  }
  const { method, url, headers } = asked;
  const inner = http.request({ ...emulator, method, path: url, headers, agent: false });
  inner.on('error', () => response.destroy());
  response.on('close', () => inner.destroy());
  inner.on('response', (answer) => {
    response.writeHead(answer.statusCode!, answer.headers);
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  asked.pipe(inner);
}
