import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';

/** Where a server listens. */
export type Address = { host: string; port: number };

/** Several sockets on one address, all of one HTTP server. */
export type WideListening = {
  /**
   * Listens: `listen` has the server itself do so, by the options that it is given.
   *
   * @throws as `listen` does, and when somebody else listens there.
   */
  open(address: Address, listen: (options: ListenOptions) => Promise<unknown>): Promise<void>;
  /** From now on no more connections come by those beside the server's own. */
  close(): void;
  /**
   * Resolves once the last connection that came by them has ended, which the server, when it is
   * closed, waits for of its own alone. Call it after `close` of both.
   */
  closed(): Promise<void>;
};

type ListenOptions = Address & { reusePort?: true };

/**
 * Of each socket that listens Node takes one connection in a turn of its event loop (libuv since
 * 1.45, however many wait). A turn is as long as all that is to be done in it, so where much is
 * asked on open connections, or a thousand are opened at once, who comes waits for as many turns as
 * came before.
 */
const socketsOnLinux = 16;

/**
 * Has a server take several connections in a turn, where the system shares a port among sockets
 * (SO_REUSEPORT, which Linux alone does by spreading what comes over them).
 *
 * Sharing has to be asked for by all who share. So that a second process is still refused that was
 * given the same port, the address is first taken without.
 */
export function listenWidely(server: HttpServer): WideListening {
  const others: Server[] = [];
  const ending: Promise<unknown>[] = [];
  return {
    async open(address, listen) {
      if (process.platform !== 'linux') {
        await listen(address);
        return;
      }
      const alone = createServer().listen({ ...address, exclusive: true });
      await once(alone, 'listening');
      // The one that it got, where any would do.
      const { port } = alone.address() as AddressInfo;
      await once(alone.close(), 'close');
      const shared = { ...address, port, reusePort: true } as const;
      await listen(shared);
      while (others.length < socketsOnLinux - 1) {
        // As an HTTP server has its own.
        const asItsOwn = { allowHalfOpen: true, noDelay: true };
        const other = createServer(asItsOwn, (socket) => void server.emit('connection', socket));
        others.push(other);
        await once(other.listen(shared), 'listening');
      }
    },
    close() {
      for (const other of others) ending.push(once(other.close(), 'close'));
    },
    async closed() {
      await Promise.all(ending);
    },
  };
}
