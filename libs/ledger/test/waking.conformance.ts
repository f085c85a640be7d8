import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { webhookBodySchemas } from '@triplock/contracts';
import {
  deriveDisputeEventId,
  deriveDisputeId,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import { Compile } from 'typebox/compile';
import {
  aChargedCard,
  aTransfer,
  type ChargingUnderTest,
  pendingOf,
  posting,
  settledNow,
  traceparent,
} from './under-test.ts';
import { UnpostableError, type DisputeListRequest, type DisputeReport } from '../ledger.ts';

type Open = (context: TestContext) => Promise<ChargingUnderTest>;

type WrittenEvent = {
  type: string;
  timestamp: string;
  sequence: number;
  data: Record<string, unknown>;
};

/** As partners read of it in the OpenAPI document. */
const describedWebhook = Compile(webhookBodySchemas['payment.requires_action']!);
const hourMs = 3_600_000;
const anEvent = (intentId: string, eventId = 'evt_1') => ({
  provider: 'stripe' as const,
  eventId,
  intentId,
  type: 'payment_intent.succeeded',
});

/** What a ledger promises of a customer who has to act. */
export function awaiting(open: Open): void {
  test('a customer’s time is noted once, is counted by the store’s clock, and ends', async (context) => {
    const store = await open(context);
    const { ledger, another } = store;
    const { txnId } = await aChargedCard(store, 'pi_1');
    context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 25 * hourMs });
    const asked = { txnId, version: 2, withinMs: hourMs, traceparent };
    const outcomes = await Promise.all(
      [ledger, another, ledger, another].map((each) => each.awaitCustomer(asked)),
    );
    const noted = { outcome: 'waits', version: 3 };
    assert.ok(outcomes.some((each) => each.outcome === 'waits'));
    const others = outcomes.filter(({ outcome }) => outcome !== 'waits');
    assert.deepEqual(
      others,
      others.map(() => ({ outcome: 'stale' })),
    );
    // Another worker has another setting: what was noted stays.
    const later = { txnId, version: 3, withinMs: -hourMs, traceparent };
    assert.deepEqual(await another.awaitCustomer(later), noted);
    context.mock.timers.reset();
    assert.deepEqual(await another.awaitCustomer(later), noted);

    const { txnId: late } = await aChargedCard(store, 'pi_2');
    const over = { txnId: late, version: 2, withinMs: 0, traceparent };
    assert.deepEqual(await ledger.awaitCustomer(over), noted);
    const again = { ...over, version: 3, withinMs: hourMs };
    assert.deepEqual(await ledger.awaitCustomer(again), { outcome: 'over', version: 3 });
  });

  test('what a customer has to do is kept until the payment is final, and never after', async (context) => {
    const { ledger, another, events } = await open(context);
    for (const state of ['succeeded', 'failed'] as const) {
      const { txnId } = aPayment();
      const payment = { ...aPayment({ paymentMethod: 'pm_card_visa' }), txnId };
      await ledger.post([pendingOf(payment)]);
      const action = { type: 'redirect_to_url', sealed: 'sealed' };
      const asked = { txnId, version: 1, withinMs: hourMs, traceparent, action };
      assert.deepEqual(await ledger.awaitCustomer(asked), { outcome: 'waits', version: 2 });
      const other = { ...asked, version: 2, action: { ...action, sealed: 'another' } };
      await another.awaitCustomer(other);
      const waits = (await another.find(txnId))?.customer;
      assert.equal(waits?.nextAction, 'sealed');
      const failure = { code: 'authentication_required', message: 'too late' };
      const result = state === 'failed' ? { state, failure } : { state };
      await ledger.settle({ txnId, version: 2, traceparent, result, settledAt: settledNow });
      const { expiresAt } = waits;
      assert.deepEqual((await ledger.find(txnId))?.customer, { expiresAt });
      const written = (await events()).filter((each) => each.txnId === txnId);
      assert.deepEqual(
        written.map(({ eventType, sequence }) => [eventType, sequence]),
        [
          ['payment.requires_action', 1],
          [`payment.${state}`, 2],
        ],
      );
      const { timestamp, data, ...event } = JSON.parse(written[0]!.payload) as WrittenEvent;
      const { type, sequence } = event;
      const isDescribed = (shown: object) =>
        describedWebhook.Check({ type, timestamp, sequence, data: { ...data, ...shown } });
      assert.equal(+expiresAt - Date.parse(timestamp), hourMs);
      const next_action = { type: 'redirect_to_url', expires_at: expiresAt.toISOString() };
      assert.deepEqual([data['status'], data['next_action']], ['pending', next_action]);
      assert.equal(isDescribed({}), true);
      assert.equal(isDescribed({ next_action: { ...next_action, client_secret: 's' } }), false);
      assert.ok(written.every(({ payload }) => !payload.includes('sealed')));
    }
  });

  test('nobody waits for the customer of a payment that is final, of another version or not there', async (context) => {
    const store = await open(context);
    const { txnId, settle } = await aChargedCard(store, 'pi_1');
    const stale = { outcome: 'stale' };
    const { txnId: unknown } = aPayment();
    const wait = (request: object) =>
      store.ledger.awaitCustomer({ txnId, version: 2, withinMs: hourMs, traceparent, ...request });
    assert.deepEqual(await wait({ txnId: unknown }), stale);
    assert.deepEqual(await wait({ version: 1 }), stale);
    await settle();
    for (const version of [2, 3]) assert.deepEqual(await wait({ version }), stale);
  });
}

