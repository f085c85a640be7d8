import {
  newId,
  type ChargeRecord,
  type EventRecord,
  type LastFailure,
  type PaymentFailure,
  type PaymentIntentRecord,
  type PaymentMethodRecord,
  type Redirect,
} from '../records.ts';
import { renderPaymentIntent, renderPaymentMethod } from '../render/payment-intents.ts';
import type { Account } from '../store/account.ts';
import type { Change } from '../store/journal.ts';
import { insufficientFunds, testMethodOf } from '../test-payment-methods.ts';
import { errorAnswer, type Answer } from '../wire/errors.ts';
import { renderExpanded } from '../render/records.ts';
import { raiseDispute } from './disputes.ts';
import { happened, ok, type World } from './operation.ts';

/** One attempt to take the money of an intent. */
export type Attempt = {
  readonly intent: PaymentIntentRecord;
  readonly method: PaymentMethodRecord;
  readonly at: number;
  readonly request: EventRecord['request'];
  readonly settleAfterMs: number;
  readonly authorizedForMs: number;
  readonly redirect: Redirect | null;
  /** Nobody is there to authenticate, or nobody shall be asked: then asking is declining. */
  readonly unattended: boolean;
  /** The customer has just authenticated. */
  readonly authenticated: boolean;
};

export type Attempted = {
  readonly intent: PaymentIntentRecord;
  readonly change: Change;
  readonly failure: LastFailure | null;
};

const authenticationRequired: PaymentFailure = {
  code: 'authentication_required',
  declineCode: 'authentication_required',
  message: 'Your card was declined. This transaction requires authentication.',
};

/**
 * Does what the test payment method is made for:
 * https://docs.stripe.com/payments/paymentintents/lifecycle. Only here is money taken or held.
 */
export function attemptPayment(attempt: Attempt): Attempted {
  const { charge } = testMethodOf(attempt.method);
  switch (charge.does) {
    case 'succeed':
      return takeOrHold(attempt);
    case 'decline':
      return declinePayment(attempt, charge.failure);
    case 'process':
      return process(attempt, charge.ends);
    case 'ask':
      if (attempt.authenticated) {
        return charge.then === 'succeed'
          ? takeOrHold(attempt)
          : declinePayment(attempt, insufficientFunds);
      }
      if (attempt.unattended) return declinePayment(attempt, authenticationRequired);
      return ask(attempt, charge.then);
  }
}

/**
 * "If the payment attempt fails (for example due to a decline), the PaymentIntent's status returns
 * to requires_payment_method": the failed method is only kept in `last_payment_error`.
 */
function declinePayment(attempt: Attempt, failure: PaymentFailure): Attempted {
  const charge = newCharge(attempt, { status: 'failed', failure });
  return failPayment(
    attempt,
    { ...failure, charge: charge.id, paymentMethod: attempt.method },
    charge,
  );
}

/** The same without a charge, when it did not come to one. */
export function failPayment(
  attempt: Attempt,
  failure: LastFailure,
  charge?: ChargeRecord,
): Attempted {
  const intent: PaymentIntentRecord = {
    ...attempt.intent,
    ...resting,
    status: 'requires_payment_method',
    paymentMethod: null,
    latestCharge: charge?.id ?? attempt.intent.latestCharge,
    lastFailure: failure,
  };
  const events = [
    ...(charge ? [happened('charge.failed', charge, attempt)] : []),
    happened('payment_intent.payment_failed', intent, attempt),
  ];
  const charges = charge ? [charge] : [];
  return { intent, change: change(attempt, { intent, charges, events }), failure };
}

const resting = { action: null, settlement: null } as const;

function takeOrHold(attempt: Attempt): Attempted {
  return attempt.intent.captureMethod === 'manual' ? hold(attempt) : take(attempt);
}

function take(attempt: Attempt): Attempted {
  const made = newCharge(attempt, { status: 'succeeded', failure: null });
  const { charge, dispute } = raiseDispute({ ...made, ...takenWhole(made) }, attempt.at);
  const intent: PaymentIntentRecord = {
    ...attempt.intent,
    ...resting,
    status: 'succeeded',
    paymentMethod: attempt.method.id,
    amountReceived: attempt.intent.amount,
    latestCharge: charge.id,
    lastFailure: null,
  };
  const events = [
    happened('charge.succeeded', charge, attempt),
    happened('payment_intent.succeeded', intent, attempt),
    ...dispute.events,
  ];
  const taken = change(attempt, { intent, charges: [charge], events });
  return { intent, change: { ...taken, disputes: dispute.disputes }, failure: null };
}

const takenWhole = ({ amount }: ChargeRecord) => ({ captured: true, amountCaptured: amount });

/**
 * Authorises, and takes nothing until it is captured:
 * https://docs.stripe.com/payments/place-a-hold-on-a-payment-method
 */
function hold(attempt: Attempt): Attempted {
  const captureBefore = attempt.at + attempt.authorizedForMs;
  const made = newCharge(attempt, { status: 'succeeded', failure: null });
  const charge = { ...made, captureBefore };
  const intent: PaymentIntentRecord = {
    ...attempt.intent,
    ...resting,
    status: 'requires_capture',
    paymentMethod: attempt.method.id,
    amountCapturable: attempt.intent.amount,
    captureBefore,
    latestCharge: charge.id,
    lastFailure: null,
  };
  const events = [
    happened('charge.succeeded', charge, attempt),
    happened('payment_intent.amount_capturable_updated', intent, attempt),
  ];
  return { intent, change: change(attempt, { intent, charges: [charge], events }), failure: null };
}

