import {
  claimStores,
  inspectClaims,
  neededBy,
  type ClaimPart,
  type KeepingStore,
} from '@triplock/claim-stores';
import type { ClaimSeen, ClaimsInspector } from '@triplock/claims';
import { decodeAccepted } from '@triplock/contracts';
import type { TxnId } from '@triplock/payments';
import { openForCommand, type Database } from '@triplock/postgres';
import type { JournalKind, JournalRow } from '@triplock/provider';
import { openProviderJournals } from '@triplock/providers';
import { openTopicReader, type ReceivedRecord, type TopicReader } from '@triplock/transport';
import { required, type Config } from './config.ts';
import {
  readCopyUntil,
  readEffects,
  readKnownIds,
  readReceipts,
  readRefundIds,
  type Effects,
  type LedgerRow,
  type Receipt,
} from './effects.ts';
import { askPart, brokersOf, type Operator, type Part, type Unasked } from './operator.ts';

/** What the provider has by an id that the ledger names; `undefined` when it has nothing by it. */
export type ProviderObject = { kind: JournalKind; id: string; row: JournalRow | undefined };

/**
 * A record of the accepted topic under the payment's id: of the payment, of a refund, or of
 * neither.
 */
export type RecordSeen = {
  offset: string;
  at: Date;
  bytes: number;
  txnId: TxnId | undefined;
  /** The OpenTelemetry trace that it came with. */
  traceId: string | undefined;
};

/** What a look into the topic gives; not `complete` when there was more than one look reads. */
export type RecordsSeen = { partition: number; records: RecordSeen[]; complete: boolean };

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
  claims: Config['CLAIMS'];
  /** Nothing when Kafka was not asked. */
  kafka: RecordsSeen | undefined;
  refunds: TransactionTrace[];
  /** Until when the ledger's copy holds, while it is behind. */
  ledgerUntil: Date | undefined;
  /** Parts that could not be asked: what they have is missing here. */
  unasked: Unasked[];
};

/** Where claims are kept, in a person's words. */
export function titleOfClaims(claims: KeepingStore): string {
  return claimStores[claims].title;
}

/** The part that a claim is read from. */
export function partOfClaims(claims: KeepingStore): ClaimPart {
  return claimStores[claims].parts[0];
}

/** Whether no layer that was asked knows it. */
export function isNowhere({ claim, kafka, ledger, deadLetters }: PaymentTrace): boolean {
  const known = [ledger, deadLetters, kafka?.records ?? []].some((each) => each.length > 0);
  return claim === undefined && !known;
}

/** The layers, opened for a look. */
type Layers = { database: Database; claims: ClaimsInspector; accepted: TopicReader };

/** A trace that is being made. */
type Tracing = { operator: Operator; layers: Layers; unasked: Unasked[] };

/**
 * Looks a payment or a refund up in every layer that answers.
 *
 * @throws UsageError for a setting that is missing.
 */
export async function tracePayment(operator: Operator, txnId: TxnId): Promise<PaymentTrace> {
  return withLayers(operator, (layers) => traceWhole(operator, layers, txnId));
}

/**
 * The same of each of some ids that is known, such as those which a key has, one of each kind; of
 * the first where none is. One that another's trace has in it is not shown again. What only Kafka
 * has of a refund, capture or cancellation, which stands there under its payment's id, is not found
 * so.
 *
 * @throws UsageError for a setting that is missing.
 */
export async function traceKnown(
  operator: Operator,
  txnIds: readonly [TxnId, ...TxnId[]],
): Promise<[PaymentTrace, ...PaymentTrace[]]> {
  return withLayers(operator, async (layers) => {
    const known = txnIds.length === 1 ? txnIds : await knownOf(operator, layers, txnIds);
    const [first = txnIds[0], ...others] = known;
    const traces: [PaymentTrace, ...PaymentTrace[]] = [await traceWhole(operator, layers, first)];
    const shown = () => traces.flatMap(({ refunds }) => refunds.map(({ txnId }) => txnId));
    for (const id of others) {
      if (!shown().includes(id)) traces.push(await traceWhole(operator, layers, id));
    }
    return traces;
  });
}

/** Whoever could not be asked here is named by the trace, which asks again. */
async function knownOf(
  operator: Operator,
  { database, claims }: Layers,
  txnIds: readonly TxnId[],
): Promise<TxnId[]> {
  const unasked: Unasked[] = [];
  const part = partOfClaims(operator.config.CLAIMS);
  const [inDatabase, claimed] = await Promise.all([
    askPart(operator, { part: 'postgres', otherwise: [], unasked }, () =>
      readKnownIds(database, txnIds),
    ),
    askPart(operator, { part, otherwise: [], unasked }, () =>
      Promise.all(txnIds.map((id) => claims.look(id))),
    ),
  ]);
  return txnIds.filter((id, n) => claimed[n] !== undefined || inDatabase.includes(id));
}

async function traceWhole(operator: Operator, layers: Layers, txnId: TxnId): Promise<PaymentTrace> {
  const tracing: Tracing = { operator, layers, unasked: [] };
  const { unasked } = tracing;
  const inPostgres = <Answer>(otherwise: Answer, work: () => Promise<Answer>) =>
    askPart(operator, { part: 'postgres', otherwise, unasked }, work);
  // Before the rows: a copy that is whole by then misses nothing that was so when this was asked.
  const ledgerUntil = await inPostgres<Date | undefined>(undefined, () =>
    readCopyUntil(layers.database),
  );
  const main = await traceOne(tracing, txnId);
  const refundIds = await inPostgres([], () => readRefundIds(layers.database, txnId));
  const [kafka, ...refunds] = await Promise.all([
    readAccepted(tracing, main),
    ...refundIds.map((id) => traceOne(tracing, id as TxnId)),
  ]);
  const whys = new Map(unasked.map((each) => [each.why, each]));
  const { CLAIMS: claims } = operator.config;
  return { ...main, claims, kafka, refunds, ledgerUntil, unasked: [...whys.values()] };
}

