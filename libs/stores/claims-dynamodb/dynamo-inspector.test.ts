import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { aClaim, bucketOfClaim, expectOutcome, warmUp } from '@triplock/claims/test';
import { createLogger } from '@triplock/runtime';
import { createTestTable } from './test/test-table.ts';
import { openDynamoClaims } from './dynamo-claims.ts';
import { inspectDynamoClaims } from './dynamo-inspector.ts';

/** A table of the test's own, with the claims of two systems, and those of one from outside. */
async function aTable(t: TestContext) {
  const dynamodb = await createTestTable(t);
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const open = async (namespace: string) => {
    const claims = await openDynamoClaims({ ...dynamodb, namespace, logger });
    t.after(() => claims.close());
    return claims;
  };
  const inspector = inspectDynamoClaims({ ...dynamodb, namespace: 'ours' });
  t.after(() => inspector.close());
  return { ours: await open('ours'), theirs: await open('theirs'), inspector };
}

test('everything of ours goes from a table, as a loss that is noticed, and nobody else’s', async (t) => {
  const { ours, theirs, inspector } = await aTable(t);
  const requests = Array.from({ length: 8 }, () => aClaim());
  for (const request of requests) {
    for (const claims of [ours, theirs]) {
      await warmUp(claims, request);
      const { token } = expectOutcome(await claims.claim(request), 'claimed');
      await claims.complete({ ...request, token });
    }
  }
  const buckets = new Set(requests.map(bucketOfClaim));
  assert.equal(await inspector.count(), requests.length + buckets.size);
  const { keys } = await inspector.forget();
  // Beside claims and markers: what reads show of each, and how many its partner holds.
  assert.ok(keys > 2 * requests.length + buckets.size, `${keys}`);
  assert.equal(await inspector.count(), 0);
  for (const request of requests) {
    assert.deepEqual(await ours.claim(request), { outcome: 'cold' });
    expectOutcome(await theirs.claim(request), 'completed');
  }
});
