import { renderTable, style } from '@triplock/demo';
import type { LoadReport } from './load-report.ts';

/** The report for a terminal; the page has the plots. */
export function renderText(report: LoadReport): string[] {
  const { rig, scenario, rate, seconds, checks, run, guards, knee } = report;
  const { cpu, cores, node, commit, k6, gateways } = rig;
  const missed = run.thresholds.filter(({ holds }) => !holds);
  const accepted = (run.tallies['payments_accepted'] ?? 0) + (run.tallies['refunds_accepted'] ?? 0);
  return [
    style.faint(`${cpu}, ${cores} cores; Node ${node}; k6 ${k6}; commit ${commit}`),
    style.faint(`${scenario}: ${rate}/s for ${seconds} s at ${gateways} gateway(s)`),
    '',
    `${accepted} accepted; to the 202: median ${ms(run.acceptMs.med)}, p99 ${ms(run.acceptMs['p(99)'])}`,
    ...(report.drainedAfterSeconds === undefined
      ? []
      : [`all delivered and audited ${report.drainedAfterSeconds} s after the first request`]),
    ...(knee === undefined ? [] : [`the knee is at ${knee.rate}/s`]),
    ...(guards === undefined
      ? []
      : [
          `duplicates caught: ${guards.atClaims} by claims, ${guards.atLedger} by the ledger, ` +
            `${guards.atInbox} by the inbox`,
        ]),
    '',
    ...renderTable(
      [
        { head: '' },
        { head: 'expected', align: 'right' },
        { head: 'found', align: 'right' },
        { head: '' },
      ],
      checks.map(({ what, expected, found, holds }) => [
        what,
        expected,
        `${found}`,
        holds ? 'holds' : style.bad('DOES NOT HOLD'),
      ]),
    ),
    ...missed.map(({ metric, expression }) =>
      style.bad(`threshold missed: ${metric} ${expression}`),
    ),
  ];
}

function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}
