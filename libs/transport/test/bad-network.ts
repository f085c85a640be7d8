import { connect as connectTcp, createServer, type AddressInfo, type Socket } from 'node:net';

/** A network to one real broker that a test makes worse. */
export type BadNetwork = {
  /** `host:port` of its near end. */
  address: string;
  connect(): Socket;
  /** Connections that came so far and were let through. */
  connections(): number;
  /** From now on nothing passes, and nobody notices: a broker that hangs. */
  freeze(): void;
  thaw(): void;
  /** From now on connections are refused and open ones closed: a broker that is down. */
  cut(): void;
  mend(): void;
  close(): Promise<void>;
};

/** What passes between the two ends of a connection; `drop` ends it. */
export type Wire = { client: Socket; broker: Socket; drop(): void };

/**
 * Opens a network in front of `broker`, `host:port`. `join` carries the bytes, by default all
 * of them.
 */
export async function openBadNetwork(
  broker: string,
  join: (wire: Wire) => void = passEverything,
): Promise<BadNetwork> {
  const [host = '', port] = broker.split(':');
  const sockets = new Set<Socket>();
  let frozen = false;
  let isCut = false;
  let connections = 0;

  const server = createServer((client) => {
    if (isCut) return void client.destroy();
    connections += 1;
    const upstream = connectTcp({ host, port: Number(port) });
    const drop = () => {
      client.destroy();
      upstream.destroy();
    };
    join({ client, broker: upstream, drop });
    for (const socket of [client, upstream]) {
      sockets.add(socket.setNoDelay(true));
      if (frozen) socket.pause();
      socket.on('error', drop).on('close', () => {
        sockets.delete(socket);
        drop();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const near = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };

  const cut = () => {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    address: `${near.host}:${near.port}`,
    connect: () => connectTcp(near),
    connections: () => connections,
    freeze: () => {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    thaw: () => {
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
    cut,
    mend: () => {
      isCut = false;
    },
    close: () => {
      cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function passEverything({ client, broker }: Wire): void {
  client.on('data', (chunk) => broker.write(chunk));
  broker.on('data', (chunk) => client.write(chunk));
}
