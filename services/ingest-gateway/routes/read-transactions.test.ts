import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { claimLifeMs, renderPending } from '@triplock/contracts';
import type { PartnerId, TxnId } from '@triplock/payments';
import { aPayment, aRefund, eventually, longestFields } from '@triplock/testing';
import { openPostgresLedger, openPostgresFollowUps } from '@triplock/ledger';
import fc from 'fast-check';
import { acceptTransaction } from '../accept/accept-transaction.ts';
import { findOwnPayment } from '../accept/find-transaction.ts';
import { anOrder, aPaymentBeside, openTestGateway } from '../test/gateway.ts';
import { transactionEdge } from '../test/route-edges.ts';
import { preferredWaitSeconds, readTransaction, type Question } from './read-transactions.ts';

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

type Opened = Awaited<ReturnType<typeof openTestGateway>>;

function question(txnId: TxnId, wish: Partial<Question> = {}): Question {
  const ended = new AbortController().signal;
  return { kind: 'payment', txnId, partnerId: 'acme' as PartnerId, waitMs: 0, ended, ...wish };
}

describe('reading a payment', () => {
  it('shows it as pending right after its 202', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment({ description: 'Grüße' });
    await acceptTransaction(gateway, anOrder(payment));
    const body = JSON.stringify(renderPending(payment));
    const seen = await readTransaction(gateway, question(payment.txnId));
    assert.deepEqual(seen, { outcome: 'found', body, atRest: false, asksCustomer: false });
  });

  it('shows what the ledger has, with all that was sent', async (t) => {
    const { gateway, catchUp } = await openTestGateway(t);
    const payment = aPayment({ reference: 'R', metadata: { k: 'v' } });
    await acceptTransaction(gateway, anOrder(payment));
    await catchUp();
    const seen = await readTransaction(gateway, question(payment.txnId));
    assert.equal(seen.outcome, 'found');
    const { settled_at, ...shown } = JSON.parse(seen.body) as Record<string, unknown>;
    const pending = renderPending(payment);
    assert.equal(typeof settled_at, 'string');
    assert.deepEqual({ ...shown, settled_at: null }, { ...pending, status: 'succeeded' });
  });

  it("does not find another partner's payment, before and after it is posted", async (t) => {
    const { gateway, catchUp } = await openTestGateway(t);
    const payment = aPayment({ partner: 'globex' });
    await acceptTransaction(gateway, anOrder(payment));
    const theirs = question(payment.txnId);
    assert.deepEqual(await readTransaction(gateway, theirs), { outcome: 'not-found' });
    await catchUp();
    assert.deepEqual(await readTransaction(gateway, theirs), { outcome: 'not-found' });
  });

  it('asks to come again, and never says "not found", once its claim shows it no longer and the ledger is behind', async (t) => {
    const { gateway, catchUp } = await openTestGateway(t, { shownMs: 1 });
    const payment = aPayment(longestFields);
    const { outcome } = await acceptTransaction(gateway, anOrder(payment));
    assert.equal(outcome, 'accepted');
    const asked = question(payment.txnId);
    await eventually(async () => (await readTransaction(gateway, asked)).outcome === 'cold');
    const theirs = question(payment.txnId, { partnerId: 'globex' as PartnerId });
    assert.deepEqual(await readTransaction(gateway, theirs), { outcome: 'not-found' });
    // Its claim still says whose it is, and answers for it.
    const { txnId: paymentId, partnerId } = payment;
    assert.deepEqual(await findOwnPayment(gateway, { paymentId, partnerId }), { outcome: 'own' });
    assert.equal((await acceptTransaction(gateway, anOrder(payment))).outcome, 'replayed');
    await catchUp();
    assert.equal((await readTransaction(gateway, asked)).outcome, 'found');
  });

  it('finds what is posted between its two looks when its claim shows it no longer', async (t) => {
    const { gateway, catchUp } = await openTestGateway(t, { shownMs: 1 });
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    const asked = question(payment.txnId);
    await eventually(async () => (await readTransaction(gateway, asked)).outcome === 'cold');
    let looks = 0;
    const find = async (txnId: TxnId) => {
      const found = await gateway.ledger.find(txnId);
      if ((looks += 1) === 1) await catchUp();
      return found;
    };
    const between = { ...gateway, ledger: { ...gateway.ledger, find } };
    assert.equal((await readTransaction(between, asked)).outcome, 'found');
    assert.equal(looks, 2);
  });

  it('shows the time of the first claim after a takeover', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment();
    const full = { ...gateway.log, append: () => Promise.reject(new Error('Kafka is full')) };
    await acceptTransaction({ ...gateway, log: full }, anOrder(payment));
    const later = { ...payment, acceptedAt: new Date(payment.acceptedAt.getTime() + 60_000) };
    assert.equal((await acceptTransaction(gateway, anOrder(later))).outcome, 'accepted');
    const body = JSON.stringify(renderPending(payment));
    const seen = await readTransaction(gateway, question(payment.txnId));
    assert.deepEqual(seen, { outcome: 'found', body, atRest: false, asksCustomer: false });
  });

  it('does not answer "not found" for what may have been lost', async (t) => {
    const { gateway, forgetClaims, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    await forgetClaims();
    assert.deepEqual(await readTransaction(gateway, question(payment.txnId)), { outcome: 'cold' });
    await catchUp();
    assert.equal((await readTransaction(gateway, question(payment.txnId))).outcome, 'found');
    const nobodys = question(aPayment().txnId);
    assert.deepEqual(await readTransaction(gateway, nobodys), { outcome: 'not-found' });
  });

  it('does not say "not found" of what no worker has read when its claim expires', async (t) => {
    const opened = await openTestGateway(t, { timestamps: 'CreateTime' });
    const { gateway, expireClaim, catchUp } = opened;
    const payment = aPayment();
    const [asked, nobodys] = [question(payment.txnId), question(aPaymentBeside(payment).txnId)];
    // Such a topic keeps the time that the gateway's clock gives a record.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() - claimLifeMs });
    await acceptTransaction(gateway, anOrder(payment));
    t.mock.timers.reset();
    assert.ok(await expireClaim(payment.txnId));
    assert.deepEqual(await readTransaction(gateway, asked), { outcome: 'cold' });
    const { txnId: paymentId, partnerId } = asked;
    const whose = await findOwnPayment(gateway, { paymentId, partnerId });
    assert.deepEqual(whose, { outcome: 'cold' });
    await catchUp();
    assert.equal((await readTransaction(gateway, asked)).outcome, 'found');
    assert.deepEqual(await readTransaction(gateway, nobodys), { outcome: 'not-found' });
  });

  for (const [gone, how] of [
    ['has expired', (opened: Opened, txnId: TxnId) => opened.expireClaim(txnId)],
    ['was lost', (opened: Opened) => opened.forgetClaims()],
  ] as const) {
    it(`finds what is posted between its two looks when the claim ${gone}`, async (t) => {
      const opened = await openTestGateway(t);
      const { gateway, catchUp } = opened;
      const payment = aPayment();
      await acceptTransaction(gateway, anOrder(payment));
      await how(opened, payment.txnId);
      let looks = 0;
      const find = async (txnId: TxnId) => {
        const found = await gateway.ledger.find(txnId);
        if ((looks += 1) === 1) await catchUp();
        return found;
      };
      // All that a worker does is in this one read, which may take as long as a busy machine does.
      const between = { ...gateway, budgetMs: 60_000, ledger: { ...gateway.ledger, find } };
      assert.equal((await readTransaction(between, question(payment.txnId))).outcome, 'found');
      assert.equal(looks, 2);
    });
  }
});

