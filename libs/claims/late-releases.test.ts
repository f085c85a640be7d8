import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TxnId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import { eventually } from '@triplock/testing';
import type { ClaimOwner, OwnerToken } from './claims.ts';
import { releaseLate } from './late-releases.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const owner = (n: number): ClaimOwner => ({ txnId: `${n}` as TxnId, token: `${n}` as OwnerToken });

/** Releases with the outcomes that a test gives, and those that were tried. */
function releases(...outcomes: ('away' | 'lost' | 'released')[]) {
  const tried: string[] = [];
  const release = async ({ token }: ClaimOwner) => {
    tried.push(token);
    const outcome = outcomes.shift() ?? 'released';
    if (outcome === 'away') throw new Error('the store is away');
    return outcome;
  };
  // Tries come after 0.25, 0.75, 1.75 and 3.75 s.
  const open = (leaseMs = 30_000) => releaseLate({ release, leaseMs, logger });
  return { tried, open };
}

test('a release is tried until the server is back and the late claim has come', async () => {
  const { tried, open } = releases('away', 'lost');
  const late = open();
  late.add(owner(1));
  await eventually(async () => tried.length === 3);
  await late.close();
  assert.deepEqual(tried, ['1', '1', '1']);
});

test('what time has released is not tried', async () => {
  const { tried, open } = releases('lost', 'lost', 'lost');
  const late = open(400);
  late.add(owner(1));
  await eventually(async () => tried.length === 1);
  const begin = performance.now();
  await eventually(async () => performance.now() - begin > 400);
  await late.close();
  assert.equal(tried.length, 1);
});

test('a server that is silent for longer than a lease ends none', async () => {
  const { tried, open } = releases('away', 'away', 'released');
  const late = open(300);
  late.add(owner(1));
  await eventually(async () => tried.length === 3);
  await late.close();
  assert.equal(tried.length, 3);
});

test('a claim that is made after the silence is released within its lease', async () => {
  const { tried, open } = releases('away', 'lost', 'released');
  const late = open(1_300); // Over by the third try, were it counted from the claim.
  late.add(owner(1));
  await eventually(async () => tried.length === 3);
  await late.close();
  assert.equal(tried.length, 3);
});

test('each silence has the lease counted anew', async () => {
  const { tried, open } = releases('lost', 'away', 'lost');
  const late = open(1_200); // Over by the third try, were it counted from the first.
  late.add(owner(1));
  await eventually(async () => tried.length === 3);
  const begin = performance.now();
  await eventually(async () => performance.now() - begin > 1_200);
  await late.close();
  assert.equal(tried.length, 3);
});

test('a new claim does not wait for the long pause of an old one', async () => {
  const { tried, open } = releases('lost', 'lost', 'lost');
  const late = open();
  late.add(owner(1));
  await eventually(async () => tried.length === 3);
  const begin = performance.now(); // The next pause is of 2 s.
  late.add(owner(2));
  await eventually(async () => tried.includes('2'));
  assert.ok(performance.now() - begin < 1_500);
  await late.close();
});

test('closing tries once more and waits for no server', async () => {
  const { tried, open } = releases();
  const late = open();
  for (let n = 0; n < 250; n += 1) late.add(owner(n));
  await late.close();
  assert.equal(new Set(tried).size, 250);
  const away = releases('away');
  const gone = away.open();
  gone.add(owner(1));
  await gone.close();
  assert.deepEqual(away.tried, ['1']);
});

test('more claims than can time out together make the oldest ones wait for their leases', async () => {
  const { tried, open } = releases();
  const late = open();
  for (let n = 0; n < 10_005; n += 1) late.add(owner(n));
  await late.close();
  assert.equal(tried.length, 10_000);
  assert.ok(!tried.includes('4') && tried.includes('5'));
});
