import assert from 'node:assert/strict';
import { before, after, test } from 'node:test';
import { currencies, minorDigits, withdrawnCurrencies, type Currency } from '@triplock/payments';
import { aPayment, createTestStripe, type TestStripe } from '@triplock/testing';
import { fromStripe, toCharge, toStripe } from './currencies.ts';
import { openStripeJournal } from './journal.ts';
import { stripeProvider } from './stripe-provider.ts';
import { openStripe } from './stripe.ts';

const moneyOf = (amount: bigint, code: string) => ({ amount, currency: code as Currency });
const cardOf = (amount: bigint, code: string) => ({
  money: moneyOf(amount, code),
  paymentMethod: 'pm_card_visa',
});

// By the words of docs.stripe.com/currencies, each amount as people write it.
const asThePageSays = [
  ['10 USD', 1_000n, 'USD', 1_000],
  ['500 JPY', 500n, 'JPY', 500],
  ['5 ISK', 5n, 'ISK', 500],
  ['5 UGX', 5n, 'UGX', 500],
  ['10.45 HUF', 1_045n, 'HUF', 1_045],
  ['800.45 TWD', 80_045n, 'TWD', 80_045],
  ['5 MGA', 500n, 'MGA', 5],
  ['5.12 KWD', 5_120n, 'KWD', 5_120],
] as const;

test('an amount is asked for in the unit that the provider counts in, and read back as it was', () => {
  for (const [written, minor, code, units] of asThePageSays) {
    const asked = { amount: units, currency: code.toLowerCase() };
    assert.partialDeepStrictEqual(toCharge(moneyOf(minor, code)), asked, written);
    assert.deepEqual(fromStripe(asked), { amount: minor, currency: code, exact: true }, written);
  }
});

test('what the provider cannot say is named before it is asked, with what to ask for instead', () => {
  for (const [amount, code, field, reason, says] of [
    [1_250n, 'MGA', 'amount', 'amount_not_expressible', /multiples of 100 .* 1200/],
    [99n, 'MGA', 'amount', 'amount_not_expressible', /such as 100\./],
    [1_251n, 'KWD', 'amount', 'amount_not_expressible', /multiples of 10 .* 1250/],
    [10_000_000_000n, 'ISK', 'amount', 'amount_too_large', /9999999999/],
    [1_250n, 'STN', 'currency', 'currency_not_supported', /STN/],
    [1_250n, 'IQD', 'currency', 'currency_not_supported', /another currency/],
    [1_250n, 'BGN', 'currency', 'currency_not_supported', /BGN/],
  ] as const) {
    const why = stripeProvider.whyUnpayable(cardOf(amount, code));
    assert.deepEqual([why?.field, why?.failure.code], [field, reason], code);
    assert.match(why!.failure.message, says);
  }
  assert.equal(stripeProvider.whyUnpayable(cardOf(9_999_999_999n, 'ISK')), undefined);
  // What was charged before a code was withdrawn can be given back.
  for (const code of withdrawnCurrencies) {
    assert.equal(toStripe(moneyOf(1_250n, code)).outcome, 'expressible');
  }
});

test('of what only others can have made, a fraction is no amount of ours and counts as a whole', () => {
  const read = fromStripe({ amount: 120_050, currency: 'isk' });
  assert.deepEqual(read, { amount: 1_201n, currency: 'ISK', exact: false });
});

let simulator: TestStripe;
let stopSimulator = async () => {};
before(async () => {
  simulator = await createTestStripe({ after: (stop) => void (stopSimulator = stop) });
});
after(() => stopSimulator());

type Audit = Record<'charges' | 'refunds' | 'disputes', Record<string, { amount: number }>>;

/** So much of a currency's larger unit in the provider's: its page's list, once more. */
function unitsOf(whole: number, code: string): number {
  const zeroDecimals = 'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' ');
  const threeDecimals = 'BHD JOD KWD OMR TND'.split(' ');
  if (zeroDecimals.includes(code)) return whole;
  return whole * (threeDecimals.includes(code) ? 1_000 : 100);
}

test('in every currency that cards are charged in, a part is captured, a part of it goes back and a part is disputed, all for what was asked', async () => {
  const { apiKey, url: apiUrl, control } = simulator;
  const options = { apiKey, apiUrl, timeoutMs: 5_000 };
  const provider = openStripe(options);
  const journal = openStripeJournal({ ...options, requestsPerSecondMax: 10_000 });
  const charged = currencies.filter(
    (code) => toCharge(moneyOf(1_000_000n, code)).outcome === 'expressible',
  );
  assert.ok(charged.length > 130, `${charged.length}`);

  for (const currency of charged) {
    // 9000, 3000, 2000 and 1000 of the larger unit, whatever a minor unit is.
    const one = 10n ** BigInt(minorDigits(currency)!);
    const [held, taken, back, disputed] = [9_000n, 3_000n, 2_000n, 1_000n].map((n) => n * one);
    const money = moneyOf(held!, currency);
    const { txnId, partnerId, key } = aPayment();
    const caller = { txnId, kind: 'payment', partnerId, key, attempt: 1, money } as const;
    const hold = { ...caller, captureMethod: 'manual', paymentMethod: 'pm_card_visa' } as const;
    const created = await provider.createIntent(hold);
    assert.ok(created.outcome === 'created', currency);
    const { intentId } = created;
    assert.equal((await provider.confirmIntent({ ...hold, intentId })).outcome, 'authorized');
    const captured = await provider.captureIntent({ ...caller, intentId, amount: taken! });
    assert.ok(captured.outcome === 'succeeded' && captured.received === taken, currency);
    const refund = {
      ...caller,
      ...aPayment({ partner: partnerId }),
      kind: 'refund',
      intentId,
    } as const;
    const given = await provider.refund({ ...refund, money: moneyOf(back!, currency) });
    assert.ok(given.outcome === 'succeeded', currency);
    const asked = await provider.findRefund({ ...refund, money: moneyOf(back!, currency) });
    assert.deepEqual(asked, given);
    const path = `/payment_intents/${intentId}/dispute`;
    const { id } = await control<{ id: string }>('POST', path, {
      amount: unitsOf(1_000, currency),
    });

    const rows = await Promise.all([
      journal.read('intent', intentId),
      journal.read('charge', captured.chargeId),
      journal.read('refund', given.refundId),
      journal.read('dispute', id),
    ]);
    const read = rows.map((row) => [row?.amount, row?.currency]);
    assert.deepEqual(
      read,
      [held, taken, back, disputed].map((amount) => [amount, currency]),
    );
  }

  const audit = await control<Audit>('GET', '/audit');
  for (const code of charged) {
    const sums = [audit.charges, audit.refunds, audit.disputes].map(
      (each) => each[code.toLowerCase()]?.amount,
    );
    assert.deepEqual(
      sums,
      [3_000, 2_000, 1_000].map((whole) => unitsOf(whole, code)),
      code,
    );
  }
});
