import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AcceptedPayment } from '@triplock/payments';
import { aPayment, aRefund, createTestStripe, type TestStripe } from '@triplock/testing';
import { checks, everything, findWrong } from './checks.ts';
import {
  chargeStates,
  intentStates,
  paymentStates,
  refundStates,
  verdictOnPayment,
  verdictOnRefund,
  type ChargeState,
  type IntentState,
  type PaymentState,
  type RefundState,
  type Verdict,
} from './provider-pairs.ts';
import { cardSystem } from './test/card-system.ts';
import type { System } from './test/whole-system.ts';
import { atOneMoment } from './windows.ts';

let stripe: TestStripe;
let stopStripe = async () => {};
before(async () => {
  stripe = await createTestStripe({ after: (stop) => void (stopStripe = stop) });
});
after(() => stopStripe());

type AtProvider = { intent: IntentState; charge: ChargeState };

/** What a caller has Stripe do about a payment of 12.50 dollars; gives the intent's id. */
async function ask(path: string, parameters: Record<string, string>): Promise<{ id: string }> {
  const answer = await fetch(`${stripe.url}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stripe.apiKey}` },
    body: new URLSearchParams(parameters),
  });
  const body = (await answer.json()) as { id: string; error?: { type: string } };
  // A decline is what some of these ask for.
  assert.ok(answer.status === 200 || body.error?.type === 'card_error', JSON.stringify(body));
  return body;
}

const declines = { payment_method: 'pm_card_chargeDeclined' };
const asks = { payment_method: 'pm_card_authenticationRequired' };
const pays = { payment_method: 'pm_card_visa' };
const byDebit = 'us_bank_account';

type Plant = AtProvider & {
  /** The ways to it, each a new intent of the payment. */
  reach(of: { create: Create; payment: AcceptedPayment }): Promise<{ id: string } | undefined>;
};
type Create = (more?: Record<string, string>) => Promise<{ id: string }>;

const confirm = (id: string, method: Record<string, string>) =>
  ask(`payment_intents/${id}/confirm`, method);
const cancel = (id: string) => ask(`payment_intents/${id}/cancel`, {});
const declined = async (create: Create) => {
  const made = await create();
  await confirm(made.id, declines);
  return made;
};
const confirmed = async (create: Create, method: Record<string, string>, more = {}) => {
  const made = await create(more);
  await confirm(made.id, method);
  return made;
};
const manual = { capture_method: 'manual' };

/** Every state that an intent and its charge can be in at Stripe, and how each is reached. */
const plants: readonly Plant[] = [
  { intent: 'none', charge: 'none', reach: async () => undefined },
  { intent: 'unconfirmed', charge: 'none', reach: ({ create }) => create() },
  { intent: 'unconfirmed', charge: 'failed', reach: ({ create }) => declined(create) },
  { intent: 'customer', charge: 'none', reach: ({ create }) => confirmed(create, asks) },
  {
    intent: 'customer',
    charge: 'failed',
    reach: async ({ create }) => {
      const made = await declined(create);
      await confirm(made.id, asks);
      return made;
    },
  },
  {
    intent: 'bank',
    charge: 'pending',
    reach: ({ create }) =>
      confirmed(
        create,
        { payment_method: 'pm_usBankAccount_processing' },
        { 'payment_method_types[]': byDebit },
      ),
  },
  { intent: 'held', charge: 'pending', reach: ({ create }) => confirmed(create, pays, manual) },
  { intent: 'succeeded', charge: 'succeeded', reach: ({ create }) => confirmed(create, pays) },
  {
    intent: 'succeeded',
    charge: 'returned',
    reach: async ({ create, payment }) => {
      const made = await confirmed(create, pays);
      const ours = { 'metadata[txn_id]': payment.txnId, 'metadata[partner_id]': payment.partnerId };
      await ask('refunds', { payment_intent: made.id, ...ours });
      return made;
    },
  },
  {
    intent: 'canceled',
    charge: 'returned',
    reach: async ({ create }) => {
      const made = await confirmed(create, pays, manual);
      await cancel(made.id);
      return made;
    },
  },
  {
    intent: 'canceled',
    charge: 'none',
    reach: async ({ create }) => {
      const made = await create();
      await cancel(made.id);
      return made;
    },
  },
  {
    intent: 'canceled',
    charge: 'failed',
    reach: async ({ create }) => {
      const made = await confirmed(create, pays, manual);
      await cancel(made.id);
      return made;
    },
  },
];

