import { setTimeout as delay } from 'node:timers/promises';
import { askAdmin, sumSeries, type System } from '@triplock/demo';
import { readMetrics } from '../systems.ts';

/** The services' own counters at one moment, replicas added up. */
export type Reading = {
  /** Seconds since the watch began. */
  second: number;
  accepted: number;
  posted: number;
  published: number;
  delivered: number;
  /** CPU seconds of each service since it started. */
  cpuSeconds: Readonly<Record<string, number>>;
  /** Memory of each service, MiB. */
  rssMiB: Readonly<Record<string, number>>;
};

/** A watch that is kept until it is stopped. */
export type Watch = { readings: readonly Reading[]; stop(): Promise<void> };

/**
 * Reads every service's `/metrics` again and again. Counters count what a process did: a copy
 * counts again, and a process that was started anew begins at 0, so they draw lines and judge
 * nothing.
 */
export function watchSystem(
  system: System,
  watch: { everyMs: number; onReading: (readings: readonly [Reading, ...Reading[]]) => void },
): Watch {
  const readings: Reading[] = [];
  const ended = new AbortController();
  const startedAt = performance.now();
  const signal = AbortSignal.any([ended.signal, system.signal]);
  const watching = (async () => {
    while (!signal.aborted) {
      const reading = await readSystem(system, (performance.now() - startedAt) / 1_000);
      readings.push(reading);
      watch.onReading([readings[0]!, ...readings.slice(1)]);
      await delay(watch.everyMs, undefined, { signal }).catch(() => undefined); // Only ever aborted.
    }
  })();
  return {
    readings,
    stop: async () => {
      ended.abort();
      await watching;
    },
  };
}

const worker = 'triplock_worker_records_total';

async function readSystem(system: System, second: number): Promise<Reading> {
  const texts = await Promise.all(
    system.endpoints.services.map(async (endpoint) => ({
      service: endpoint.service,
      // One that is away for a moment is a gap in its line, and no end to the run.
      text: await askAdmin(endpoint, { path: '/metrics', timeoutMs: 2_000 }).then(
        (answer) => answer.text(),
        () => '',
      ),
    })),
  );
  const sum = (service: string, name: string, outcomes: readonly string[] = []) =>
    texts
      .filter((each) => each.service === service)
      .flatMap(({ text }) =>
        outcomes.length === 0
          ? [sumSeries(text, { name })]
          : outcomes.map((outcome) => sumSeries(text, { name, labels: { outcome } })),
      )
      .reduce((total, each) => total + each, 0);
  const perService = (name: string, unit: number) =>
    Object.fromEntries(
      [...new Set(texts.map(({ service }) => service))]
        .filter((service) => sum(service, name) > 0)
        .map((service) => [service, sum(service, name) / unit]),
    );
  return {
    second: Math.round(second * 10) / 10,
    accepted: ['payments', 'refunds']
      .map((kind) => sum('ingest-gateway', `triplock_gateway_${kind}_total`, ['accepted']))
      .reduce((total, each) => total + each, 0),
    posted: sum('ledger-worker', worker) - sum('ledger-worker', worker, ['already-recorded']),
    published: sum('outbox-dispatcher', 'triplock_dispatcher_events_total', ['published']),
    delivered: sum('partner-notifier', 'triplock_webhook_attempts_total', ['delivered']),
    cpuSeconds: perService('process_cpu_seconds_total', 1),
    rssMiB: perService('process_resident_memory_bytes', 2 ** 20),
  };
}

/** CPU that each service used for each of so many payments while it was watched, microseconds. */
export function cpuMicrosOfEach(
  readings: readonly Reading[],
  payments: number,
): Readonly<Record<string, number>> {
  const [first, last] = [readings[0], readings.at(-1)];
  if (first === undefined || last === undefined || payments === 0) return {};
  const grown = Object.entries(last.cpuSeconds).map(([service, seconds]) => {
    return [service, ((seconds - (first.cpuSeconds[service] ?? 0)) * 1e6) / payments] as const;
  });
  return Object.fromEntries(grown);
}

/** Duplicates that each guard has caught since its processes started. */
export type GuardCounts = {
  /** Guard 1: answered as the first was, or refused because the key is in use. */
  atClaims: number;
  /** Guard 2: records whose transaction was in the ledger. */
  atLedger: number;
  /** Guard 3: events that an inbox knew. */
  atInbox: number;
};

/** Asks every replica. */
export async function readGuards(system: System): Promise<GuardCounts> {
  const [gateways, workers, notifiers] = await Promise.all([
    readMetrics(system, 'ingest-gateway'),
    readMetrics(system, 'ledger-worker'),
    readMetrics(system, 'partner-notifier'),
  ]);
  return {
    atClaims: caught(gateways, 'claims'),
    atLedger: caught(workers, 'ledger'),
    atInbox: caught(notifiers, 'inbox'),
  };
}

function caught(texts: readonly string[], guard: string): number {
  const counter = { name: 'triplock_duplicates_caught_total', labels: { guard } };
  return texts.reduce((total, text) => total + sumSeries(text, counter), 0);
}

/** What they caught in between. */
export function grownGuards(before: GuardCounts, after: GuardCounts): GuardCounts {
  return {
    atClaims: after.atClaims - before.atClaims,
    atLedger: after.atLedger - before.atLedger,
    atInbox: after.atInbox - before.atInbox,
  };
}

/** The stages that count what they have done. */
export type Stage = 'accepted' | 'posted' | 'published' | 'delivered';

/** How many that came since the first reading are through one stage and not through a later one. */
export function waiting(first: Reading, now: Reading, [from, to]: readonly [Stage, Stage]): number {
  return Math.max(0, now[from] - first[from] - (now[to] - first[to]));
}

/**
 * How long the oldest that waited between two stages had waited, at most, between two times;
 * seconds. What is through the later stage by now was through the earlier one when that had counted
 * as many.
 */
export function oldestWaiting(
  readings: readonly Reading[],
  [from, to]: readonly [Stage, Stage],
  [begin, end]: readonly [second: number, second: number],
): number {
  const first = readings[0];
  if (first === undefined) return 0;
  const within = readings.filter(({ second }) => second >= begin && second <= end);
  const ages = within.map((now) => {
    const through = now[to] - first[to];
    const came = readings.find((each) => each[from] - first[from] > through);
    return came === undefined ? 0 : Math.max(0, now.second - came.second);
  });
  return Math.max(0, ...ages);
}

/** The last of some readings in one line: what comes in, and what waits where. */
export function describeReadings(readings: readonly [Reading, ...Reading[]]): string {
  const [first] = readings;
  const now = readings.at(-1)!;
  const before = readings.at(-2) ?? now;
  const span = now.second - before.second;
  const rate = span > 0 ? Math.max(0, now.accepted - before.accepted) / span : 0;
  return (
    `${Math.round(now.second)} s, ${rate.toFixed(0)} accepted/s, waiting: ` +
    `${waiting(first, now, ['accepted', 'posted'])} to be posted, ` +
    `${waiting(first, now, ['posted', 'published'])} to be published, ` +
    `${waiting(first, now, ['published', 'delivered'])} to be delivered`
  );
}

/** Seconds from now on, and when that is, Unix milliseconds. */
export function startClock(): { since: number; second(): number } {
  const startedAt = performance.now();
  return { since: Date.now(), second: () => (performance.now() - startedAt) / 1_000 };
}