function ask(attempt: Attempt, then: 'succeed' | 'decline'): Attempted {
  const intent: PaymentIntentRecord = {
    ...attempt.intent,
    status: 'requires_action',
    paymentMethod: attempt.method.id,
    lastFailure: null,
    action: { redirect: attempt.redirect, then },
  };
  const events = [happened('payment_intent.requires_action', intent, attempt)];
  return { intent, change: change(attempt, { intent, charges: [], events }), failure: null };
}

function process(attempt: Attempt, ends: 'succeeded' | 'never' | PaymentFailure): Attempted {
  const charge = newCharge(attempt, { status: 'pending', failure: null });
  const at = ends === 'never' ? null : attempt.at + attempt.settleAfterMs;
  const intent: PaymentIntentRecord = {
    ...attempt.intent,
    status: 'processing',
    paymentMethod: attempt.method.id,
    latestCharge: charge.id,
    lastFailure: null,
    action: null,
    settlement: { at, ...(typeof ends === 'object' && { failure: ends }) },
  };
  const events = [
    happened('charge.pending', charge, attempt),
    happened('payment_intent.processing', intent, attempt),
  ];
  return { intent, change: change(attempt, { intent, charges: [charge], events }), failure: null };
}

function newCharge(
  { intent, method, at }: Attempt,
  end: Pick<ChargeRecord, 'status' | 'failure'>,
): ChargeRecord {
  return {
    kind: 'charge',
    id: newId('ch_'),
    created: at,
    amount: intent.amount,
    amountCaptured: 0,
    amountRefunded: 0,
    currency: intent.currency,
    ...end,
    captured: false,
    captureBefore: null,
    disputed: false,
    metadata: intent.metadata,
    description: intent.description,
    receiptEmail: intent.receiptEmail,
    statementDescriptorSuffix: intent.statementDescriptorSuffix,
    transferGroup: intent.transferGroup,
    paymentIntent: intent.id,
    paymentMethod: method,
  };
}

function change(
  { method }: Attempt,
  made: { intent: PaymentIntentRecord; charges: ChargeRecord[]; events: EventRecord[] },
): Change {
  const { intent, charges, events } = made;
  return { paymentMethods: [method], paymentIntents: [intent], charges, events };
}

/** The charge of the last attempt, of an intent that cannot be in its state without one. */
export function chargeOf(
  account: Account,
  { id, latestCharge }: PaymentIntentRecord,
): ChargeRecord {
  const charge = account.charges.get(latestCharge ?? '');
  if (charge === undefined) throw new Error(`${id} has no charge`);
  return charge;
}

/** 200 with the intent as the attempt left it, or 402 when the attempt failed. */
export function attemptAnswer(
  world: World,
  { intent, failure }: Attempted,
  expand: readonly string[][],
): Answer {
  if (failure !== null) return declinedAnswer(intent, failure);
  return ok(renderExpanded(world.account, intent, expand));
}

/** 402: https://docs.stripe.com/declines, with the intent as the failure left it. */
function declinedAnswer(intent: PaymentIntentRecord, failure: LastFailure): Answer {
  return errorAnswer(
    402,
    {
      type: 'card_error',
      code: failure.code,
      message: failure.message,
      ...(failure.declineCode !== undefined && { decline_code: failure.declineCode }),
      ...(failure.charge !== null && { charge: failure.charge }),
      payment_intent: renderPaymentIntent(intent),
      payment_method: renderPaymentMethod(failure.paymentMethod),
    },
    { retry: 'no' },
  );
}

/**
 * Ends a payment in `processing` as its test method prescribes: the bank has paid, or has not
 * (https://docs.stripe.com/payments/paymentintents/lifecycle). No request causes it.
 */
export function settlePayment(account: Account, intent: PaymentIntentRecord, at: number): Change {
  const charge = chargeOf(account, intent);
  if (intent.settlement === null) throw new Error(`${intent.id} has nothing to settle`);
  const { failure } = intent.settlement;
  const when = { at, request: null };
  if (failure === undefined) {
    const paid: ChargeRecord = { ...charge, status: 'succeeded', ...takenWhole(charge) };
    const done: PaymentIntentRecord = {
      ...intent,
      status: 'succeeded',
      amountReceived: intent.amount,
      settlement: null,
    };
    const events = [
      happened('charge.succeeded', paid, when),
      happened('payment_intent.succeeded', done, when),
    ];
    return { paymentIntents: [done], charges: [paid], events };
  }
  const unpaid: ChargeRecord = { ...charge, status: 'failed', failure };
  const open: PaymentIntentRecord = {
    ...intent,
    status: 'requires_payment_method',
    paymentMethod: null,
    settlement: null,
    lastFailure: { ...failure, charge: charge.id, paymentMethod: charge.paymentMethod },
  };
  const events = [
    happened('charge.failed', unpaid, when),
    happened('payment_intent.payment_failed', open, when),
  ];
  return { paymentIntents: [open], charges: [unpaid], events };
}
