import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { inspect } from 'node:util';
import { aPayment } from '@triplock/testing';
import type { JournalKind, JournalRow, ProviderJournal } from './provider-journal.ts';
import type {
  ChargeOutcome,
  ConfirmRequest,
  CreateOutcome,
  IntentOutcome,
  IntentRequest,
  Provider,
  RefundAtProvider,
  RefundRequest,
} from './provider.ts';

/** A provider that has forgotten what the tests before did, and what a test can do to it. */
export type ProviderUnderTest = {
  provider: Provider;
  /** Ten rows a page. */
  journal: ProviderJournal;
  /** Payment methods by what comes of them, in the provider's own names. */
  methods: {
    succeeds: string;
    /** With the code that the failure then carries. */
    declined: readonly (readonly [method: string, code: string])[];
    /** Absent where no customer ever has to act. */
    needsCustomer?: string;
    nonexistent: string;
  };
  /** Whether an intent that was refused is open for another try, until it is cancelled. */
  refused: 'is open' | 'has ended';
  /** Whether an error is the answer to its idempotency key from then on. */
  errors: 'are kept' | 'are forgotten';
  /** Has what is under way come to its end, where nothing ends at once. */
  settle(): Promise<void>;
  /** Lets the provider carry out the next call of that kind and its answer be lost. */
  loseAnswer(of: LosableCall): Promise<void>;
  /** Lets the provider fail the next confirmation without effect, and keep that if it keeps any. */
  failOnce(): Promise<void>;
  /** Lets the provider turn the next call away for so long. */
  turnAway(seconds: number): Promise<void>;
  /** Confirms an intent with another method, as whoever has its secret may; or is refused. */
  payWith?(intentId: string, method: string): Promise<void>;
  /** Moves the provider's clock on: it forgets idempotency keys after a day or more. */
  advanceMs(ms: number): Promise<void>;
};

/** Calls whose answers may be lost; `read` is of an intent, `find` of a refund. */
const losable = ['prepare', 'confirm', 'read', 'cancel', 'refund', 'find'] as const;
export type LosableCall = (typeof losable)[number];

/**
 * The promises that a provider and its journal make, whoever they are.
 *
 * @param traits whether a customer may have to act, as most providers' have; and whether it charges
 * in one call.
 */
export function providerConformance(
  open: () => Promise<ProviderUnderTest>,
  traits = { customersAct: true, chargesAtOnce: true },
): void {
  suite('charges', () => charges(open));
  if (traits.chargesAtOnce) suite('charges in one call', () => chargesAtOnce(open));
  if (traits.customersAct) suite('customers', () => customers(open));
  suite('what is not known', () => unknownOutcomes(open));
  suite('refunds', () => refunds(open));
  suite('the journal', () => journal(open));
}

type Open = () => Promise<ProviderUnderTest>;

/** A charge of 12.50 euro by a caller of its own. */
export function requestOf(paymentMethod: string): IntentRequest {
  const { txnId, partnerId, key, details } = aPayment({ amount: 1_250n, currency: 'EUR' });
  const { money } = details;
  return { txnId, kind: 'payment', partnerId, key, money, paymentMethod, attempt: 1 };
}

/** A charge that is prepared, to be confirmed. */
async function prepare({ provider, methods }: ProviderUnderTest, method = methods.succeeds) {
  const request = requestOf(method);
  const created = await provider.createIntent(request);
  assert.ok(created.outcome === 'created');
  return { ...request, intentId: created.intentId };
}

async function charge(under: ProviderUnderTest, method = under.methods.succeeds) {
  const intent = await prepare(under, method);
  return { intent, outcome: await confirm(under, intent) };
}

/** Confirms an intent, and waits for whom it then waits for. */
async function confirm(
  { provider, settle }: ProviderUnderTest,
  intent: ConfirmRequest,
): Promise<IntentOutcome> {
  const outcome = await provider.confirmIntent(intent);
  if (outcome.outcome !== 'waiting' || outcome.waitsFor !== 'provider') return outcome;
  await settle();
  return provider.readIntent(intent);
}

/** A refund by a caller of its own of what an intent charged. */
function refundOf({ intentId, partnerId, money }: PreparedIntent, amount: bigint): RefundRequest {
  const { txnId, key } = aPayment({ partner: partnerId });
  return { txnId, kind: 'refund', partnerId, key, intentId, money: { ...money, amount } };
}

