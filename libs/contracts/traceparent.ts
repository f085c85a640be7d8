import type { TxnId } from '@triplock/payments';

const form = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * The `traceparent` (W3C Trace Context, version 00) that a message came with, or one made from its
 * transaction's id when it has none that can be used: a broken trace never refuses a payment.
 */
export function traceparentOf(received: string | undefined, txnId: TxnId): string {
  if (received !== undefined && form.test(received)) return received;
  const hex = txnId.replaceAll('-', '');
  return `00-${hex}-${hex.slice(16)}-00`;
}
