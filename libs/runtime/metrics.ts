import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

export { Counter, Gauge, Histogram, Registry };

/**
 * How often the lag of timers is measured. Each time wakes the process: every 10 ms, as the package
 * has it, was most of what an idle service cost.
 */
const lagEveryMs = 250;

/**
 * Of the process's own figures the package brings several up to date with one of them, the first,
 * and nobody may have asked for that one: by the name of each figure the name of the first.
 */
const broughtUpToDateBy = new WeakMap<Registry, ReadonlyMap<string, string>>();

/** A registry with the process's own figures and a `service` label on every series. */
export function createMetrics(service: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: lagEveryMs });
  let first = '';
  const firsts = registry.getMetricsAsArray().map((metric) => {
    if ('collect' in metric) first = metric.name;
    return [metric.name, first] as const;
  });
  broughtUpToDateBy.set(registry, new Map(firsts));
  for (const figure of ['min', 'max', 'mean', 'p50', 'p90', 'p99']) {
    const lag = registry.getSingleMetric(`nodejs_eventloop_lag_${figure}_seconds`) as Gauge;
    Object.assign(lag, { collect: lessThePeriod });
  }
  return registry;
}

/**
 * Metrics as Prometheus reads them (text format 0.0.4): those of these names that there are, or all
 * without a name. What is not asked for, nor needed for it, is not put together, so that a few cost
 * next to nothing.
 */
export async function renderMetrics(
  registry: Registry,
  names: readonly string[] = [],
): Promise<string> {
  if (names.length === 0) return registry.metrics();
  const firsts = names.map((name) => broughtUpToDateBy.get(registry)?.get(name));
  const needed = new Set([...names, ...firsts]);
  // In the registry's order, in which the first one is before those that it brings up to date.
  const told = registry.getMetricsAsArray().filter(({ name }) => needed.has(name));
  const texts = told.map(async ({ name }) => {
    const text = await registry.getSingleMetricAsString(name);
    return names.includes(name) ? [text] : [];
  });
  return `${(await Promise.all(texts)).flat().join('\n\n')}\n`;
}

/**
 * Node measures from one look to the next, so that a timer in time would count as late by the whole
 * period. What is shown was set just before, because `nodejs_eventloop_lag_seconds` is collected
 * before it each time, whether that is asked for or not.
 */
function lessThePeriod(this: Gauge): void {
  this.dec(lagEveryMs / 1_000);
}

/**
 * Buckets for work that takes milliseconds when all is well and seconds when it is not; seconds.
 */
export const usualBuckets: readonly number[] = [
  0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/**
 * Duplicates that a guard caught, under one name in every service, so that one query compares the
 * guards. A service counts at its own guard alone.
 */
export function duplicatesCaught<Guard extends string>(
  registry: Registry,
  guard: Guard,
): Tally<Guard> {
  return new Tally({
    name: 'triplock_duplicates_caught_total',
    help: 'Requests, records and events that a guard already knew, so nothing was done again.',
    label: 'guard',
    values: { [guard]: 0 } as Record<Guard, 0>,
    registers: [registry],
  });
}

/** A counter's name, its one label, and where it starts: every value that the label can have. */
export type TallyOptions<Value extends string> = {
  name: string;
  help: string;
  label: string;
  values: Record<Value, 0>;
  registers: Registry[];
};

/**
 * A Prometheus counter by one label with a closed set of values. All of them are there from the
 * start, at 0: a rate then sees the first one too, and a query for what has never happened finds a
 * series and not nothing. Counting is an addition, cheap enough for every request.
 */
export class Tally<Value extends string> {
  readonly #counts: Record<Value, number>;

  constructor({ label, values, ...metric }: TallyOptions<Value>) {
    const counts: Record<Value, number> = { ...values };
    this.#counts = counts;
    new Counter({
      ...metric,
      labelNames: [label],
      collect() {
        this.reset();
        for (const [value, count] of Object.entries<number>(counts)) {
          this.inc({ [label]: value }, count);
        }
      },
    });
  }

  /** Counts `times` more of one value. */
  count(value: Value, times = 1): void {
    this.#counts[value] += times;
  }

  /** What was counted so far, without what never happened. */
  counted(): Partial<Record<Value, number>> {
    const all = Object.entries<number>(this.#counts) as [Value, number][];
    return Object.fromEntries(all.filter(([, count]) => count > 0)) as Partial<
      Record<Value, number>
    >;
  }
}

/** A histogram of seconds, and the outcomes that what is timed can have. */
export type DurationsOptions<Outcome extends string> = {
  name: string;
  help: string;
  /** Upper bounds, seconds. */
  buckets: readonly number[];
  outcomes: readonly Outcome[];
  registers: Registry[];
};

/**
 * How long something takes, by what it came to: its rate, its errors and its duration in one
 * metric. Every outcome is there from the start, at 0.
 */
export class Durations<Outcome extends string> {
  readonly #histogram: Histogram<'outcome'>;

  constructor({ outcomes, buckets, ...metric }: DurationsOptions<Outcome>) {
    this.#histogram = new Histogram({
      ...metric,
      buckets: [...buckets],
      labelNames: ['outcome'],
    });
    for (const outcome of outcomes) this.#histogram.zero({ outcome });
  }

  /** Begins one; call what it gives with the outcome, once. */
  start(): (outcome: Outcome) => void {
    const startedMs = performance.now();
    return (outcome) => {
      this.#histogram.observe({ outcome }, (performance.now() - startedMs) / 1_000);
    };
  }

  /** Times work by what it came to, or as `thrown` when it throws, which is passed on. */
  async time<Value>(
    work: () => Promise<Value>,
    outcomeOf: (value: Value) => Outcome,
    thrown: Outcome,
  ): Promise<Value> {
    const end = this.start();
    let outcome = thrown;
    try {
      const value = await work();
      outcome = outcomeOf(value);
      return value;
    } finally {
      end(outcome);
    }
  }
}
