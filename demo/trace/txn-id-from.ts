import { parseIdempotencyKey } from '@triplock/contracts';
import { UsageError } from '@triplock/launcher';
import { deriveTxnId, isTxnId, type PartnerId, type TxnId } from '@triplock/payments';

/**
 * The payment that the words of a command name: an id, or a partner and an idempotency key.
 *
 * @throws UsageError when they are neither.
 */
export function txnIdFrom([first, key]: readonly string[]): TxnId {
  if (first === undefined) throw new UsageError('give an id, or a partner and a key');
  if (key === undefined) {
    if (isTxnId(first)) return first;
    throw new UsageError(`'${first}' is not an id: give the id of a 202, or a partner and a key`);
  }
  const parsed = parseIdempotencyKey([key]);
  if (parsed.outcome === 'key') return deriveTxnId('payment', first as PartnerId, parsed.key);
  throw new UsageError(`'${key}' is not an idempotency key`);
}
