import type { PaymentIntentRecord } from '../records/records.ts';
import { refuse, took, type Read } from '../wire/read-params.ts';
import { resourceMissing } from '../wire/stripe-error.ts';
import type { Desk } from './operation.ts';

/** The intent that the path names, or a parameter. */
export function findIntent(desk: Desk, id: string, param?: string): Read<PaymentIntentRecord> {
  const intent = desk.account.paymentIntents.get(id);
  if (intent !== undefined) return took(intent);
  const what = { kind: 'payment_intent', id, ...(param !== undefined && { param }) };
  return refuse(resourceMissing(what));
}
