import type { ClaimRequest } from '@triplock/claims';
import {
  encodePaymentAccepted,
  encodeFollowUpAccepted,
  renderAccepted,
  renderAwaiting,
  renderAcceptedFollowUp,
  renderPayment,
  renderPending,
  renderPendingFollowUp,
  renderFollowUp,
  type EncodedRecord,
  type AcceptedAnswer,
  type FieldProblem,
  type NextAction,
} from '@triplock/contracts';
import {
  isFinal,
  isFollowUp,
  type AcceptedPayment,
  type AcceptedFollowUp,
  type JsonObject,
  type Payment,
  type FollowUp,
  type FollowUpDetails,
  type TransactionKind,
  type TxnId,
} from '@triplock/payments';
import type { SealedText, TimeBudget } from '@triplock/runtime';
import type { Gateway } from '../gateway.ts';

// A kind is a payment or follows one: these functions serve every kind of either as they are.

/** What a partner asks to be done once per key. */
export type Transaction = AcceptedPayment | AcceptedFollowUp;

/** An authenticated and valid request. */
export type Order = {
  transaction: Transaction;
  traceparent: string;
  budget: TimeBudget;
  /** For the log. */
  requestId: string;
  /** What its kind knows of it that is refused at once; absent where that is nothing. */
  whyNever?: WhyNever | undefined;
};

/**
 * Which field says why something can never be had of a payment, judged by what of it is final
 * alone; nothing where it may be had, or nobody can know yet.
 */
export type WhyNever = (payment: Payment, details: FollowUpDetails) => FieldProblem | undefined;

/** The same as the ledger holds it. */
export type Posted = Payment | FollowUp;

/**
 * The 202. A function of the request alone, so that a retry, a takeover and the ledger's row give
 * the same bytes.
 *
 * @throws for a form that a newer gateway gave it in.
 */
export function renderAnswer(transaction: Transaction | Posted): AcceptedAnswer {
  if ('paymentId' in transaction) return renderAcceptedFollowUp(transaction);
  return renderAccepted(transaction);
}

/** The record of the accepted topic. */
export function encodeAccepted(transaction: Transaction, traceparent: string): EncodedRecord {
  if ('paymentId' in transaction) return encodeFollowUpAccepted(transaction, traceparent);
  return encodePaymentAccepted(transaction, traceparent);
}

/** The key of its record, which decides its partition: a refund stays behind its payment. */
export function recordKeyOf(transaction: Transaction): TxnId {
  return 'paymentId' in transaction ? transaction.paymentId : transaction.txnId;
}

/** What a read shows until the ledger has it. */
function renderUnposted(transaction: Transaction): JsonObject {
  if ('paymentId' in transaction) return renderPendingFollowUp(transaction);
  return renderPending(transaction);
}

/**
 * What a read shows of it once the ledger has it, with what its customer has to do: what acts for
 * the customer to who `mayAct` alone. Where that cannot be opened here the payment is shown
 * without, because its state is known all the same.
 */
export function renderPosted(
  { actionKeys, logger }: Gateway,
  posted: Posted,
  { mayAct = false, requestId }: { mayAct?: boolean; requestId?: string } = {},
): JsonObject {
  if ('paymentId' in posted) return renderFollowUp(posted);
  const asked = askedOfCustomer(posted);
  if (asked === undefined) return renderPayment(posted);
  const { nextAction, expiresAt } = asked;
  const { txnId } = posted;
  try {
    const opened = actionKeys.open(`action/${txnId}`, JSON.parse(nextAction) as SealedText);
    const action = JSON.parse(opened) as NextAction;
    return renderAwaiting(posted, mayAct ? action : toldOf(action), expiresAt);
  } catch (err) {
    const why = 'what a customer has to do could not be opened: see ACTION_KEYS';
    logger.error({ err, txnId, requestId }, why);
    return renderPayment(posted);
  }
}

/** What whoever may not act for a customer is told of it, as an event tells it. */
function toldOf({ type }: NextAction): NextAction {
  return type === undefined ? {} : { type };
}

/**
 * What the customer of a payment has to do, sealed, and until when; nothing where nobody has to.
 */
export function askedOfCustomer(
  posted: Posted,
): { nextAction: string; expiresAt: Date } | undefined {
  if ('paymentId' in posted || isFinal(posted.state)) return undefined;
  const { nextAction, expiresAt } = posted.customer ?? {};
  if (nextAction === undefined || expiresAt === undefined) return undefined;
  return { nextAction, expiresAt };
}

/** The ledger's row, asked for after the call; one of another kind is none. */
export async function findPosted(
  { ledger, refunds }: Gateway,
  { kind, txnId }: { kind: TransactionKind; txnId: TxnId },
): Promise<Posted | undefined> {
  const posted = isFollowUp(kind) ? await refunds.find(txnId) : await ledger.find(txnId);
  return posted?.kind === kind ? posted : undefined;
}

/**
 * Whether nothing becomes of it by itself: it is final, or authorised and in its partner's hands
 * until a capture or cancellation of it is under way.
 */
export function isAtRest(posted: Posted): boolean {
  if (isFinal(posted.state)) return true;
  const isPayment = !('paymentId' in posted);
  return isPayment && posted.authorizedAt !== undefined && posted.closedBy === undefined;
}

/** What a request is claimed by. */
export function claimOf(transaction: Transaction): ClaimRequest {
  const { txnId, partnerId, kind, fingerprint, acceptedAt, responseVersion } = transaction;
  const shown = JSON.stringify(renderUnposted(transaction));
  const whose = { txnId, partnerId, kind, fingerprint, recordKey: recordKeyOf(transaction) };
  return { ...whose, acceptedAt, responseVersion, shown };
}
