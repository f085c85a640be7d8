/** Transactions in one layer: how many, and their amounts in minor units. */
export type LayerSum = { count: number; amount: number | string };

/**
 * What the layers have of one partner and currency: first of its payments, whatever became of them.
 */
export type PartnerSums = {
  partner: string;
  currency: string;
  /** Payments that succeeded. */
  gross: Readonly<Partial<Record<SummedLayer, LayerSum>>>;
  /** What of them was given back. */
  refunds: Readonly<Partial<Record<SummedLayer, LayerSum>>>;
  net: number | string;
  /** What the provider charged and gave back, and what the ledger says it did. */
  cards: {
    charged: Readonly<Partial<Record<SummedLayer, LayerSum>>>;
    givenBack: Readonly<Partial<Record<SummedLayer, LayerSum>>>;
  };
} & Record<Exclude<SummedLayer, 'provider'>, LayerSum>;

/** The layers that are summed, in the order of a payment's way. */
export const summedLayers = ['accepted', 'provider', 'ledger', 'published', 'delivered'] as const;
export type SummedLayer = (typeof summedLayers)[number];

/** What is counted, in the order in which it is shown. */
export const countedThings = [
  'accepted',
  'ledger',
  'deadLettered',
  'keyConflicts',
  'charges',
  'events',
  'published',
  'inbox',
  'deliveries',
  'unwanted',
] as const;

/** The auditor's answer, as it serves and `npm run audit -- --json` prints it. */
export type AuditReport = {
  /** No drift. */
  ok: boolean;
  /** Nothing is in flight: what is not there now will not come by itself. */
  settledDown: boolean;
  counts: Readonly<Record<(typeof countedThings)[number], number>>;
  sums: readonly PartnerSums[];
  /** Checks that found something, and the ids they found. */
  drift: readonly Finding[];
  /** What may still come right by itself; in a last word it counts as drift as well. */
  inFlight: { lag: Readonly<Record<string, number>>; waiting: readonly Finding[] };
  /** Parts that could not be asked, and what to do about it. */
  notCompared: readonly { part: string; why: string; next: string }[];
};

/** A check that found something, and the ids it found. */
export type Finding = { check: string; ids: readonly string[] };

/** Whether all that is wrong is work that did not finish in time. */
export function isOnlyInFlight({ ok, drift, inFlight, notCompared }: AuditReport): boolean {
  if (notCompared.length > 0) return false;
  const unfinished = new Set(['lag', ...inFlight.waiting.map(({ check }) => check)]);
  return !ok && drift.every(({ check }) => unfinished.has(check));
}
