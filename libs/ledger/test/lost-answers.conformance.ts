import assert from 'node:assert/strict';
import { suite, type TestContext } from 'node:test';
import {
  aPayment,
  aRefund,
  type LostAnswerCase,
  type StatementRelay,
  testLostAnswers,
} from '@triplock/testing';
import {
  bookTransferOf,
  type ChargingUnderTest,
  pendingOf,
  posting,
  settledNow,
  traceparent,
} from './under-test.ts';

/**
 * A ledger whose answers can be lost. Only `ledger`, `refunds`, `takeDue` and `wakeDue` go by the
 * relay; what is made before and looked at afterwards goes past it.
 */
export type LedgerByRelay = ChargingUnderTest & { relay: StatementRelay };

type Case = LostAnswerCase<LedgerByRelay>;

const settlement = { result: { state: 'succeeded' as const }, settledAt: settledNow, traceparent };
const card = aPayment({ amount: 100n, paymentMethod: 'pm_card_visa' });
const transfer = aPayment({ amount: 100n });
const intent = { txnId: card.txnId, version: 1, provider: 'stripe', intentId: 'pi_1' } as const;
const charge = { txnId: card.txnId, version: 2, chargeId: 'ch_1', ...settlement };
const ofCard = aRefund(card, { amount: 40n });
const ofTransfer = aRefund(transfer, { amount: 40n });
const ofNobody = aRefund(aPayment(), { amount: 40n });
const otherUnderTheKey = aPayment({ key: transfer.key, amount: 7n });
const otherRefundUnderTheKey = aRefund(card, { key: ofCard.key, amount: 41n });
const news = { provider: 'stripe', eventId: 'evt_1', intentId: 'pi_1', type: 'charge' } as const;

/** How far the card payment is before the operation. */
async function upTo(
  { another, otherFollowUps }: LedgerByRelay,
  step: 'posted' | 'intent stored' | 'charged' | 'refund reserved',
): Promise<void> {
  await another.post([pendingOf(card)]);
  if (step === 'posted') return;
  await another.storeIntent(intent);
  if (step === 'intent stored') return;
  await another.settle(charge);
  if (step === 'charged') return;
  await otherFollowUps.post(posting(ofCard));
}

/** Everything the store has, but for versions, which a repetition may raise. */
async function storedIn(store: LedgerByRelay) {
  const { another, otherFollowUps, entries, events } = store;
  const payments = await Promise.all([card, transfer].map(({ txnId }) => another.find(txnId)));
  const refunds = await Promise.all(
    [ofCard, ofTransfer, ofNobody].map(({ txnId }) => otherFollowUps.find(txnId)),
  );
  const rows = [...payments, ...refunds].map((row) => row && { ...row, version: 0 });
  return { rows, entries: await entries(), events: await events() };
}

/** The same, and that of a card payment of 100 a refund of 40 is held: no more and no less. */
async function heldIn(store: LedgerByRelay) {
  const stored = await storedIn(store);
  const outcomes = [];
  for (const amount of [61n, 60n]) {
    const { outcome } = await store.otherFollowUps.post(posting(aRefund(card, { amount })));
    outcomes.push(outcome);
  }
  assert.deepEqual(outcomes, ['settled', 'reserved']);
  return stored;
}

/** The same, and how many are due now. */
async function dueIn(store: LedgerByRelay) {
  const due = await store.takeDue({ limit: 10, leaseMs: 60_000 });
  return { ...(await storedIn(store)), due: due.length };
}

const posts: Record<string, Case> = {
  'post of payments': {
    prepare: async (store) => ({
      operation: () => store.ledger.post([bookTransferOf(transfer), pendingOf(card)]),
      stored: () => storedIn(store),
    }),
    orElse: [
      [
        { outcome: 'already-recorded', state: 'succeeded' },
        { outcome: 'unfinished', version: 1 },
      ],
    ],
  },
  'post of payments that are there, with another one of a used key': {
    prepare: async (store) => {
      await store.another.post([bookTransferOf(transfer), pendingOf(card)]);
      const batch = [bookTransferOf(transfer), pendingOf(card), bookTransferOf(otherUnderTheKey)];
      return { operation: () => store.ledger.post(batch), stored: () => storedIn(store) };
    },
  },
  'recordKeyConflict of a payment': {
    prepare: async (store) => {
      await store.another.post([bookTransferOf(transfer)]);
      const lost = bookTransferOf(otherUnderTheKey);
      return {
        operation: () => store.ledger.recordKeyConflict(lost),
        stored: () => storedIn(store),
      };
    },
  },
  storeIntent: {
    prepare: async (store) => {
      await upTo(store, 'posted');
      return { operation: () => store.ledger.storeIntent(intent), stored: () => storedIn(store) };
    },
    orElse: [{ outcome: 'stale' }],
  },
  'settle of a payment': {
    prepare: async (store) => {
      await upTo(store, 'intent stored');
      return { operation: () => store.ledger.settle(charge), stored: () => storedIn(store) };
    },
    orElse: [{ outcome: 'stale' }],
  },
};

