import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requireEveryPartition } from './idempotent-producer.ts';

test('a batch counts only when a broker answered for each of its partitions', () => {
  const messages = [
    { value: 'a', partition: 0 },
    { value: 'b', partition: 3 },
  ];
  requireEveryPartition(messages, [{ partition: 3 }, { partition: 0 }]);
  assert.throws(() => requireEveryPartition(messages, [{ partition: 0 }]), /partition 3/);
});
