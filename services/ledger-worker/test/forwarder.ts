import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { freePort } from '@triplock/testing';

/** A way to a server that can be closed: nothing listens until `open`, and `cut` ends it again. */
export async function closedWayTo(context: TestContext, target: { host: string; port: number }) {
  const port = await freePort();
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.pipe(to);
      // A broken side ends the other; what it means is for the two ends to find out.
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
    }
  });
  const cut = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  context.after(cut);
  return {
    port,
    cut,
    open: async () => {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
  };
}
