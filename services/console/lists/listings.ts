import { loadStatements, type Queryable } from '@triplock/postgres';
import { Refusal } from '../console.ts';
import { actSchema } from '../acts/acts.ts';
import * as json from '../edge/schema.ts';

const sql = loadStatements(import.meta.url, 'listings.sql', [
  'deliveries',
  'endpoints',
  'settlements',
  'partners',
  'scheduledAudit',
  'slices',
  'losses',
]);

/** As programs get it. */
export const listedDelivery = json.component('Delivery', {
  /** The webhook-id, and which of its event's from the second on. */
  id: json.text,
  event: json.uuid,
  ordinal: json.whole,
  /** When it was made, to the microsecond. */
  place: json.text,
  partner: json.text,
  about: json.uuid,
  type: json.text,
  state: json.text,
  attempts: json.whole,
  lastStatus: json.orNull(json.whole),
  lastOutcome: json.orNull(json.text),
  createdAt: json.time,
  nextAttemptAt: json.time,
  finishedAt: json.orNull(json.time),
});
/** A webhook in the list of all. */
export type ListedDelivery = json.ValueOf<typeof listedDelivery>;

const pageSize = 50;

/** Which webhooks to list. */
export type DeliveryFilter = { partner?: string; state?: 'failed' };

/**
 * A page of webhooks, newest first.
 *
 * @throws Refusal for a cursor that is none.
 */
export async function listDeliveries(
  database: Queryable,
  { partner, state }: DeliveryFilter,
  cursor: string | undefined,
): Promise<{ deliveries: ListedDelivery[]; next?: string }> {
  const after = cursor === undefined ? [null, null, null] : placeIn(cursor);
  const values = [partner ?? null, state === 'failed', pageSize + 1, ...after];
  const rows = await database.query<ListedDelivery>(sql.deliveries, values);
  const deliveries = rows.slice(0, pageSize);
  const last = deliveries.at(-1);
  if (rows.length <= pageSize || last === undefined) return { deliveries };
  const text = [last.event, last.ordinal, last.place].join(' ');
  return { deliveries, next: Buffer.from(text).toString('base64url') };
}

/** A place is good in every list of webhooks: one that is narrower just has fewer behind it. */
function placeIn(cursor: string): string[] {
  const text = Buffer.from(cursor, 'base64url').toString();
  const [, event, ordinal, at] =
    /^([0-9a-f-]{36}) (\d{1,2}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.\d+:-]{0,20})$/.exec(text) ?? [];
  if (at === undefined) throw new Refusal('invalid_request', 'This is no place in this list.');
  return [at, event!, ordinal!];
}

/** As programs get it. */
export const listedEndpoint = json.component('Endpoint', {
  id: json.uuid,
  partner: json.text,
  url: json.text,
  description: json.orNull(json.text),
  /** The types of events that it wants; null for all. */
  types: json.orNull(json.listOf(json.text)),
  verified: json.flag,
  /** When the first attempt failed since one was taken. */
  failingSince: json.orNull(json.time),
  disabledAt: json.orNull(json.time),
  /** `gone`: its server answered 410; `failing`: it took nothing since `failingSince`. */
  disabledBecause: json.orNull(json.text),
  madeAt: json.time,
  secondSecretUntil: json.orNull(json.time),
});
/** Where a partner's webhooks go. */
export type ListedEndpoint = json.ValueOf<typeof listedEndpoint>;

/** The endpoints of a partner, or of all: 500 at most. */
export function listEndpoints(database: Queryable, partner?: string): Promise<ListedEndpoint[]> {
  return database.query<ListedEndpoint>(sql.endpoints, [partner ?? null]);
}

/** As programs get it. */
export const listedSettlement = json.component('Settlement', {
  partner: json.text,
  day: json.day,
  currency: json.text,
  gross: json.minorUnits,
  refunds: json.minorUnits,
  net: json.minorUnits,
  payments: json.bigWhole,
  refundCount: json.bigWhole,
  /** It never changes any more. */
  closed: json.flag,
});
/** What a partner is owed of a day in one currency. */
export type ListedSettlement = json.ValueOf<typeof listedSettlement>;

/** Which days, both included, as `yyyy-mm-dd`; of one partner or of all. */
export type SettlementDays = { partner?: string; from: string; until: string };

/** What partners are owed by day, the newest first. */
export function listSettlements(
  database: Queryable,
  { partner, from, until }: SettlementDays,
  max: number,
): Promise<ListedSettlement[]> {
  const values = [partner ?? null, from, until, max];
  return database.query<ListedSettlement>(sql.settlements, values);
}

/** As programs get it. */
export const shownPartner = json.component('Partner', {
  id: json.text,
  createdAt: json.time,
  /** Where its texts may look like card numbers, `*` for everywhere. */
  cardNumbersIn: json.listOf(json.text),
  keys: json.listOf(
    json.object({
      prefix: json.orNull(json.text),
      scope: json.text,
      createdAt: json.text,
      expiresAt: json.orNull(json.text),
      lastUsedAt: json.orNull(json.text),
      revokedAt: json.orNull(json.text),
    }),
  ),
});
/** A partner and what may be shown of its keys, the oldest first; times as RFC 3339. */
export type ShownPartner = json.ValueOf<typeof shownPartner>;

/** Partners by name, 100 at a time. */
export function listShownPartners(database: Queryable, after?: string): Promise<ShownPartner[]> {
  return database.query<ShownPartner>(sql.partners, [after ?? null]);
}

const scheduledAudit = json.component('ScheduledAudit', {
  endedAt: json.orNull(json.time),
  tookMs: json.whole,
  /** Null where it is due at once. */
  dueAt: json.orNull(json.time),
  drift: json.byName(json.whole),
  inFlight: json.byName(json.whole),
  inFlightSince: json.byName(json.text),
  waiting: json.byName(json.whole),
  waitingSince: json.byName(json.text),
});
/** The last scheduled audit, by check: how many ids, and since when the oldest. */
export type ScheduledAudit = json.ValueOf<typeof scheduledAudit>;

const closedSlice = json.component('Slice', {
  nth: json.whole,
  from: json.time,
  until: json.time,
  closedAt: json.time,
  hash: json.text,
  /** Found otherwise since than it was closed. */
  doubted: json.flag,
});
/** A window of time that was compared and closed. */
export type ClosedSlice = json.ValueOf<typeof closedSlice>;

const loss = json.component('Loss', {
  id: json.bigWhole,
  topic: json.text,
  partition: json.whole,
  from: json.bigWhole,
  to: json.bigWhole,
  why: json.text,
  foundAt: json.time,
  acknowledgedAt: json.orNull(json.time),
});
/** Records that Kafka lost before they were read, up to and without the last offset. */
export type Loss = json.ValueOf<typeof loss>;

/** What the auditors found, as they left it in the database. */
export async function readAudits(database: Queryable) {
  const [[last], slices, losses] = await Promise.all([
    database.query<ScheduledAudit>(sql.scheduledAudit),
    database.query<ClosedSlice>(sql.slices),
    database.query<Loss>(sql.losses),
  ]);
  return { last: last!, slices, losses };
}

/** The same as programs get it, with the audits that people asked for. */
export const auditSchema = json.component('Audit', {
  last: scheduledAudit,
  slices: json.listOf(closedSlice),
  losses: json.listOf(loss),
  runs: json.listOf(actSchema),
});
