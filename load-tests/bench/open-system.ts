import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { findSystem, type System, type Terminal } from '@triplock/demo';
import { bringUp, takeDown, withLock, type SettingsOfServices } from '@triplock/infra';
import { measuredServices } from './measurements.ts';

/** How the bench speaks and is interrupted, and where profiles go, if they are wanted. */
export type Opening = { terminal: Terminal; signal: AbortSignal; profileFolder?: string };

const ownHome = resolve(import.meta.dirname, '../../.triplock/bench');

/**
 * Runs `work` on a system that nobody else uses: one of each service, empty, and gone afterwards.
 * What failed without being interrupted is stopped too, but leaves its logs and data for a look.
 */
export async function onOwnSystem<Result>(
  opening: Opening,
  work: (system: System) => Promise<Result>,
): Promise<Result> {
  const { terminal, signal, profileFolder } = opening;
  const report = (line: string) => terminal.progress(line);
  mkdirSync(ownHome, { recursive: true });
  return withLock(join(ownHome, 'bench.lock'), { report, signal }, async () => {
    // What a bench that was killed has left.
    await takeDown({ home: ownHome, data: 'forget', report });
    let data: 'keep' | 'forget' = 'forget';
    try {
      const settings = settingsOf(profileFolder);
      await bringUp({ home: ownHome, replicas: 1, settings, report, signal });
      return await onRunningSystem(ownHome, opening, work);
    } catch (error) {
      if (!signal.aborted) {
        data = 'keep';
        terminal.note(`it failed; logs are in ${join(ownHome, 'logs')} until the next bench`);
      }
      throw error;
    } finally {
      await takeDown({ home: ownHome, data, report });
      terminal.clear();
    }
  });
}

/** Runs `work` on a system that is up, and leaves it so. */
export async function onRunningSystem<Result>(
  home: string,
  { terminal, signal }: Opening,
  work: (system: System) => Promise<Result>,
): Promise<Result> {
  const system = await findSystem(home, { terminal, signal });
  try {
    return await work(system);
  } finally {
    await system.close();
  }
}

/** As production would have it, but for the rate of one partner, which here does the work of all. */
function settingsOf(profileFolder: string | undefined): SettingsOfServices {
  const rate = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' };
  const profiles = measuredServices.map((name) => [name, profileOf(name, profileFolder)] as const);
  const each = Object.fromEntries(profiles);
  return {
    ...each,
    all: { LOG_LEVEL: 'info' },
    'ingest-gateway': { ...each['ingest-gateway'], ...rate },
  };
}

/** Node writes the profile when the service ends. */
function profileOf(name: string, folder: string | undefined): Record<string, string> {
  if (folder === undefined) return {};
  const file = `--cpu-prof-name=${name}.cpuprofile`;
  return { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${JSON.stringify(folder)} ${file}` };
}
