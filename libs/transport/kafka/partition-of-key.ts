const seed = 0x9747b28c;
const multiplier = 0x5bd1e995;

/**
 * The partition of a record key: murmur2 of its bytes, as Kafka's own producers spread keys
 * (org.apache.kafka.common.utils.Utils.murmur2), so that any client finds a payment in the same
 * one. kafkajs computes the same with big integers, at several times the cost.
 */
export function partitionOfKey(key: string | Buffer, partitions: number): number {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key;
  return (murmur2(bytes) & 0x7fffffff) % partitions;
}

function murmur2(bytes: Buffer): number {
  const { length } = bytes;
  const wholeWords = length - (length % 4);
  let hash = seed ^ length;
  for (let at = 0; at < wholeWords; at += 4) {
    const word = mix(bytes.readInt32LE(at));
    hash = Math.imul(hash, multiplier) ^ word;
  }
  if (length > wholeWords) {
    for (let at = wholeWords; at < length; at += 1) hash ^= bytes[at]! << (8 * (at - wholeWords));
    hash = Math.imul(hash, multiplier);
  }
  hash = Math.imul(hash ^ (hash >>> 13), multiplier);
  return hash ^ (hash >>> 15);
}

function mix(word: number): number {
  const product = Math.imul(word, multiplier);
  return Math.imul(product ^ (product >>> 24), multiplier);
}
