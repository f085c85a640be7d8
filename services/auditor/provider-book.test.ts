import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import {
  openStripe,
  openStripeJournal,
  ProviderError,
  type JournalQuery,
  type ProviderJournal,
} from '@triplock/provider';
import { aPayment, aRefund, createTestDatabase, createTestStripe } from '@triplock/testing';
import type { AuditResult } from './audit-result.ts';
import { judge, look } from './reconcile.ts';
import { auditPartsOf, wholeSystem } from './whole-system.testing.ts';

const visa = 'pm_card_visa';

let stripe: Awaited<ReturnType<typeof createTestStripe>>;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

/** A system whose cards are charged at the simulator, which has forgotten what was before. */
async function aCardSystem(context: TestContext) {
  await stripe.control('POST', '/reset');
  const store = await createTestDatabase(context);
  const auditor = store.open('triplock_auditor');
  const system = wholeSystem({
    ledger: store.open('triplock_ledger'),
    notifier: store.open('triplock_notifier'),
    settlement: store.open('triplock_settlement'),
    auditor,
    admin: store.open(),
  });
  const place = { apiKey: stripe.apiKey, apiUrl: stripe.url, timeoutMs: 5_000 };
  const provider = openStripe(place);
  const charge = async (payment: AcceptedPayment, hold?: (id: string) => Promise<unknown>) => {
    const { txnId, partnerId, key, details } = payment;
    const caller = { txnId, kind: 'payment', partnerId, key, attempt: 1 } as const;
    const request = {
      ...caller,
      money: details.money,
      paymentMethod: details.paymentMethod ?? visa,
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
  const real = openStripeJournal({ ...place, requestsPerSecondMax: 1_000, pageMax: 2 });
  const audit = async (books: ProviderJournal = real, final = true): Promise<AuditResult> =>
    judge(await look(auditPartsOf(auditor, { books })), { final });
  const { provider: book } = auditPartsOf(auditor, { books: real });
  const parts = (books: ProviderJournal) => auditPartsOf(auditor, { books });
  return { owner: store.open(), system, provider, charge, pay, giveBack, audit, real, book, parts };
}

/** Books that tell of every request, and may fail at the one of that number. */
function watched(books: ProviderJournal, failAt = Infinity) {
  const asked: (JournalQuery | string)[] = [];
  const watchedBooks: ProviderJournal = {
    list: (query) => {
      asked.push(query);
      if (asked.length === failAt) throw new ProviderError({ ...away, code: 'ECONNREFUSED' });
      return books.list(query);
    },
    read: (kind, id) => {
      asked.push(id);
      return books.read(kind, id);
    },
  };
  return { books: watchedBooks, asked };
}
const away = { type: 'StripeConnectionError', statusCode: undefined, requestId: undefined };

/** Another system's request to the same account. */
async function byOthers(path: string, form: Record<string, string>): Promise<{ id: string }> {
  const headers = { authorization: `Bearer ${stripe.apiKey}` };
  const body = new URLSearchParams(form);
  const answer = await fetch(stripe.url + path, { method: 'POST', headers, body });
  assert.equal(answer.status, 200);
  return (await answer.json()) as { id: string };
}

const foreign = {
  ...{ amount: '700', currency: 'eur', payment_method: 'pm_card_visa', confirm: 'true' },
  'payment_method_types[]': 'card',
};

const driftOf = ({ drift }: AuditResult) =>
  Object.fromEntries(drift.map(({ check, ids }) => [check, ids]));

test('cards that were charged and given back are in both books, and what others charged is not', async (context) => {
  const { pay, giveBack, audit } = await aCardSystem(context);
  const card = await pay();
  await pay();
  await giveBack(card, 250n);
  const { id } = await byOthers('/v1/payment_intents', foreign);
  await byOthers('/v1/refunds', { payment_intent: id });
  await byOthers('/v1/payment_intents', { ...foreign, 'metadata[txn_id]': 'order 7' });

  const result = await audit();
  assert.deepEqual([result.drift, result.ok, result.notCompared], [[], true, []]);
  assert.equal(result.counts.charges, 2);
  const [charged, givenBack] = [
    { count: 2, amount: 2_500 },
    { count: 1, amount: 250 },
  ];
  assert.deepEqual(result.sums[0]!.cards, {
    charged: { ledger: charged, provider: charged },
    givenBack: { ledger: givenBack, provider: givenBack },
  });
  assert.equal(result.sums[0]!.net, 2_250);
});

test('what the provider took or gave back beside the ledger is named', async (context) => {
  const { pay, audit, charge, provider } = await aCardSystem(context);
  const card = await pay();
  assert.equal((await audit()).ok, true);
  const again = { ...card.payment, key: `${card.payment.key}-again` as AcceptedPayment['key'] };
  const second = await charge(again);
  const unknown = await charge(aPayment());
  const money = { ...card.payment.details.money, amount: 5n };
  const { txnId } = aRefund(card.payment);
  const byHand = await provider.refund({ ...card.charged, kind: 'refund', txnId, money });
  assert.ok(byHand.outcome === 'succeeded');
  const drift = driftOf(await audit());
  assert.deepEqual(drift['charged-twice'], [card.payment.txnId]);
  assert.deepEqual(
    [...drift['charge-unfounded']!].sort(),
    [second.chargeId, unknown.chargeId].sort(),
  );
  assert.deepEqual(
    [...drift['intent-unfounded']!].sort(),
    [second.intentId, unknown.intentId].sort(),
  );
  assert.deepEqual(drift['given-back-unfounded'], [byHand.refundId]);
});

test('a refund that a bank sends back after it succeeded is found by and by, and named', async (context) => {
  const { owner, pay, giveBack, audit } = await aCardSystem(context);
  const card = await pay(aPayment({ paymentMethod: 'pm_card_refundFail' }));
  const refund = await giveBack(card, 250n);
  assert.equal((await audit()).ok, true);
  await stripe.control('POST', '/settle', {});
  await owner.query(`UPDATE auditor.provider_book SET seen_at = seen_at - interval '61 minutes'`);
  assert.deepEqual(driftOf(await audit())['given-back-otherwise'], [refund.txnId]);
});

test('an audit lists only what is new', async (context) => {
  const { pay, audit, real, charge } = await aCardSystem(context);
  await stripe.control('POST', '/clock', { offsetMs: -3_000_000 });
  await pay();
  await charge(aPayment());
  await charge(aPayment());
  const first = watched(real);
  await audit(first.books);
  assert.equal(first.asked.length, 5, 'two pages of intents and charges, one of refunds');
  await stripe.control('POST', '/clock', { offsetMs: 0 });
  await pay();
  await audit();
  const later = watched({
    ...real,
    list: async (query) => {
      const page = await real.list(query);
      assert.ok(page.outcome === 'page' && page.rows.length <= 1);
      return page;
    },
  });
  await audit(later.books);
  assert.equal(later.asked.length, 3);
  // A clock that went back, as no list by time would see: it is asked about by its id.
  await stripe.control('POST', '/clock', { offsetMs: -3_000_000 });
  const { charged } = await pay();
  const found = watched(real);
  assert.equal(driftOf(await audit(found.books))['charge-missing'], undefined);
  assert.deepEqual(found.asked.at(-1), charged.chargeId);
  await stripe.control('POST', '/clock', { offsetMs: 0 });
  // One that ran ahead, after which the others are listed all the same.
  await stripe.control('POST', '/clock', { offsetMs: 90_000_000 });
  await pay();
  await audit();
  await stripe.control('POST', '/clock', { offsetMs: 0 });
  const unknown = await charge(aPayment());
  assert.ok(driftOf(await audit())['charge-unfounded']!.includes(unknown.chargeId));
});

test('a walk that was interrupted goes on where it was, and two at once do no harm', async (context) => {
  const { pay, audit, real, charge } = await aCardSystem(context);
  const card = await pay();
  for (let n = 0; n < 4; n += 1) await charge(aPayment());
  const interrupted = watched(real, 3);
  const result = await audit(interrupted.books);
  assert.deepEqual(driftOf(result)['not-compared'], ['provider']);
  const resumed = watched(real);
  await audit(resumed.books);
  const [firstAsked] = resumed.asked as JournalQuery[];
  assert.equal(firstAsked!.kind, 'intent');
  assert.ok(firstAsked!.after !== undefined);
  assert.deepEqual(firstAsked, interrupted.asked[2]);
  const both = await Promise.all([audit(), audit()]);
  for (const each of both) {
    assert.equal(each.counts.charges, 5);
    assert.equal(driftOf(each)['charge-missing'], undefined);
    assert.ok(!(driftOf(each)['charge-unfounded'] ?? []).includes(card.charged.chargeId));
  }
});

test('an audit that is asked for during a walk sees what the walk had passed', async (context) => {
  const { pay, charge, real, parts } = await aCardSystem(context);
  await pay();
  const charged: string[] = [];
  let saw: Promise<AuditResult> | undefined;
  const busy = parts({
    ...real,
    list: async (query) => {
      // By then the walk has been through the charges.
      if (query.kind === 'refund' && saw === undefined) {
        charged.push((await charge(aPayment())).chargeId);
        saw = busy.provider.catchUp().then(async (sight) => {
          const provider = { catchUp: async () => sight };
          return judge(await look({ ...busy, provider }), { final: true });
        });
      }
      return real.list(query);
    },
  });
  await busy.provider.catchUp();
  assert.deepEqual(driftOf(await saw!)['charge-unfounded'], charged);
});

test('a provider that is away is told of with the next step, and is no pass', async (context) => {
  const { system, pay, audit, real } = await aCardSystem(context);
  await system.pay(aPayment());
  const unasked = watched(real, 1);
  assert.equal((await audit(unasked.books)).ok, true, 'without cards nobody is asked');
  assert.equal(unasked.asked.length, 0);
  await pay();
  const silent = watched(real, 1);
  const early = await audit(silent.books, false);
  assert.deepEqual([early.ok, early.settledDown], [true, false]);
  const why = 'Stripe did not answer: StripeConnectionError ECONNREFUSED';
  const next = 'see that Stripe can be reached at STRIPE_API_URL, and audit again';
  assert.deepEqual(early.notCompared, [{ part: 'provider', why, next }]);
  const last = await audit(watched(real, 1).books);
  assert.deepEqual([last.ok, last.drift], [false, [{ check: 'not-compared', ids: ['provider'] }]]);
  assert.equal((await audit()).ok, true);
});

test('a whole listing forgets what the provider no longer has, and finds what is gone', async (context) => {
  const { pay, audit, book } = await aCardSystem(context);
  const { payment } = await pay();
  assert.equal((await audit()).ok, true);
  await stripe.control('POST', '/reset');
  assert.equal((await audit()).ok, true, 'what was seen once is not asked for again');
  await book.doubtEverything();
  assert.deepEqual(driftOf(await audit())['charge-missing'], [payment.txnId]);
});

test('a place in a list that the provider has forgotten is no obstacle', async (context) => {
  const { pay, audit, real } = await aCardSystem(context);
  const lost = [await pay(), await pay(), await pay()].map(({ payment }) => payment.txnId);
  await audit(watched(real, 2).books);
  await stripe.control('POST', '/reset');
  const { payment } = await pay();
  const drift = driftOf(await audit());
  // The first page of the charges was never read.
  assert.deepEqual([...drift['charge-missing']!].sort(), lost.sort());
  assert.ok(!drift['charge-missing']!.includes(payment.txnId));
});
