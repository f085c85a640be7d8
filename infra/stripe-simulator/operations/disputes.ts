import {
  newId,
  type ChargeRecord,
  type DisputeReason,
  type DisputeRecord,
  type EventRecord,
} from '../records.ts';
import { readExpand, renderExpanded } from '../render/records.ts';
import type { Change } from '../store/journal.ts';
import { testMethodOf } from '../test-payment-methods.ts';
import { invalidRequest, resourceMissing } from '../wire/errors.ts';
import { readParams, refuse, texts } from '../wire/params.ts';
import { happened, ok, type Operation, type World } from './operation.ts';

/** What a dispute adds to the step that raises it; nothing where none is raised. */
export type Raised = {
  readonly charge: ChargeRecord;
  readonly dispute: {
    readonly disputes: readonly DisputeRecord[];
    readonly events: readonly EventRecord[];
  };
};

/**
 * The dispute that a test card raises as soon as its money is taken
 * (https://docs.stripe.com/testing#disputes), in the same step: Stripe's comes a moment later.
 */
export function raiseDispute(charge: ChargeRecord, at: number): Raised {
  const { dispute: reason } = testMethodOf(charge.paymentMethod);
  if (reason === undefined) return { charge, dispute: { disputes: [], events: [] } };
  return disputed(charge, { reason, amount: charge.amountCaptured, at });
}

type Objection = { readonly reason: DisputeReason; readonly amount: number; readonly at: number };

/** The amount is withdrawn at once: https://docs.stripe.com/disputes/how-disputes-work */
function disputed(charge: ChargeRecord, { reason, amount, at }: Objection): Raised {
  const dispute: DisputeRecord = {
    kind: 'dispute',
    id: newId('du_'),
    created: at,
    amount,
    currency: charge.currency,
    charge: charge.id,
    paymentIntent: charge.paymentIntent,
    reason,
    status: 'needs_response',
    closedAt: null,
  };
  const when = { at, request: null };
  const events = [
    happened('charge.dispute.created', dispute, when),
    happened('charge.dispute.funds_withdrawn', dispute, when),
  ];
  return { charge: { ...charge, disputed: true }, dispute: { disputes: [dispute], events } };
}

/** What came of what only the customer's bank can do. */
export type AtTheBank =
  | { readonly outcome: 'done'; readonly id: string; readonly change: Change }
  | { readonly outcome: 'unknown' }
  /** Nothing was taken, or all of it is back or disputed already, or the dispute is closed. */
  | { readonly outcome: 'not-possible'; readonly because: string };

/**
 * The customer of a payment intent asks their bank for their money, which no API call of the
 * merchant can do. Without an amount, for all that was captured and is neither given back nor
 * disputed: a charge may have several disputes, each of a part, or one after another was won.
 */
export function disputeCharge(
  { account, now }: World,
  id: string,
  wish: { reason?: DisputeReason; amount?: number },
): AtTheBank {
  if (account.paymentIntents.get(id) === undefined) return { outcome: 'unknown' };
  const charge = account.chargesOf(id).find(({ captured }) => captured);
  if (charge === undefined) return { outcome: 'not-possible', because: 'nothing was captured' };
  const most = charge.amount - charge.amountRefunded - disputedOf(account, charge.id);
  const amount = wish.amount ?? most;
  if (amount > most || amount === 0) {
    return { outcome: 'not-possible', because: `${most} is neither given back nor disputed` };
  }
  const raised = disputed(charge, { reason: wish.reason ?? 'fraudulent', amount, at: now() });
  const { disputes, events } = raised.dispute;
  return {
    outcome: 'done',
    id: disputes[0]!.id,
    change: { charges: [raised.charge], disputes, events },
  };
}

/** What disputes took of a charge, and is not back. */
function disputedOf(account: World['account'], charge: string): number {
  const open = account.disputesOf(charge).filter(({ status }) => status !== 'won');
  return open.reduce((sum, { amount }) => sum + amount, 0);
}

/** The bank decides: https://docs.stripe.com/disputes/how-disputes-work (won, lost). */
export function decideDispute(
  { account, now }: World,
  id: string,
  status: 'won' | 'lost',
): AtTheBank {
  const dispute = account.disputes.get(id);
  if (dispute === undefined) return { outcome: 'unknown' };
  if (dispute.status !== 'needs_response') {
    return { outcome: 'not-possible', because: `it is ${dispute.status}` };
  }
  return { outcome: 'done', id, change: closed(dispute, status, { at: now(), request: null }) };
}

function closed(
  dispute: DisputeRecord,
  status: 'won' | 'lost',
  when: { at: number; request: EventRecord['request'] },
): Change {
  const ended: DisputeRecord = { ...dispute, status, closedAt: when.at };
  const reinstated = happened('charge.dispute.funds_reinstated', ended, when);
  const events = [
    happened('charge.dispute.closed', ended, when),
    ...(status === 'won' ? [reinstated] : []),
  ];
  return { disputes: [ended], events };
}

/** https://docs.stripe.com/api/disputes/close: gives in, "it is now lost". */
export const closeDispute: Operation = {
  name: 'disputes.close',
  method: 'POST',
  path: '/v1/disputes/:id/close',
  prepare(world, call) {
    const read = readParams(call.params, { expand: texts });
    if (read.outcome === 'refused') return read;
    const { id } = call;
    if (world.account.disputes.get(id) === undefined) {
      return refuse(resourceMissing({ kind: 'dispute', id }));
    }
    const expand = readExpand('dispute', read.value.expand);
    if (expand.outcome === 'refused') return expand;
    const run = () => {
      const dispute = world.account.disputes.get(id)!;
      if (dispute.status !== 'needs_response') {
        return { answer: () => invalidRequest('This dispute is already closed.') };
      }
      const change = closed(dispute, 'lost', { at: world.now(), request: call.request });
      const after = () => world.account.disputes.get(id)!;
      return { change, answer: () => ok(renderExpanded(world.account, after(), expand.value)) };
    };
    return { outcome: 'ready', run };
  },
};
