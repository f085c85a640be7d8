import { claimTimes } from '@triplock/claims';
import type { LedgerPorts } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import type { Gateway } from '../gateway.ts';
import { knownRecordKey, type Asked } from './find-transaction.ts';
import { findPosted } from './transaction.ts';

/** What became of a key. */
export type KeyOutcome =
  | { outcome: 'accepted' }
  /** Whoever claimed it last may still append its record. */
  | { outcome: 'in-flight'; leaseLeftMs: number }
  /** Nothing that arrived before was or will be accepted. */
  | { outcome: 'never-accepted'; asOf: Date }
  /** Nobody can know yet: the ledger is behind, or not known to have all that it had. */
  | { outcome: 'cold' };

/**
 * A request has ended after so long: it has a tenth of that for its stores, and a record that a
 * broker has received is in the topic or never comes there. Whoever claimed, however it ended, is
 * at work for so long.
 */
const requestMs = claimTimes.leaseMs;

/**
 * Tells what became of a key, now and for ever. A row of the ledger or a completed claim is the
 * proof that a request was accepted. That none ever was has to be proven, because claims expire and
 * get lost, and a gateway that died may have appended: nobody is at work; then all that is in the
 * topic is posted; then the ledger, which is known to have all that was posted, does not have it;
 * and still nobody is at work. In this order, whoever was accepted before is seen by one of them.
 * Who knows its record's key has to wait for those under that key alone.
 *
 * @throws when the ledger, the claim store or, about what both do not know, Kafka does not answer.
 */
export async function findKey(
  gateway: Gateway,
  { recordKey, ...asked }: Asked & { recordKey?: TxnId },
  signal: AbortSignal,
): Promise<KeyOutcome> {
  const askedAt = Date.now();
  const seen = await lookUp(gateway, asked);
  if (seen !== undefined) return seen;
  const { recovery } = gateway;
  const under = recordKey ?? knownRecordKey(asked);
  if (!(await recovery.untilPosted(under, signal))) return { outcome: 'cold' };
  const server = await gateway.wholeLedger();
  const later = await lookUp(gateway, asked);
  if (later !== undefined) return later;
  // Another server may have answered in between that lacks some of it.
  if (server === undefined || server !== (await gateway.wholeLedger())) return { outcome: 'cold' };
  return { outcome: 'never-accepted', asOf: new Date(askedAt - requestMs) };
}

/**
 * The name of the server that has the ledger, where it has all that was ever posted; one that takes
 * over nothing always has.
 */
export async function wholeLedger(continuity: LedgerPorts['continuity']) {
  if (continuity === undefined) return 'the ledger';
  const { state, server } = await continuity.look();
  return state === 'known' ? server : undefined;
}

/** Whether it is accepted or in flight; nothing where neither store knows of either. */
async function lookUp(gateway: Gateway, asked: Asked): Promise<KeyOutcome | undefined> {
  // The claim first: what completes and is posted in between is then found in the ledger.
  const claimed = await gateway.claims.read(asked.txnId);
  if ((await findPosted(gateway, asked)) !== undefined) return { outcome: 'accepted' };
  if (claimed.outcome !== 'pending') return undefined;
  if (claimed.underWay === undefined) return { outcome: 'accepted' };
  const { leaseLeftMs } = claimed.underWay;
  return leaseLeftMs > 0 ? { outcome: 'in-flight', leaseLeftMs } : undefined;
}