type PreparedIntent = IntentRequest & { intentId: string };

async function everything(read: ProviderJournal, kind: JournalKind): Promise<JournalRow[]> {
  const rows: JournalRow[] = [];
  let next: string | undefined;
  do {
    const after = next === undefined ? {} : { after: next };
    const page = await read.list({ kind, since: new Date(0), ...after });
    assert.ok(page.outcome === 'page');
    rows.push(...page.rows);
    next = page.next;
  } while (next !== undefined);
  return rows;
}

async function amountsCharged({ journal: read }: ProviderUnderTest): Promise<bigint[]> {
  const rows = await everything(read, 'charge');
  return rows.flatMap(({ status, amount }) => (status === 'succeeded' ? amount : []));
}

/** A call that does something, or looks at what there is, to be made any number of times. */
async function askAt(
  under: ProviderUnderTest,
  call: LosableCall,
): Promise<() => Promise<CreateOutcome | IntentOutcome | RefundAtProvider | { outcome: 'none' }>> {
  const { provider, methods } = under;
  if (call === 'prepare') {
    const request = requestOf(methods.succeeds);
    return () => provider.createIntent(request);
  }
  if (call === 'refund' || call === 'find') {
    const { intent } = await charge(under);
    const request = refundOf(intent, 400n);
    if (call === 'find') await provider.refund(request);
    return () => provider[call === 'find' ? 'findRefund' : 'refund'](request);
  }
  const intent = await prepare(under);
  switch (call) {
    case 'confirm':
      return () => provider.confirmIntent(intent);
    case 'read':
      return () => provider.readIntent(intent);
    case 'cancel':
      return () => provider.cancelIntent(intent);
    default:
      return call satisfies never;
  }
}

const failureCode = (outcome: IntentOutcome | RefundAtProvider) =>
  'failure' in outcome ? outcome.failure.code : outcome.outcome;

function charges(open: Open): void {
  test('an intent that is prepared charges nobody, and one that is confirmed charges once', async () => {
    const under = await open();
    const { provider } = under;
    const intent = await prepare(under);
    assert.deepEqual(await provider.readIntent(intent), { outcome: 'unconfirmed' });
    assert.deepEqual(await amountsCharged(under), []);
    const first = await confirm(under, intent);
    assert.equal(first.outcome, 'succeeded');
    for (const attempt of [1, 2, 3]) {
      assert.deepEqual(await provider.confirmIntent({ ...intent, attempt }), first);
    }
    assert.deepEqual(await amountsCharged(under), [1_250n]);
  });

  test('the same caller prepares the same intent again', async () => {
    const { provider, methods } = await open();
    const request = requestOf(methods.succeeds);
    const made = await Promise.all([1, 2, 3].map(() => provider.createIntent(request)));
    const ids = made.flatMap((each) => (each.outcome === 'created' ? each.intentId : []));
    assert.equal(new Set(ids).size, 1);
    assert.ok(made.every(({ outcome }) => outcome === 'created' || outcome === 'unknown'));
  });

  test('two callers whose long keys differ at the end have keys of their own', async () => {
    const { provider, methods } = await open();
    const long = (end: string) => {
      const key = `${'k'.repeat(250)}${end}` as IntentRequest['key'];
      return { ...requestOf(methods.succeeds), key };
    };
    const [one, two] = await Promise.all(
      [long('1'), long('2')].map((request) => provider.createIntent(request)),
    );
    assert.ok(one?.outcome === 'created' && two?.outcome === 'created');
    assert.notEqual(one.intentId, two.intentId);
  });

  test('a decline is an end once it is cancelled, carries the bank’s reason, and is charged to no other method then', async () => {
    const under = await open();
    const { provider, methods } = under;
    for (const [method, code] of methods.declined) {
      const { intent, outcome } = await charge(under, method);
      assert.equal(failureCode(outcome), code);
      // A second confirm does not charge the method again, and the intent still knows why.
      assert.equal(failureCode(await provider.confirmIntent({ ...intent, attempt: 2 })), code);
      const open = await provider.readIntent(intent);
      const state = under.refused === 'is open' ? 'reopened' : 'declined';
      assert.deepEqual([open.outcome, failureCode(open)], [state, code]);
      for (const ended of [
        await provider.cancelIntent(intent),
        await provider.readIntent(intent),
      ]) {
        assert.deepEqual([ended.outcome, failureCode(ended)], ['declined', code]);
      }
      await under.payWith?.(intent.intentId, methods.succeeds);
      assert.equal((await provider.readIntent(intent)).outcome, 'declined');
    }
    assert.deepEqual(await amountsCharged(under), []);
  });

  test('a payment method that does not exist is refused', async () => {
    const { provider, methods } = await open();
    const created = await provider.createIntent(requestOf(methods.nonexistent));
    assert.equal(created.outcome, 'refused');
  });

  test('an intent that was cancelled before it was confirmed charges nobody ever', async () => {
    const under = await open();
    const intent = await prepare(under);
    assert.equal((await under.provider.cancelIntent(intent)).outcome, 'declined');
    assert.equal((await confirm(under, intent)).outcome, 'declined');
    assert.deepEqual(await amountsCharged(under), []);
  });

  test('an intent that succeeded cannot be cancelled, and is reported as succeeded', async () => {
    const under = await open();
    const { intent, outcome } = await charge(under);
    assert.deepEqual(await under.provider.cancelIntent(intent), outcome);
  });
}