/** What a ledger promises when the provider reports something new. */
export function waking(open: Open): void {
  test('each dispute is noted once, whoever reports it how often, and told by the next event', async (context) => {
    const store = await open(context);
    const { ledger, another, events } = store;
    const { txnId, settle } = await aChargedCard(store, 'pi_1');
    const report = { provider: 'stripe', intentId: 'pi_1', disputeId: 'du_1' } as const;
    const dispute = { ...report, amount: 100n, currency: 'EUR', reason: 'fraudulent' };
    assert.deepEqual(await ledger.noteDispute(dispute), { outcome: 'not-final', txnId });
    assert.deepEqual(await events(), []);
    await settle();
    const before = (await ledger.find(txnId))!;
    const outcomes = await Promise.all(
      [ledger, another, ledger, another].map((each) => each.noteDispute(dispute)),
    );
    const disputed = outcomes.filter(({ outcome }) => outcome === 'disputed');
    assert.deepEqual(disputed, [{ outcome: 'disputed', txnId }]);
    const known = { outcome: 'already-noted', txnId };
    assert.deepEqual(await another.noteDispute({ ...dispute, amount: 1n }), known);
    const others = ['du_2', 'du_3', 'du_2', 'du_3'].map((disputeId, at) =>
      [ledger, another][at % 2]!.noteDispute({ ...dispute, disputeId }),
    );
    const counted = Object.groupBy(await Promise.all(others), ({ outcome }) => outcome);
    assert.deepEqual([counted.disputed?.length, counted['already-noted']?.length], [2, 2]);
    const unknown = { ...dispute, intentId: 'pi_2' };
    assert.deepEqual(await ledger.noteDispute(unknown), { outcome: 'unknown' });

    const { version, ...after } = (await ledger.find(txnId))!;
    assert.deepEqual({ ...after, version: version - 3 }, before);
    const [, ...told] = await events();
    const described = Compile(webhookBodySchemas['payment.disputed']!);
    const disputes = told.map(({ eventId, payload }, at) => {
      const { type, timestamp, sequence, data } = JSON.parse(payload) as WrittenEvent;
      assert.ok(described.Check({ type, timestamp, sequence, data }));
      assert.deepEqual([type, sequence], ['payment.disputed', at + 2]);
      const { id, ...wanted } = data['dispute'] as { id: string };
      assert.equal(eventId, deriveDisputeEventId(txnId, id));
      assert.deepEqual(wanted, { amount: 100, reason: 'fraudulent' });
      return id;
    });
    assert.equal(disputes[0], 'du_1');
    assert.deepEqual(disputes.toSorted(), ['du_1', 'du_2', 'du_3']);
  });

  test('a dispute ends once, in whatever order its reports come, and says so where it is read', async (context) => {
    const store = await open(context);
    const { ledger, another, events } = store;
    const { txnId, payment, settle } = await aChargedCard(store, 'pi_1');
    await settle();
    const before = (await ledger.find(txnId))!;
    const report = { provider: 'stripe', intentId: 'pi_1', currency: 'EUR' } as const;
    const evidenceDueBy = new Date('2026-12-04T10:15:00.000Z');
    const lost = { ...report, disputeId: 'du_1', amount: 60n, reason: 'general', evidenceDueBy };
    const won = { ...report, disputeId: 'du_2', amount: 40n, reason: 'fraudulent' };
    await ledger.noteDispute(lost);
    const ended = await Promise.all(
      [ledger, another, ledger].map((each) => each.noteDispute({ ...lost, end: 'lost' })),
    );
    const outcomes = ended.map(({ outcome }) => outcome).toSorted();
    assert.deepEqual(outcomes, ['already-noted', 'already-noted', 'ended']);
    // Its beginning is reported last.
    assert.equal((await ledger.noteDispute({ ...won, end: 'won' })).outcome, 'disputed');
    for (const late of [won, { ...won, end: 'lost' as const }, { ...lost, end: 'won' as const }]) {
      assert.equal((await another.noteDispute(late)).outcome, 'already-noted');
    }
    const { version, ...after } = (await ledger.find(txnId))!;
    assert.deepEqual({ ...after, version }, { ...before, version });
    assert.ok(version > before.version);
    const told = (await events()).map(({ payload }) => (JSON.parse(payload) as WrittenEvent).type);
    assert.deepEqual(told, ['payment.succeeded', 'payment.disputed', 'payment.disputed']);

    const { partnerId } = payment;
    const find = (about: typeof won) =>
      another.findDispute({ id: deriveDisputeId(about), partnerId });
    const [first, second] = [(await find(lost))!, (await find(won))!];
    const { createdAt, endedAt, ...shown } = first;
    assert.ok(endedAt! >= createdAt);
    assert.deepEqual(shown, {
      id: deriveDisputeId(lost),
      partnerId,
      paymentId: txnId,
      provider: { name: 'stripe', disputeId: 'du_1' },
      money: { amount: 60n, currency: 'EUR' },
      reason: 'general',
      status: 'lost',
      evidenceDueBy,
    });
    assert.deepEqual([second.status, 'evidenceDueBy' in second], ['won', false]);
    const stranger = { id: first.id, partnerId: 'globex' as PartnerId };
    assert.equal(await ledger.findDispute(stranger), undefined);
  });

  test('a partner’s disputes are listed newest first, of a payment or a status, page by page', async (context) => {
    const store = await open(context);
    const { ledger } = store;
    const made: DisputeReport[] = [];
    const dispute = async (intentId: string, disputeId: string, end?: 'won' | 'lost') => {
      const money = { amount: 1n, currency: 'EUR', reason: 'general' };
      const report = { provider: 'stripe', intentId, disputeId, ...money, end } as const;
      assert.equal((await ledger.noteDispute(report)).outcome, 'disputed');
      made.push(report);
    };
    const [one, other] = [await aChargedCard(store, 'pi_1'), await aChargedCard(store, 'pi_2')];
    for (const { settle } of [one, other]) await settle();
    const { partnerId } = one.payment;
    const page = async (wish: Partial<DisputeListRequest> = {}) => {
      const listed = await ledger.listDisputes({ partnerId, limit: 10, ...wish });
      assert.ok(listed.outcome === 'page');
      return { ids: listed.disputes.map(({ id }) => id), hasMore: listed.hasMore };
    };
    assert.deepEqual(await page(), { ids: [], hasMore: false });
    await dispute('pi_1', 'du_1');
    await dispute('pi_2', 'du_2', 'won');
    await dispute('pi_1', 'du_3', 'lost');
    await dispute('pi_2', 'du_4');
    const all = await ledger.listDisputes({ partnerId, limit: 4 });
    assert.ok(all.outcome === 'page' && !all.hasMore);
    const order = all.disputes.toSorted(
      (a, b) => +b.createdAt - +a.createdAt || (a.id < b.id ? 1 : -1),
    );
    assert.deepEqual(all.disputes, order);
    const ids = all.disputes.map(({ id }) => id);
    assert.deepEqual(new Set(ids), new Set(made.map(deriveDisputeId)));
    assert.deepEqual(await page({ limit: 3 }), { ids: ids.slice(0, 3), hasMore: true });
    assert.deepEqual(await page({ limit: 3, after: ids[2] }), {
      ids: ids.slice(3),
      hasMore: false,
    });
    const of = (...numbers: number[]) => {
      const wanted = numbers.map((number) => deriveDisputeId(made[number - 1]!));
      return { ids: ids.filter((id) => wanted.includes(id)), hasMore: false };
    };
    assert.deepEqual(await page({ paymentId: one.txnId }), of(1, 3));
    assert.deepEqual(await page({ status: 'open' }), of(1, 4));
    assert.deepEqual(await page({ status: 'won' }), of(2));
    assert.deepEqual(await page({ status: 'lost', paymentId: other.txnId }), of());
    const lost = { status: 'lost', paymentId: one.txnId } as const;
    assert.deepEqual(await page(lost), of(3));
    const globex = { partnerId: 'globex' as PartnerId, limit: 10 };
    const nothing = { outcome: 'page', disputes: [], hasMore: false };
    assert.deepEqual(await ledger.listDisputes(globex), nothing);
    const theirs = await ledger.listDisputes({ ...globex, after: ids[0] });
    assert.deepEqual(theirs, { outcome: 'unknown-cursor' });
  });

  test('a dispute that no ledger can hold is refused, and nothing is written', async (context) => {
    const store = await open(context);
    const { txnId, settle } = await aChargedCard(store, 'pi_1');
    await settle();
    const report = { provider: 'stripe', intentId: 'pi_1', disputeId: 'du_1' } as const;
    for (const wrong of [{ disputeId: 'du \0' }, { reason: 'half \ud800' }]) {
      const dispute = { ...report, amount: 1n, currency: 'EUR', reason: 'general', ...wrong };
      await assert.rejects(store.ledger.noteDispute(dispute), UnpostableError);
    }
    assert.equal((await store.ledger.find(txnId))?.version, 3);
  });

  test('a dispute of another currency than its payment is refused as that, and one of more is told', async (context) => {
    const store = await open(context);
    const { txnId, settle } = await aChargedCard(store, 'pi_1');
    await settle();
    const report = { provider: 'stripe', intentId: 'pi_1', disputeId: 'du_1' } as const;
    const dispute = { ...report, amount: 1_000_000n, currency: 'JPY', reason: 'general' };
    const refused = { outcome: 'other-currency', txnId };
    assert.deepEqual(await store.ledger.noteDispute(dispute), refused);
    assert.equal((await store.ledger.find(txnId))?.version, 3);
    const noted = await store.ledger.noteDispute({ ...dispute, currency: 'EUR' });
    assert.deepEqual(noted, { outcome: 'disputed', txnId });
    assert.deepEqual(await store.ledger.noteDispute(dispute), refused);
  });

  test('an event lets the payment be due that it is about, and no other, once', async (context) => {
    const store = await open(context);
    const { wakeDue, takeDue } = store;
    const { txnId } = await aChargedCard(store, 'pi_1');
    await aChargedCard(store, 'pi_2');
    assert.deepEqual(await takeDue({ limit: 10, leaseMs: hourMs }), []);
    assert.deepEqual(await wakeDue(anEvent('pi_1')), { outcome: 'woken', txnIds: [txnId] });
    const [due, ...more] = await takeDue({ limit: 10, leaseMs: hourMs });
    assert.ok(due?.kind === 'payment' && due.payment.txnId === txnId);
    assert.deepEqual(more, []);
    assert.deepEqual(await wakeDue(anEvent('pi_1')), { outcome: 'duplicate' });
    assert.deepEqual(await takeDue({ limit: 10, leaseMs: hourMs }), []);
    const other = await wakeDue(anEvent('pi_1', 'evt_2'));
    assert.deepEqual(other, { outcome: 'woken', txnIds: [txnId] });
  });

  test('of ten copies at once one wakes', async (context) => {
    const store = await open(context);
    await aChargedCard(store, 'pi_1');
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, () => store.wakeDue(anEvent('pi_1'))),
    );
    const of = (word: string) => outcomes.filter(({ outcome }) => outcome === word).length;
    assert.deepEqual([of('woken'), of('duplicate')], [1, 9]);
  });

  test('of events that come together each is told what it came to', async (context) => {
    const store = await open(context);
    const { settle } = await aChargedCard(store, 'pi_1');
    const { txnId } = await aChargedCard(store, 'pi_2');
    await settle();
    const intents = ['pi_1', 'pi_2', 'pi_of_nobody'];
    const events = intents.map((intentId) => anEvent(intentId, `evt_${intentId}`));
    const outcomes = await Promise.all(events.map((event) => store.wakeDue(event)));
    const nothing = { outcome: 'nothing-waits' };
    assert.deepEqual(outcomes, [nothing, { outcome: 'woken', txnIds: [txnId] }, nothing]);
  });

  test('of money at the provider each event is told, copies too, whether its payment had ended without it', async (context) => {
    const store = await open(context);
    const { ledger, followUps, wakeDue } = store;
    const { txnId: pending } = await aChargedCard(store, 'pi_pending');
    const { txnId: paid, payment, settle } = await aChargedCard(store, 'pi_paid');
    await settle();
    const { txnId: failed } = await aChargedCard(store, 'pi_failed');
    const failure = { code: 'card_declined', message: 'declined' };
    const declined = { result: { state: 'failed', failure }, settledAt: settledNow } as const;
    await ledger.settle({ txnId: failed, version: 2, traceparent, ...declined });
    const { txnId: transferred } = await aTransfer(store);
    const refund = aRefund(payment, { amount: 10n });
    await followUps.post(posting(refund));
    const { txnId: unknown } = aPayment();
    const told: [TxnId | undefined, string, boolean][] = [
      [pending, 'pi_pending', false],
      [pending, 'pi_other', false],
      [paid, 'pi_paid', false],
      [paid, 'pi_other', true],
      [paid, 'pi_failed', true],
      [failed, 'pi_failed', true],
      [failed, 'pi_failed', true],
      [failed, 'pi_other', true],
      [transferred, 'pi_other', true],
      [refund.txnId, 'pi_other', false],
      [unknown, 'pi_other', false],
      [undefined, 'pi_failed', false],
    ];
    const outcomes = await Promise.all(
      told.map(([paidFor, intentId], nth) =>
        wakeDue({ ...anEvent(intentId, `evt_${nth}`), ...(paidFor && { paidFor }) }),
      ),
    );
    assert.deepEqual(
      outcomes.map(({ paidAfterEnd = false }) => paidAfterEnd),
      told.map(([, , paidAfterEnd]) => paidAfterEnd),
    );
    const woken = { outcome: 'woken', txnIds: [refund.txnId] };
    assert.deepEqual([outcomes[2], outcomes[0]], [woken, { ...woken, txnIds: [pending] }]);
  });

  test('a payment that has no intent yet is woken by what says that it was paid, and by its own provider alone', async (context) => {
    const { ledger, wakeDue, takeDue } = await open(context);
    const payment = aPayment({ paymentMethod: 'pm_card_visa' });
    await ledger.post([pendingOf(payment)]);
    const { txnId } = payment;
    const told = { ...anEvent('pi_charged'), paidFor: txnId };
    const nothing = { outcome: 'nothing-waits' };
    assert.deepEqual(await wakeDue({ ...told, provider: 'giro' }), nothing);
    assert.deepEqual(await wakeDue(anEvent('pi_charged', 'evt_2')), nothing);
    assert.deepEqual(await wakeDue(told), { outcome: 'woken', txnIds: [txnId] });
    assert.deepEqual(await wakeDue(told), { outcome: 'duplicate' });
    const [due] = await takeDue({ limit: 10, leaseMs: hourMs });
    assert.ok(due?.kind === 'payment' && due.payment.txnId === txnId);
  });

  test('whoever is at work on a row goes on after it was woken', async (context) => {
    const store = await open(context);
    const { settle } = await aChargedCard(store, 'pi_1');
    await store.wakeDue(anEvent('pi_1'));
    assert.deepEqual(await settle(), { outcome: 'settled' });
    assert.deepEqual(await store.takeDue({ limit: 10, leaseMs: hourMs }), []);
  });

  test('an event about nothing that is pending writes nothing, and counts when it comes again', async (context) => {
    const store = await open(context);
    const { wakeDue } = store;
    const nothing = { outcome: 'nothing-waits' };
    assert.deepEqual(await wakeDue(anEvent('pi_1')), nothing);
    const { settle } = await aChargedCard(store, 'pi_1');
    assert.equal((await wakeDue(anEvent('pi_1'))).outcome, 'woken');
    await settle();
    assert.deepEqual(await wakeDue(anEvent('pi_1', 'evt_2')), nothing);
  });

  test('an event wakes the reserved refunds of its charge, and none that nobody asked for', async (context) => {
    const store = await open(context);
    const { followUps, wakeDue } = store;
    const { payment, settle } = await aChargedCard(store, 'pi_1');
    // Accepted after the others, so that it holds up none of them.
    const undecided = aRefund(payment, { amount: 10n, acceptedAt: new Date(Date.now() + hourMs) });
    await followUps.post(posting(undecided));
    const first = await wakeDue(anEvent('pi_1', 'evt_1'));
    assert.deepEqual(first, { outcome: 'woken', txnIds: [payment.txnId] });
    await settle();
    const some = [aRefund(payment, { amount: 20n }), aRefund(payment, { amount: 30n })];
    for (const refund of some) await followUps.post(posting(refund));
    const written = await wakeDue(anEvent('pi_1', 'evt_2'));
    assert.ok(written.outcome === 'woken');
    assert.deepEqual(written.txnIds.sort(), some.map(({ txnId }) => txnId).sort());
  });
}
