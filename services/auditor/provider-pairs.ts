import { paymentStatuses } from '@triplock/contracts';

/**
 * What may stand beside what: the ledger's state of a card payment with the provider's of its
 * intent and charge, and the ledger's state of a refund with the provider's. Every pair there can
 * be is here once, and each has an answer:
 *
 * - `allowed`: they agree, or it is for somebody who is none of us to act;
 * - `in flight`: a worker is about to write, or the copy of the provider's lists is older than the
 *   row; drift once waiting is over;
 * - `drift`: no time mends it. What the provider shows is final, and the ledger says otherwise.
 *
 * The checks of the audit read these tables, and a test plants each pair at the simulator.
 */

export const paymentStates = [
  /** An intent of ours that no payment names. */
  'none',
  /** `authorized` is pending, and its money noted as held. */
  ...paymentStatuses,
] as const;
export const intentStates = [
  'none',
  /** Nobody has confirmed it, or every try was refused: whoever may confirm it can be charged. */
  'unconfirmed',
  /** It waits for its customer, or for the customer's bank. */
  'customer',
  'bank',
  /** The money is held until it is captured or let go. */
  'held',
  'succeeded',
  'canceled',
] as const;
export const chargeStates = [
  'none',
  /** Refused, or held and let go. */
  'failed',
  /** Under way, or held. */
  'pending',
  'succeeded',
  /** Taken or held, and given back whole by an operator, as it is recorded among their acts. */
  'returned',
] as const;
/** Of a refund on either side; `none`: that side does not have it. */
export const refundStates = ['none', 'pending', 'succeeded', 'failed'] as const;

export type PaymentState = (typeof paymentStates)[number];
export type IntentState = (typeof intentStates)[number];
export type ChargeState = (typeof chargeStates)[number];
export type RefundState = (typeof refundStates)[number];
export type Verdict = 'allowed' | 'in flight' | 'drift';

const signs: Readonly<Record<string, Verdict>> = { '.': 'allowed', '~': 'in flight', '!': 'drift' };

/**
 * A row for each state of a payment, a group for each of its intent, and in it a sign for each of
 * the charge, in the order of the lists above.
 *
 * Intent and charge are listed one after the other, so where they contradict each other one of them
 * is old. An intent that no payment names was left by a crash, and charges nobody as long as nobody
 * confirms it. What failed or was cancelled is told as such, so that nobody may confirm its intent
 * any more; where nothing is told yet all of it is in flight, but for what others have to do.
 */
const payments: Readonly<Record<PaymentState, string>> = {
  //           none  unconf. cust. bank  held  succ. cancel.
  none: '      .!!!. .!!!.   !!!!. !!!!. !!!!. !!!!. .!!!.',
  pending: '   ~~~~! ~~~~!   ..~~! ...~! ~~~~! ~~~~! ~~~~!',
  authorized: '~~~~! ~~~~!   ~~~~! ...~! .~.~! ~~~~! ~~~~!',
  succeeded: ' ~~~~! ~~~~!   ~~~~! ~~~~! ~~~~! ~~~.! !!!!!',
  captured: '  ~~~~! ~~~~!   ~~~~! ~~~~! ~~~~! ~~~.! !!!!!',
  failed: '    .~~!. ~~~!.   ~~~!. ~~~!. ~~~!. !!!!. ..~!.',
  canceled: '  ~~~!. ~~~!.   ~~~!. ~~~!. ~~~!. !!!!. ..~!.',
};

/** The same of a refund: a sign for each of the provider's, in the order of the list above. */
const refunds: Readonly<Record<RefundState, string>> = {
  none: '     .!!.',
  pending: '  ~.~~',
  succeeded: '~~.~',
  failed: '   .~~.',
};

/** What is to be said of a payment beside its intent and its charge. */
export function verdictOnPayment(
  payment: PaymentState,
  intent: IntentState,
  charge: ChargeState,
): Verdict {
  const groups = payments[payment].trim().split(/ +/);
  return verdictAt(groups[intentStates.indexOf(intent)], chargeStates.indexOf(charge));
}

/** What is to be said of a refund in the ledger beside the provider's. */
export function verdictOnRefund(booked: RefundState, made: RefundState): Verdict {
  return verdictAt(refunds[booked].trim(), refundStates.indexOf(made));
}

function verdictAt(group: string | undefined, nth: number): Verdict {
  const verdict = signs[group?.[nth] ?? ''];
  if (verdict === undefined) throw new Error(`no sign at ${nth} of ${group}`);
  return verdict;
}

/**
 * Fills the pairs of a verdict into a statement, as a list of texts: such as `failed held pending`
 * for the comment `payments: drift`, and `failed pending` for `refunds: in flight`.
 */
export function withPairs(sql: string): string {
  return sql.replaceAll(/\/\* (payments|refunds): (in flight|drift) \*\//g, (_, of, verdict) => {
    const pairs =
      of === 'payments' ? paymentPairs(verdict as Verdict) : refundPairs(verdict as Verdict);
    return pairs.map((each) => `'${each}'`).join(', ');
  });
}

function paymentPairs(verdict: Verdict): string[] {
  return paymentStates.flatMap((payment) =>
    intentStates.flatMap((intent) =>
      chargeStates
        .filter((charge) => verdictOnPayment(payment, intent, charge) === verdict)
        .map((charge) => `${payment} ${intent} ${charge}`),
    ),
  );
}

function refundPairs(verdict: Verdict): string[] {
  return refundStates.flatMap((booked) =>
    refundStates
      .filter((made) => verdictOnRefund(booked, made) === verdict)
      .map((made) => `${booked} ${made}`),
  );
}
