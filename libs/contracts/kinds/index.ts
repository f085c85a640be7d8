import type {
  FollowUpDetails,
  FollowUpKind,
  PaymentDetails,
  PaymentKind,
  TransactionKind,
} from '@triplock/payments';
import { cancellation } from './cancellation.ts';
import { capture } from './capture.ts';
import type { KindContract } from './kind.ts';
import { payment } from './payment.ts';
import { refund } from './refund.ts';

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

/** What the OpenAPI document calls what is shown of a kind: `Payment`. */
export function schemaNameOf(kind: TransactionKind): string {
  return kind.charAt(0).toUpperCase() + kind.slice(1);
}
