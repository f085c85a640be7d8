import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Partitioners, type PartitionMetadata } from 'kafkajs';
import { partitionOfKey } from './partition-of-key.ts';

const partitionMetadata = Array.from({ length: 12 }, (_, partitionId) => ({
  partitionId,
  leader: 1,
})) as PartitionMetadata[];

test('a key has the partition that every other Kafka client gives it', () => {
  const theirs = Partitioners.DefaultPartitioner();
  fc.assert(
    fc.property(fc.oneof(fc.uuid(), fc.string(), fc.uint8Array()), (input) => {
      const key = typeof input === 'string' ? input : Buffer.from(input);
      const message = { key, value: null };
      assert.equal(partitionOfKey(key, 12), theirs({ topic: 't', partitionMetadata, message }));
    }),
    { numRuns: 1_000 },
  );
});
