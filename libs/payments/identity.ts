import { hash } from 'node:crypto';
import type { EventType, SingleEventType, TransactionKind } from './kinds.ts';
import type { ProviderName } from './money.ts';
import type {
  DisputeId,
  EventId,
  Fingerprint,
  IdempotencyKey,
  PartnerId,
  TxnId,
} from './nominal.ts';

/**
 * A UUIDv8 (RFC 9562, section 5.8) that is a pure function of its parts: the first 16 bytes of
 * SHA-256 over each part as UTF-8 preceded by its byte length as a 32-bit big-endian integer.
 * The length prefix keeps ("ab", "c") and ("a", "bc") apart.
 */
export function deriveId(...parts: readonly string[]): string {
  const hex = digestParts(parts);
  const variant = variants.charAt(Number.parseInt(hex.charAt(16), 16));
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

// The upper two bits of this digit are 1 and 0, the lower two are the digest's.
const variants = '89ab89ab89ab89ab';

/** SHA-256 in lower-case hex over length-prefixed parts, as {@link deriveId} defines them. */
function digestParts(parts: readonly string[]): string {
  let size = 0;
  for (const part of parts) size += lengthBytes + Buffer.byteLength(part);
  const framed = Buffer.allocUnsafe(size);
  let at = 0;
  for (const part of parts) {
    const length = framed.write(part, at + lengthBytes);
    framed.writeUInt32BE(length, at);
    at += lengthBytes + length;
  }
  // One call over one buffer costs a third of a stream of updates, and its answer as text half of
  // one as bytes. Every payment needs two.
  return hash('sha256', framed, 'hex');
}

const lengthBytes = 4;

/** The transaction's id: the claim key, the Kafka record key and the ledger's primary key. */
export function deriveTxnId(kind: TransactionKind, partner: PartnerId, key: IdempotencyKey): TxnId {
  return deriveId(kind, partner, key) as TxnId;
}

/**
 * The id of a transaction's event; the same on every publish, so that the inbox can know it again.
 */
export function deriveEventId(txnId: TxnId, type: SingleEventType): EventId {
  return deriveId('event', txnId, type) as EventId;
}

/** The id of a key conflict: one per losing fingerprint, however often the loser is redelivered. */
export function deriveKeyConflictId(txnId: TxnId, losing: Fingerprint): EventId {
  return deriveId('event', txnId, 'payment.key_conflict', losing) as EventId;
}

/**
 * The id of the event of a dispute: one per dispute, by the provider's id, however often reported.
 */
export function deriveDisputeEventId(txnId: TxnId, disputeId: string): EventId {
  return deriveId('event', txnId, 'payment.disputed', disputeId) as EventId;
}

/**
 * The id of a dispute, from what the provider calls it and the charge's intent: whoever reports it
 * how often, and before the payment is known.
 */
export function deriveDisputeId(dispute: {
  provider: ProviderName;
  intentId: string;
  disputeId: string;
}): DisputeId {
  const { provider, intentId, disputeId } = dispute;
  return deriveId('dispute', provider, intentId, disputeId) as DisputeId;
}

/** What an event says that its id follows from. What it lacks makes the id of no event of ours. */
export type IdentifyingData = { id: string; fingerprint?: unknown; dispute?: unknown };

/** The id that follows from what an event says, as whoever receives it can check. */
export function eventIdOf(type: EventType, data: IdentifyingData): EventId {
  const txnId = data.id as TxnId;
  const textOf = (value: unknown) => (typeof value === 'string' ? value : '');
  if (type === 'payment.key_conflict') {
    return deriveKeyConflictId(txnId, textOf(data.fingerprint) as Fingerprint);
  }
  if (type !== 'payment.disputed') return deriveEventId(txnId, type);
  return deriveDisputeEventId(txnId, textOf((data.dispute as { id?: unknown } | undefined)?.id));
}

const uuidV8 = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Whether a text has the form of an id of ours. It says nothing about the id being known. */
export function isTxnId(text: string): text is TxnId {
  return uuidV8.test(text);
}

/** The same of the id of a dispute. */
export function isDisputeId(text: string): text is DisputeId {
  return uuidV8.test(text);
}

/**
 * The bucket of an id: which warm marker, which outbox lease and which Pub/Sub ordering key it
 * belongs to. Ids are hashes already, so their first 16 bits are spread evenly.
 */
export function bucketOf(id: TxnId, buckets: number): number {
  return Number.parseInt(id.slice(0, 4), 16) % buckets;
}

/**
 * The request whose sameness a fingerprint decides. `path` is resolved: no query, no trailing
 * slash.
 */
export type FingerprintedRequest = { method: string; path: string; body: JsonValue };

/**
 * Tells a retry from a reused key: SHA-256 over method, resolved path and the canonical body
 * (RFC 8785), each preceded by its length. It travels in the claim, the Kafka record and the
 * ledger row, so that any of them alone can decide.
 */
export function fingerprint(request: FingerprintedRequest): Fingerprint {
  const parts = [request.method, request.path, canonicalJson(request.body)];
  return digestParts(parts) as Fingerprint;
}

/**
 * A value that JSON can carry; numbers are integers within ±(2^53 − 1) everywhere in this system.
 */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export type JsonObject = { readonly [name: string]: JsonValue | undefined };

/**
 * The canonical form of RFC 8785 (JCS): member names sorted by UTF-16 code units, no white space,
 * ECMAScript's own forms of numbers and strings. Members that are `undefined` are left out.
 *
 * Two bodies that say the same thing give the same text, whatever their order or spacing.
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  let members = '';
  for (const name of Object.keys(value).sort()) {
    const member = value[name];
    if (member === undefined) continue;
    if (members !== '') members += ',';
    members += `${JSON.stringify(name)}:${canonicalJson(member)}`;
  }
  return `{${members}}`;
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

const traceForm = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/**
 * The `traceparent` (W3C Trace Context, version 00) that a message came with, or one made from its
 * transaction's id when it has none that can be used: a broken trace never refuses a payment.
 */
export function traceparentOf(received: string | undefined, txnId: TxnId): string {
  if (received !== undefined && traceForm.test(received)) return received;
  const hex = txnId.replaceAll('-', '');
  return `00-${hex}-${hex.slice(16)}-00`;
}
