import type { Ledger, Refunds } from '@triplock/ledger';
import type { FastifyInstance } from 'fastify';
import type { AcceptRouteParts } from './accept-route.ts';
import type { AcceptParts } from '../accept/accept-transaction.ts';
import type { GatewayMetrics } from '../http/metrics.ts';
import { addPaymentListRoute } from './payment-list-route.ts';
import { readPaymentOperation } from './payment-operations.ts';
import { addPaymentsRoute } from './payments-route.ts';
import { addReadRoute } from './read-route.ts';
import type { ReadParts } from '../accept/read-transaction.ts';
import { addRefundListRoute } from './refund-list-route.ts';
import { readRefundOperation } from './refund-operations.ts';
import { addRefundsRoute } from './refunds-route.ts';
import { paymentForm, refundForm, type AcceptedTransaction } from '../accept/transaction-form.ts';
import { openWaitSeats } from './wait-seats.ts';

/** What the routes about payments and refunds stand on. */
export type TransactionRoutesParts = Omit<AcceptParts<AcceptedTransaction>, 'form'> &
  Pick<ReadParts<never>, 'claims'> &
  AcceptRouteParts & {
    ledger: Pick<Ledger, 'find' | 'list'>;
    refunds: Pick<Refunds, 'find' | 'listOf'>;
    metrics: GatewayMetrics;
  };

/** Everything a partner can do about its payments and their refunds. */
export function addTransactionRoutes(app: FastifyInstance, parts: TransactionRoutesParts): void {
  const seats = openWaitSeats(parts.metrics.waiters);
  const payments = { ...parts, seats, form: paymentForm(parts.ledger) };
  addPaymentsRoute(app, payments);
  addReadRoute(app, payments, {
    path: '/v1/payments/:id',
    schema: readPaymentOperation,
    what: 'payment',
  });
  addPaymentListRoute(app, payments);

  const refunds = { ...parts, seats, form: refundForm(parts.refunds), payments };
  addRefundsRoute(app, refunds);
  addReadRoute(app, refunds, {
    path: '/v1/refunds/:id',
    schema: readRefundOperation,
    what: 'refund',
  });
  addRefundListRoute(app, refunds);
}
