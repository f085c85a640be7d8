import { measuredServices, type Cpu, type MeasuredService } from '../bench/measurements.ts';

/** What one process of a stage did with a backlog, and what that took of it and of the servers. */
export type StageCost = {
  /** Payments. */
  perSecond: number;
  /** Of a payment, of whoever was at work, microseconds. */
  cpu: Cpu;
  /** The same of whoever sent it, where that was on this machine too. */
  senderMicros?: number;
};

/** What a payment costs at each hop. */
export type Costs = {
  stages: Readonly<Record<MeasuredService, StageCost>>;
  /** Bytes of its record in Kafka, of its event, and of PostgreSQL's write-ahead log. */
  recordBytes: number;
  eventBytes: number;
  walBytes: number;
  /** Rows that are inserted, updated or deleted in the ledger, events included. */
  ledgerRows: number;
};

/** What it is to run on. */
export type Means = {
  /** How full anything may be at that rate, of 1: the rest is for bursts and for catching up. */
  fullness: number;
  postgresCores: number;
  orderingKeys: number;
};

/** One line of what a rate takes. */
export type Need = { what: string; count: number; unit: string; why: string };

/** Something there is one of, or a given number, and the rate that fills it. */
export type Ceiling = { what: string; perSecond: number };

/** What a rate takes, and what of it is full first. */
export type Sizing = { perSecond: number; needs: readonly Need[]; ceilings: readonly Ceiling[] };

/**
 * Writes a second of a Spanner node, of rows of 1 KB, and how much of a node's CPU a regional
 * instance should use at most (cloud.google.com/spanner/docs/performance, …/cpu-utilization).
 */
const spanner = { writesPerNode: 3_500, fullness: 0.65 };

/**
 * Bytes a second that a project may publish in a small region, the least of three, and that one
 * ordering key takes (cloud.google.com/pubsub/quotas).
 */
const pubsub = { publishBytes: 200e6, orderingKeyBytes: 1e6 };

const microsOfCore = 1e6;

/** The CPU of a payment over all stages, of whoever is named; microseconds. */
function microsOf(costs: Costs, name: keyof Cpu): number {
  return Object.values(costs.stages).reduce((sum, { cpu }) => sum + (cpu[name] ?? 0), 0);
}

/**
 * How fast so many processes of a stage are done with a backlog on a machine with so many cores:
 * as many times as fast as one of them, unless the machine is full before.
 */
export function predictRate(
  { perSecond, cpu, senderMicros = 0 }: StageCost,
  { processes, cores }: { processes: number; cores: number },
): number {
  const micros = Object.values(cpu).reduce((sum, each) => sum + each, senderMicros);
  return Math.min(processes * perSecond, (cores * microsOfCore) / micros);
}

/** What a rate takes of everything, each on machines of its own. */
export function sizeFor(perSecond: number, costs: Costs, means: Means): Sizing {
  const { fullness } = means;
  const cores = (name: keyof Cpu) => (perSecond * microsOf(costs, name)) / microsOfCore;
  const micros = (name: keyof Cpu) => `${microsOf(costs, name).toFixed(0)} µs a payment`;
  const megabytes = (bytes: number) => (perSecond * bytes) / 1e6;
  const services = measuredServices.map((name): Need => {
    const own = costs.stages[name].cpu[name] ?? 0;
    const count = Math.ceil((perSecond * own) / microsOfCore / fullness);
    return { what: name, count, unit: 'processes', why: `${own.toFixed(0)} µs a payment` };
  });
  const workers = services.find(({ what }) => what === 'ledger-worker')!.count;
  const nodes = (perSecond * costs.ledgerRows) / spanner.writesPerNode / spanner.fullness;
  const needs: Need[] = [
    ...services,
    {
      what: 'Kafka: partitions',
      count: workers,
      unit: 'at least',
      why: 'each worker has one',
    },
    {
      what: 'Kafka: records',
      count: megabytes(costs.recordBytes),
      unit: 'MB/s',
      why: `${costs.recordBytes.toFixed(0)} bytes a payment, compressed`,
    },
    {
      what: 'Redis',
      count: Math.ceil(cores('redis') / fullness),
      unit: 'threads',
      why: micros('redis'),
    },
    {
      what: 'PostgreSQL',
      count: cores('postgres') / fullness,
      unit: 'cores',
      why: micros('postgres'),
    },
    {
      what: 'PostgreSQL: log',
      count: megabytes(costs.walBytes),
      unit: 'MB/s',
      why: `${costs.walBytes.toFixed(0)} bytes a payment`,
    },
    {
      what: 'or Spanner, for the ledger',
      count: Math.ceil(nodes),
      unit: 'nodes',
      why: `${costs.ledgerRows.toFixed(1)} rows a payment, ${spanner.writesPerNode}/s a node`,
    },
    {
      what: 'Pub/Sub: published',
      count: megabytes(costs.eventBytes),
      unit: 'MB/s',
      why: `of ${pubsub.publishBytes / 1e6} in a small region`,
    },
    {
      what: 'Pub/Sub: ordering keys',
      count: Math.ceil((megabytes(costs.eventBytes) * 1e6) / pubsub.orderingKeyBytes / fullness),
      unit: 'at least',
      why: '1 MB/s of each',
    },
  ];
  return { perSecond, needs, ceilings: ceilingsOf(costs, means) };
}

/** What does not become more by starting another process, the one that is full first in front. */
function ceilingsOf(costs: Costs, { postgresCores, orderingKeys }: Means): Ceiling[] {
  const byCpu = (what: string, name: keyof Cpu, cores: number): Ceiling => {
    return { what, perSecond: (cores * microsOfCore) / microsOf(costs, name) };
  };
  const byBytes = (what: string, bytes: number): Ceiling => {
    return { what, perSecond: bytes / costs.eventBytes };
  };
  return [
    byCpu('Redis, its one thread', 'redis', 1),
    byCpu(`PostgreSQL, ${postgresCores} cores`, 'postgres', postgresCores),
    byBytes(`Pub/Sub, ${orderingKeys} ordering keys`, orderingKeys * pubsub.orderingKeyBytes),
    byBytes('Pub/Sub, a small region', pubsub.publishBytes),
  ].toSorted((one, other) => one.perSecond - other.perSecond);
}