type ToState = { system: System; payment: AcceptedPayment; intentId: string | undefined };

/**
 * Brings a posted card to a state of the ledger; one without an intent names one that is unknown.
 */
async function bringTo(
  state: Exclude<PaymentState, 'none'>,
  { system, payment, intentId }: ToState,
): Promise<void> {
  const named = intentId ?? `pi_of_${payment.txnId}`;
  switch (state) {
    case 'pending':
    case 'failed':
      if (intentId !== undefined) await system.storeIntent(payment, intentId);
      if (state === 'failed') await system.endCard(payment, state);
      return;
    case 'succeeded':
      await system.storeIntent(payment, named);
      await system.settleCharge(payment, `ch_of_${payment.txnId}`);
      return;
    case 'authorized':
      await system.authorize(payment, named);
      return;
    case 'canceled':
      await system.authorize(payment, named);
      await system.endCard(payment, state);
      return;
    case 'captured': {
      await system.authorize(payment, named);
      const capture = aRefund(payment, { kind: 'capture', amount: payment.details.money.amount });
      await system.accept(capture);
      await system.beginRefund(capture);
      await system.settleCapture(capture, `ch_of_${payment.txnId}`);
      return;
    }
    default:
      return state satisfies never;
  }
}

/** By money alone, without the table: whether the two may stand beside each other for good. */
function agree(payment: PaymentState, { intent, charge }: AtProvider): boolean {
  const waitsForOthers = { pending: ['customer', 'bank'], authorized: ['bank', 'held'] };
  switch (payment) {
    case 'succeeded':
    case 'captured':
      return intent === 'succeeded' && charge === 'succeeded';
    case 'failed':
    case 'canceled': {
      const isOver = intent === 'canceled' || (intent === 'none' && payment === 'failed');
      return charge === 'returned' || (isOver && charge !== 'pending' && charge !== 'succeeded');
    }
    case 'none':
      if (charge === 'returned') return true;
      return charge !== 'failed' && ['none', 'unconfirmed', 'canceled'].includes(intent);
    case 'pending':
    case 'authorized':
      return charge !== 'returned' && waitsForOthers[payment].includes(intent);
    default:
      return payment satisfies never;
  }
}

/** Where the ledger can be, beside an intent that it names. */
const reachable = paymentStates.flatMap((payment) =>
  plants
    // Of what the ledger and the provider both lack there is nothing to see.
    .filter(({ intent }) => payment !== 'none' || intent !== 'none')
    .map((plant) => ({ payment, plant })),
);

test('each pair of the ledger and the provider is allowed, in flight or drift, as the table has it, and so says the audit', async (context) => {
  const { system, audit, owner } = await cardSystem(context, stripe);
  const planted: { id: string; what: string; verdict: Verdict }[] = [];
  for (const { payment: state, plant } of reachable) {
    const wish = { paymentMethod: 'pm_card_visa', amount: 1_250n, currency: 'USD' } as const;
    const isHeld = ['authorized', 'captured', 'canceled'].includes(state);
    const payment = aPayment({ ...wish, ...(isHeld && { captureMethod: 'manual' }) });
    const metadata = {
      'metadata[txn_id]': payment.txnId,
      'metadata[partner_id]': payment.partnerId,
    };
    const create: Create = (more = {}) =>
      ask('payment_intents', {
        amount: '1250',
        currency: 'usd',
        'payment_method_types[]': 'card',
        ...metadata,
        ...more,
      });
    const intent = await plant.reach({ create, payment });
    if (plant.charge === 'returned') {
      await owner.query(
        `INSERT INTO auditor.operator_acts (act, subject, done_by, why)
         VALUES ('give-back', $1, 'ada', 'told as failed')`,
        [`intent:${payment.txnId}/${intent!.id}`],
      );
    }
    if (state !== 'none') {
      await system.accept(payment);
      await system.begin(payment);
      await bringTo(state, { system, payment, intentId: intent?.id });
    }
    const verdict = verdictOnPayment(state, plant.intent, plant.charge);
    const what = `${state} ${plant.intent} ${plant.charge}`;
    assert.equal(verdict === 'allowed', agree(state, plant), what);
    planted.push({ id: state === 'none' ? intent!.id : payment.txnId, what, verdict });
  }
  const now = await audit(undefined, false);
  const found = (findings: readonly { check: string; ids: readonly string[] }[], names: string[]) =>
    findings.filter(({ check }) => names.includes(check)).flatMap(({ ids }) => ids);
  const drift = found(now.drift, ['payment-contradicts-provider']);
  const behind = ['payment-differs-from-provider', 'ledger-unfinished'];
  const inFlight = found(now.inFlight.waiting, behind);
  const said = planted.map(({ id, what, verdict }) => {
    const isSaid = drift.includes(id) ? 'drift' : inFlight.includes(id) ? 'in flight' : 'allowed';
    return { what, verdict, isSaid };
  });
  assert.deepEqual(
    said.filter(({ verdict, isSaid }) => verdict !== isSaid),
    [],
  );
  const last = await audit();
  const inTheEnd = found(last.drift, ['payment-contradicts-provider', ...behind]);
  const wrong = planted.filter(({ verdict }) => verdict !== 'allowed').map(({ id }) => id);
  assert.deepEqual([...new Set(inTheEnd)].toSorted(), wrong.toSorted());
});

