import { mkdirSync } from 'node:fs';
import { pingEmulator } from '@triplock/ledger-spanner';
import { missingPart } from '../errors.ts';
import type { Fetched, Part } from './part.ts';
import { inGcloudSdk } from './programs.ts';

/**
 * Guard 2's store where the ledger is kept in Cloud Spanner: Google's emulator, started only when
 * asked for. It keeps everything in memory.
 */
export const spanner: Part = {
  name: 'spanner',
  title: 'Spanner emulator',
  given: { variable: 'SPANNER_EMULATOR_HOST', address: (value) => value },
  ports: [{ use: 'port', usual: 19_010, variable: 'TRIPLOCK_SPANNER_PORT' }],
  fetch: fetchSpanner,
  address: ({ ports }) => `127.0.0.1:${ports['port']}`,
  probe: pingEmulator,
  stop: { signal: 'SIGTERM', withinMs: 10_000 },
};

// Every test file has a database of its own; Cloud Spanner's limit is 100.
const databasesMax = 1_000;

/**
 * The emulator of the gcloud SDK, which Google ships for Linux alone: on other systems the SDK runs
 * a container. Its gateway_main adds a REST door to this one, which nobody here goes through.
 */
export function findSpannerEmulator(platform = process.platform): string | undefined {
  if (platform !== 'linux') return undefined;
  return inGcloudSdk('bin', 'cloud_spanner_emulator', 'emulator_main')[0];
}

async function fetchSpanner(): Promise<Fetched> {
  const file = findSpannerEmulator();
  if (file === undefined) throw missing();
  return {
    picked: 'Spanner emulator (gcloud SDK); it forgets its data when it stops',
    command: async ({ folder, ports }) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const listen = `--host_port=127.0.0.1:${ports['port']}`;
      const args = [listen, `--override_max_databases_per_instance=${databasesMax}`];
      return { file, args, cwd: folder, settings: {} };
    },
  };
}

function missing(): Error {
  return missingPart({
    title: 'Spanner emulator',
    because: 'no gcloud SDK with the emulator was found, which there is for Linux alone',
    install:
      'the gcloud SDK with its emulator (gcloud components install cloud-spanner-emulator; Debian: apt install google-cloud-cli-spanner-emulator)',
    variable: 'SPANNER_EMULATOR_HOST',
    example: '127.0.0.1:9010',
  });
}
