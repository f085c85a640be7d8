import type { Endpoints } from '@triplock/launcher';
import type { TxnId } from '@triplock/payments';
import type { ClaimSeen } from '@triplock/claims-inspector';
import { readCopyUntil } from '../copy-behind.ts';
import type { NeededPart } from '../needed-parts.ts';
import type { System } from '../system.ts';
import { askPart, type Unasked } from './ask-part.ts';
import { readEffects, readRefundIds, type Effects } from './read-effects.ts';
import { readProvider, type ProviderObject } from './read-provider.ts';
import { readReceipts, type Receipt } from './read-receipts.ts';
import { readRecords, type RecordsSeen } from './read-records.ts';

/** One transaction as every layer has it now. */
export type TransactionTrace = Effects & {
  txnId: TxnId;
  claim: ClaimSeen | undefined;
  receipts: Receipt[];
  /** What the provider has by the ids that the ledger names. */
  provider: ProviderObject[];
};

/** A payment with its refunds, or a refund alone, as every layer has it now. */
export type PaymentTrace = TransactionTrace & {
  /** Which store keeps claims. */
  claims: Endpoints['claims'];
  /** Nothing when Kafka was not asked. */
  kafka: RecordsSeen | undefined;
  refunds: TransactionTrace[];
  /** Until when the ledger's copy holds, while it is behind. */
  ledgerUntil: Date | undefined;
  /** Parts that could not be asked: what they have is missing here. */
  unasked: Unasked[];
};

const dayMs = 86_400_000;
const nothing: Effects = { ledger: [], entries: [], events: [], deadLetters: [] };

/** Looks a payment or a refund up in every layer that answers. */
export async function tracePayment(system: System, txnId: TxnId): Promise<PaymentTrace> {
  const unasked: Unasked[] = [];
  const look = lookWith(system, unasked);
  // Before the rows: a copy that is whole by then misses nothing that was so when this was asked.
  const ledgerUntil = await askPart<Date | undefined>(
    system,
    { part: 'postgres', otherwise: undefined, unasked },
    () => readCopyUntil(system.database),
  );
  const main = await look(txnId);
  const refundIds = await askPart(system, { part: 'postgres', otherwise: [], unasked }, () =>
    readRefundIds(system.database, txnId),
  );
  const [kafka, ...refunds] = await Promise.all([
    readTopic(system, { main, unasked }),
    ...refundIds.map((id) => look(id as TxnId)),
  ]);
  const { claims } = system.endpoints;
  return { ...main, claims, kafka, refunds, ledgerUntil, unasked: withoutRepeats(unasked) };
}

/** The part that a claim is read from; what DynamoDB is like is seen when it is asked. */
export function partOfClaims({ claims }: Pick<PaymentTrace, 'claims'>): NeededPart {
  return claims === 'redis' ? 'redis' : claims === 'dynamodb' ? 'dynamodb' : 'postgres';
}

/** Whether no layer that was asked knows it. */
export function isNowhere({ claim, kafka, ledger, deadLetters }: PaymentTrace): boolean {
  const known = [ledger, deadLetters, kafka?.records ?? []].some((each) => each.length > 0);
  return claim === undefined && !known;
}

function lookWith(system: System, unasked: Unasked[]) {
  const { database, endpoints, claims } = system;
  const ask = <Answer>(part: NeededPart, otherwise: Answer, work: () => Promise<Answer>) =>
    askPart(system, { part, otherwise, unasked }, work);
  return async (txnId: TxnId): Promise<TransactionTrace> => {
    const [effects, claim, receipts] = await Promise.all([
      ask('postgres', nothing, () => readEffects(database, txnId)),
      ask<ClaimSeen | undefined>(partOfClaims(endpoints), undefined, () => claims.look(txnId)),
      ask('catcher', [], () => readReceipts(endpoints.catcher, txnId)),
    ]);
    const provider = await readProvider(system, effects.ledger).catch((error: unknown) => {
      const why = `the provider at ${endpoints.stripe} was not asked: ${(error as Error).message}`;
      unasked.push({ part: 'provider', why });
      return [];
    });
    return { txnId, claim, receipts, provider, ...effects };
  };
}

/** Records are kept under the payment's id; those of a refund with those of its payment. */
function readTopic(
  system: System,
  { main, unasked }: { main: TransactionTrace; unasked: Unasked[] },
): Promise<RecordsSeen | undefined> {
  const [row] = main.ledger;
  // A payment that only Kafka has was accepted within the life of its claim.
  const since = row?.createdAt ?? main.claim?.acceptedAt ?? new Date(Date.now() - dayMs);
  const key = row?.paymentId ?? main.txnId;
  const query = { topic: system.names.acceptedTopic, key, since };
  return askPart<RecordsSeen | undefined>(
    system,
    { part: 'kafka', otherwise: undefined, unasked },
    () => readRecords(system.kafka, query),
  );
}

function withoutRepeats(unasked: readonly Unasked[]): Unasked[] {
  return [...new Map(unasked.map((each) => [each.why, each])).values()];
}
