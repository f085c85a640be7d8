import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { claimLifeMs, renderPending } from '@triplock/contracts';
import type { PartnerId, TxnId } from '@triplock/payments';
import { aPayment } from '@triplock/testing';
import { acceptTransaction } from './accept-transaction.ts';
import { findOwnPayment } from './own-payment.ts';
import { readTransaction, type Question } from './read-transaction.ts';
import { anOrder, openTestGateway } from '../test/test-gateway.ts';
import { paymentForm } from './transaction-form.ts';

const budgetMs = 2_200;

function question(txnId: TxnId, wish: Partial<Question> = {}): Question {
  const ended = new AbortController().signal;
  return { txnId, partnerId: 'acme' as PartnerId, waitMs: 0, ended, ...wish };
}

async function openReader(...opening: Parameters<typeof openTestGateway>) {
  const gateway = await openTestGateway(...opening);
  return { ...gateway, reading: { ...gateway.parts, budgetMs } };
}

describe('reading a payment', () => {
  it('shows it as pending right after its 202', async (t) => {
    const { parts, reading } = await openReader(t);
    const payment = aPayment({ description: 'Grüße' });
    await acceptTransaction(parts, anOrder(payment));
    const body = JSON.stringify(renderPending(payment));
    const seen = await readTransaction(reading, question(payment.txnId));
    assert.deepEqual(seen, { outcome: 'found', body, final: false });
  });

  it('shows what the ledger has, with all that was sent', async (t) => {
    const { parts, reading, catchUp } = await openReader(t);
    const payment = aPayment({ reference: 'R', metadata: { k: 'v' } });
    await acceptTransaction(parts, anOrder(payment));
    await catchUp();
    const seen = await readTransaction(reading, question(payment.txnId));
    assert.equal(seen.outcome, 'found');
    const { settled_at, ...shown } = JSON.parse(seen.body) as Record<string, unknown>;
    const pending = renderPending(payment);
    assert.equal(typeof settled_at, 'string');
    assert.deepEqual({ ...shown, settled_at: null }, { ...pending, status: 'succeeded' });
  });

  it("does not find another partner's payment, before and after it is posted", async (t) => {
    const { parts, reading, catchUp } = await openReader(t);
    const payment = aPayment({ partner: 'globex' });
    await acceptTransaction(parts, anOrder(payment));
    const theirs = question(payment.txnId);
    assert.deepEqual(await readTransaction(reading, theirs), { outcome: 'not-found' });
    await catchUp();
    assert.deepEqual(await readTransaction(reading, theirs), { outcome: 'not-found' });
  });

  it('does not say "not found" of what may have been forgotten', async (t) => {
    const { parts, reading, forgetClaims, catchUp } = await openReader(t);
    const payment = aPayment();
    await acceptTransaction(parts, anOrder(payment));
    await forgetClaims();
    assert.deepEqual(await readTransaction(reading, question(payment.txnId)), { outcome: 'cold' });
    await catchUp();
    assert.equal((await readTransaction(reading, question(payment.txnId))).outcome, 'found');
    const nobodys = question(aPayment().txnId);
    assert.deepEqual(await readTransaction(reading, nobodys), { outcome: 'not-found' });
  });

  it('does not say "not found" of what no worker has read when its claim expires', async (t) => {
    const { parts, reading, expireClaim, catchUp } = await openReader(t);
    const payment = aPayment();
    const [asked, nobodys] = [question(payment.txnId), question(aPayment().txnId)];
    // Kafka keeps the time that the gateway's clock gives a record.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() - claimLifeMs });
    await acceptTransaction(parts, anOrder(payment));
    t.mock.timers.reset();
    assert.ok(await expireClaim(payment.txnId));
    assert.deepEqual(await readTransaction(reading, asked), { outcome: 'cold' });
    const { txnId: paymentId, partnerId } = asked;
    const whose = await findOwnPayment(parts, { paymentId, partnerId });
    assert.deepEqual(whose, { outcome: 'cold' });
    await catchUp();
    assert.equal((await readTransaction(reading, asked)).outcome, 'found');
    assert.deepEqual(await readTransaction(reading, nobodys), { outcome: 'not-found' });
  });
});

describe('waiting for a payment', () => {
  it('answers as soon as it is final', async (t) => {
    const { parts, reading, catchUp } = await openReader(t);
    const payment = aPayment();
    await acceptTransaction(parts, anOrder(payment));
    const waiting = readTransaction(reading, question(payment.txnId, { waitMs: 30_000 }));
    await catchUp();
    const begin = performance.now();
    const seen = await waiting;
    assert.ok(seen.outcome === 'found' && seen.final);
    assert.ok(performance.now() - begin < 1_000);
  });

  it('answers with what is known when the time is over', async (t) => {
    const { parts, reading } = await openReader(t);
    const payment = aPayment();
    await acceptTransaction(parts, anOrder(payment));
    const begin = performance.now();
    const seen = await readTransaction(reading, question(payment.txnId, { waitMs: 200 }));
    assert.ok(seen.outcome === 'found' && !seen.final);
    const tookMs = performance.now() - begin;
    assert.ok(tookMs >= 199 && tookMs < 1_000, `took ${tookMs} ms`);
  });

  it('ends at once when nobody waits any more', async (t) => {
    const { parts, reading } = await openReader(t);
    const payment = aPayment();
    await acceptTransaction(parts, anOrder(payment));
    const gone = new AbortController();
    const asked = question(payment.txnId, { waitMs: 30_000, ended: gone.signal });
    const waiting = readTransaction(reading, asked);
    gone.abort();
    assert.equal((await waiting).outcome, 'found');
  });

  it('does not wait for what nobody knows', async (t) => {
    const { parts, reading } = await openReader(t);
    await acceptTransaction(parts, anOrder());
    const seen = await readTransaction(reading, question(aPayment().txnId, { waitMs: 30_000 }));
    assert.deepEqual(seen, { outcome: 'not-found' });
  });

  it('keeps what was seen when the ledger goes away meanwhile', async (t) => {
    const { parts, reading } = await openReader(t);
    const payment = aPayment();
    await acceptTransaction(parts, anOrder(payment));
    let looks = 0;
    const ledger = {
      find: (txnId: TxnId) =>
        (looks += 1) === 1 ? parts.ledger.find(txnId) : Promise.reject(new Error('away')),
    };
    const asked = question(payment.txnId, { waitMs: 100 });
    const seen = await readTransaction({ ...reading, form: paymentForm(ledger) }, asked);
    assert.ok(seen.outcome === 'found' && !seen.final);
    assert.ok(looks > 1);
  });
});
