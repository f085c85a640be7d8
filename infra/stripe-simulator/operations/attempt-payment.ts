import { newId } from '../records/new-id.ts';
import type {
  ChargeRecord,
  EventRecord,
  LastFailure,
  PaymentFailure,
  PaymentIntentRecord,
  PaymentMethodRecord,
  Redirect,
} from '../records/records.ts';
import { testMethodOf } from '../records/test-method-of.ts';
import { insufficientFunds } from '../records/test-payment-methods.ts';
import type { Change } from '../store/entry.ts';
import { happened } from './operation.ts';

/** One attempt to take the money of an intent. */
export type Attempt = {
  readonly intent: PaymentIntentRecord;
  readonly method: PaymentMethodRecord;
  readonly at: number;
  readonly request: EventRecord['request'];
  readonly settleAfterMs: number;
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
 * https://docs.stripe.com/payments/paymentintents/lifecycle. Only here is money taken.
 */
export function attemptPayment(attempt: Attempt): Attempted {
  const { charge } = testMethodOf(attempt.method);
  switch (charge.does) {
    case 'succeed':
      return succeed(attempt);
    case 'decline':
      return declinePayment(attempt, charge.failure);
    case 'process':
      return process(attempt, charge.ends);
    case 'ask':
      if (attempt.authenticated) {
        return charge.then === 'succeed'
          ? succeed(attempt)
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

function succeed(attempt: Attempt): Attempted {
  const charge = newCharge(attempt, { status: 'succeeded', failure: null });
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
    amountRefunded: 0,
    currency: intent.currency,
    ...end,
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
