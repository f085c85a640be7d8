import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import type { Cleanup } from './isolation.ts';
import type { TestService } from './services.ts';

/**
 * What one who does not wait got: how much came back before the connection ended, or went quiet.
 */
type SentWithoutWaiting = {
  answers: number;
  /** `ended`: the server ended the connection before everything was answered. */
  outcome: 'all answered' | 'ended';
};

/**
 * Sends a request so many times on one connection without waiting for an answer, as fast as the
 * server reads, and reads all that comes.
 */
async function sendWithoutWaiting(
  test: Cleanup,
  port: number,
  { request, times }: { request: string; times: number },
): Promise<SentWithoutWaiting> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined);
  test.after(async () => void socket.destroy());
  const closed = once(socket, 'close').then(() => 'ended' as const);
  const begin = Buffer.from('HTTP/1.1 ');
  let answers = 0;
  let rest: Buffer = Buffer.alloc(0);
  const allAnswered = new Promise<'all answered'>((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let at = 0;
      for (let next = rest.indexOf(begin); next >= 0; next = rest.indexOf(begin, at)) {
        answers += 1;
        at = next + begin.length;
      }
      // What of the mark may stand at the end is kept, so that none is missed or counted twice.
      rest = rest.subarray(Math.max(at, rest.length - begin.length + 1));
      if (answers >= times) resolve('all answered');
    });
  });
  // Not as one text, which would be copied whole: the crowd is heavy for the server alone.
  const atOnce = Math.min(times, 500);
  const piece = Buffer.from(request.repeat(atOnce));
  for (let sent = 0; sent < times && !socket.destroyed; sent += atOnce) {
    const last = Math.min(atOnce, times - sent);
    const bytes = piece.subarray(0, last * request.length);
    if (!socket.write(bytes)) await Promise.race([once(socket, 'drain'), closed]).catch(() => 0);
  }
  const outcome = await Promise.race([allAnswered, closed]);
  socket.destroy();
  return { answers, outcome };
}

/**
 * How many come at once, and are let in before the next: fewer than the 511 for whom a server has
 * room at its door (the backlog of `listen`). For one more the system knocks again after one
 * second, three, or seven, also for somebody else, and the crowd would mostly stand still.
 */
const waveMax = 100;

/** Strangers who ask for something, and read nothing of it: wave upon wave. */
async function askAndReadNothing(
  test: Cleanup,
  port: number,
  { request, count }: { request: string; count: number },
): Promise<void> {
  const open = () => {
    const socket = new Socket().on('error', () => undefined);
    test.after(async () => void socket.destroy());
    return socket;
  };
  const ask = async (socket: Socket) => {
    socket.connect(port, '127.0.0.1');
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    socket.write(request);
  };
  for (let left = count; left > 0; left -= waveMax) {
    const wave = Array.from({ length: Math.min(waveMax, left) }, open);
    // Paused before it is open, or the first bytes would be read all the same.
    await Promise.all(wave.map((socket) => ask(socket.pause())));
    // Whoever comes behind them is let in after them, which an answer tells, or the end.
    const last = open();
    const isIn = new Promise<void>((resolve) => {
      last.once('data', () => resolve()).once('close', () => resolve());
    });
    await ask(last);
    await isIn;
    last.destroy();
  }
}

/** A server that is besieged, and whom it has to serve meanwhile. */
export type Besieged = {
  port: number;
  /** How many requests of a connection it has unanswered at most. */
  unansweredMax: number;
  /** What is sent without waiting for an answer: whole heads of requests without a body. */
  hasty: readonly string[];
  /** What is asked for and not read. */
  unread: readonly string[];
  /** Asks for something else, as somebody else; throws when it was not served. */
  ask(): Promise<void>;
  residentMiB(): Promise<number>;
};

const hasty = { connections: 4, requests: 50_000 };
const readers = 4_000;
/**
 * Who waits so long was not served. How long it takes is a matter of the machine; that the server
 * does little for a crowd is judged by what it answered.
 */
const servedWithinMs = 30_000;
/** What a service is given in a container is 256 MiB. */
const residentMaxMiB = 250;

/**
 * Has strangers send without waiting, and ask without reading, and somebody else be served in time
 * by a process that keeps within its memory; a subtest for each of what they ask.
 */
export async function holdsUpNobody(test: TestContext, server: Besieged): Promise<void> {
  for (const request of server.hasty) {
    const what = request.split(' HTTP/', 1)[0]!;
    await test.test(`fifty thousand of ${what} on each of four connections`, async (subtest) => {
      const crowd = Promise.all(
        Array.from({ length: hasty.connections }, () =>
          sendWithoutWaiting(subtest, server.port, { request, times: hasty.requests }),
        ),
      );
      await serveBeside(subtest, server, crowd);
      for (const { answers, outcome } of await crowd) {
        assert.equal(outcome, 'ended');
        assert.ok(answers > 0 && answers <= server.unansweredMax, `${answers} answers`);
      }
    });
  }
  for (const request of server.unread) {
    const what = request.split(' HTTP/', 1)[0]!;
    await test.test(`four thousand who send ${what} and read nothing`, async (subtest) => {
      const crowd = askAndReadNothing(subtest, server.port, { request, count: readers });
      await serveBeside(subtest, server, crowd);
    });
  }
}

/** One request after the other until the crowd is there, or gone, and once more after it. */
async function serveBeside(
  subtest: TestContext,
  { ask, residentMiB }: Besieged,
  crowd: Promise<unknown>,
): Promise<void> {
  const noticed = { served: 0, slowestMs: 0, peakMiB: 0 };
  const look = async () => {
    const asked = performance.now();
    await ask().catch((error: unknown) => {
      if (!wasClosed(error)) throw error;
      return ask();
    });
    noticed.slowestMs = Math.max(noticed.slowestMs, performance.now() - asked);
    noticed.served += 1;
    noticed.peakMiB = Math.max(noticed.peakMiB, await residentMiB());
  };
  let isOver = false;
  const over = crowd.finally(() => (isOver = true));
  while (!isOver) await look();
  await over;
  await look();
  subtest.diagnostic(JSON.stringify(noticed));
  assert.ok(noticed.slowestMs < servedWithinMs, `somebody else waited ${noticed.slowestMs} ms`);
  assert.ok(noticed.peakMiB < residentMaxMiB, `${noticed.peakMiB} MiB`);
}

/**
 * Whether a connection that was kept was closed as it was used again: a server may close one at any
 * time, and makes way so for others, and a client asks on another (RFC 9112, section 9.3.1).
 */
function wasClosed(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET';
}

const resident = 'process_resident_memory_bytes';

/**
 * How much memory a service takes, by what its metrics say of it: asked for alone, which is cheap.
 */
export async function residentMiBOf({ admin }: Pick<TestService, 'admin'>): Promise<number> {
  const metrics = await (await admin(`/metrics?name[]=${resident}`)).text();
  const [, bytes] = new RegExp(`^${resident}(?:\\{.*\\})? (\\S+)$`, 'm').exec(metrics) ?? [];
  return Number(bytes) / 2 ** 20;
}

/** What the launcher lets the heap of a service have, which the memory of one is judged with. */
export const heapOfServices = {
  NODE_OPTIONS: '--max-semi-space-size=16 --max-old-space-size=112',
} as const;
