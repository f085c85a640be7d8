import { formatMoney } from '../terminal/money.ts';
import { style } from '../terminal/style.ts';
import { renderTable } from '../terminal/table.ts';
import { count } from '../terminal/words.ts';
import { countedThings, summedLayers, type AuditReport, type PartnerSums } from './audit-report.ts';

/** The audit for people: what there is, whether the layers agree, and what is wrong. */
export function renderAudit(report: AuditReport): string[] {
  return [
    ...renderCounts(report),
    '',
    ...renderTable(sumColumns, report.sums.map(sumRow)),
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
};

function renderCounts({ counts }: AuditReport): string[] {
  const columns = countedThings.map((name) => ({ head: labels[name], align: 'right' as const }));
  return renderTable(columns, [countedThings.map((name) => String(counts[name]))]);
}

const sumColumns = [
  { head: 'partner' },
  ...summedLayers.map((head) => ({ head, align: 'right' as const })),
  { head: '' },
];

function sumRow(sums: PartnerSums): string[] {
  const [first, ...others] = summedLayers.map((layer) => sums[layer]);
  const same = others.every((each) => each.amount === first!.amount && each.count === first!.count);
  return [
    sums.partner,
    ...summedLayers.map((layer) => formatMoney(sums[layer].amount, sums.currency)),
    same ? style.good('equal') : style.bad('differ'),
  ];
}

function renderVerdict({ ok, drift, settledDown }: AuditReport): string[] {
  if (ok) {
    const rest = settledDown ? 'nothing is in flight' : 'work is still in flight';
    return [`${style.good('✔ no drift')}: every layer has the same payments; ${rest}`];
  }
  const found = drift.map(({ check, ids }) => `  ${check}: ${ids.join(' ')}`);
  return [style.bad(`✘ drift in ${count(drift.length, 'check')}`), ...found];
}
