import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { Cleanup } from './isolation.ts';

/** A way to a part that is there, which a test can close, stop and make forgetful. */
export type TestRelay = {
  /** The part's URL, by this way. */
  url: string;
  /** The part is gone: connections break and new ones are refused. */
  cut(): Promise<void>;
  /** The part stands still: connections are taken and stay open, and nothing is answered. */
  freeze(): void;
  /**
   * Lets so many answers through and none after that, until it is restored: all that is asked for
   * is done, and nobody gets the answer.
   */
  silence(answers: { after: number }): void;
  /** As it was before. */
  restore(): Promise<void>;
  /**
   * Lets so many answers through and loses the next one together with its connection: what was
   * asked for was done. `lost` resolves once that happened.
   */
  loseReply(answers: { after: number }): { lost: Promise<void> };
};

/** Opens a way of one test's own to a part that others use too, closed after the test. */
export async function createTestRelay(test: Cleanup, to: string): Promise<TestRelay> {
  const target = new URL(to);
  const sockets = new Set<Socket>();
  let frozen = false;
  // How many answers still pass.
  let passing = Infinity;
  let lose: (() => 'lose' | 'pass') | undefined;
  const server = createServer((inbound) => {
    const outbound = connect({ host: target.hostname, port: Number(target.port) });
    for (const [from, into] of [
      [inbound, outbound],
      [outbound, inbound],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk) => {
        if (frozen) return;
        if (from === inbound) into.write(chunk);
        else if (lose?.() === 'lose') inbound.destroy();
        else if (passing-- > 0) into.write(chunk);
      });
      from.on('error', () => into.destroy());
      from.on('close', () => (sockets.delete(from), into.destroy()));
    }
  });
  const end = () => sockets.forEach((socket) => socket.destroy());
  const port = await listen(server, 0);
  test.after(async () => {
    end();
    if (server.listening) server.close();
    return Promise.resolve();
  });

  const url = new URL(to);
  url.port = `${port}`;
  return {
    url: url.href,
    async cut() {
      const closed = once(server, 'close');
      server.close();
      end();
      await closed;
    },
    freeze: () => void (frozen = true),
    silence: ({ after }) => void (passing = after),
    async restore() {
      // What was swallowed is missing in the streams: both ends have to begin anew.
      if (frozen || passing <= 0) end();
      [frozen, passing] = [false, Infinity];
      if (!server.listening) await listen(server, port);
    },
    loseReply({ after }) {
      const lost = Promise.withResolvers<void>();
      let left = after;
      lose = () => {
        if (left-- > 0) return 'pass';
        lose = undefined;
        lost.resolve();
        return 'lose';
      };
      return { lost: lost.promise };
    },
  };
}

async function listen(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
