import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import {
  ProviderError,
  type JournalQuery,
  type JournalRow,
  type ProviderJournal,
} from '@triplock/provider';
import { aPayment, aRefund, createTestDatabase, createTestStripe } from '@triplock/testing';
import { observe, resultOf, type AuditResult } from './audit.ts';
import { walkJournal } from './provider-journal.ts';
import { anAuditorOf } from './test/whole-system.ts';
import { beingCaptured, cardSystem, manyCards, watched } from './test/card-system.ts';

let stripe: Awaited<ReturnType<typeof createTestStripe>>;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

const aCardSystem = (context: TestContext) => cardSystem(context, stripe);

/** Another system's request to the same account. */
async function byOthers(path: string, form: Record<string, string>): Promise<{ id: string }> {
  const headers = { authorization: `Bearer ${stripe.apiKey}` };
  const body = new URLSearchParams(form);
  const answer = await fetch(stripe.url + path, { method: 'POST', headers, body });
  assert.equal(answer.status, 200);
  return (await answer.json()) as { id: string };
}

const foreign = {
  amount: '700',
  currency: 'eur',
  payment_method: 'pm_card_visa',
  confirm: 'true',
  'payment_method_types[]': 'card',
};

const driftOf = ({ drift }: AuditResult) =>
  Object.fromEntries(drift.map(({ check, ids }) => [check, ids]));

