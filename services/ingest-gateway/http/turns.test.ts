import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '@triplock/contracts';
import type { PartnerId } from '@triplock/payments';
import { DeadlineError } from '@triplock/runtime';
import { openTurns } from './turns.ts';

const [acme, globex] = ['acme', 'globex'] as PartnerId[] as [PartnerId, PartnerId];
const nextTurn = () => new Promise((done) => setImmediate(done));
const what = 'a list';
const withinMs = 60_000;

/** Turns, and work that is done when the test says so. */
function someTurns(limits = { atOnce: 4, perPartner: 2, waitingMax: 5 }) {
  const turns = openTurns(limits);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const hold = async (name: string) => {
    begun.push(name);
    const { promise, resolve } = Promise.withResolvers<void>();
    ends.set(name, resolve);
    await promise;
    return name;
  };
  const ask = (partnerId: PartnerId, name: string) =>
    turns.take({ partnerId, what, withinMs }, () => hold(name));
  const end = async (name: string) => {
    ends.get(name)!();
    await nextTurn();
  };
  return { turns, begun, ask, hold, end };
}

const refusedWith = (code: string) => (error: unknown) =>
  error instanceof Problem && error.code === code;

test('one partner has its share at once, and another does not wait behind what it asked for', async () => {
  const { begun, ask, end } = someTurns();
  const asked = ['a1', 'a2', 'a3', 'a4'].map((name) => ask(acme, name));
  await nextTurn();
  assert.deepEqual(begun, ['a1', 'a2']);
  const other = ask(globex, 'b1');
  await nextTurn();
  assert.deepEqual(begun, ['a1', 'a2', 'b1']);
  await end('a2');
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'a3']);
  for (const name of ['b1', 'a1', 'a3', 'a4']) await end(name);
  assert.equal(await other, 'b1');
  assert.deepEqual(await Promise.all(asked), ['a1', 'a2', 'a3', 'a4']);
});

test('where all turns are taken the next one goes to whoever has none', async () => {
  const { begun, ask, end } = someTurns({ atOnce: 2, perPartner: 2, waitingMax: 5 });
  const asked = ['a1', 'a2', 'a3', 'a4'].map((name) => ask(acme, name));
  await nextTurn();
  asked.push(...['b1', 'b2'].map((name) => ask(globex, name)));
  await nextTurn();
  await end('a1');
  assert.deepEqual(begun, ['a1', 'a2', 'b1']);
  for (let ended = 0; ended < 5; ended += 1) await end(begun[ended + 1]!);
  assert.deepEqual((await Promise.all(asked)).toSorted(), begun.toSorted());
});

test('a partner that has as much waiting as it may is told so, and no other is', async () => {
  const { ask, end, begun } = someTurns();
  const asked = Array.from({ length: 7 }, (_, n) => ask(acme, `a${n}`));
  await assert.rejects(ask(acme, 'one more'), refusedWith('rate_limited'));
  asked.push(ask(globex, 'b'));
  await nextTurn();
  for (const name of ['b', ...Array.from({ length: 7 }, (_, n) => `a${n}`)]) await end(name);
  await Promise.all(asked);
  assert.ok(!begun.includes('one more'));
});

test('what had no turn in time is not begun, and takes nobody’s turn', async () => {
  const { turns, ask, end, begun } = someTurns();
  const asked = [ask(acme, 'a1'), ask(acme, 'a2')];
  const late = turns.take({ partnerId: acme, what, withinMs: 1 }, async () => begun.push('late'));
  await assert.rejects(late, refusedWith('unavailable'));
  for (const name of ['a1', 'a2']) await end(name);
  const after = ask(acme, 'a3');
  await nextTurn();
  assert.deepEqual(begun, ['a1', 'a2', 'a3']);
  await end('a3');
  await Promise.all([...asked, after]);
});

test('work that is late or fails keeps its turn until it is over, and no longer', async () => {
  const { turns, ask, end, begun } = someTurns({ atOnce: 1, perPartner: 1, waitingMax: 5 });
  const slow = Promise.withResolvers<void>();
  const late = turns.take({ partnerId: acme, what, withinMs: 1 }, () => slow.promise);
  await assert.rejects(late, DeadlineError);
  const other = ask(globex, 'b1');
  await nextTurn();
  assert.deepEqual(begun, []);
  slow.reject(new Error('cancelled'));
  await nextTurn();
  assert.deepEqual(begun, ['b1']);
  await end('b1');
  await other;
  await assert.rejects(
    turns.take({ partnerId: acme, what, withinMs }, () => Promise.reject(new Error('no'))),
    /^Error: no$/,
  );
  const after = ask(acme, 'a1');
  await nextTurn();
  await end('a1');
  assert.equal(await after, 'a1');
});

test('equal reads of one partner that wait together are one, and none is older than its question', async () => {
  const { turns, begun, end } = someReads();
  const first = turns.read(acme, 'balance');
  await nextTurn();
  const [second, third] = [turns.read(acme, 'balance'), turns.read(acme, 'balance')];
  const others = [turns.read(globex, 'balance'), turns.read(acme, 'list')];
  await nextTurn();
  assert.deepEqual(begun, ['acme balance 1', 'globex balance 2', 'acme list 3']);
  await end('acme balance 1');
  assert.equal(await first, 'acme balance 1');
  assert.deepEqual(begun.slice(3), ['acme balance 4'], 'who came meanwhile gets a new one');
  for (const name of begun.slice(1)) await end(name);
  assert.deepEqual(await Promise.all([second, third]), ['acme balance 4', 'acme balance 4']);
  assert.deepEqual(await Promise.all(others), ['globex balance 2', 'acme list 3']);
});

/** Turns of reads, each of which is named by its place among those that were begun. */
function someReads() {
  const { turns, begun, end, hold } = someTurns();
  const read = (partnerId: PartnerId, same: string) =>
    turns.take({ partnerId, what, withinMs, same }, () =>
      hold(`${partnerId} ${same} ${begun.length + 1}`),
    );
  return { turns: { read }, begun, end };
}
