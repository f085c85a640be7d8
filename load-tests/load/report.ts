import { renderTable, style, type AuditReport } from '@triplock/operator';
import type { Rig } from '../rig.ts';
import type { Check, Knee } from './judge.ts';
import type { GuardCounts, Reading } from './readings.ts';
import type { K6Run } from './k6.ts';

/** What a run leaves in its folder as `report.json`, and prints under `--json`. */
export type LoadReport = {
  /** Every check holds. */
  ok: boolean;
  scenario: string;
  rate: number;
  seconds: number;
  rig: Rig & { k6: string; gateways: number };
  run: Omit<K6Run, 'moments'>;
  checks: readonly Check[];
  /** Of `ramp`. */
  knee?: Knee;
  /** What the guards caught during the run; absent where the system is elsewhere. */
  guards?: GuardCounts;
  /** Absent where the system is elsewhere. */
  audit?: Pick<AuditReport, 'ok' | 'counts' | 'drift'>;
  /** From the first request until the last stage was done, seconds. */
  drainedAfterSeconds?: number;
  moments: K6Run['moments'];
  readings: readonly Reading[];
};

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
