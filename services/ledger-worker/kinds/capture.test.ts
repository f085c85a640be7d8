import assert from 'node:assert/strict';
import { after, before, suite, test, type TestContext } from 'node:test';
import type { AcceptedPayment, AcceptedFollowUp } from '@triplock/payments';
import {
  aPayment,
  aRefund,
  createTestStripe,
  eventually,
  type TestStripe,
} from '@triplock/testing';
import { chargePayment } from './payment.ts';
import { ledgerCounts, outcomesOf } from '../test/pipeline.ts';
import { anew, pointsOfHolds, refundingAt, start, within2min } from '../test/at-stripe.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const { aRefunding, providerGaveBack } = refundingAt(() => stripe);

const aHold = () =>
  aPayment({ amount: 1_000n, paymentMethod: 'pm_card_visa', captureMethod: 'manual' });

/** What the provider has taken and what it holds, by its own books. */
async function booksOf() {
  type Sums = Record<string, { count: number; amount: number }>;
  const { charges, held } = await stripe.control<{ charges: Sums; held: Sums }>('GET', '/audit');
  return { taken: charges['eur']?.amount ?? 0, held: held['eur']?.amount ?? 0 };
}

/** Captured by a person at the provider's own page. */
async function captureByHand(intentId: string, amount: number): Promise<void> {
  const answer = await fetch(`${stripe.url}/v1/payment_intents/${intentId}/capture`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stripe.apiKey}` },
    body: new URLSearchParams({ amount_to_capture: String(amount) }),
  });
  assert.equal(answer.status, 200, await answer.text());
}

/** A worker, and a way to see how payments and what follows them ended. */
async function aCapturing(context: TestContext) {
  const refunding = await aRefunding(context);
  const { owner, worker, refund } = refunding;
  const rowOf = async ({ txnId }: AcceptedPayment | AcceptedFollowUp) => {
    type Row = { state: string; code: string | null; captured: bigint | null };
    const [row] = await owner.query<Row>(
      `SELECT state, failure_code AS code, amount_captured AS captured
       FROM ledger.transactions WHERE txn_id = $1`,
      [txnId],
    );
    return row;
  };
  /** Lets time pass for all that waits, and has the resolver look after it. */
  const pass = async () => {
    await owner.query(`
      UPDATE ledger.transactions SET due_at = now(), version = version + 1
      WHERE state = 'pending' AND (kind <> 'payment' OR closed_by IS NULL)`);
    await worker.resolve();
  };
  const heldBy = (payment: AcceptedPayment) =>
    refunding.intentOf(payment, ({ authorizedAt }) => authorizedAt !== undefined);
  /** Passes of the resolver, until it has ended so. */
  type Ends = AcceptedPayment | AcceptedFollowUp;
  const endsAs = (one: Ends, ...end: [state: string, code?: string]) =>
    eventually(async () => {
      await pass();
      const row = await rowOf(one);
      assert.deepEqual([row?.state, row?.code ?? undefined], [end[0], end[1]]);
      return true;
    });
  const capture = (payment: AcceptedPayment, amount?: bigint) =>
    aRefund(payment, { kind: 'capture', ...(amount === undefined ? {} : { amount }) });
  const cancellation = (payment: AcceptedPayment) => aRefund(payment, { kind: 'cancellation' });
  const types = async ({ txnId }: AcceptedPayment) => {
    const rows = await owner.query<{ event_type: string }>(
      'SELECT event_type FROM ledger.outbox WHERE payment_id = $1 ORDER BY sequence',
      [txnId],
    );
    return rows.map(({ event_type }) => event_type);
  };
  const ask = (...asked: AcceptedFollowUp[]) => refund(...asked);
  return { ...refunding, rowOf, heldBy, pass, endsAs, capture, cancellation, types, ask };
}

test('a part is captured, the rest is let go, and refunds are of that part', async (context) => {
  const { pay, ask, worker, endsAs, capture, rowOf, types, cameTo } = await aCapturing(context);
  const payment = aHold();
  await pay(payment);
  await worker.allCommitted();
  assert.equal((await rowOf(payment))?.state, 'pending');
  assert.deepEqual(await booksOf(), { taken: 0, held: 1_000 });
  const part = capture(payment, 600n);
  await ask(part);
  // By its batch, before anybody lets time pass.
  await worker.allCommitted();
  await endsAs(part, 'succeeded');
  const { captured, refunded } = outcomesOf(worker);
  assert.deepEqual([captured, refunded], [1, undefined]);
  assert.deepEqual(await rowOf(payment), { state: 'captured', code: null, captured: 600n });
  assert.deepEqual(await booksOf(), { taken: 600, held: 0 });
  await ask(
    aRefund(payment, { amount: 601n }),
    aRefund(payment, { amount: 200n }),
    aRefund(payment),
  );
  await worker.allCommitted();
  assert.deepEqual(await cameTo(payment), { amount_exceeds_refundable: 1, succeeded: 3 });
  assert.deepEqual(await providerGaveBack(), { count: 2, amount: 600 });
  const told = await types(payment);
  assert.deepEqual(told.slice(0, 3), [
    'payment.authorized',
    'capture.succeeded',
    'payment.captured',
  ]);
});

test('of captures and cancellations at once, before the authorisation too, one counts and the books agree', async (context) => {
  const { pay, ask, pass, capture, cancellation, rowOf, cameTo } = await aCapturing(context);
  const payments = Array.from({ length: 6 }, aHold);
  const asked = payments.map((payment) => [
    capture(payment, 400n),
    cancellation(payment),
    capture(payment),
    cancellation(payment),
  ]);
  // Their records may come before their payments are authorised, and in one batch with them.
  await Promise.all([pay(...payments), ask(...asked.flat())]);
  let taken = 0n;
  for (const payment of payments) {
    await eventually(async () => {
      await pass();
      const { state, captured } = (await rowOf(payment))!;
      const isTaken = state === 'captured';
      const told = isTaken ? 'payment_already_captured' : 'payment_canceled';
      assert.deepEqual(await cameTo(payment), { [told]: 3, succeeded: 1 });
      assert.equal(captured !== null, isTaken);
      return true;
    });
    taken += (await rowOf(payment))!.captured ?? 0n;
  }
  assert.deepEqual(await booksOf(), { taken: Number(taken), held: 0 });
});

test('a hold that the provider lets go ends its payment, and no capture takes anything of it', async (context) => {
  const { pay, ask, worker, endsAs, capture, heldBy, rowOf, types } = await aCapturing(context);
  const [forgotten, raced] = [aHold(), aHold()];
  await pay(forgotten, raced);
  await worker.allCommitted();
  await stripe.control('POST', '/expire', { id: await heldBy(forgotten) });
  await endsAs(forgotten, 'canceled', 'authorization_expired');
  assert.deepEqual(await types(forgotten), ['payment.authorized', 'payment.canceled']);
  // The ledger does not know of it yet when the capture comes.
  await stripe.control('POST', '/expire', { id: await heldBy(raced) });
  const [late, early] = [capture(forgotten), capture(raced)];
  await ask(late, early);
  await endsAs(late, 'failed', 'authorization_expired');
  await endsAs(early, 'failed', 'authorization_expired');
  await endsAs(raced, 'canceled', 'authorization_expired');
  assert.equal((await rowOf(raced))?.captured, null);
  assert.deepEqual(await booksOf(), { taken: 0, held: 0 });
});

test('what was held and captured before the ledger noted either ends by a capture', async (context) => {
  const { pay, ask, worker, endsAs, capture, intentOf, types } = await aCapturing(context);
  const payment = aPayment({
    amount: 1_000n,
    paymentMethod: 'pm_card_authenticationRequired',
    captureMethod: 'manual',
  });
  await pay(payment);
  await worker.allCommitted();
  // Held and taken before anybody looks: as after a restore, or where a worker dies in between.
  const intentId = await intentOf(payment, () => true);
  const outcome = 'succeeded';
  await stripe.control('POST', `/payment_intents/${intentId}/authenticate`, { outcome });
  await captureByHand(intentId, 1_000);
  const again = capture(payment);
  await ask(again);
  await endsAs(again, 'succeeded');
  await endsAs(payment, 'captured');
  assert.equal((await types(payment)).filter((type) => type === 'payment.authorized').length, 1);
  assert.deepEqual(await booksOf(), { taken: 1_000, held: 0 });
});

test('what was captured by hand in part ends its payment only by a capture of that part', async (context) => {
  const { pay, ask, worker, endsAs, capture, cancellation, heldBy, rowOf } =
    await aCapturing(context);
  const payment = aHold();
  await pay(payment);
  await worker.allCommitted();
  await captureByHand(await heldBy(payment), 600);
  const [whole, none, part] = [capture(payment), cancellation(payment), capture(payment, 600n)];
  for (const other of [whole, none]) {
    await ask(other);
    await endsAs(other, 'failed', 'payment_already_captured');
    assert.deepEqual(await rowOf(payment), { state: 'pending', code: null, captured: null });
  }
  await ask(part);
  await endsAs(part, 'succeeded');
  assert.deepEqual(await rowOf(payment), { state: 'captured', code: null, captured: 600n });
});

test('whoever looks after a payment that was captured meanwhile does not report it as stuck', async (context) => {
  const { pay, ask, worker, endsAs, capture, heldBy } = await aCapturing(context);
  const [ours, byHand] = [aHold(), aHold()];
  await pay(ours, byHand);
  await worker.allCommitted();
  const traceparent = '00-00000000000000000000000000000001-0000000000000001-01';
  const look = async ({ txnId }: AcceptedPayment) => {
    const payment = (await worker.ledger.find(txnId))!;
    return () => chargePayment(worker.worker, { payment, traceparent });
  };
  const early = await look(ours);
  await ask(capture(ours));
  await endsAs(ours, 'captured');
  assert.deepEqual(await early(), { outcome: 'taken-over', state: 'captured' });
  await captureByHand(await heldBy(byHand), 1_000);
  assert.equal((await (await look(byHand))()).outcome, 'unknown');
});

test('a worker that is killed at every point of an authorisation captures and cancels it once', async (context) => {
  const { worker, pay, refund, settings, owner } = await aRefunding(context);
  await worker.consumer.close();
  const [taken, released] = [aHold(), aHold()];
  await pay(taken);
  await refund(aRefund(taken, { kind: 'capture', amount: 300n }));
  for (const point of pointsOfHolds) {
    if (point === 'worker.cancelled') {
      await pay(released);
      await refund(aRefund(released, { kind: 'cancellation' }));
    }
    const env = { ...(await anew(settings, stripe)), CRASH_POINTS: `${point}=kill` };
    assert.equal((await start(context, env).ended).signal, 'SIGKILL', point);
  }
  const last = start(context, await anew(settings, stripe));
  // Each of the two payments tells of its authorisation and its end, and of what asked for that.
  await eventually(async () => (await ledgerCounts(owner)).events === 6, within2min('the end'));
  const states = await owner.query<{ state: string }>(
    'SELECT state FROM ledger.transactions ORDER BY state',
  );
  const ends = ['canceled', 'captured', 'succeeded', 'succeeded'];
  assert.deepEqual(
    states.map(({ state }) => state),
    ends,
  );
  assert.deepEqual(await booksOf(), { taken: 300, held: 0 });
  assert.equal((await last.terminate()).exitCode, 0);
});

const crashes = [
  'worker.reserved',
  'worker.captured',
  'worker.cancelled',
  'worker.settled',
  'worker.authorized',
] as const;
suite('a worker that fails between two steps finds an authorisation as it left it', () => {
  for (const name of crashes) {
    test(`after ${name}`, async (context) => {
      const { pay, ask, worker, endsAs, capture, cancellation } = await aCapturing(context);
      const [taken, released] = [aHold(), aHold()];
      if (name === 'worker.authorized') {
        worker.crashPoints.arm({ name, action: { do: 'throw' } });
      }
      await pay(taken, released);
      await worker.allCommitted();
      worker.crashPoints.arm({ name, action: { do: 'throw' } });
      await ask(capture(taken, 700n), cancellation(released));
      await endsAs(taken, 'captured');
      await endsAs(released, 'canceled', 'payment_canceled');
      assert.ok(worker.crashPoints.hits()[name]! >= 1, name);
      assert.deepEqual(await booksOf(), { taken: 700, held: 0 });
    });
  }
});

suite('what the provider does not answer in time is looked up, and captured once', () => {
  const faults = [
    ['captured, then timed out', { fault: 'time-out', delayMs: 3_000 }],
    ['captured, then reset', { fault: 'reset-after' }],
    ['a 500 that is kept, without effect', { fault: 'error' }],
    ['a 500 that is kept, after the capture', { fault: 'error-after' }],
    ['a reset before anything happened', { fault: 'reset' }],
  ] as const;
  for (const [what, fault] of faults) {
    test(what, async (context) => {
      const { pay, ask, worker, endsAs, capture } = await aCapturing(context);
      const payment = aHold();
      await pay(payment);
      await worker.allCommitted();
      const operation = 'payment_intents.capture';
      await stripe.control('POST', '/faults', { ...fault, operation, count: 2 });
      await ask(capture(payment, 300n));
      await endsAs(payment, 'captured');
      assert.deepEqual(await booksOf(), { taken: 300, held: 0 });
    });
  }
});
