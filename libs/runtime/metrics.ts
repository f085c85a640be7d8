import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { Tally } from './tally.ts';

export { Counter, Gauge, Histogram, Registry };

/** A registry with the process's own figures and a `service` label on every series. */
export function createMetrics(service: string): Registry {
  const registry = new Registry();
  registry.setDefaultLabels({ service });
  collectDefaultMetrics({ register: registry });
  return registry;
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
