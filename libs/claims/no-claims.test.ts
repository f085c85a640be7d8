import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aClaim, aFingerprint, anAnswer, expectOutcome } from './test/claims-under-test.ts';
import { openNoClaims } from './no-claims.ts';

test('without claims every request is the first, whatever was done under its key', async () => {
  const claims = openNoClaims();
  const request = aClaim();
  const first = expectOutcome(await claims.claim(request), 'claimed');
  expectOutcome(await claims.claim(request), 'claimed');
  await claims.complete({ ...request, ...first }, anAnswer);
  const again = expectOutcome(await claims.claim(request), 'claimed');
  assert.notEqual(again.token, first.token);
  expectOutcome(await claims.claim({ ...request, fingerprint: aFingerprint() }), 'claimed');
  assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
});
