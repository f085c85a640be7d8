import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Partitioners, type PartitionMetadata } from 'kafkajs';
import { partitionOfKey, requireEveryPartition } from './producer.ts';

test('a batch counts only when a broker answered for each of its partitions', () => {
  const messages = [
    { value: 'a', partition: 0 },
    { value: 'b', partition: 3 },
  ];
  requireEveryPartition(messages, [{ partition: 3 }, { partition: 0 }]);
  assert.throws(() => requireEveryPartition(messages, [{ partition: 0 }]), /partition 3/);
});

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
