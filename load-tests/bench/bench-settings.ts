import type { SettingsOfServices } from '@triplock/launcher';
import { measuredServices } from './measurements.ts';

/**
 * As production would have it, but for the rate of one partner, which here does the work of all,
 * and for a CPU profile of each service where a folder for them is given.
 */
export function benchSettings(
  profileFolder: string | undefined,
  tracing: SettingsOfServices[string],
): SettingsOfServices {
  const rate = { RATE_LIMIT_PER_SECOND: '1000000', RATE_LIMIT_BURST: '1000000' };
  const profiles = measuredServices.map((name) => [name, profileOf(name, profileFolder)] as const);
  const each = Object.fromEntries(profiles);
  return {
    ...each,
    all: { LOG_LEVEL: 'info', ...tracing },
    'ingest-gateway': { ...each['ingest-gateway'], ...rate },
  };
}

/** Node writes the profile when the service ends. */
function profileOf(name: string, folder: string | undefined): Record<string, string> {
  if (folder === undefined) return {};
  const file = `--cpu-prof-name=${name}.cpuprofile`;
  return { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${JSON.stringify(folder)} ${file}` };
}
