import type { Order, Shop } from './shop.ts';
import type { TriplockClient } from './triplock-client.ts';

/** What the saga stands on. */
export type Saga = {
  triplock: TriplockClient;
  shop: Shop;
  /** StoryEnd of each step that is durable; a process may die in it. */
  reached(step: SagaStep): void;
};

/** Every step after which a run can die. */
export const sagaSteps = [
  'payment-accepted',
  'paid',
  'decided',
  'refund-accepted',
  'refunded',
] as const;
export type SagaStep = (typeof sagaSteps)[number];

/** How an order ended. */
export type OrderEnd =
  | { outcome: 'fulfilled'; payment: string }
  | { outcome: 'not-paid'; payment: string; because: string }
  | { outcome: 'refunded'; payment: string; refund: string }
  /** Neither goods nor money: a person has to look. */
  | { outcome: 'not-refunded'; payment: string; refund: string; because: string };

/**
 * Takes the money for an order and hands it over, or gives the money back. Run it again after any
 * crash, as often as you like and by as many processes as you like: nothing happens twice.
 *
 * Each step can be repeated because it has a key that is made from the order's id alone and a body
 * that is made from the order alone. And the one decision, whether there are goods, is kept by the
 * shop: a later run must not ship what an earlier one has begun to refund.
 *
 * @throws when a step gets no answer for long. Then run it again.
 */
export async function fulfilOrder(
  { triplock, shop, reached }: Saga,
  order: Order,
): Promise<OrderEnd> {
  const { id: payment } = await triplock.post('/v1/payments', {
    key: `order:${order.id}:pay`,
    body: { amount: order.amount, currency: order.currency, reference: order.id },
  });
  reached('payment-accepted');
  const paid = await triplock.untilFinal(`/v1/payments/${payment}`);
  reached('paid');
  if (paid.status === 'failed') {
    return { outcome: 'not-paid', payment, because: paid.failure!.code };
  }

  const decision = await shop.handOver(order);
  reached('decided');
  if (decision === 'handed-over') return { outcome: 'fulfilled', payment };

  const { id: refund } = await triplock.post(`/v1/payments/${payment}/refunds`, {
    key: `order:${order.id}:refund`,
    body: { reason: decision },
  });
  reached('refund-accepted');
  const given = await triplock.untilFinal(`/v1/refunds/${refund}`);
  reached('refunded');
  if (given.status === 'succeeded') return { outcome: 'refunded', payment, refund };
  return { outcome: 'not-refunded', payment, refund, because: given.failure!.code };
}
