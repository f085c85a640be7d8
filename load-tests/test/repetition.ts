import { measuredServices, type EmptyPostRun, type Repetition } from '../bench/measurements.ts';

/** A repetition of round figures; every service uses the same. */
export function aRepetition(figures: {
  accepted?: number;
  tookMs?: number;
  publishedMs?: number;
  deliveredMs?: number;
  /** CPU of each service in the whole run. */
  serviceMicros?: number;
  /** CPU of the empty POST for one request, before and after. */
  emptyMicros?: readonly [number, number];
}): Repetition {
  const { accepted = 100, tookMs = 1_000, serviceMicros = 10_000 } = figures;
  const [before, after] = figures.emptyMicros ?? [50, 50];
  const load = {
    accepted,
    others: {},
    tookMs,
    latencyMs: { p50: 2, p99: 9, max: 20 },
    cpuMicros: 2_000,
  };
  const use = {
    cpuMicros: serviceMicros,
    idleMicros: 0,
    rssBytesPeak: 200 * 1024 * 1024,
    rssBytesEnd: 100 * 1024 * 1024,
  };
  const services = Object.fromEntries(measuredServices.map((name) => [name, use]));
  const empty = (micros: number): EmptyPostRun => ({ load, cpuMicros: micros * accepted });
  const { publishedMs = tookMs, deliveredMs = publishedMs } = figures;
  return {
    before: empty(before),
    system: {
      load,
      services: services as Repetition['system']['services'],
      publishedMs,
      deliveredMs,
      drainedMs: deliveredMs,
      partMicros: { redis: 1_000, kafka: 2_000, postgres: 3_000, pubsub: 4_000 },
      replay: { load: { ...load, accepted: accepted * 2 }, gatewayMicros: serviceMicros },
    },
    after: empty(after),
  };
}
