import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { aPayment, eventually } from '@triplock/testing';
import { openCircuitBreaker } from './circuit-breaker.ts';
import type { CreateOutcome, IntentRequest, Provider } from './provider.ts';

const created: CreateOutcome = { outcome: 'created', intentId: 'pi_1' };
const unknown: CreateOutcome = {
  outcome: 'unknown',
  error: new Error('reset'),
  kept: false,
  sent: true,
};

/** A provider that answers as asked, and the circuit breaker in front of it. */
function aBreaker(limits = { unknownInARowMax: 3, openMs: 50 }) {
  let answer: CreateOutcome | Promise<CreateOutcome> = created;
  const createIntent = mock.fn(() => Promise.resolve(answer));
  const states: string[] = [];
  const breaker = openCircuitBreaker({ createIntent } as unknown as Provider, {
    ...limits,
    onState: (state) => states.push(state),
  });
  const { txnId, partnerId, key, details } = aPayment();
  const request: IntentRequest = {
    txnId,
    partnerId,
    key,
    money: details.money,
    kind: 'payment',
    paymentMethod: 'pm_card_visa',
    attempt: 1,
  };
  return {
    ask: () => breaker.createIntent(request),
    callersMax: () => breaker.callersMax(),
    close: () => breaker.close(),
    answers: (next: CreateOutcome | Promise<CreateOutcome>) => void (answer = next),
    sent: () => createIntent.mock.callCount(),
    states,
  };
}

test('a provider in trouble is not asked for a while, then once, then freely', async () => {
  const { ask, answers, sent, states } = aBreaker();
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
  const { ask, answers, sent } = aBreaker();
  for (let n = 0; n < 30; n += 1) {
    answers(n % 3 === 0 ? created : unknown);
    await ask();
  }
  assert.equal(sent(), 30);
});

test('who can wait is to wait while the circuit is open, one may try then, and all may again', async () => {
  const { ask, callersMax, answers, close } = aBreaker();
  answers(unknown);
  for (let n = 0; n < 3; n += 1) {
    assert.equal(callersMax(), Infinity);
    await ask();
  }
  assert.equal(callersMax(), 0);
  await eventually(async () => callersMax() === 1);
  const held = Promise.withResolvers<CreateOutcome>();
  answers(held.promise);
  const trying = ask();
  await eventually(async () => callersMax() === 0);
  held.resolve(unknown);
  assert.equal(await trying, unknown);
  assert.equal(callersMax(), 0);
  answers(created);
  await eventually(async () => callersMax() === 1);
  assert.equal(await ask(), created);
  assert.equal(callersMax(), Infinity);
  close();
  assert.equal(callersMax(), 0);
});

test('a host clock that is set back while the circuit is open keeps it open no longer, and lets nobody spin', async (context) => {
  const { ask, answers } = aBreaker();
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

test('while one call tries the others are asked to come again, and not at once', async () => {
  const { ask, callersMax, answers } = aBreaker();
  answers(unknown);
  for (let n = 0; n < 3; n += 1) await ask();
  await eventually(async () => callersMax() === 1);
  const [tried, refused] = await Promise.all([ask(), ask()]);
  assert.ok(tried.outcome === 'unknown' && tried.sent);
  assert.ok(refused.outcome === 'unknown' && !refused.sent && refused.retryAfterMs! > 0);
});

test('a provider that says when to come again is left alone until then', async () => {
  const { ask, answers, sent, callersMax } = aBreaker();
  answers({ ...unknown, retryAfterMs: 100 });
  await ask();
  answers(created);
  const unsent = await ask();
  assert.ok(unsent.outcome === 'unknown' && !unsent.sent && unsent.retryAfterMs! <= 100);
  assert.deepEqual([sent(), callersMax()], [1, 0]);
  await eventually(async () => (await ask()) === created);
  assert.equal(sent(), 2);
});

test('each call that was sent is reported with what is known of it, and one that was not is no call', async () => {
  const calls: string[] = [];
  const provider = {
    readIntent: async () => ({ outcome: 'succeeded', chargeId: 'ch_1' }) as const,
    confirmIntent: async () => unknown,
    refund: () => Promise.reject(new Error('a bug')),
  } as unknown as Provider;
  const breaker = openCircuitBreaker(provider, {
    unknownInARowMax: 2,
    openMs: 60_000,
    onCall: (call, { outcome, seconds }) => {
      assert.ok(seconds >= 0 && seconds < 60);
      calls.push(`${call} ${outcome}`);
    },
  });
  const query = {} as never;
  assert.deepEqual(await breaker.readIntent(query), { outcome: 'succeeded', chargeId: 'ch_1' });
  assert.equal(await breaker.confirmIntent(query), unknown);
  const bug = await breaker.refund(query);
  assert.ok(bug.outcome === 'unknown' && bug.sent);
  await breaker.readIntent(query);
  assert.deepEqual(calls, ['readIntent answered', 'confirmIntent unknown', 'refund unknown']);
});

test('a call that was turned away is sent again, the same, and is no trouble', async () => {
  const turnedAway = { ...unknown, tooMany: { of: 'all', by: 'rate' } } as const;
  const answers: CreateOutcome[] = [turnedAway, turnedAway, turnedAway, created];
  const asked: unknown[] = [];
  const ended: string[] = [];
  const createIntent = async (request: IntentRequest) => {
    asked.push(request);
    return answers[asked.length - 1]!;
  };
  const breaker = openCircuitBreaker({ createIntent } as unknown as Provider, {
    unknownInARowMax: 2,
    openMs: 60_000,
    onCall: (_, { outcome }) => ended.push(outcome),
  });
  const request = { key: 'a' } as unknown as IntentRequest;
  assert.equal(await breaker.createIntent(request), created);
  assert.deepEqual(asked, [request, request, request, request]);
  assert.deepEqual(ended, ['turned-away', 'turned-away', 'turned-away', 'answered']);
  assert.ok(breaker.callersMax() > 0);
});

test('whoever would wait for a turn does not once the process ends', async () => {
  const turnedAway = { ...unknown, tooMany: { of: 'all', by: 'rate' } } as const;
  const { ask, answers, close, sent } = aBreaker();
  answers(turnedAway);
  const waits = ask();
  await eventually(async () => sent() > 0);
  const late = ask();
  close();
  for (const answer of await Promise.all([waits, late, ask()])) {
    assert.ok(answer.outcome === 'unknown' && !answer.sent);
  }
});
