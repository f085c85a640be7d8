import { isFinal, type Payment } from '@triplock/payments';
import type { FastifySchema } from 'fastify';
import type { WhyNever } from '../../accept/transaction.ts';
import { byId, foundResponse, preferHeader, readProblems } from '../schemas.ts';
import { onPayment } from './follow-up.ts';
import type { KindRoutes } from './kind.ts';

const createRefund: FastifySchema = {
  operationId: 'createRefund',
  summary: 'Accept a refund',
  description:
    'Gives back a part of a payment, or with `{}` all that is left of it when the refund is posted. ' +
    'Takes effect once per key, as a payment does; the keys of refunds are apart from those of ' +
    'payments. A payment can be refunded right after its 202: the refund waits until it is final. ' +
    'Refunds never exceed their payment. One of more than is left, counting those that have ' +
    'succeeded, or of a payment that took no money, is a 400 that points at `#/amount` where that ' +
    'is known at once, and its key stays unused. What is found later, as where others are under ' +
    'way, ends `failed` with `amount_exceeds_refundable` or `payment_not_refundable`.',
  ...onPayment('refund'),
  body: { $ref: 'RefundRequest#' },
};

const readRefund: FastifySchema = {
  operationId: 'readRefund',
  summary: 'Read a refund',
  description:
    'An accepted refund is there at once, `pending` until the money is given back or cannot be. ' +
    'Without an `amount` in the request it has one once it is posted.',
  params: byId,
  headers: preferHeader('refund'),
  response: {
    200: foundResponse('refund'),
    ...readProblems,
  },
};

/**
 * What other refunds have got is gone for good, and what they have reserved may come back: so
 * the first alone counts here, and the ledger has the last word.
 */
const whyNever: WhyNever = (payment, { amount }) => {
  if (!isFinal(payment.state)) return undefined;
  const left = takenBy(payment) - payment.amountRefunded;
  if (left > 0n && (amount === undefined || amount <= left)) return undefined;
  const { currency } = payment.details.money;
  const detail =
    takenBy(payment) === 0n
      ? `the payment is ${payment.state}: it took no money that could go back`
      : `more than is left of the payment: ${left} minor units of ${currency}`;
  return { pointer: '#/amount', detail };
};

/** What a final payment took, in minor units. */
function takenBy({ state, details, amountCaptured = 0n }: Payment): bigint {
  if (state === 'succeeded') return details.money.amount;
  return state === 'captured' ? amountCaptured : 0n;
}

/** `POST /v1/payments/{id}/refunds` and `GET /v1/refunds/{id}`. */
export const refund: KindRoutes = {
  create: { path: '/v1/payments/:id/refunds', schema: createRefund },
  read: { path: '/v1/refunds/:id', schema: readRefund },
  whyNever,
};