function chargesAtOnce(open: Open): void {
  const begin = async () => {
    const under = await open();
    const { attempt: _, ...request } = requestOf(under.methods.succeeds);
    const { charge: ask } = under.provider;
    assert.ok(ask !== undefined);
    const intents = async () => (await everything(under.journal, 'intent')).length;
    return { ...under, under, request, ask, intents };
  };

  test('the same caller charges once, however often and by how many it is asked, and learns which intent it was', async () => {
    const { under, provider, request, ask, intents } = await begin();
    const all = await Promise.all([1, 2, 3].map(() => ask(request)));
    const later = await ask(request);
    const made = [...all, later].filter(({ outcome }) => outcome !== 'unknown');
    assert.ok(later.outcome === 'made');
    const { intentId } = later;
    for (const each of made) assert.ok(each.outcome === 'made' && each.intentId === intentId);
    const seen = made.flatMap((each) => (each.outcome === 'made' && each.seen ? each.seen : []));
    assert.deepEqual(
      seen.map(({ outcome }) => outcome),
      ['succeeded'],
      'only the answer that was not kept says how far it is',
    );
    assert.deepEqual(await provider.readIntent({ ...request, intentId }), seen[0]);
    assert.deepEqual(await amountsCharged(under), [1_250n]);
    assert.equal(await intents(), 1);
  });

  test('one whose answer is lost is unknown, is found by its transaction, and asked again it charges nobody again', async () => {
    const { under, provider, request, ask, intents, loseAnswer } = await begin();
    const acceptedAt = new Date();
    await loseAnswer('prepare');
    const lost = await ask(request);
    assert.ok(lost.outcome === 'unknown' && !lost.kept && lost.sent);
    const found = await provider.findIntent({ ...request, acceptedAt });
    const again = await ask(request);
    assert.ok(found.outcome === 'found' && again.outcome === 'made');
    assert.equal(again.intentId, found.intentId);
    assert.deepEqual(await amountsCharged(under), [1_250n]);
    assert.equal(await intents(), 1);
  });

  test('whoever prepares a charge by the key of that call, and whoever charges by it, keeps the other from making anything', async () => {
    const { under, provider, ask, methods, intents } = await begin();
    const callers = ['charges first', 'prepares first', 'at once'] as const;
    for (const [nth, first] of callers.entries()) {
      const { attempt, ...request } = requestOf(methods.succeeds);
      const charge = () => ask(request);
      const prepare = () => provider.createIntent({ ...request, attempt, under: 'charge' });
      const calls = first === 'prepares first' ? [prepare, charge] : [charge, prepare];
      const answers: (ChargeOutcome | CreateOutcome)[] = [];
      if (first === 'at once') answers.push(...(await Promise.all(calls.map((call) => call()))));
      else for (const call of calls) answers.push(await call());
      const [refused] = answers.filter(({ outcome }) => outcome === 'unknown');
      assert.ok(refused?.outcome === 'unknown' && !refused.kept, first);
      assert.ok('keyTaken' in refused && refused.keyTaken, first);
      assert.equal(await intents(), nth + 1, first);
    }
    assert.ok((await amountsCharged(under)).length >= 1);
  });

  test('a decline says its reason, and leaves an intent that is cancelled like any other', async () => {
    const { methods, provider, request, ask } = await begin();
    const [declined, code] = methods.declined[0]!;
    const answer = await ask({ ...request, paymentMethod: declined });
    assert.ok(answer.outcome === 'made' && answer.seen?.outcome === 'reopened');
    assert.equal(failureCode(answer.seen), code);
    const ended = await provider.cancelIntent({ ...request, intentId: answer.intentId });
    assert.deepEqual([ended.outcome, failureCode(ended)], ['declined', code]);
  });

  test('a payment method that does not exist is refused, and nothing is made', async () => {
    const { methods, request, ask, intents } = await begin();
    const answer = await ask({ ...request, paymentMethod: methods.nonexistent });
    assert.equal(answer.outcome, 'refused');
    assert.equal(await intents(), 0);
  });

  test('what is only to be held is held, with its times', async () => {
    const { under, request, ask } = await begin();
    const answer = await ask({ ...request, captureMethod: 'manual' });
    assert.ok(answer.outcome === 'made' && answer.seen?.outcome === 'authorized');
    assert.ok(answer.seen.heldSince !== undefined && answer.seen.heldUntil !== undefined);
    assert.deepEqual(await amountsCharged(under), []);
  });
}

