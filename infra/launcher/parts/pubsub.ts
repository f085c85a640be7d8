import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Session } from '../session.ts';
import { inGcloudSdk } from './gcloud-sdk.ts';
import { compiledOnce, findJava, javaOptions } from './java.ts';
import { missingPart } from './missing-part.ts';
import type { Fetched, Part } from './part.ts';

/** Carries the events to their consumers. It keeps everything in memory. */
export const pubsub: Part = {
  name: 'pubsub',
  title: 'Pub/Sub emulator',
  given: { variable: 'PUBSUB_EMULATOR_HOST', address: (value) => value },
  ports: [{ use: 'port', usual: 18_085, variable: 'TRIPLOCK_PUBSUB_PORT' }],
  fetch: fetchPubsub,
  address: ({ ports }) => `127.0.0.1:${ports['port']}`,
  probe,
  stop: { signal: 'SIGTERM', withinMs: 10_000 },
};

async function fetchPubsub(_session: Session): Promise<Fetched> {
  const java = await findJava();
  if (java.outcome === 'missing') throw missing(java.because);
  const jar = findEmulator();
  if (jar === undefined) throw missing('no gcloud SDK with the emulator was found');
  const version = /emulator-(.+)-all\.jar$/.exec(jar)?.[1];
  return {
    picked: `Pub/Sub emulator ${version} (gcloud SDK, Java ${java.major})`,
    command: async ({ folder, ports }) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const listen = ['--host=127.0.0.1', `--port=${ports['port']}`];
      // The emulator keeps every message for as long as it runs, so a load run needs room.
      const args = [...javaOptions, compiledOnce, '-Xmx1g', '-jar', jar, ...listen];
      return { file: java.file, args, cwd: folder, settings: {} };
    },
  };
}

/** The emulator's jar in the gcloud SDK. */
function findEmulator(): string | undefined {
  return inGcloudSdk('platform', 'pubsub-emulator', 'lib')
    .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
    .find((file) => /cloud-pubsub-emulator-.+-all\.jar$/.test(file));
}

async function probe(address: string): Promise<void> {
  const response = await fetch(`http://${address}/`, { signal: AbortSignal.timeout(2_000) });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`the emulator answers ${response.status}`);
}

function missing(because: string): Error {
  return missingPart({
    title: 'Pub/Sub emulator',
    because,
    install:
      'Java 17 and the gcloud SDK with its emulator (gcloud components install pubsub-emulator; Debian: apt install google-cloud-cli-pubsub-emulator)',
    variable: 'PUBSUB_EMULATOR_HOST',
    example: '127.0.0.1:8085',
  });
}
