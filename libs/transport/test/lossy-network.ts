import { openBadNetwork, type BadNetwork, type Wire } from './bad-network.ts';

/** A bad network to a Kafka broker that can also lose produce replies, and nothing else. */
export type LossyNetwork = BadNetwork & {
  /** Decides for each produce reply whether it is lost, its connection with it. */
  losesReply: () => boolean;
  /** Produce replies lost so far: a test counts only if its faults really happened. */
  lostReplies(): number;
};

const produceApiKey = 0;

/**
 * Opens the network in front of `broker`, `host:port`; it passes everything until set otherwise.
 */
export async function openLossyNetwork(broker: string): Promise<LossyNetwork> {
  let lost = 0;
  const loses = { losesReply: () => false };

  const join = ({ client, broker: upstream, drop }: Wire) => {
    const produced = new Set<number>();
    const pass = forEachFrame((request) => {
      if (request.readInt16BE(4) === produceApiKey) produced.add(request.readInt32BE(8));
      upstream.write(request);
    });
    const passOrLose = forEachFrame((reply) => {
      const isProduced = produced.delete(reply.readInt32BE(4));
      if (!isProduced || !loses.losesReply()) return void client.write(reply);
      lost += 1;
      drop();
    });
    client.on('data', pass);
    upstream.on('data', passOrLose);
  };
  return Object.assign(loses, await openBadNetwork(broker, join), { lostReplies: () => lost });
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