function customers(open: Open): void {
  test('a customer who has to act is waited for, until the intent is cancelled', async () => {
    const under = await open();
    const { needsCustomer } = under.methods;
    assert.ok(needsCustomer !== undefined);
    const { intent, outcome } = await charge(under, needsCustomer);
    assert.ok(outcome.outcome === 'waiting' && outcome.waitsFor === 'customer' && outcome.action);
    const cancelled = await under.provider.cancelIntent(intent);
    assert.equal(failureCode(cancelled), 'authentication_required');
    assert.deepEqual(await amountsCharged(under), []);
  });
}

function unknownOutcomes(open: Open): void {
  for (const call of losable) {
    test(`a call whose answer is lost, to ${call}, is unknown, and made again it does nothing twice`, async () => {
      const under = await open();
      const ask = await askAt(under, call);
      await under.loseAnswer(call);
      const lost = await ask();
      assert.ok(lost.outcome === 'unknown' && !lost.kept && lost.sent && !lost.untilMended);
      const again = await ask();
      await under.settle();
      assert.notEqual(again.outcome, 'unknown');
      assert.deepEqual(
        (await ask()).outcome,
        again.outcome === 'waiting' ? 'succeeded' : again.outcome,
      );
      const made = await everything(under.journal, 'intent');
      assert.equal(made.length, 1);
      assert.ok((await amountsCharged(under)).length <= 1);
      assert.ok((await everything(under.journal, 'refund')).length <= 1);
    });
  }

  test('a charge whose answer is lost is unknown, and its intent knows', async () => {
    const under = await open();
    const intent = await prepare(under);
    await under.loseAnswer('confirm');
    const lost = await under.provider.confirmIntent(intent);
    assert.ok(lost.outcome === 'unknown' && !lost.kept && lost.sent);
    await under.settle();
    assert.equal((await under.provider.readIntent(intent)).outcome, 'succeeded');
    assert.deepEqual(await amountsCharged(under), [1_250n]);
  });

  test('an error says nothing of the charge: kept, the next attempt has another key; else it is asked again', async () => {
    const under = await open();
    const { provider } = under;
    const intent = await prepare(under);
    await under.failOnce();
    // That it is kept is known when it comes a second time.
    for (const kept of under.errors === 'are kept' ? [false, true] : [false]) {
      const answer = await provider.confirmIntent(intent);
      assert.ok(answer.outcome === 'unknown' && answer.kept === kept);
    }
    assert.equal((await provider.readIntent(intent)).outcome, 'unconfirmed');
    const second = await confirm(under, { ...intent, attempt: 2 });
    assert.equal(second.outcome, 'succeeded');
    assert.deepEqual(await amountsCharged(under), [1_250n]);
  });

  test('what is logged of an error names neither the idempotency key nor the intent', async () => {
    const under = await open();
    const intent = await prepare(under);
    await under.failOnce();
    const answer = await under.provider.confirmIntent(intent);
    assert.ok(answer.outcome === 'unknown');
    const shown = inspect(answer.error, { depth: null });
    assert.ok(!shown.includes(intent.key) && !shown.includes(intent.intentId), shown);
  });

  test('a caller who is turned away learns when to come again', async () => {
    const { provider, methods, turnAway } = await open();
    await turnAway(7);
    const answer = await provider.createIntent(requestOf(methods.succeeds));
    assert.ok(answer.outcome === 'unknown' && answer.retryAfterMs === 7_000);
    assert.deepEqual(answer.tooMany, { of: 'all', by: 'rate' });
  });
}