describe('waiting for a payment', () => {
  it('answers as soon as it is final', async (t) => {
    const { gateway, catchUp } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    const waiting = readTransaction(gateway, question(payment.txnId, { waitMs: 30_000 }));
    await catchUp();
    const begin = performance.now();
    const seen = await waiting;
    assert.ok(seen.outcome === 'found' && seen.atRest);
    assert.ok(performance.now() - begin < 1_000);
  });

  it('ends when the payment is authorised, which only its partner changes, until a capture has it', async (t) => {
    const { gateway, database } = await openTestGateway(t);
    const writer = database.open('triplock_ledger');
    const ledger = openPostgresLedger(writer);
    const payment = aPayment({ paymentMethod: 'pm_card_visa', captureMethod: 'manual' });
    const { txnId } = payment;
    await ledger.post([{ payment, traceparent }]);
    const intent = { provider: 'stripe' as const, intentId: 'pi_1' };
    await ledger.storeIntent({ txnId, version: 1, ...intent });
    const waiting = readTransaction(gateway, question(txnId, { waitMs: 30_000 }));
    await ledger.authorize({ txnId, version: 2, traceparent, hold: 'stands' });
    const seen = await waiting;
    assert.ok(seen.outcome === 'found' && seen.atRest);
    assert.equal((JSON.parse(seen.body) as { status: string }).status, 'authorized');
    const refund = aRefund(payment, { kind: 'capture' });
    await openPostgresFollowUps(writer).post({
      followUp: refund,
      traceparent,
      settledAt: new Date(),
    });
    const captured = await readTransaction(gateway, question(txnId));
    assert.ok(captured.outcome === 'found' && !captured.atRest);
  });

  it('ends when its customer comes to have something to do, and waits for what comes of that', async (t) => {
    const { gateway, database } = await openTestGateway(t);
    const ledger = openPostgresLedger(database.open('triplock_ledger'));
    const payment = aPayment({ paymentMethod: 'pm_card_visa' });
    const { txnId } = payment;
    await ledger.post([{ payment, traceparent }]);
    const looked = Promise.withResolvers<void>();
    const find = async (id: TxnId) => {
      const found = await gateway.ledger.find(id);
      looked.resolve();
      return found;
    };
    const watched = { ...gateway, ledger: { ...gateway.ledger, find } };
    const waiting = readTransaction(watched, question(txnId, { waitMs: 30_000 }));
    await looked.promise;
    const action = { type: 'redirect_to_url', sealed: '{}' } as const;
    await ledger.awaitCustomer({ txnId, version: 1, withinMs: 60_000, traceparent, action });
    const seen = await waiting;
    assert.ok(seen.outcome === 'found' && !seen.atRest && seen.asksCustomer);
    const again = readTransaction(gateway, question(txnId, { waitMs: 30_000 }));
    const settledAt = new Date();
    const result = { state: 'succeeded' as const };
    await ledger.settle({ txnId, version: 2, traceparent, result, settledAt });
    const ended = await again;
    assert.ok(ended.outcome === 'found' && ended.atRest);
  });

  it('leaves others room, however many of one partner wait', async (t) => {
    const { get, post, catchUp } = await transactionEdge(t);
    const pay = async (as: string) => {
      const body = { amount: 1, currency: 'EUR' };
      const accepted = await post('/v1/payments', { as, key: `of ${as}`, body });
      return String(accepted.body['id']);
    };
    const waitFor = async (as: string, id: string) => {
      const headers = { prefer: 'wait=30' };
      const answer = await get(`/v1/payments/${id}`, { as, headers });
      assert.equal(answer.status, 200, answer.text);
      return answer.headers['preference-applied'];
    };
    const [own, other] = await Promise.all([pay('acme'), pay('globex')]);
    let atOnce = 0;
    const many = Array.from({ length: 150 }, async () => {
      const waited = await waitFor('acme', own);
      if (waited === undefined) atOnce += 1;
    });
    await eventually(async () => atOnce >= 50);
    const few = Array.from({ length: 50 }, () => waitFor('globex', other));
    await catchUp();
    assert.deepEqual(new Set(await Promise.all(few)), new Set(['wait=30']));
    await Promise.all(many);
    assert.equal(atOnce, 50);
  });

  it('answers with what is known when the time is over', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    const begin = performance.now();
    const seen = await readTransaction(gateway, question(payment.txnId, { waitMs: 200 }));
    assert.ok(seen.outcome === 'found' && !seen.atRest);
    const tookMs = performance.now() - begin;
    assert.ok(tookMs >= 199 && tookMs < 1_000, `took ${tookMs} ms`);
  });

  it('ends at once when nobody waits any more', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    const gone = new AbortController();
    const asked = question(payment.txnId, { waitMs: 30_000, ended: gone.signal });
    const waiting = readTransaction(gateway, asked);
    gone.abort();
    assert.equal((await waiting).outcome, 'found');
  });

  it('does not wait for what nobody knows', async (t) => {
    const { gateway } = await openTestGateway(t);
    await acceptTransaction(gateway, anOrder());
    const seen = await readTransaction(gateway, question(aPayment().txnId, { waitMs: 30_000 }));
    assert.deepEqual(seen, { outcome: 'not-found' });
  });

  it('keeps what was seen when the ledger goes away meanwhile', async (t) => {
    const { gateway } = await openTestGateway(t);
    const payment = aPayment();
    await acceptTransaction(gateway, anOrder(payment));
    let looks = 0;
    const ledger = {
      ...gateway.ledger,
      find: (txnId: TxnId) =>
        (looks += 1) === 1 ? gateway.ledger.find(txnId) : Promise.reject(new Error('away')),
    };
    const asked = question(payment.txnId, { waitMs: 100 });
    const seen = await readTransaction({ ...gateway, ledger }, asked);
    assert.ok(seen.outcome === 'found' && !seen.atRest);
    assert.ok(looks > 1);
  });
});

