import { transactionKinds, type TransactionKind } from '@triplock/payments';
import type { Gateway } from '../gateway.ts';
import { accepting } from './create-transactions.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { openReads } from './read-transactions.ts';
import { cancellation } from './kinds/cancellation.ts';
import { capture } from './kinds/capture.ts';
import type { KindRoutes } from './kinds/kind.ts';
import { payment } from './kinds/payment.ts';
import { refund } from './kinds/refund.ts';

/** The routes of each kind of transaction. */
export const routesOfKinds: Readonly<Record<TransactionKind, KindRoutes>> = {
  payment,
  refund,
  capture,
  cancellation,
};

/** Adds the routes by which a transaction of every kind is made, and read by its id. */
export function addKindRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const read = openReads(app, gateway);
  for (const kind of transactionKinds) {
    const { create, read: reads, whyNever } = routesOfKinds[kind];
    const { handler, ...guards } = accepting(gateway, kind, whyNever);
    app.post(create.path, { schema: create.schema, scope: 'pay', ...guards }, handler);
    app.get(reads.path, { schema: reads.schema, scope: 'any' }, (_, reply) => read(kind, reply));
  }
}
