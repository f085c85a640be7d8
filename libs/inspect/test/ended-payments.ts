import assert from 'node:assert/strict';
import { openPostgresLedger } from '@triplock/ledger';
import { aPayment, type createTestDatabase, type TestStripe } from '@triplock/testing';

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

type Money = Record<string, number | { count: number; amount: number }>;
type AtProvider = {
  held: Money;
  refunds: Record<string, { count: number; amount: number }>;
  paymentIntents: Record<string, number>;
};
type Of = ReturnType<typeof aPayment>;

/** A payment of 77.77 EUR by card. */
export const aCardPayment = () => aPayment({ amount: 7_777n, paymentMethod: 'pm_card_visa' });

/** Card payments in a ledger, and what somebody did with their intents at the provider. */
export function endedPayments(
  store: Awaited<ReturnType<typeof createTestDatabase>>,
  stripe: TestStripe,
) {
  const ledger = openPostgresLedger(store.open('triplock_ledger'));
  const owner = store.open();
  const aCard = async (state: 'failed' | 'succeeded' | 'pending', intentId: string, of: Of) => {
    const { txnId } = of;
    await ledger.post([{ payment: of, traceparent }]);
    await ledger.storeIntent({ txnId, version: 1, provider: 'stripe', intentId });
    if (state === 'pending') return;
    const failure = { code: 'declined', message: 'no' };
    const result = state === 'failed' ? { state, failure } : { state };
    const settled = { result, settledAt: new Date(), traceparent };
    await ledger.settle({ txnId, version: 2, ...settled });
  };
  /** An intent of a payment at the provider, confirmed by hand. */
  const anIntent = async ({ txnId, partnerId }: Of, more: Record<string, string> = {}) => {
    const money = { amount: '7777', currency: 'eur' };
    const ours = { 'metadata[txn_id]': txnId, 'metadata[partner_id]': partnerId };
    const method = { payment_method: 'pm_card_visa', 'payment_method_types[]': 'card' };
    const answer = await fetch(`${stripe.url}/v1/payment_intents`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stripe.apiKey}` },
      body: new URLSearchParams({ ...money, ...ours, ...method, confirm: 'true', ...more }),
    });
    const body = (await answer.json()) as { id: string };
    assert.equal(answer.status, 200, JSON.stringify(body));
    return body.id;
  };
  /** What was given back, as the operators' acts have it. */
  const acts = () =>
    owner.query<{ act: string; subject: string; done_by: string; why: string }>(
      'SELECT act, subject, done_by, why FROM auditor.operator_acts ORDER BY act_id',
    );
  const atProvider = () => stripe.control<AtProvider>('GET', '/audit');
  return { owner, aCard, anIntent, acts, atProvider };
}