async function withLayers<Result>(
  operator: Operator,
  work: (layers: Layers) => Promise<Result>,
): Promise<Result> {
  const layers = await openLayers(operator);
  try {
    return await work(layers);
  } finally {
    await Promise.all(Object.values(layers).map((layer) => layer.close()));
  }
}

async function openLayers(operator: Operator): Promise<Layers> {
  const { config } = operator;
  const { DATABASE_URL: url } = required(config, 'DATABASE_URL');
  required(config, ...neededBy(config.CLAIMS, 'walk'));
  const accepted = { ...brokersOf(operator), topic: config.ACCEPTED_TOPIC };
  return {
    database: openForCommand({
      url,
      applicationName: 'trace',
      connectionsMax: 4,
      readOnly: true,
    }),
    claims: await inspectClaims(config),
    accepted: openTopicReader(accepted),
  };
}

const nothing: Effects = { ledger: [], entries: [], events: [], deadLetters: [] };

async function traceOne(tracing: Tracing, txnId: TxnId): Promise<TransactionTrace> {
  const { operator, layers, unasked } = tracing;
  const { CLAIMS, CATCHER_URL: catcher } = operator.config;
  const ask = <Answer>(part: Part, otherwise: Answer, work: () => Promise<Answer>) =>
    askPart(operator, { part, otherwise, unasked }, work);
  const [effects, claim, receipts] = await Promise.all([
    ask('postgres', nothing, () => readEffects(layers.database, txnId)),
    ask<ClaimSeen | undefined>(partOfClaims(CLAIMS), undefined, () => layers.claims.look(txnId)),
    catcher === undefined ? [] : ask('catcher', [], () => readReceipts(catcher, txnId)),
  ]);
  const provider = await askProvider(operator, effects.ledger).catch((error: unknown) => {
    const why = `the provider was not asked: ${(error as Error).message}`;
    unasked.push({ part: 'provider', why });
    return [];
  });
  return { txnId, claim, receipts, provider, ...effects };
}

const dayMs = 86_400_000;

/** Records are kept under the payment's id; those of a refund with those of its payment. */
function readAccepted(
  { operator, layers, unasked }: Tracing,
  main: TransactionTrace,
): Promise<RecordsSeen | undefined> {
  const [row] = main.ledger;
  // A payment that only Kafka has was accepted within the life of its claim.
  const since = row?.createdAt ?? main.claim?.acceptedAt ?? new Date(Date.now() - dayMs);
  const key = row?.paymentId ?? main.txnId;
  return askPart<RecordsSeen | undefined>(
    operator,
    { part: 'kafka', otherwise: undefined, unasked },
    () => readRecords(layers.accepted, key, since),
  );
}

/**
 * All accepted records with one key. More than one of a transaction is a duplicate that the gateway
 * produced.
 */
export async function readRecords(
  accepted: TopicReader,
  key: string,
  since: Date,
): Promise<RecordsSeen> {
  const { records, ...where } = await accepted.ofKey(key, since);
  return { ...where, records: records.map(recordSeen) };
}

function recordSeen(record: ReceivedRecord): RecordSeen {
  const seen = {
    offset: String(record.offset),
    at: new Date(Number(record.timestamp)),
    bytes: record.value?.length ?? 0,
  };
  const decoded = decodeAccepted(record);
  switch (decoded.outcome) {
    case 'payment':
      return { ...seen, txnId: decoded.payment.txnId, traceId: traceIdOf(decoded.traceparent) };
    case 'follow-up':
      return { ...seen, txnId: decoded.followUp.txnId, traceId: traceIdOf(decoded.traceparent) };
    case 'refused':
      return { ...seen, txnId: undefined, traceId: undefined };
    default:
      return decoded satisfies never;
  }
}

/** The second part of a `traceparent`. */
function traceIdOf(traceparent: string): string {
  return traceparent.split('-')[1]!;
}

const providerTimeoutMs = 5_000;
const providerRequestsPerSecondMax = 20;

/**
 * Asks the provider about what a row names: its intent and charge, or its refund.
 *
 * @throws when it cannot be asked.
 */
async function askProvider(
  { config }: Operator,
  rows: readonly LedgerRow[],
): Promise<ProviderObject[]> {
  const named = rows.flatMap(({ provider, intentId, chargeId, refundId }) => [
    ...(intentId === null ? [] : [{ provider, kind: 'intent', id: intentId } as const]),
    ...(chargeId === null ? [] : [{ provider, kind: 'charge', id: chargeId } as const]),
    ...(refundId === null ? [] : [{ provider, kind: 'refund', id: refundId } as const]),
  ]);
  if (named.length === 0) return [];
  const journals = await openProviderJournals(config, {
    timeoutMs: providerTimeoutMs,
    requestsPerSecondMax: providerRequestsPerSecondMax,
  });
  return Promise.all(
    named.map(async ({ provider, kind, id }) => {
      const opened = journals.find((each) => each.provider === provider);
      if (opened?.journal === undefined) {
        throw new Error(`${opened?.lacks.join(' and ') ?? provider} is not set here`);
      }
      return { kind, id, row: await opened.journal.read(kind, id) };
    }),
  );
}
