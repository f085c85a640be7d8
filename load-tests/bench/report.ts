import { renderTable, style } from '@triplock/operator';
import type { Figures, ServiceCost, Spread } from './cost-sheet.ts';
import { measuredParts, measuredServices } from './measurements.ts';
import type { BenchReport } from './run-bench.ts';

/** The cost sheet for people. */
export function renderReport(report: BenchReport): string[] {
  const { figures } = report;
  return [
    ...renderRig(report),
    '',
    ...renderTable(columnsOf('of payments'), rateRows(figures)),
    '',
    ...renderTable(
      [...columnsOf('CPU, µs a payment'), right('of it idle'), right('RSS MiB'), right('at peak')],
      costRows(figures),
    ),
    '',
    ...renderParts(figures),
    ...renderTable(columnsOf('× an empty POST'), [
      row('until published', figures.ratio.published, 2),
      row('all services', figures.ratio.together, 2),
    ]),
    '',
    ...renderTable(columnsOf('replays, in the gateway'), [
      row('replays/s', figures.replay.requestsPerSecond, 0),
      row('CPU, µs a replay', figures.replay.cpuMicros, 1),
      row('× a fresh payment', figures.replay.ofFresh, 2),
    ]),
    '',
    ...renderAudit(report),
  ];
}

function renderRig({ rig, settings }: BenchReport): string[] {
  const { cpu, cores, memoryGiB, os, node, commit, loadBefore } = rig;
  const { repeat, seconds, connections, replicas, tracing } = settings;
  const traced = tracing === undefined ? '' : `; ${tracing * 100} % of payments traced`;
  return [
    `${cpu}, ${cores} cores, ${memoryGiB} GiB; ${os}; Node ${node}; commit ${commit}; load before ${loadBefore}`,
    `${repeat} × ${seconds} s over ${connections} connections; ${replicas} of each service${traced}`,
  ].map(style.faint);
}

function rateRows(figures: Figures): string[][] {
  return [
    row('accepted/s', figures.acceptedPerSecond, 0),
    row('published/s', figures.publishedPerSecond, 0),
    row('delivered/s', figures.deliveredPerSecond, 0),
    row('202 after, ms, p50', figures.latencyMs.p50, 1),
    row('202 after, ms, p99', figures.latencyMs.p99, 1),
    row('empty POST/s', figures.emptyPost.requestsPerSecond, 0),
  ];
}

function costRows({ services, cpuMicros, emptyPost, loadGeneratorMicros }: Figures): string[][] {
  return [
    ...measuredServices.map((name) => [
      ...row(name, services[name].cpuMicros, 1),
      ...rest(services[name]),
    ]),
    row('until published', cpuMicros.published, 1),
    row('all services', cpuMicros.together, 1),
    row('empty POST', emptyPost.cpuMicros, 1),
    row('load generator', loadGeneratorMicros.system, 1),
  ];
}

/** What the servers use beside the services. */
function renderParts({ parts }: Figures): string[] {
  if (parts === undefined) return [];
  const rows = measuredParts.map((name) => row(name, parts[name], 1));
  return [...renderTable(columnsOf('beside it, CPU, µs a payment'), rows), ''];
}

function rest({ idleMicros, rssMiBEnd, rssMiBPeak }: ServiceCost): string[] {
  return [idleMicros.median.toFixed(1), rssMiBEnd.median.toFixed(0), rssMiBPeak.max.toFixed(0)];
}

function renderAudit({ audit, repetitions }: BenchReport): string[] {
  const others = repetitions.flatMap(({ system }) => Object.entries(system.load.others));
  const odd = others.map(([status, count]) => `${count} × ${status}`).join(', ');
  return [
    ...(odd === '' ? [] : [style.bad(`not accepted: ${odd}`)]),
    audit.ok
      ? `${style.good('✔ no drift')}: all ${audit.counts.accepted} accepted payments are in every layer`
      : style.bad(`✘ drift: ${audit.drift.map(({ check }) => check).join(', ')}`),
  ];
}

function columnsOf(head: string) {
  return [{ head }, right('median'), right('min'), right('max')];
}

function right(head: string) {
  return { head, align: 'right' as const };
}

function row(name: string, { median, min, max }: Spread, digits: number): string[] {
  return [name, ...[median, min, max].map((value) => value.toFixed(digits))];
}
