import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

/** What a pooler knows what to do with; others it refuses, or drops when it is told to. */
const passedOn = ['user', 'database', 'application_name', 'client_encoding'];

/**
 * Opens a way to a PostgreSQL on which it does not hear of the limits that a client asks for at its
 * start, as by PgBouncer with `ignore_startup_parameters`; its URL.
 */
export async function openForgetfulWay(context: TestContext, to: string): Promise<string> {
  const target = new URL(to);
  const sockets = new Set<Socket>();
  const server = createServer((inbound) => {
    const outbound = connect(Number(target.port), target.hostname);
    inbound.once('data', (start) => {
      outbound.write(withoutLimits(start));
      inbound.pipe(outbound).pipe(inbound);
    });
    for (const socket of [inbound, outbound]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => [inbound, outbound].forEach((each) => each.destroy()));
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  context.after(() => {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  });
  const url = new URL(to);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return url.href;
}

/** A StartupMessage: its length, the protocol's version, names and values (manual, 54.7). */
function withoutLimits(start: Buffer): Buffer {
  const texts = start.toString('utf8', 8).split('\0');
  const kept: string[] = [];
  for (let at = 0; at + 1 < texts.length; at += 2) {
    if (passedOn.includes(texts[at]!)) kept.push(texts[at]!, texts[at + 1]!);
  }
  const body = Buffer.from(`${kept.map((text) => `${text}\0`).join('')}\0`);
  const head = Buffer.from(start.subarray(0, 8));
  head.writeInt32BE(head.length + body.length);
  return Buffer.concat([head, body]);
}
