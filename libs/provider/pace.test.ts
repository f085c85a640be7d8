import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPace, type Pace, type TooMany, type Turn } from './pace.ts';

const soon = 10_000;

async function turnOf(pace: Pace, call = 'charge', withinMs = soon): Promise<Turn> {
  const turn = await pace.turn(call, withinMs);
  assert.ok(turn.outcome === 'now');
  return turn;
}

/** A pace of which so many calls were taken within the last second, and one was turned away. */
async function aLimited(taken: number, tooMany: TooMany): Promise<Pace> {
  const pace = openPace();
  const refused = await turnOf(pace);
  for (let n = 0; n < taken; n += 1) (await turnOf(pace)).ended();
  refused.ended(tooMany);
  return pace;
}

/** How long it takes until so many calls have had their turn, milliseconds. */
async function timeOf(pace: Pace, calls: number): Promise<number> {
  const startedMs = performance.now();
  const turns = Array.from({ length: calls }, async () => (await turnOf(pace)).ended());
  await Promise.all(turns);
  return performance.now() - startedMs;
}

const rateOfAll = { of: 'all', by: 'rate' } as const;

test('nobody waits for a provider that has turned nobody away', async () => {
  const pace = openPace();
  assert.equal(pace.callersMax(0), Infinity);
  const turns = await Promise.all(Array.from({ length: 10_000 }, () => turnOf(pace, 'charge', 0)));
  for (const { ended } of turns) ended();
  assert.equal(pace.callersMax(0), Infinity);
});

test('once a call is turned away, calls begin as far apart as those of the last second were taken, and a little further', async () => {
  const pace = await aLimited(100, rateOfAll);
  const tookMs = await timeOf(pace, 50);
  // 90 a second; a busy machine may take longer, and nothing may be faster.
  assert.ok(tookMs > 400, `50 calls at 90 a second took ${Math.round(tookMs)} ms`);
});

test('calls that were under way when a call was turned away lower the limit once', async () => {
  const pace = openPace();
  const turns = await Promise.all(Array.from({ length: 100 }, () => turnOf(pace)));
  for (const { ended } of turns.slice(0, 30)) ended(rateOfAll);
  for (const { ended } of turns.slice(30)) ended();
  // 89 a second by the first; by each of the thirty it would be 4.
  const within = pace.callersMax(1_000);
  assert.ok(within > 60 && within < 90, `${within} may come within a second`);
});

test('whoever would wait too long is told how long, and takes nothing', async () => {
  const pace = await aLimited(10, rateOfAll);
  await turnOf(pace);
  const late = await pace.turn('charge', 20);
  assert.ok(late.outcome === 'late' && late.inMs > 20 && late.inMs < 1_000);
  assert.ok(pace.callersMax(1_000) >= 7);
});

test('a limit of one kind of call holds up no other kind', async () => {
  const pace = await aLimited(1, { of: 'each', by: 'rate' });
  assert.equal((await pace.turn('charge', 10)).outcome, 'late');
  assert.equal((await pace.turn('refund', 0)).outcome, 'now');
});

test('of calls at once half as many are sent as were under way, the next ones as soon as one has ended', async () => {
  const pace = openPace();
  const turns = await Promise.all(Array.from({ length: 9 }, () => turnOf(pace)));
  turns.pop()!.ended({ of: 'all', by: 'concurrency' });
  assert.equal(pace.callersMax(soon), 0);
  const next = turnOf(pace);
  for (const { ended } of turns.splice(0, 4)) ended();
  assert.equal(await Promise.race([next, Promise.resolve('waits')]), 'waits');
  turns.pop()!.ended();
  (await next).ended();
  assert.equal((await pace.turn('charge', 0)).outcome, 'now');
});

test('while calls wait for it the limit is raised, and a provider that takes more is asked more', async () => {
  const pace = await aLimited(40, rateOfAll);
  const before = pace.callersMax(1_000);
  await timeOf(pace, 50);
  assert.ok(pace.callersMax(1_000) > before);
});

test('a minute after a call was turned away for the last time the limit is forgotten', async (context) => {
  const pace = await aLimited(1, rateOfAll);
  assert.notEqual(pace.callersMax(soon), Infinity);
  const now = performance.now.bind(performance);
  context.mock.method(performance, 'now', () => now() + 61_000);
  assert.equal(pace.callersMax(soon), Infinity);
  await timeOf(pace, 1_000);
});

test('callers have their turns in the order in which they came', async () => {
  const pace = await aLimited(100, rateOfAll);
  const order: number[] = [];
  const came = Array.from({ length: 20 }, async (_, n) => {
    const { ended } = await turnOf(pace);
    order.push(n);
    ended();
  });
  await Promise.all(came);
  assert.deepEqual(
    order,
    order.toSorted((one, other) => one - other),
  );
});
