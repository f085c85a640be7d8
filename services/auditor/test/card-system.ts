import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import { ProviderError, type JournalQuery, type ProviderJournal } from '@triplock/provider';
import { openStripe, openStripeJournal } from '@triplock/provider-stripe';
import { aPayment, aRefund, createTestDatabase, type createTestStripe } from '@triplock/testing';
import { observe, resultOf, type AuditResult } from '../audit.ts';
import { bookAtProvider } from './harm.ts';
import { ownersOf } from './hops.ts';
import { anAuditorOf, wholeSystem, type System } from './whole-system.ts';

type TestStripe = Awaited<ReturnType<typeof createTestStripe>>;

/** A system whose cards are charged at the simulator, which has forgotten what was before. */
export async function cardSystem(context: TestContext, stripe: TestStripe) {
  await stripe.control('POST', '/reset');
  const store = await createTestDatabase(context);
  const auditor = store.open('triplock_auditor');
  const system = wholeSystem(ownersOf(store));
  const account = { apiKey: stripe.apiKey, apiUrl: stripe.url, timeoutMs: 5_000 };
  const provider = openStripe(account);
  const charge = async (payment: AcceptedPayment, hold?: (id: string) => Promise<unknown>) => {
    const { txnId, partnerId, key, details } = payment;
    const caller = { txnId, kind: 'payment', partnerId, key, attempt: 1 } as const;
    const request = {
      ...caller,
      money: details.money,
      paymentMethod: details.paymentMethod ?? 'pm_card_visa',
    };
    const created = await provider.createIntent(request);
    assert.ok(created.outcome === 'created');
    const { intentId } = created;
    await hold?.(intentId);
    const confirmed = await provider.confirmIntent({ ...request, intentId });
    assert.ok(confirmed.outcome === 'succeeded');
    return { ...request, intentId, chargeId: confirmed.chargeId };
  };
  const pay = async (payment = aPayment({ paymentMethod: 'pm_card_visa' })) => {
    let charged = {} as Awaited<ReturnType<typeof charge>>;
    await system.payByCard(payment, async (hold) => {
      charged = await charge(payment, hold);
      return charged.chargeId;
    });
    return { payment, charged };
  };
  const giveBack = async (
    { payment, charged }: Awaited<ReturnType<typeof pay>>,
    amount: bigint,
  ) => {
    const refund = aRefund(payment, { amount });
    const { txnId, key } = refund;
    const money = { amount, currency: payment.details.money.currency };
    await system.giveBackByCard(refund, async () => {
      const given = await provider.refund({ ...charged, kind: 'refund', txnId, key, money });
      assert.ok(given.outcome === 'succeeded');
      return given.refundId;
    });
    return refund;
  };
  const real = openStripeJournal({ ...account, requestsPerSecondMax: 1_000, pageMax: 2 });
  const audit = async (journal: ProviderJournal = real, final = true): Promise<AuditResult> =>
    resultOf(await observe(anAuditorOf(auditor, { journal })), { final });
  const { journal: copy } = anAuditorOf(auditor, { journal: real });
  const auditorOf = (journal: ProviderJournal) => anAuditorOf(auditor, { journal });
  return {
    owner: store.open(),
    system,
    provider,
    charge,
    pay,
    giveBack,
    audit,
    real,
    copy,
    auditorOf,
  };
}

/** A journal that notes every request, and may fail at the one of that number. */
export function watched(journal: ProviderJournal, failAt = Infinity) {
  const asked: (JournalQuery | string)[] = [];
  const watchedJournal: ProviderJournal = {
    list: (query) => {
      asked.push(query);
      if (asked.length === failAt) throw new ProviderError({ ...away, code: 'ECONNREFUSED' });
      return journal.list(query);
    },
    read: (kind, id) => {
      asked.push(id);
      return journal.read(kind, id);
    },
  };
  return { journal: watchedJournal, asked };
}
const away = { type: 'StripeConnectionError', statusCode: undefined, requestId: undefined };

/** A card of which 600 are being captured, and the provider took so much. Gives the charge. */
export async function beingCaptured(system: System, taken: number): Promise<string> {
  const wish = { paymentMethod: 'pm_card_visa', captureMethod: 'manual', amount: 1_000n } as const;
  const of = aPayment(wish);
  const intentId = `pi-${of.txnId}`;
  await system.accept(of);
  await system.begin(of);
  await system.publish(await system.authorize(of, intentId));
  const capture = aRefund(of, { kind: 'capture', amount: 600n });
  await system.accept(capture);
  await system.beginRefund(capture);
  await bookAtProvider(system, { kind: 'intent', of, intentId, amount: 1_000 });
  return bookAtProvider(system, { kind: 'charge', of, intentId, amount: taken });
}

/** Of so many card payments that succeeded, and so many that are held, each a minute older. */
export const manyCards = `
  WITH payments AS (
    INSERT INTO ledger.transactions (txn_id, kind, partner_id, idempotency_key, fingerprint,
      response_version, payment_method, created_at, amount, currency, state, settled_at, events,
      due_at, provider, provider_intent_id, provider_charge_id)
    SELECT gen_random_uuid(), 'payment', 'acme', state || n, sha256('x'), 1, 'pm_card_visa',
           now() - n * interval '1 minute', 1, 'EUR', state,
           CASE state WHEN 'succeeded' THEN now() - n * interval '1 minute' END, 0,
           CASE state WHEN 'pending' THEN now() END, 'stripe', 'pi_' || state || n,
           CASE state WHEN 'succeeded' THEN 'ch_' || n END
    FROM (VALUES ('succeeded', $1::int), ('pending', $2)) AS t (state, number),
         generate_series(1, number) AS n
    RETURNING *
  )
  INSERT INTO auditor.provider_journal (provider, kind, id, status, waits_for, amount, currency,
    created_at, txn_id, partner_id, seen_at)
  SELECT 'stripe', 'intent', provider_intent_id, 'pending',
         CASE WHEN provider_intent_id <> 'pi_pending1' THEN 'partner' END, 1, 'EUR', created_at,
         txn_id, partner_id, created_at
  FROM payments WHERE state = 'pending'`;
