import { UsageError, type SettingsOfServices } from '@triplock/launcher';
import { wholeNumber } from '@triplock/operator';
import { measuredServices } from './measurements.ts';

/** Seconds of load of each run, of the system and of the empty POST, and connections. */
export type LoadAmount = { seconds: number; connections: number };

/** What was asked for on the command line. */
export type BenchOptions = LoadAmount & {
  repeat: number;
  /** The share of payments that is traced; absent, tracing is off. */
  tracing?: number;
};

/** The options' values.  @throws UsageError for one that is no number or out of range. */
export function readBenchOptions(values: {
  seconds?: string | undefined;
  connections?: string | undefined;
  repeat?: string | undefined;
  tracing?: string | undefined;
}): BenchOptions {
  const { seconds, connections, repeat, tracing } = values;
  return {
    seconds: wholeNumber(seconds, { option: 'seconds', min: 1, max: 3_600 }) ?? 20,
    connections: wholeNumber(connections, { option: 'connections', min: 1, max: 4_096 }) ?? 64,
    repeat: wholeNumber(repeat, { option: 'repeat', min: 1, max: 100 }) ?? 3,
    ...(tracing !== undefined && { tracing: shareOf(tracing) }),
  };
}

function shareOf(text: string): number {
  const share = /^(0|1|0?\.\d+|1\.0+)$/.test(text) ? Number(text) : NaN;
  if (share >= 0) return share;
  throw new UsageError(`--tracing takes a share from 0 to 1, such as 0.01, not '${text}'`);
}

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
