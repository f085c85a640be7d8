import type { TransactionKind } from '@triplock/payments';
import type { TSchema } from '../schema.ts';
import { followUpSchemas } from './follow-up.ts';
import { acceptedPaymentSchema, paymentRequestSchema, paymentSchema } from './payment.ts';

/** Of one kind, the body of a request, that of its 202, and what `GET` by its id shows. */
type TransactionSchemas = { request: TSchema; accepted: TSchema; shown: TSchema };

/** What partners say and see of each kind of transaction. */
export const transactionSchemas: Readonly<Record<TransactionKind, TransactionSchemas>> = {
  payment: {
    request: paymentRequestSchema,
    accepted: acceptedPaymentSchema,
    shown: paymentSchema,
  },
  ...followUpSchemas,
};

/** What the OpenAPI document calls what is shown of a kind: `Payment`. */
export function schemaNameOf(kind: TransactionKind): string {
  return kind.charAt(0).toUpperCase() + kind.slice(1);
}