function refunds(open: Open): void {
  test('a refund gives money back once, and is found again by its transaction', async () => {
    const under = await open();
    const { provider } = under;
    const { intent } = await charge(under);
    const request = refundOf(intent, 400n);
    assert.deepEqual(await provider.findRefund(request), { outcome: 'none' });
    const given = await provider.refund(request);
    assert.ok(given.outcome === 'succeeded');
    assert.deepEqual(await provider.refund(request), given);
    assert.deepEqual(await provider.findRefund(request), given);
    assert.equal((await everything(under.journal, 'refund')).length, 1);
  });

  test('a refund is still found when the provider has forgotten its key', async () => {
    const under = await open();
    const { intent } = await charge(under);
    const request = refundOf(intent, 400n);
    const given = await under.provider.refund(request);
    await under.advanceMs(25 * 3_600_000);
    assert.deepEqual(await under.provider.findRefund(request), given);
  });

  test('more than is left of a charge is refused', async () => {
    const under = await open();
    const { intent } = await charge(under);
    await under.provider.refund(refundOf(intent, 400n));
    const second = await under.provider.refund(refundOf(intent, 1_000n));
    assert.equal(failureCode(second), 'amount_exceeds_refundable');
  });
}

function journal(open: Open): void {
  test('the journal has each intent, charge and refund, what it is and whose', async () => {
    const under = await open();
    const { intent: paid } = await charge(under);
    const { intent: declined } = await charge(under, under.methods.declined[0]![0]);
    const prepared = await prepare(under);
    const refused = under.refused === 'is open' ? 'unconfirmed' : 'failed';
    const given = refundOf(paid, 250n);
    await under.provider.refund(given);

    const listed = async (kind: JournalKind) =>
      (await everything(under.journal, kind)).map(
        ({ status, amount, currency, intentId, txnId }) => {
          return [status, amount, currency, intentId, txnId];
        },
      );
    assert.deepEqual(await listed('intent'), [
      ['unconfirmed', 1_250n, 'EUR', prepared.intentId, prepared.txnId],
      [refused, 1_250n, 'EUR', declined.intentId, declined.txnId],
      ['succeeded', 1_250n, 'EUR', paid.intentId, paid.txnId],
    ]);
    assert.deepEqual(await listed('charge'), [
      ['failed', 1_250n, 'EUR', declined.intentId, declined.txnId],
      ['succeeded', 1_250n, 'EUR', paid.intentId, paid.txnId],
    ]);
    const refund = ['succeeded', 250n, 'EUR', paid.intentId, given.txnId];
    assert.deepEqual(await listed('refund'), [refund]);
    for (const kind of ['intent', 'charge', 'refund'] as const) {
      const [newest] = await everything(under.journal, kind);
      assert.equal(newest!.partnerId, paid.partnerId);
      assert.deepEqual(await under.journal.read(kind, newest!.id), newest);
      assert.equal(await under.journal.read(kind, 'nobodys'), undefined);
    }
  });

  test('a list that is longer than a page is read whole, and one can go on where it stopped', async () => {
    const under = await open();
    for (let n = 0; n < 25; n += 1) await prepare(under);
    const rows = await everything(under.journal, 'intent');
    assert.equal(new Set(rows.map(({ id }) => id)).size, 25);
    const query = { kind: 'intent', since: new Date(0) } as const;
    const page = await under.journal.list({ ...query, after: rows[17]!.id });
    assert.deepEqual(page, { outcome: 'page', rows: rows.slice(18) });
    const unknown = await under.journal.list({ ...query, after: 'nobodys' });
    assert.deepEqual(unknown, { outcome: 'unknown-cursor' });
  });

  test('a list since a time leaves out what is older', async () => {
    const under = await open();
    await charge(under);
    await under.advanceMs(3_600_000);
    const { intent: late } = await charge(under);
    const [newest] = await everything(under.journal, 'charge');
    const page = await under.journal.list({ kind: 'charge', since: newest!.createdAt });
    assert.deepEqual(page.outcome === 'page' && page.rows.map(({ txnId }) => txnId), [late.txnId]);
  });
}