const made = { pending: 'pending', succeeded: 'succeeded', failed: 'failed' } as const;

test('each pair of a refund in the ledger and at the provider is said as the table has it', async (context) => {
  const { system, owner, auditorOf, real } = await cardSystem(context, stripe);
  const { database } = auditorOf(real);
  const checksOf = ['given-back-otherwise', 'given-back-unfounded', 'ledger-unfinished'];
  const rows: { id: string; verdict: Verdict; what: string }[] = [];
  for (const booked of refundStates) {
    for (const atProvider of refundStates) {
      if (booked === 'none' && atProvider === 'none') continue;
      const payment = aPayment({ paymentMethod: 'pm_card_visa', amount: 1_250n });
      const refund = aRefund(payment, { amount: 250n });
      const intentId = `pi-of-${payment.txnId}`;
      await system.payByCard(payment, async (hold) => {
        await hold(intentId);
        return `ch-of-${payment.txnId}`;
      });
      const refundId = `re-of-${refund.txnId}`;
      if (booked !== 'none') await bookRefund(booked, { refund, refundId });
      if (atProvider !== 'none') {
        await owner.query(
          `INSERT INTO auditor.provider_journal
             (provider, kind, id, status, waits_for, amount, currency, created_at, intent_id, txn_id, partner_id)
           VALUES ('stripe', 'refund', $1, $2, $3, 250, 'EUR', now(), $4, $5, $6)`,
          [
            ...[refundId, made[atProvider], atProvider === 'pending' ? 'bank' : null],
            ...[intentId, refund.txnId, refund.partnerId],
          ],
        );
      }
      const verdict = verdictOnRefund(booked, atProvider);
      const id = booked === 'none' ? refundId : refund.txnId;
      rows.push({ id, verdict, what: `${booked} ${atProvider}` });
    }
  }
  const found = new Set<string>();
  for (const check of checks.filter(({ name }) => checksOf.includes(name))) {
    const wrong = await atOneMoment({ database }, (tx) => findWrong(tx, check, everything));
    for (const { id } of wrong) found.add(id);
  }
  const differing = rows.filter(({ id, verdict }) => found.has(id) !== (verdict !== 'allowed'));
  assert.deepEqual(differing, []);

  async function bookRefund(
    state: Exclude<RefundState, 'none'>,
    { refund, refundId }: { refund: ReturnType<typeof aRefund>; refundId: string },
  ) {
    await system.accept(refund);
    await system.beginRefund(refund);
    if (state === 'pending') {
      await owner.query(
        'UPDATE ledger.transactions SET provider_refund_id = $2, version = version + 1 WHERE txn_id = $1',
        [refund.txnId, refundId],
      );
      return;
    }
    if (state === 'succeeded') {
      await system.settleRefund(refund, { sequence: 2, refundId });
      return;
    }
    await system.failRefund(refund, refundId);
  }
});

test('the tables have a verdict on every pair there can be', () => {
  const verdicts = paymentStates.flatMap((payment) =>
    intentStates.flatMap((intent) =>
      chargeStates.map((charge) => verdictOnPayment(payment, intent, charge)),
    ),
  );
  assert.equal(verdicts.length, paymentStates.length * intentStates.length * chargeStates.length);
  for (const booked of refundStates) for (const each of refundStates) verdictOnRefund(booked, each);
});
