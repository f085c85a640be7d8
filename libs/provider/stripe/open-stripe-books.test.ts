import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { aPayment, createTestStripe, type TestStripe } from '@triplock/testing';
import { Stripe } from 'stripe';
import type { BookKind, BookRow, ProviderBooks } from '../provider-books.ts';
import { ProviderError } from '../provider-error.ts';
import { openStripeBooks } from './open-stripe-books.ts';
import { openStripe } from './open-stripe.ts';

let simulator: TestStripe;
let stopSimulator = async () => {};
before(async () => {
  simulator = await createTestStripe({ after: (stop) => void (stopSimulator = stop) });
});
after(() => stopSimulator());

const longAgo = new Date(0);

/** Books over a simulator that has forgotten what the tests before did, and who fills them. */
async function theBooks({ timeoutMs = 5_000, requestsPerSecondMax = 1_000 } = {}) {
  await simulator.control('POST', '/reset');
  const { apiKey, url: apiUrl, connection } = simulator;
  const provider = openStripe({ apiKey, apiUrl, timeoutMs: 5_000 });
  const charge = async (paymentMethod = 'pm_card_visa', confirmed = true) => {
    const { txnId, partnerId, key, details } = aPayment({ amount: 1_250n });
    const caller = { txnId, kind: 'payment', partnerId, key, attempt: 1 } as const;
    const { money } = details;
    const made = await provider.createIntent({ ...caller, money, paymentMethod });
    assert.ok(made.outcome === 'created');
    const asked = { ...caller, money, intentId: made.intentId };
    if (confirmed) await provider.confirmIntent(asked);
    return asked;
  };
  return {
    books: openStripeBooks({ apiKey, apiUrl, timeoutMs, requestsPerSecondMax }),
    provider,
    charge,
    stripe: new Stripe(apiKey, { ...connection, maxNetworkRetries: 0, telemetry: false }),
  };
}

async function everything(books: ProviderBooks, kind: BookKind): Promise<BookRow[]> {
  const rows: BookRow[] = [];
  let next: string | undefined;
  do {
    const after = next === undefined ? {} : { after: next };
    const page = await books.list({ kind, since: longAgo, ...after });
    assert.ok(page.outcome === 'page');
    rows.push(...page.rows);
    next = page.next;
  } while (next !== undefined);
  return rows;
}

test('the books tell of each intent, charge and refund what it is and whose', async () => {
  const { books, provider, charge } = await theBooks();
  const paid = await charge();
  const declined = await charge('pm_card_chargeDeclined');
  const prepared = await charge('pm_card_visa', false);
  const { key, partnerId } = aPayment();
  const refundId = aPayment({ partner: partnerId, key }).txnId;
  const given = { ...paid, kind: 'refund', txnId: refundId, key } as const;
  await provider.refund({ ...given, money: { amount: 250n, currency: paid.money.currency } });

  const told = async (kind: BookKind) =>
    (await everything(books, kind)).map(({ status, amount, currency, intentId, txnId }) => {
      return [status, amount, currency, intentId, txnId];
    });
  assert.deepEqual(await told('intent'), [
    ['unconfirmed', 1_250n, 'EUR', prepared.intentId, prepared.txnId],
    ['unconfirmed', 1_250n, 'EUR', declined.intentId, declined.txnId],
    ['succeeded', 1_250n, 'EUR', paid.intentId, paid.txnId],
  ]);
  assert.deepEqual(await told('charge'), [
    ['failed', 1_250n, 'EUR', declined.intentId, declined.txnId],
    ['succeeded', 1_250n, 'EUR', paid.intentId, paid.txnId],
  ]);
  assert.deepEqual(await told('refund'), [['succeeded', 250n, 'EUR', paid.intentId, refundId]]);
  for (const kind of ['intent', 'charge', 'refund'] as const) {
    const [listed] = await everything(books, kind);
    assert.equal(listed!.partnerId, partnerId);
    assert.deepEqual(await books.read(kind, listed!.id), listed);
    assert.equal(await books.read(kind, 'xx_unknown'), undefined);
  }
});

test('a list that is longer than a page is told whole, and one can go on where it stopped', async () => {
  const { books, stripe } = await theBooks();
  await Promise.all(
    Array.from({ length: 120 }, (_, n) =>
      stripe.paymentIntents.create({ amount: 500 + n, currency: 'eur' }),
    ),
  );
  const rows = await everything(books, 'intent');
  assert.equal(new Set(rows.map(({ id }) => id)).size, 120);
  assert.ok(
    rows.every(({ txnId }) => txnId === undefined),
    'what others made is not ours',
  );
  const inTheMiddle = rows[59]!.id;
  const page = await books.list({ kind: 'intent', since: longAgo, after: inTheMiddle });
  assert.deepEqual(page, { outcome: 'page', rows: rows.slice(60) });
  assert.deepEqual(await books.list({ kind: 'intent', since: longAgo, after: 'pi_unknown' }), {
    outcome: 'unknown-cursor',
  });
});

test('a list since a time leaves out what is older', async () => {
  const { books, charge } = await theBooks();
  await charge();
  await simulator.control('POST', '/clock', { advanceMs: 3_600_000 });
  const late = await charge();
  const [newest] = await everything(books, 'charge');
  const page = await books.list({ kind: 'charge', since: newest!.createdAt });
  assert.deepEqual(page.outcome === 'page' && page.rows.map(({ txnId }) => txnId), [late.txnId]);
  await simulator.control('POST', '/clock', { offsetMs: 0 });
});

test('what comes right by itself is asked again, and what does not is told without secrets', async () => {
  const { books, charge } = await theBooks({ timeoutMs: 500 });
  await charge();
  for (const fault of ['rate-limit', 'unavailable', 'reset', 'half-body', 'error', 'time-out']) {
    const operation = 'charges.list';
    await simulator.control('POST', '/faults', { fault, operation, count: 1, delayMs: 2_000 });
    assert.equal((await everything(books, 'charge')).length, 1, fault);
    const { faults } = await simulator.control<{ faults: { hits: number }[] }>('GET', '/faults');
    assert.equal(faults[0]!.hits, 1, fault);
    await simulator.control('DELETE', '/faults');
  }
  await simulator.control('POST', '/faults', { fault: 'unavailable', operation: 'charges.list' });
  const failed = await books
    .list({ kind: 'charge', since: longAgo })
    .catch((error: unknown) => error);
  assert.ok(failed instanceof ProviderError);
  assert.equal(failed.statusCode, 503);
  assert.ok(!inspect(failed, { depth: 9 }).includes(simulator.apiKey));
  const { faults } = await simulator.control<{ faults: { hits: number }[] }>('GET', '/faults');
  assert.equal(faults[0]!.hits, 4);
});

test('a key that is refused is not tried again', async () => {
  const place = { apiKey: 'wrong', apiUrl: simulator.url };
  const books = openStripeBooks({ ...place, timeoutMs: 1_000, requestsPerSecondMax: 1 });
  const began = performance.now();
  await assert.rejects(books.list({ kind: 'intent', since: longAgo }), { statusCode: 401 });
  assert.ok(performance.now() - began < 900);
});

test('no more requests are sent in a second than allowed', async () => {
  const { books } = await theBooks({ requestsPerSecondMax: 50 });
  const began = performance.now();
  await Promise.all(
    Array.from({ length: 11 }, () => books.list({ kind: 'refund', since: longAgo })),
  );
  assert.ok(performance.now() - began >= 199);
});
