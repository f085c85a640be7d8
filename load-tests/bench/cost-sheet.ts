import { type AuditReport, renderTable, style } from '@triplock/operator';
import type { Rig } from '../systems.ts';
import {
  type BenchOptions,
  type EmptyPostRun,
  type MeasuredPart,
  type MeasuredService,
  type Repetition,
  measuredParts,
  measuredServices,
  pipelineServices,
} from './measurements.ts';

/** A figure over all repetitions. */
export type Spread = { min: number; median: number; max: number };

/** CPU of one service for one payment. */
type ServiceCost = {
  /** Everything it used until all was drained, by accepted payments; microseconds. */
  cpuMicros: Spread;
  /** How much of that it would have used without any payment. */
  idleMicros: Spread;
  rssMiBPeak: Spread;
  rssMiBEnd: Spread;
};

/** What a payment costs. */
export type Figures = {
  acceptedPerSecond: Spread;
  /** Until the last of them was published; and until its webhook was delivered. */
  publishedPerSecond: Spread;
  deliveredPerSecond: Spread;
  /** Until the 202, as the load generator saw it. */
  latencyMs: { p50: Spread; p99: Spread };
  services: Readonly<Record<MeasuredService, ServiceCost>>;
  /** Microseconds a payment: until it is published, and with the consumers of what is published. */
  cpuMicros: { published: Spread; together: Spread };
  /** CPU of the servers beside it, microseconds a payment; absent where they run elsewhere. */
  parts?: Readonly<Record<MeasuredPart, Spread>>;
  /**
   * In the gateway: a payment, and the answer to its retry; microseconds, and the one by the other.
   */
  replay: { cpuMicros: Spread; ofFresh: Spread; requestsPerSecond: Spread };
  emptyPost: { requestsPerSecond: Spread; cpuMicros: Spread };
  /** Those by the empty POST's microseconds a request, of the runs just before and after. */
  ratio: { published: Spread; together: Spread };
  /** Microseconds a request in the load generator's own process; in no other figure. */
  loadGeneratorMicros: { system: Spread; emptyPost: Spread };
};

/**
 * The figures of some repetitions, at least one.
 *
 * @throws when a run accepted nothing: there is nothing to divide by.
 */
export function figuresOf(repetitions: readonly Repetition[]): Figures {
  const over = (figure: (repetition: Repetition) => number) => spread(repetitions.map(figure));
  const services = measuredServices.map((name) => [name, costOf(name, over)] as const);
  const published = (each: Repetition) => cpuPerPayment(each, pipelineServices);
  const together = (each: Repetition) => cpuPerPayment(each, measuredServices);
  return {
    acceptedPerSecond: over(({ system }) => perSecond(system.load, system.load.tookMs)),
    publishedPerSecond: over(({ system }) => perSecond(system.load, system.publishedMs)),
    deliveredPerSecond: over(({ system }) => perSecond(system.load, system.deliveredMs)),
    latencyMs: {
      p50: over(({ system }) => system.load.latencyMs.p50),
      p99: over(({ system }) => system.load.latencyMs.p99),
    },
    services: Object.fromEntries(services) as Figures['services'],
    cpuMicros: { published: over(published), together: over(together) },
    ...partFigures(repetitions, over),
    replay: {
      cpuMicros: over(replayMicros),
      ofFresh: over((each) => replayMicros(each) / cpuPerPayment(each, ['ingest-gateway'])),
      requestsPerSecond: over(({ system: { replay } }) =>
        perSecond(replay.load, replay.load.tookMs),
      ),
    },
    emptyPost: {
      requestsPerSecond: over(({ before, after }) =>
        mean(perSecond(before.load, before.load.tookMs), perSecond(after.load, after.load.tookMs)),
      ),
      cpuMicros: over(emptyPostMicros),
    },
    ratio: {
      published: over((each) => published(each) / emptyPostMicros(each)),
      together: over((each) => together(each) / emptyPostMicros(each)),
    },
    loadGeneratorMicros: {
      system: over(({ system }) => system.load.cpuMicros / system.load.accepted),
      emptyPost: over(({ before, after }) =>
        mean(
          before.load.cpuMicros / before.load.accepted,
          after.load.cpuMicros / after.load.accepted,
        ),
      ),
    },
  };
}

/** Smallest, middle and largest; of an even number the middle is between two. */
export function spread(values: readonly number[]): Spread {
  if (values.length === 0 || !values.every(Number.isFinite)) {
    throw new Error('a run without an accepted payment gives no figures');
  }
  const sorted = values.toSorted((one, other) => one - other);
  const below = sorted[Math.floor((sorted.length - 1) / 2)]!;
  const above = sorted[Math.ceil((sorted.length - 1) / 2)]!;
  return { min: sorted[0]!, median: mean(below, above), max: sorted.at(-1)! };
}

function costOf(
  name: MeasuredService,
  over: (figure: (repetition: Repetition) => number) => Spread,
): ServiceCost {
  return {
    cpuMicros: over((each) => cpuPerPayment(each, [name])),
    idleMicros: over(({ system }) => system.services[name].idleMicros / system.load.accepted),
    rssMiBPeak: over(({ system }) => system.services[name].rssBytesPeak / mebibyte),
    rssMiBEnd: over(({ system }) => system.services[name].rssBytesEnd / mebibyte),
  };
}

function partFigures(
  repetitions: readonly Repetition[],
  over: (figure: (repetition: Repetition) => number) => Spread,
): { parts?: NonNullable<Figures['parts']> } {
  if (repetitions.some(({ system }) => system.partMicros === undefined)) return {};
  const parts = measuredParts.map((name) => {
    return [name, over(({ system }) => system.partMicros![name] / system.load.accepted)] as const;
  });
  return { parts: Object.fromEntries(parts) as Figures['parts'] & {} };
}

function replayMicros({ system: { replay } }: Repetition): number {
  return replay.gatewayMicros / replay.load.accepted;
}

function cpuPerPayment({ system }: Repetition, services: readonly MeasuredService[]): number {
  const micros = services.reduce((sum, name) => sum + system.services[name].cpuMicros, 0);
  return micros / system.load.accepted;
}

function emptyPostMicros({ before, after }: Repetition): number {
  const perRequest = ({ load, cpuMicros }: EmptyPostRun) => cpuMicros / load.accepted;
  return mean(perRequest(before), perRequest(after));
}

function perSecond({ accepted }: { accepted: number }, ms: number): number {
  return (accepted * 1_000) / ms;
}

function mean(one: number, other: number): number {
  return (one + other) / 2;
}

const mebibyte = 1024 * 1024;

/** What `--json` prints. */
export type BenchReport = {
  /** The audit found no drift. */
  ok: boolean;
  rig: Rig;
  settings: BenchOptions & { replicas: number };
  figures: Figures;
  audit: Pick<AuditReport, 'ok' | 'counts' | 'drift'>;
  /** What the figures are made of. */
  repetitions: readonly Repetition[];
};

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
