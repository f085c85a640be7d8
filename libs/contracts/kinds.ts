import type {
  FollowUpDetails,
  FollowUpKind,
  PaymentDetails,
  PaymentKind,
  TransactionKind,
} from '@triplock/payments';
import { cancellation } from './kinds/cancellation.ts';
import { capture } from './kinds/capture.ts';
import type { KindContract } from './kinds/kind.ts';
import { payment } from './kinds/payment.ts';
import { refund } from './kinds/refund.ts';

/** What partners and records say of each kind of transaction. */
export const transactionContracts: Readonly<
  Record<PaymentKind, KindContract<PaymentDetails>> &
    Record<FollowUpKind, KindContract<FollowUpDetails>>
> = {
  payment,
  refund,
  capture,
  cancellation,
};

/** What the OpenAPI document calls what is shown of a kind, or of a dispute: `Payment`. */
export function schemaNameOf(kind: TransactionKind | 'dispute'): string {
  return kind.charAt(0).toUpperCase() + kind.slice(1);
}
