import { formatMoney } from '../terminal/money.ts';
import { style } from '../terminal/style.ts';
import { renderTable } from '../terminal/table.ts';
import { count } from '../terminal/words.ts';
import {
  countedThings,
  summedLayers,
  type AuditReport,
  type LayerSum,
  type PartnerSums,
  type SummedLayer,
} from './audit-report.ts';

/** The audit for people: what there is, whether the layers agree, and what is wrong. */
export function renderAudit(report: AuditReport): string[] {
  return [
    ...renderCounts(report),
    '',
    ...renderTable(sumColumns, report.sums.flatMap(sumRows)),
    '',
    ...renderVerdict(report),
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
  // Few systems ever have a partner whose server said 410 Gone.
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
  const verdict = same ? style.good('equal') : style.bad('differ');
  return [what === 'payments' ? partner : '', what, ...amounts, verdict];
}

function renderVerdict({ ok, drift, settledDown, notCompared }: AuditReport): string[] {
  if (ok) {
    const rest = settledDown ? 'nothing is in flight' : 'work is still in flight';
    return [`${style.good('✔ no drift')}: every layer has the same payments; ${rest}`];
  }
  const found = drift.map(({ check, ids }) => `  ${check}: ${ids.join(' ')}`);
  const unseen = notCompared.map(
    ({ part, why, next }) => `  ${part} not compared: ${why}; ${next}`,
  );
  const hint = drift.some(({ check }) => beside.has(check)) ? [oneAccount] : [];
  return [style.bad(`✘ drift in ${count(drift.length, 'check')}`), ...found, ...hint, ...unseen];
}

/** Checks that find what the provider has and the ledger does not. */
const beside = new Set(['charge-unfounded', 'intent-unfounded', 'given-back-unfounded']);

const oneAccount =
  '  Was it another Triplock on the same Stripe account, or this one before `down --volumes`? ' +
  'Give each system an account of its own; the audit cannot tell them apart.';
