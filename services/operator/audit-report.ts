import { count, formatMoney, renderTable, style } from './terminal.ts';

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
const summedLayers = ['accepted', 'provider', 'ledger', 'published', 'delivered'] as const;
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
  /** What may still come right by itself; in a final audit it counts as drift as well. */
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

/** The audit for people: what there is, whether the layers agree, and what is wrong. */
export function renderAudit(report: AuditReport): string[] {
  return [
    ...renderCounts(report),
    '',
    ...renderTable(sumColumns, report.sums.flatMap(sumRows)),
    '',
    ...renderOutcome(report),
  ];
}

const labels: Record<(typeof countedThings)[number], string> = {
  accepted: 'accepted',
  ledger: 'ledger rows',
  deadLettered: 'dead letters',
  keyConflicts: 'key conflicts',
  charges: 'charges',
  events: 'events',
  published: 'published',
  inbox: 'inbox',
  deliveries: 'delivered',
  unwanted: 'not wanted',
};

function renderCounts({ counts }: AuditReport): string[] {
  // Few systems ever have a partner whose server answered 410 Gone.
  const shown = countedThings.filter((name) => name !== 'unwanted' || counts.unwanted > 0);
  const columns = shown.map((name) => ({ head: labels[name], align: 'right' as const }));
  return renderTable(columns, [shown.map((name) => String(counts[name]))]);
}

const sumColumns = [
  { head: 'partner' },
  { head: '' },
  ...summedLayers.map((head) => ({ head, align: 'right' as const })),
  { head: '' },
];

/**
 * A row for the payments; with refunds one for what succeeded, one for them, and what is left; with
 * cards what the provider says of them.
 */
function sumRows(sums: PartnerSums): string[][] {
  const { currency, gross, refunds, net, cards } = sums;
  const { accepted, ledger, published, delivered } = sums;
  const left = ['', 'net', '', '', formatMoney(net, currency), '', '', ''];
  return [
    sumRow(sums, 'payments', { accepted, ledger, published, delivered }),
    ...(isAny(cards.charged) ? [sumRow(sums, 'by card', cards.charged)] : []),
    ...(isAny(refunds) ? [sumRow(sums, 'gross', gross), sumRow(sums, 'refunds', refunds)] : []),
    ...(isAny(cards.givenBack) ? [sumRow(sums, 'to cards', cards.givenBack)] : []),
    ...(isAny(refunds) ? [left] : []),
  ];
}

type Layers = Readonly<Partial<Record<SummedLayer, LayerSum>>>;

function isAny(layers: Layers): boolean {
  return Object.values(layers).some(({ count }) => count > 0);
}

function sumRow({ partner, currency }: PartnerSums, what: string, layers: Layers): string[] {
  const there = summedLayers.flatMap((layer) => layers[layer] ?? []);
  const [first, ...others] = there;
  const same = others.every((each) => each.amount === first!.amount && each.count === first!.count);
  const amounts = summedLayers.map((layer) => {
    const sum = layers[layer];
    return sum === undefined ? '' : formatMoney(sum.amount, currency);
  });
  const outcome = same ? style.good('equal') : style.bad('differ');
  return [what === 'payments' ? partner : '', what, ...amounts, outcome];
}

function renderOutcome({ ok, drift, settledDown, notCompared }: AuditReport): string[] {
  if (ok) {
    const rest = settledDown ? 'nothing is in flight' : 'work is still in flight';
    return [`${style.good('✔ no drift')}: every layer has the same payments; ${rest}`];
  }
  const found = drift.map(({ check, ids }) => `  ${check}: ${ids.join(' ')}`);
  const unseen = notCompared.map(
    ({ part, why, next }) => `  ${part} not compared: ${why}; ${next}`,
  );
  const hints = [
    ...(drift.some(({ check }) => beside.has(check)) ? [oneAccount] : []),
    ...(drift.some(({ check }) => check === 'accepted-lost') ? [lostForGood] : []),
  ];
  return [style.bad(`✘ drift in ${count(drift.length, 'check')}`), ...found, ...hints, ...unseen];
}

/** Checks that find what the provider has and the ledger does not. */
const beside = new Set(['charge-unfounded', 'intent-unfounded', 'given-back-unfounded']);

const oneAccount =
  '  Was it another Triplock on the same Stripe account, or this one before `down --volumes`? ' +
  'Give each system an account of its own; the audit cannot tell them apart.';

const lostForGood =
  '  Kafka lost these offsets before they were read: only the partners know those payments. Once they ' +
  'are served: npm run audit -- acknowledge ID --reason TEXT';
