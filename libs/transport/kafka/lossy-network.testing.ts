import { connect as connectTcp, createServer, type AddressInfo, type Socket } from 'node:net';
import type { BrokerConnection } from './kafka-client.ts';

/** A network to one real broker that loses what a test tells it to lose. */
export type LossyNetwork = {
  /** For `BrokerConnection.connect`: every connection goes through this network. */
  connect: NonNullable<BrokerConnection['connect']>;
  /** Decides for each produce reply whether it is lost, its connection with it. */
  losesReply: () => boolean;
  /** Produce replies lost so far: a test counts only if its faults really happened. */
  lostReplies(): number;
  /** From now on nothing passes, and nobody is told: a broker that hangs. */
  freeze(): void;
  thaw(): void;
  /** From now on connections are refused and open ones closed: a broker that is down. */
  cut(): void;
  mend(): void;
  close(): Promise<void>;
};

const produceApiKey = 0;

/** Opens the network in front of `broker`, `host:port`; it passes everything until told otherwise. */
export async function openLossyNetwork(broker: string): Promise<LossyNetwork> {
  const [host = '', port] = broker.split(':');
  const pairs = new Set<readonly [Socket, Socket]>();
  let lost = 0;
  let frozen = false;
  let isCut = false;

  const server = createServer((client) => {
    if (isCut) return void client.destroy();
    const upstream = connectTcp({ host, port: Number(port) });
    const pair = [client, upstream] as const;
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    const produced = new Set<number>();
    client.on(
      'data',
      forEachFrame((frame) => {
        if (frame.readInt16BE(4) === produceApiKey) produced.add(frame.readInt32BE(8));
        upstream.write(frame);
      }),
    );
    upstream.on(
      'data',
      forEachFrame((frame) => {
        if (produced.delete(frame.readInt32BE(4)) && network.losesReply()) {
          lost += 1;
          return end();
        }
        client.write(frame);
      }),
    );
    for (const socket of pair) {
      if (frozen) socket.pause();
      socket.on('error', end).on('close', end);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  const network: LossyNetwork = {
    connect: () => connectTcp({ host: '127.0.0.1', port: (server.address() as AddressInfo).port }),
    losesReply: () => false,
    lostReplies: () => lost,
    freeze: () => {
      frozen = true;
      for (const socket of [...pairs].flat()) socket.pause();
    },
    thaw: () => {
      frozen = false;
      for (const socket of [...pairs].flat()) socket.resume();
    },
    cut: () => {
      isCut = true;
      for (const socket of [...pairs].flat()) socket.destroy();
    },
    mend: () => {
      isCut = false;
    },
    close: () => {
      network.cut();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
  return network;
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
