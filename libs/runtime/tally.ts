import { Counter, type Registry } from 'prom-client';

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
