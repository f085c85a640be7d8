import type { FieldProblem } from '@triplock/contracts';
import type { AcceptedFollowUp } from '@triplock/payments';
import type { Gateway } from '../gateway.ts';
import { findKey } from './find-key.ts';
import type { Order } from './transaction.ts';

/**
 * How long it may take to prove that a key is new. A request that can be refused waits for it, and
 * one whose proof takes longer is accepted: its end then says what a refusal would have said.
 */
const proofMs = 1_000;

/**
 * Which field asks for what its payment can never give, of a key that was never accepted; nothing
 * where it may be had, or the ledger does not say at once: the ledger decides then, once the
 * request is posted.
 *
 * The payment is read before the key is looked for. What is final of it never changes, and a
 * request that is part of that, or has yet to be decided, was accepted before: so its key is not
 * proven to be new, and its retry gets the answer that it had.
 */
export async function findImpossible(
  gateway: Gateway,
  { transaction, whyNever, budget, requestId }: Order & { transaction: AcceptedFollowUp },
): Promise<FieldProblem | undefined> {
  if (whyNever === undefined) return undefined;
  const { kind, txnId, partnerId, paymentId, details } = transaction;
  const payment = await gateway.questions.soon(() => gateway.ledger.find(paymentId));
  const why = payment?.partnerId === partnerId ? whyNever(payment, details) : undefined;
  if (why === undefined) return undefined;
  const key = { kind, txnId, partnerId, requestId, recordKey: paymentId };
  const finding = findKey(gateway, key, AbortSignal.timeout(proofMs));
  const found = await budget.hold(finding, 'finding the key').catch(() => undefined);
  return found?.outcome === 'never-accepted' ? why : undefined;
}
