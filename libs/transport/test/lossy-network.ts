import { openBadNetwork, type BadNetwork, type Wire } from './bad-network.ts';

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
    const produced = new Set<number>();
    const pass = forEachFrame((request) => {
      if (request.readInt16BE(4) === produceApiKey) produced.add(request.readInt32BE(8));
      upstream.write(request);
    });
    const passOrLose = forEachFrame((reply) => {
      const isProduced = produced.delete(reply.readInt32BE(4));
      if (!isProduced || !loses.losesReply()) {
        return void client.write(isProduced && loses.hidesPartition ? withoutLast(reply) : reply);
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

/** A produce reply of one topic, less its last partition; the throttle time ends it. */
function withoutLast(reply: Buffer): Buffer {
  const name = reply.readInt16BE(12);
  const count = 14 + name;
  const end = reply.length - 4;
  const shorter = Buffer.concat([reply.subarray(0, end - partitionBytes), reply.subarray(end)]);
  shorter.writeInt32BE(shorter.length - 4, 0);
  shorter.writeInt32BE(reply.readInt32BE(count) - 1, count);
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
