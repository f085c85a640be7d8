import type { Random } from './random.ts';

/**
 * How long an operation takes before it is executed: log-normal, given by two of its quantiles.
 */
export type LatencyShape = { readonly medianMs: number; readonly p99Ms: number };

/** The 99th percentile of the standard normal distribution. */
const z99 = 2.326_348;

/**
 * One duration, in ms. A median of 0 is no latency; a p99 below the median counts as the median.
 */
export function drawLatencyMs({ medianMs, p99Ms }: LatencyShape, random: Random): number {
  if (medianMs <= 0) return 0;
  const sigma = Math.log(Math.max(p99Ms, medianMs) / medianMs) / z99;
  return medianMs * Math.exp(sigma * drawNormal(random));
}

/** Box and Muller's way from two even numbers to a normal one. */
function drawNormal(random: Random): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return radius * Math.cos(2 * Math.PI * random());
}
