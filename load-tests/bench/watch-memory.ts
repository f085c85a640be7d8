import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import { measuredServices, type MeasuredService } from './measurements.ts';
import { sampleServices } from './sample-services.ts';

/** The largest resident memory seen of each service, bytes. */
export type MemoryPeaks = Record<MeasuredService, number>;

// Answering /metrics takes a service about a millisecond, so this is a thousandth of its CPU.
const lookEveryMs = 1_000;

/** Watches the services' memory until it is stopped, and returns the peaks. */
export function watchMemory(system: Pick<System, 'replicas'>): { stop(): Promise<MemoryPeaks> } {
  const stopping = new AbortController();
  const look = async (): Promise<MemoryPeaks> => {
    const peaks = Object.fromEntries(measuredServices.map((name) => [name, 0])) as MemoryPeaks;
    for (;;) {
      const services = await sampleServices(system);
      for (const name of measuredServices) {
        peaks[name] = Math.max(peaks[name], services[name].rssBytes);
      }
      if (stopping.signal.aborted) return peaks;
      await delay(lookEveryMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  };
  const peaks = look();
  // Whoever stops it hears of a failure; until then nobody does.
  peaks.catch(() => undefined);
  return {
    stop: () => {
      stopping.abort();
      return peaks;
    },
  };
}
