import { setTimeout as delay } from 'node:timers/promises';
import type { System } from '@triplock/demo';
import { measuredServices } from './measurements.ts';
import type { IdleLoad } from './run-load.ts';
import { sampleServices } from './sample-services.ts';

/** Looks for so many seconds at services that have nothing to do. */
export async function measureIdle(
  system: Pick<System, 'replicas' | 'signal'>,
  seconds: number,
): Promise<IdleLoad> {
  const before = await sampleServices(system);
  const startedAt = performance.now();
  await delay(seconds * 1_000, undefined, { signal: system.signal });
  const after = await sampleServices(system);
  const tookMicros = (performance.now() - startedAt) * 1_000;
  const loads = measuredServices.map((name) => {
    return [name, (after[name].cpuMicros - before[name].cpuMicros) / tookMicros] as const;
  });
  return Object.fromEntries(loads) as IdleLoad;
}