const honoured: readonly [header: string | string[], seconds: number][] = [
  ['wait=10', 10],
  ['wait=0', 0],
  ['wait=30', 30],
  ['wait=010', 10],
  ['WAIT = "5"', 5],
  ['respond-async, wait=5', 5],
  ['return=minimal; foo="a, wait=9", wait=7 ; x=y', 7],
  ['wait=5;', 5],
  ['wait=5, wait=9', 5],
  ['foo="\\", wait=9", wait=3', 3],
  [['respond-async', 'wait=4'], 4],
];

for (const [header, seconds] of honoured) {
  test(`Prefer: ${String(header)} waits ${seconds} s`, () => {
    assert.equal(preferredWaitSeconds(header), seconds);
  });
}

const ignored = [
  undefined,
  '',
  'wait',
  'wait=',
  'wait=31',
  'wait=1e1',
  'wait=-1',
  'wait=1.5',
  'wait=ten',
  'wait=99999999999999999999',
  'wait=5 seconds',
  'wait="5',
  'waiting=5',
  'wait-longer=5',
  'x=wait=5',
  'return="wait=5"',
  'wait=99, wait=5',
];

for (const header of ignored) {
  test(`Prefer: ${header ?? 'absent'} waits not at all`, () => {
    assert.equal(preferredWaitSeconds(header), undefined);
  });
}

test('whatever the header says, the wait is between 0 and 30 s or none', () => {
  const pieces = fc.constantFrom('wait', '=', '"', '\\', ',', ';', '5', '31', ' ', 'x');
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (header) => {
      const seconds = preferredWaitSeconds(header.join(''));
      assert.ok(seconds === undefined || (seconds >= 0 && seconds <= 30));
    }),
    { numRuns: 2_000 },
  );
});
