import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { aPayment, eventually } from '@triplock/testing';
import { guardProvider } from './guard-provider.ts';
import type { CreateOutcome, IntentRequest, Provider } from './provider.ts';

const created: CreateOutcome = { outcome: 'created', intentId: 'pi_1' };
const unknown: CreateOutcome = {
  outcome: 'unknown',
  error: new Error('reset'),
  kept: false,
  sent: true,
};

/** A provider that answers as told, and the guard in front of it. */
function aGuarded(limits = { unknownInARowMax: 3, restMs: 50 }) {
  let answer: CreateOutcome = created;
  const createIntent = mock.fn(() => Promise.resolve(answer));
  const states: string[] = [];
  const guarded = guardProvider({ createIntent } as unknown as Provider, {
    ...limits,
    onCircuit: (state) => states.push(state),
  });
  const { txnId, partnerId, key, details } = aPayment();
  const request: IntentRequest = {
    ...{ txnId, partnerId, key, money: details.money },
    kind: 'payment',
    paymentMethod: 'pm_card_visa',
    attempt: 1,
  };
  return {
    ask: () => guarded.createIntent(request),
    callersMax: () => guarded.callersMax(),
    close: () => guarded.close(),
    answers: (next: CreateOutcome) => (answer = next),
    sent: () => createIntent.mock.callCount(),
    states,
  };
}

test('a provider in trouble is not asked until it had its rest, then once, then freely', async () => {
  const { ask, answers, sent, states } = aGuarded();
  answers(unknown);
  for (let n = 0; n < 3; n += 1) assert.equal(await ask(), unknown);
  const unsent = await ask();
  assert.ok(unsent.outcome === 'unknown' && !unsent.sent);
  assert.deepEqual([sent(), states], [3, ['open']]);
  answers(created);
  await eventually(async () => (await ask()) === created);
  assert.equal(sent(), 4);
  assert.deepEqual(await Promise.all([ask(), ask()]), [created, created]);
  assert.deepEqual(states, ['open', 'closed']);
});

test('some unknown outcomes among others trouble nobody', async () => {
  const { ask, answers, sent } = aGuarded();
  for (let n = 0; n < 30; n += 1) {
    answers(n % 3 === 0 ? created : unknown);
    await ask();
  }
  assert.equal(sent(), 30);
});

test('who can wait is told to while it rests, that one may try then, and that all may again', async () => {
  const { ask, callersMax, answers, close } = aGuarded();
  answers(unknown);
  for (let n = 0; n < 3; n += 1) {
    assert.equal(callersMax(), Infinity);
    await ask();
  }
  assert.equal(callersMax(), 0);
  await eventually(async () => callersMax() === 1);
  const trying = ask();
  assert.equal(callersMax(), 0);
  assert.equal(await trying, unknown);
  assert.equal(callersMax(), 0);
  answers(created);
  await eventually(async () => callersMax() === 1);
  assert.equal(await ask(), created);
  assert.equal(callersMax(), Infinity);
  close();
  assert.equal(callersMax(), 0);
});

test('a host clock that is set back while the provider rests prolongs no rest, and lets nobody spin', async (context) => {
  const { ask, answers } = aGuarded();
  answers(unknown);
  for (let n = 0; n < 3; n += 1) await ask();
  const now = Date.now;
  context.mock.method(Date, 'now', () => now() - 25 * 3_600_000);
  answers(created);
  await eventually(async () => {
    const answer = await ask();
    assert.ok(answer === created || (answer.outcome === 'unknown' && answer.retryAfterMs! > 0));
    return answer === created;
  });
});

test('while one call tries the others are told to come again, and not at once', async () => {
  const { ask, callersMax, answers } = aGuarded();
  answers(unknown);
  for (let n = 0; n < 3; n += 1) await ask();
  await eventually(async () => callersMax() === 1);
  const [tried, refused] = await Promise.all([ask(), ask()]);
  assert.ok(tried.outcome === 'unknown' && tried.sent);
  assert.ok(refused.outcome === 'unknown' && !refused.sent && refused.retryAfterMs! > 0);
});

test('a provider that says when to come again is left alone until then', async () => {
  const { ask, answers, sent, callersMax } = aGuarded();
  answers({ ...unknown, retryAfterMs: 100 });
  await ask();
  answers(created);
  const unsent = await ask();
  assert.ok(unsent.outcome === 'unknown' && !unsent.sent && unsent.retryAfterMs! <= 100);
  assert.deepEqual([sent(), callersMax()], [1, 0]);
  await eventually(async () => (await ask()) === created);
  assert.equal(sent(), 2);
});
