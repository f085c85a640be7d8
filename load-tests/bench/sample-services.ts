import { sumSeries, type System } from '@triplock/demo';
import { readMetrics } from '../read-metrics.ts';
import { measuredServices, type MeasuredService } from './measurements.ts';

/** What a service's processes said of themselves, its replicas added up. */
export type ServiceSample = { cpuMicros: number; rssBytes: number };
export type Sample = Readonly<Record<MeasuredService, ServiceSample>>;

/** Asks every replica of every service for its `/metrics`. */
export async function sampleServices(system: Pick<System, 'replicas'>): Promise<Sample> {
  const sampled = measuredServices.map(async (name) => {
    return [name, readSample(await readMetrics(system, name))] as const;
  });
  return Object.fromEntries(await Promise.all(sampled)) as Sample;
}

/** Adds up the metrics of a service's replicas. */
export function readSample(texts: readonly string[]): ServiceSample {
  const sum = (name: string) => texts.reduce((total, text) => total + sumSeries(text, { name }), 0);
  const cpuSeconds = sum('process_cpu_seconds_total');
  const rssBytes = sum('process_resident_memory_bytes');
  if (!(cpuSeconds > 0 && rssBytes > 0)) {
    throw new Error('a service tells nothing of its CPU time and its memory');
  }
  return { cpuMicros: cpuSeconds * 1_000_000, rssBytes };
}
