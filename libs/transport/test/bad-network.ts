import { connect as connectTcp, createServer, type AddressInfo, type Socket } from 'node:net';

/** A network to one real broker that a test makes worse. */
export type BadNetwork = {
  /** `host:port` of its near end. */
  address: string;
  /** For whoever is told another address. */
  dial(): { host: string; port: number };
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
    dial: () => near,
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

/** A broker's reply, and what it answers. */
export type Reply = { bytes: Buffer; apiKey: number; version: number };

/**
 * Opens a network in front of `broker` whose replies pass as `change` gives them, each connection's
 * in their order.
 */
export function openChangingNetwork(
  broker: string,
  change: (reply: Reply) => Buffer | Promise<Buffer>,
): Promise<BadNetwork> {
  return openBadNetwork(broker, ({ client, broker: upstream }) => {
    const asked = new Map<number, Omit<Reply, 'bytes'>>();
    let passed = Promise.resolve();
    const pass = forEachFrame((request) => {
      const [apiKey, version] = [request.readInt16BE(4), request.readInt16BE(6)];
      asked.set(request.readInt32BE(8), { apiKey, version });
      upstream.write(request);
    });
    const passChanged = forEachFrame((bytes) => {
      const changed = change({ bytes, ...asked.get(bytes.readInt32BE(4))! });
      passed = passed.then(async () => void client.write(await changed));
    });
    client.on('data', pass);
    upstream.on('data', passChanged);
  });
}

/** A bad network to a Kafka broker that can also lose produce replies, and nothing else. */
export type LossyNetwork = BadNetwork & {
  /** Decides for each produce reply whether it is lost, its connection with it. */
  losesReply: () => boolean;
  /** Takes the last partition out of each produce reply, as if it had not been asked about. */
  hidesPartition: boolean;
  /** Produce replies lost so far: a test counts only if its faults really happened. */
  lostReplies(): number;
};

const produceApiKey = 0;

/**
 * Opens the network in front of `broker`, `host:port`; it passes everything until set otherwise.
 */
export async function openLossyNetwork(broker: string): Promise<LossyNetwork> {
  let lost = 0;
  const loses = { losesReply: () => false, hidesPartition: false };

  const join = ({ client, broker: upstream, drop }: Wire) => {
    const produced = new Map<number, number>();
    const pass = forEachFrame((request) => {
      if (request.readInt16BE(4) === produceApiKey) {
        produced.set(request.readInt32BE(8), request.readInt16BE(6));
      }
      upstream.write(request);
    });
    const passOrLose = forEachFrame((reply) => {
      const correlation = reply.readInt32BE(4);
      const version = produced.get(correlation);
      produced.delete(correlation);
      if (version === undefined || !loses.losesReply()) {
        const hides = version !== undefined && loses.hidesPartition;
        return void client.write(hides ? withoutLast(reply, version) : reply);
      }
      lost += 1;
      drop();
    });
    client.on('data', pass);
    upstream.on('data', passOrLose);
  };
  return Object.assign(loses, await openBadNetwork(broker, join), { lostReplies: () => lost });
}

// A partition of a produce reply from version 5 on: its number, an error, an offset and two more.
const partitionBytes = 4 + 2 + 8 + 8 + 8;
// Version 9 has compact forms: lengths are one more than they say, in one byte each while they are
// small, and tagged fields end whatever has fields.
const compactVersion = 9;

/** Where the number of partitions stands in a produce reply of one topic, and how long each is. */
function partitionsIn(reply: Buffer, version: number) {
  if (version < compactVersion) {
    return { count: 14 + reply.readInt16BE(12), each: partitionBytes, behind: 4 };
  }
  // Behind each: no record's error, no message, no tagged field. Behind all: the throttle time.
  return { count: 10 + reply.readUInt8(10), each: partitionBytes + 3, behind: 1 + 4 + 1 };
}

/** A produce reply of one topic, less its last partition. */
function withoutLast(reply: Buffer, version: number): Buffer {
  const { count, each, behind } = partitionsIn(reply, version);
  const end = reply.length - behind;
  const shorter = Buffer.concat([reply.subarray(0, end - each), reply.subarray(end)]);
  shorter.writeInt32BE(shorter.length - 4, 0);
  if (version < compactVersion) shorter.writeInt32BE(reply.readInt32BE(count) - 1, count);
  else shorter.writeUInt8(reply.readUInt8(count) - 1, count);
  return shorter;
}

/** Cuts a stream into Kafka's frames: four bytes of length, then that many. */
function forEachFrame(use: (frame: Buffer) => void): (chunk: Buffer) => void {
  let held = Buffer.alloc(0);
  return (chunk) => {
    held = Buffer.concat([held, chunk]);
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const length = 4 + held.readInt32BE(0);
      use(held.subarray(0, length));
      held = held.subarray(length);
    }
  };
}