const refunds: Record<string, Case> = {
  'post of a refund that the provider gives back': {
    prepare: async (store) => {
      await upTo(store, 'charged');
      const post = async () => (await store.followUps.post(posting(ofCard))).outcome;
      return { operation: post, stored: () => heldIn(store) };
    },
    orElse: ['unfinished'],
  },
  'post of a refund of a book transfer': {
    prepare: async (store) => {
      await store.another.post([bookTransferOf(transfer)]);
      const post = () => store.followUps.post(posting(ofTransfer));
      return { operation: post, stored: () => storedIn(store) };
    },
    orElse: [{ outcome: 'already-recorded', state: 'succeeded' }],
  },
  'post of a refund that comes before its payment': {
    prepare: async (store) => ({
      operation: () => store.followUps.post(posting(ofNobody)),
      stored: () => storedIn(store),
    }),
  },
  'settle of a refund': {
    prepare: async (store) => {
      await upTo(store, 'refund reserved');
      const { version } = (await store.otherFollowUps.find(ofCard.txnId))!;
      const request = { txnId: ofCard.txnId, version, refundId: 're_1', ...settlement };
      return { operation: () => store.followUps.settle(request), stored: () => heldIn(store) };
    },
    orElse: [{ outcome: 'stale' }],
  },
  storeRefundId: {
    prepare: async (store) => {
      await upTo(store, 'refund reserved');
      const { version } = (await store.otherFollowUps.find(ofCard.txnId))!;
      const request = { txnId: ofCard.txnId, version, refundId: 're_1' };
      return {
        operation: () => store.followUps.storeRefundId(request),
        stored: () => heldIn(store),
      };
    },
    orElse: [{ outcome: 'stale' }],
  },
  'recordKeyConflict of a refund': {
    prepare: async (store) => {
      await upTo(store, 'refund reserved');
      const lost = posting(otherRefundUnderTheKey);
      return {
        operation: () => store.followUps.recordKeyConflict(lost),
        stored: () => heldIn(store),
      };
    },
  },
};

const resumptions: Record<string, Case> = {
  takeDue: {
    prepare: async (store) => {
      await upTo(store, 'intent stored');
      await store.letTimePass();
      const take = async () => (await store.takeDue({ limit: 10, leaseMs: 60_000 })).length;
      // What was leased to a call that heard nothing of it comes again.
      return { operation: take, stored: () => store.letTimePass().then(() => dueIn(store)) };
    },
    orElse: [0],
  },
  wakeDue: {
    prepare: async (store) => {
      await upTo(store, 'intent stored');
      const wake = async () => (await store.wakeDue(news)).outcome;
      return { operation: wake, stored: () => dueIn(store) };
    },
    orElse: ['duplicate'],
    // The look that it shares with others.
    doesWithout: 1,
  },
};

const reads: Record<string, Case> = {
  'find, kindsOf, list and isEmpty': {
    prepare: async (store) => {
      await upTo(store, 'refund reserved');
      await store.another.post([bookTransferOf(transfer)]);
      const { ledger, followUps } = store;
      const { txnId, partnerId } = card;
      const read = async () => [
        await ledger.find(txnId),
        await ledger.kindsOf([txnId, ofCard.txnId]),
        await ledger.list({ partnerId, limit: 1, after: txnId }),
        await ledger.isEmpty(),
        await followUps.find(ofCard.txnId),
        await followUps.listOf({ paymentId: txnId, partnerId, limit: 1, after: ofCard.txnId }),
      ];
      return { operation: read, stored: () => storedIn(store) };
    },
  },
};

/**
 * What every ledger promises whose answers are lost: called again, each operation comes out right,
 * and has taken effect once.
 */
export function lostAnswers(
  name: string,
  open: (context: TestContext) => Promise<LedgerByRelay>,
): void {
  suite(name, () => testLostAnswers({ ...posts, ...refunds, ...resumptions, ...reads }, open));
}
