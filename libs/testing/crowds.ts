import { once } from 'node:events';
import { connect, Socket } from 'node:net';
import type { Cleanup } from './isolation.ts';

/** What one who does not wait got: how much came back before the connection ended, or went quiet. */
export type SentWithoutWaiting = {
  answers: number;
  /** `ended`: the server ended the connection before everything was answered. */
  outcome: 'all answered' | 'ended';
};

/**
 * Sends a request so many times on one connection without waiting for an answer, as fast as the
 * server reads, and reads all that comes.
 */
export async function sendWithoutWaiting(
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

/** Strangers who ask for something, and read nothing of it. */
export async function askAndReadNothing(
  test: Cleanup,
  port: number,
  { request, count }: { request: string; count: number },
): Promise<void> {
  const atOnce = 100;
  for (let asked = 0; asked < count; asked += atOnce) {
    await Promise.all(
      Array.from({ length: Math.min(atOnce, count - asked) }, async () => {
        const socket = new Socket().on('error', () => undefined);
        test.after(async () => void socket.destroy());
        // Before it is open, or the first bytes would be read all the same.
        socket.pause();
        socket.connect(port, '127.0.0.1');
        await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
        socket.write(request);
      }),
    );
  }
}

/** What others noticed meanwhile: the longest that one was served in, and the most memory. */
export type Noticed = { served: number; slowestMs: number; peakMiB: number };

/**
 * Serves somebody else again and again, one request after the other, until `crowd` is over and once
 * more after it. `ask` throws when it was not served; `metrics` is the text of the server's metrics.
 */
export async function serveBeside(
  crowd: Promise<unknown>,
  { ask, metrics }: { ask: () => Promise<void>; metrics: () => Promise<string> },
): Promise<Noticed> {
  let isOver = false;
  const over = crowd.finally(() => (isOver = true));
  const noticed = { served: 0, slowestMs: 0, peakMiB: 0 };
  const look = async () => {
    const asked = performance.now();
    await ask();
    noticed.slowestMs = Math.max(noticed.slowestMs, performance.now() - asked);
    noticed.served += 1;
    const [, resident] =
      /^process_resident_memory_bytes(?:\{.*\})? (\S+)$/m.exec(await metrics()) ?? [];
    noticed.peakMiB = Math.max(noticed.peakMiB, Number(resident) / 2 ** 20);
  };
  while (!isOver) await look();
  await over;
  await look();
  return noticed;
}

/** What the launcher lets the heap of a service have, which the memory of one is judged with. */
export const heapOfServices = {
  NODE_OPTIONS: '--max-semi-space-size=16 --max-old-space-size=112',
} as const;
