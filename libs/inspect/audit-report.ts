import { type HistoryReport, renderHistory } from './history/check-history.ts';
import { formatMoney } from '@triplock/payments';
import { count, renderTable, style } from '@triplock/command';

/** Transactions in one layer: how many, and their amounts in minor units. */
export type LayerSum = { count: number; amount: number | string };

/**
 * What the layers have of one partner and currency: first of its payments, whatever became of them.
 * `unfinished` ones wait for a customer or a bank and have no event yet; `undelivered` webhooks
 * wait for the partner's endpoint.
 */
export type PartnerSums = {
  partner: string;
  currency: string;
  /** Payments that succeeded. */
  gross: Layers;
  /** What of them was given back. */
  refunds: Layers;
  net: number | string;
  /** What the provider charged and gave back, and what the ledger says it did. */
  cards: { charged: Layers; givenBack: Layers };
} & Record<Exclude<SummedLayer, 'provider'> | SummedWait, LayerSum>;

type Layers = Readonly<Partial<Record<SummedLayer | SummedWait, LayerSum>>>;

/** The layers that are summed, in the order of a payment's way. */
const summedLayers = ['accepted', 'provider', 'ledger', 'published', 'delivered'] as const;
export type SummedLayer = (typeof summedLayers)[number];

/** What waits for others between two layers. */
type SummedWait = 'unfinished' | 'undelivered';

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
  'undelivered',
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
  /** What others have to do, and since when: a customer, a bank or an endpoint of a partner's. */
  waiting: readonly { for: string; ids: readonly string[]; since: string }[];
  /** Offsets, both included, that Kafka lost and nobody has acknowledged: drift, too. */
  lost: readonly { partition: number; from: number; to: number; seen_at: string }[];
  /** What may still come right by itself; in a final audit it counts as drift as well. */
  inFlight: { lag: Readonly<Record<string, number>>; waiting: readonly Finding[] };
  /** Parts that could not be asked, and what to do about it. */
  notCompared: readonly { part: string; why: string; next: string }[];
  /** Of a history that was compared as one more layer, by `--history`. */
  history?: HistoryReport;
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
    ...(report.history === undefined ? [] : ['history:', ...renderHistory(report.history), '']),
    ...renderOutcome(report),
    ...renderWaiting(report),
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
  undelivered: 'undelivered',
};

function renderCounts({ counts }: AuditReport): string[] {
  // Shown where there are any: mostly every partner has an endpoint that answers.
  const shown = countedThings.filter((name) => name !== 'undelivered' || counts.undelivered > 0);
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
  const { accepted, ledger, published, delivered, unfinished, undelivered } = sums;
  const payments = { accepted, ledger, published, delivered, unfinished, undelivered };
  const left = ['', 'net', '', '', formatMoney(net, currency), '', '', ''];
  return [
    sumRow(sums, 'payments', payments),
    ...(isAny(cards.charged) ? [sumRow(sums, 'by card', cards.charged)] : []),
    ...(isAny(refunds) ? [sumRow(sums, 'gross', gross), sumRow(sums, 'refunds', refunds)] : []),
    ...(isAny(cards.givenBack) ? [sumRow(sums, 'to cards', cards.givenBack)] : []),
    ...(isAny(refunds) ? [left] : []),
  ];
}

function isAny(layers: Layers): boolean {
  return Object.values(layers).some(({ count }) => count > 0);
}

function sumRow({ partner, currency }: PartnerSums, what: string, layers: Layers): string[] {
  const amounts = summedLayers.map((layer) => {
    const sum = layers[layer];
    return sum === undefined ? '' : formatMoney(sum.amount, currency);
  });
  const outcome = isEqual(layers) ? describeEqual(layers, currency) : style.bad('differ');
  return [what === 'payments' ? partner : '', what, ...amounts, outcome];
}

/** Whether every layer has the same, together with what waits for others behind it. */
function isEqual(layers: Layers): boolean {
  const waitsBehind: Partial<Record<SummedLayer, readonly SummedWait[]>> = {
    published: ['unfinished'],
    delivered: ['unfinished', 'undelivered'],
  };
  const sums = summedLayers.flatMap((layer) => {
    const names = [layer, ...(waitsBehind[layer] ?? [])];
    return layers[layer] === undefined ? [] : [together(names.map((name) => layers[name]))];
  });
  return sums.every((sum) => sum.amount === sums[0]!.amount && sum.count === sums[0]!.count);
}

function describeEqual({ unfinished, undelivered }: Layers, currency: string): string {
  const { count, amount } = together([unfinished, undelivered]);
  if (count === 0) return style.good('equal');
  return `${style.good('equal')}, ${formatMoney(amount, currency)} waiting`;
}

function together(sums: readonly (LayerSum | undefined)[]) {
  const there = sums.filter((sum) => sum !== undefined);
  return {
    count: there.reduce((all, { count }) => all + count, 0),
    amount: there.reduce((all, { amount }) => all + BigInt(amount), 0n),
  };
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
    ...(drift.some(({ check }) => lostChecks.has(check)) ? [lostForGood] : []),
    ...(drift.some(({ check }) => paidOtherwise.has(check)) ? [goesBack] : []),
    ...(drift.some(({ check }) => lostOnOneSide.has(check)) ? [lostForOne] : []),
  ];
  return [style.bad(`✘ drift in ${count(drift.length, 'check')}`), ...found, ...hints, ...unseen];
}

const shownMax = 5;

function renderWaiting({ waiting }: AuditReport): string[] {
  if (waiting.length === 0) return [];
  const rows = waiting.map(({ for: whom, ids, since }) => {
    const more = ids.length > shownMax ? ` and ${ids.length - shownMax} more` : '';
    return `  ${whom}, since ${since}: ${ids.slice(0, shownMax).join(' ')}${more}`;
  });
  return ['waiting for others, which is no drift:', ...rows];
}

/** Checks that find what the provider has and the ledger does not. */
const beside = new Set(['charge-unfounded', 'given-back-unfounded']);

const oneAccount =
  '  Was it another Triplock on the same Stripe account, or this one before `down --volumes`? ' +
  'Give each system an account of its own; the audit cannot tell them apart.';

/** Checks that find a payment that the provider shows otherwise than the ledger. */
const paidOtherwise = new Set(['payment-contradicts-provider', 'payment-differs-from-provider']);

const goesBack =
  '  Was money taken, or is it held, for a payment that has ended without it? ' +
  'npm run give-back -- ID --why TEXT shows what there is, and with --yes gives it back.';

const lostChecks = new Set(['accepted-lost', 'claim-unaccounted']);

const lostForGood =
  '  Kafka lost these offsets before they were read; claim-unaccounted names the payments as far as ' +
  'claims remember them. Once their partners are served: npm run audit -- acknowledge ID --reason TEXT';

const lostOnOneSide = new Set(['accepted-unaccounted', 'ledger-not-accepted']);

const lostForOne =
  '  Was the database set back, by a failover or a restore? npm run rewind -- --since TIME has the ledger ' +
  'read them again. Did Kafka lose records after the auditor or a worker had read them? Acknowledge ' +
  'each of these ids alike, once its partner is served. Otherwise it is a broken promise.';
