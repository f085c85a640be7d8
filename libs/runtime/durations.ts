import { Histogram, type Registry } from 'prom-client';

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