test('cards that were charged and given back are in the journal and the ledger, and what others charged is not', async (context) => {
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

test('a charge whose intent nobody has stored yet is no drift while its payment is pending', async (context) => {
  const { system, audit, charge, owner } = await aCardSystem(context);
  const payment = aPayment({ paymentMethod: 'pm_card_visa' });
  await system.accept(payment);
  await system.begin(payment);
  const { intentId } = await charge(payment);
  assert.deepEqual(driftOf(await audit(undefined, false)), {});
  // Another one is stored: then the money is beside its payment.
  await owner.query(
    `UPDATE ledger.transactions SET provider = 'stripe', provider_intent_id = 'pi_another',
       version = version + 1`,
  );
  const drift = driftOf(await audit(undefined, false));
  assert.deepEqual(drift['payment-contradicts-provider'], [intentId]);
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
    [...drift['payment-contradicts-provider']!].sort(),
    [second.intentId, unknown.intentId].sort(),
  );
  assert.deepEqual(drift['given-back-unfounded'], [byHand.refundId]);
});

test('each dispute of which the ledger was not told is named until it is', async (context) => {
  const { pay, audit, charge, system, real } = await aCardSystem(context);
  const { payment, charged } = await pay();
  const elsewhere = await charge(aPayment());
  const disputeOf = async (intentId: string, amount: number) => {
    const path = `/payment_intents/${intentId}/dispute`;
    return (await stripe.control<{ id: string }>('POST', path, { amount })).id;
  };
  const [untold, second] = [
    await disputeOf(charged.intentId, 100),
    await disputeOf(charged.intentId, 150),
    await disputeOf(elsewhere.intentId, 200),
  ];
  const found = async () => driftOf(await audit())['dispute-untold'] ?? [];
  assert.ok((await found()).includes(untold));
  const { intentId } = charged;
  const report = { provider: 'stripe', intentId, disputeId: untold } as const;
  const money = { amount: 100n, currency: 'EUR' };
  const noted = await system.noteDispute({ ...report, ...money, reason: 'fraudulent' });
  assert.deepEqual(noted, { outcome: 'disputed', txnId: payment.txnId });
  const left = await found();
  assert.deepEqual([left.includes(untold), left.includes(second)], [false, true]);
  assert.equal(driftOf(await audit())['dispute-unfounded'], undefined);
  assert.deepEqual((await real.read('dispute', untold))?.status, 'pending');
});

test('the end of a dispute that the ledger was not told is found by and by, and named until it is', async (context) => {
  const { owner, pay, audit, system } = await aCardSystem(context);
  const { charged } = await pay();
  const { intentId } = charged;
  const path = `/payment_intents/${intentId}/dispute`;
  const { id } = await stripe.control<{ id: string }>('POST', path, { amount: 100 });
  const money = { amount: 100n, currency: 'EUR', reason: 'fraudulent' };
  const report = { provider: 'stripe', intentId, disputeId: id, ...money } as const;
  await system.noteDispute(report);
  const found = async () => driftOf(await audit())['dispute-ended-otherwise'];
  assert.equal(await found(), undefined);
  // As weeks later: no list of what is new shows it.
  const later = `UPDATE auditor.provider_walks SET known_until = now() + interval '1 day'
    WHERE kind = 'dispute'`;
  await owner.query(later);
  await stripe.control('POST', `/disputes/${id}/close`, { outcome: 'won' });
  // A bank takes weeks: it is asked about once an hour.
  assert.equal(await found(), undefined);
  const hourAgo = `UPDATE auditor.provider_journal SET seen_at = seen_at - interval '61 minutes'`;
  await owner.query(hourAgo);
  assert.deepEqual(await found(), [id]);
  assert.deepEqual((await system.noteDispute({ ...report, end: 'won' })).outcome, 'ended');
  assert.equal(await found(), undefined);
  // One of which the ledger knows the end first is asked about before anybody calls it drift.
  await owner.query(`UPDATE auditor.provider_walks SET known_until = now() WHERE kind = 'dispute'`);
  const second = await stripe.control<{ id: string }>('POST', path, { amount: 100 });
  await system.noteDispute({ ...report, disputeId: second.id });
  assert.equal(await found(), undefined);
  await owner.query(later);
  await stripe.control('POST', `/disputes/${second.id}/close`, { outcome: 'lost' });
  await system.noteDispute({ ...report, disputeId: second.id, end: 'lost' });
  assert.equal(await found(), undefined);
});

test('a part that the provider captured is no drift while the ledger does not know', async (context) => {
  const { system, audit } = await aCardSystem(context);
  const [fits, differs] = [await beingCaptured(system, 600), await beingCaptured(system, 601)];
  const found = driftOf(await audit())['charge-differs-from-ledger'] ?? [];
  assert.deepEqual([found.includes(fits), found.includes(differs)], [false, true]);
});

test('a refund that a bank sends back after it succeeded is found by and by, and named', async (context) => {
  const { owner, pay, giveBack, audit } = await aCardSystem(context);
  const card = await pay(aPayment({ paymentMethod: 'pm_card_refundFail' }));
  const refund = await giveBack(card, 250n);
  assert.equal((await audit()).ok, true);
  await stripe.control('POST', '/settle', {});
  await owner.query(
    `UPDATE auditor.provider_journal SET seen_at = seen_at - interval '61 minutes'`,
  );
  assert.deepEqual(driftOf(await audit())['given-back-otherwise'], [refund.txnId]);
});

test('a charge that a bank returns after it settled, or settles after it was returned, is found by and by, and named', async (context) => {
  const { owner, system, auditorOf, real } = await aCardSystem(context);
  const paymentMethod = 'payto://iban/DE89370400440532013000';
  const [paid, refused] = [aPayment({ paymentMethod }), aPayment({ paymentMethod })];
  await system.payByCard(paid, async (hold) => {
    await hold('T1');
    return 'B1';
  });
  await system.accept(refused);
  await system.begin(refused);
  await system.storeIntent(refused, 'T2');
  await system.endCard(refused, 'failed');
  const createdAt = new Date();
  const charges = new Map<string, JournalRow>();
  const rowsOf = (payment: AcceptedPayment, n: number, status: 'succeeded' | 'failed') => {
    const { txnId, partnerId, details } = payment;
    const common = { ...details.money, createdAt, intentId: `T${n}`, txnId, partnerId, status };
    charges.set(`B${n}`, { ...common, kind: 'charge', id: `B${n}` });
    return { ...common, kind: 'intent', id: `T${n}` } as const;
  };
  const intents = [rowsOf(paid, 1, 'succeeded'), rowsOf(refused, 2, 'failed')];
  const lists: Partial<Record<JournalRow['kind'], () => JournalRow[]>> = {
    intent: () => intents,
    charge: () => [...charges.values()],
  };
  const told = new Set<string>();
  const bank: ProviderJournal = {
    // By time: what was listed before is not listed again.
    list: async ({ kind }) => {
      const rows = told.has(kind) ? [] : (lists[kind]?.() ?? []);
      told.add(kind);
      return { outcome: 'page', rows };
    },
    read: async (kind, id) => lists[kind]?.().find((row) => row.id === id),
  };
  const { database } = auditorOf(real);
  const audited = async () =>
    resultOf(await observe(anAuditorOf(database, { bank })), { final: true });
  const names = ['payment-differs-from-provider', 'payment-contradicts-provider'] as const;
  const wrong = async () => {
    const drift = driftOf(await audited());
    return names.map((name) => drift[name] ?? []);
  };
  assert.deepEqual(await wrong(), [[], []]);
  rowsOf(paid, 1, 'failed');
  rowsOf(refused, 2, 'succeeded');
  await owner.query(
    `UPDATE auditor.provider_journal SET seen_at = seen_at - interval '61 minutes'`,
  );
  assert.deepEqual(await wrong(), [[paid.txnId], [refused.txnId]]);
});

test('an audit lists only what is new', async (context) => {
  const { pay, audit, real, charge } = await aCardSystem(context);
  await stripe.control('POST', '/clock', { offsetMs: -3_000_000 });
  await pay();
  await charge(aPayment());
  await charge(aPayment());
  const first = watched(real);
  await audit(first.journal);
  assert.equal(first.asked.length, 6, 'two pages of intents and charges, one of the others');
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
  await audit(later.journal);
  assert.equal(later.asked.length, 4);
  // A clock that went back, as no list by time would see: it is asked about by its id.
  await stripe.control('POST', '/clock', { offsetMs: -3_000_000 });
  const { charged } = await pay();
  const found = watched(real);
  assert.equal(driftOf(await audit(found.journal))['payment-differs-from-provider'], undefined);
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
  const result = await audit(interrupted.journal);
  assert.deepEqual(driftOf(result)['not-compared'], ['stripe']);
  const resumed = watched(real);
  await audit(resumed.journal);
  const [firstAsked] = resumed.asked as JournalQuery[];
  assert.equal(firstAsked!.kind, 'intent');
  assert.ok(firstAsked!.after !== undefined);
  assert.deepEqual(firstAsked, interrupted.asked[2]);
  const both = await Promise.all([audit(), audit()]);
  for (const each of both) {
    assert.equal(each.counts.charges, 5);
    assert.equal(driftOf(each)['payment-differs-from-provider'], undefined);
    assert.ok(!(driftOf(each)['charge-unfounded'] ?? []).includes(card.charged.chargeId));
  }
});

test('an audit that is asked for during a walk sees what the walk had passed', async (context) => {
  const { pay, charge, real, auditorOf } = await aCardSystem(context);
  await pay();
  const charged: string[] = [];
  let saw: Promise<AuditResult> | undefined;
  const busy = auditorOf({
    ...real,
    list: async (query) => {
      // By then the walk has been through the charges.
      if (query.kind === 'refund' && saw === undefined) {
        charged.push((await charge(aPayment())).chargeId);
        saw = busy.journal.catchUp().then(async (caughtUp) => {
          const journal = { ...busy.journal, catchUp: async () => caughtUp };
          return resultOf(await observe({ ...busy, journal }), { final: true });
        });
      }
      return real.list(query);
    },
  });
  await busy.journal.catchUp();
  assert.deepEqual(driftOf(await saw!)['charge-unfounded'], charged);
});

test('a provider that is away is reported with the next step, and is no pass', async (context) => {
  const { system, pay, audit, real } = await aCardSystem(context);
  await system.pay(aPayment());
  const unasked = watched(real, 1);
  assert.equal((await audit(unasked.journal)).ok, true, 'without cards nobody is asked');
  assert.equal(unasked.asked.length, 0);
  await pay();
  const silent = watched(real, 1);
  const early = await audit(silent.journal, false);
  assert.deepEqual([early.ok, early.settledDown], [true, false]);
  const why = 'Stripe did not answer: StripeConnectionError ECONNREFUSED';
  const next = 'see that Stripe can be reached at STRIPE_API_URL, and audit again';
  assert.deepEqual(early.notCompared, [{ part: 'provider', provider: 'stripe', why, next }]);
  const last = await audit(watched(real, 1).journal);
  assert.deepEqual([last.ok, last.drift], [false, [{ check: 'not-compared', ids: ['stripe'] }]]);
  assert.equal((await audit()).ok, true);
});

test('a provider that is away hides nothing of another’s, and nothing is said of its own', async (context) => {
  const { system, pay, auditorOf, real } = await aCardSystem(context);
  const card = await pay();
  const paymentMethod = 'payto://iban/DE89370400440532013000';
  const transfer = aPayment({ paymentMethod, currency: card.payment.details.money.currency });
  await system.payByCard(transfer, async (hold) => {
    await hold(`T${transfer.txnId}`);
    return `B${transfer.txnId}`;
  });
  const empty: ProviderJournal = {
    list: async () => ({ outcome: 'page', rows: [] }),
    read: async () => undefined,
  };
  const away: ProviderJournal = {
    list: async () => {
      throw new ProviderError({ type: 'bank_error', statusCode: 503 });
    },
    read: async () => undefined,
  };
  const audited = async (journals: { journal: ProviderJournal; bank: ProviderJournal }) => {
    const { database } = auditorOf(real);
    const result = resultOf(await observe(anAuditorOf(database, journals)), { final: true });
    return { drift: driftOf(result), notCompared: result.notCompared };
  };
  const differs = 'payment-differs-from-provider';
  // The bank has nothing of a transfer that was paid, and Stripe nothing of the card.
  await stripe.control('POST', '/reset');
  const { drift, notCompared } = await audited({ journal: real, bank: away });
  assert.deepEqual(drift[differs], [card.payment.txnId]);
  assert.deepEqual(drift['sums-differ'], ['acme/EUR']);
  assert.deepEqual(drift['not-compared'], ['giro']);
  const [unread] = notCompared;
  assert.deepEqual(
    [notCompared.length, unread!.why],
    [1, 'The bank did not answer: bank_error 503'],
  );
  assert.match(unread!.next, /audit again/);

  const other = await audited({ journal: away, bank: empty });
  assert.deepEqual(other.drift[differs], [transfer.txnId]);
  assert.deepEqual(other.drift['not-compared'], ['stripe']);
  const none = await audited({ journal: away, bank: away });
  assert.deepEqual([...none.drift['not-compared']!].sort(), ['giro', 'stripe']);
  assert.deepEqual(Object.keys(none.drift), ['not-compared']);
  const both = await audited({ journal: real, bank: empty });
  assert.deepEqual([...both.drift[differs]!].sort(), [card.payment.txnId, transfer.txnId].sort());
});

test('a whole listing forgets what the provider no longer has, and finds what is gone', async (context) => {
  const { pay, audit, copy } = await aCardSystem(context);
  const { payment } = await pay();
  assert.equal((await audit()).ok, true);
  await stripe.control('POST', '/reset');
  assert.equal((await audit()).ok, true, 'what was seen once is not asked for again');
  await copy.doubtEverything();
  assert.deepEqual(driftOf(await audit())['payment-differs-from-provider'], [payment.txnId]);
});

test('a cursor that the provider has forgotten is no obstacle', async (context) => {
  const { pay, audit, real } = await aCardSystem(context);
  const lost = [await pay(), await pay(), await pay()].map(({ payment }) => payment.txnId);
  await audit(watched(real, 2).journal);
  await stripe.control('POST', '/reset');
  const { payment } = await pay();
  const drift = driftOf(await audit());
  // The first page of the charges was never read.
  assert.deepEqual([...drift['payment-differs-from-provider']!].sort(), lost.sort());
  assert.ok(!drift['payment-differs-from-provider']!.includes(payment.txnId));
});

const createdAt = new Date();
const common = { amount: 1n, currency: 'EUR', createdAt } as const;

/** A journal with one intent of ours and a refund of some intent's, of no status that is known. */
function journalWith(refundOf: string): ProviderJournal {
  const { txnId, partnerId } = aPayment();
  const ours = { ...common, kind: 'intent', status: 'succeeded', txnId, partnerId } as const;
  const refund = { ...common, kind: 'refund', status: 'unknown', intentId: refundOf } as const;
  const rows: Record<string, JournalRow[]> = {
    intent: [{ ...ours, id: 'pi_ours', intentId: 'pi_ours' }],
    refund: [{ ...refund, id: 're_1' }],
  };
  return {
    list: async ({ kind }) => ({ outcome: 'page', rows: rows[kind] ?? [] }),
    read: async () => undefined,
  };
}

test('a refund of which nobody can say what it means stops the walk where its intent is ours alone', async (context) => {
  const store = await createTestDatabase(context);
  const database = store.open('triplock_auditor');
  await walkJournal({
    database,
    provider: 'stripe',
    mayBeUndone: [],
    journal: journalWith('pi_of_others'),
  });
  const kept = await store.open().query<{ id: string }>('SELECT id FROM auditor.provider_journal');
  assert.deepEqual(kept, [{ id: 'pi_ours' }]);
  await assert.rejects(
    walkJournal({ database, provider: 'stripe', mayBeUndone: [], journal: journalWith('pi_ours') }),
    {
      message: 'unknown_status re_1',
    },
  );
});

test('everything that is doubtful is asked about, what waits longest first, and held money last', async (context) => {
  const store = await createTestDatabase(context);
  await store.open().transaction(async (tx) => {
    await tx.query('SET LOCAL session_replication_role = replica');
    await tx.query(manyCards, [150, 60]);
  });
  const asked: string[] = [];
  const journal: ProviderJournal = {
    list: async () => ({ outcome: 'page', rows: [] }),
    read: async (_, id) => void asked.push(id),
  };
  await walkJournal({
    database: store.open('triplock_auditor'),
    provider: 'stripe',
    mayBeUndone: [],
    journal,
  });
  const oldestFirst = Array.from({ length: 150 }, (_, n) => 150 - n);
  const doubtful = oldestFirst.flatMap((n) => [`pi_succeeded${n}`, `ch_${n}`]);
  assert.deepEqual(asked.slice(0, 300), doubtful);
  assert.deepEqual(asked.slice(300, 302), ['pi_pending1', 'pi_pending60']);
});
