import { encodePaymentEvent, paymentEventOf, type PaymentEvent } from '@triplock/contracts';
import type { AcceptedPayment } from '@triplock/payments';

/** The event of a payment that succeeded, for tests. */
export function succeeded(payment: AcceptedPayment): PaymentEvent {
  const settled = {
    version: 1,
    amountRefunded: 0n,
    settledAt: new Date('2026-01-02T03:04:05.678Z'),
  };
  return paymentEventOf({ ...payment, state: 'succeeded', ...settled }, 'payment.succeeded', 1);
}

/** A message as a subscriber gets it. */
type IncomingMessage = {
  id: string;
  data: Buffer;
  attributes: Readonly<Record<string, string>>;
  orderingKey: string;
  deliveryAttempt: number;
  publishTime: Date;
};

let messages = 0;

/** An event as Pub/Sub delivers it, each time under a message id of its own. */
export function messageOf(
  event: PaymentEvent,
  changes: Partial<IncomingMessage> = {},
): IncomingMessage {
  const { payload, attributes } = encodePaymentEvent(event);
  messages += 1;
  return {
    id: `message-${messages}`,
    data: Buffer.from(payload),
    attributes: attributes('00-11111111111111111111111111111111-2222222222222222-01'),
    orderingKey: '7',
    deliveryAttempt: 1,
    publishTime: new Date(),
    ...changes,
  };
}
