import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { missingPart } from '../errors.ts';
import { cloneFolder, compiledCode } from '../home.ts';
import type { Command } from '../processes/start.ts';
import type { Session } from '../session.ts';
import { classArchiveOf, sharedClasses } from './class-archive.ts';
import { findPubsubEmulator } from '../programs/installed.mjs';
import type { Fetched, Part, Site } from './part.ts';
import { compiledOnce, findJava, javaOptions } from '../programs/programs.ts';

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
  if (java.outcome === 'missing') throw missingPart('pubsub', java.because);
  const jar = findPubsubEmulator();
  if (jar === undefined) throw missingPart('pubsub', 'no gcloud SDK with the emulator was found');
  const version = /emulator-(.+)-all\.jar$/.exec(jar)?.[1];
  const classArchive = classArchiveOf({ name: `pubsub-emulator-${version}`, java, jars: [jar] });
  return {
    picked: `Pub/Sub emulator ${version} (gcloud SDK, Java ${java.major})`,
    command: async ({ folder, ports }) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const listen = ['--host=127.0.0.1', `--port=${ports['port']}`];
      // The emulator keeps every message for as long as it runs, so a load run needs room.
      const options = [...javaOptions, compiledOnce, ...sharedClasses(classArchive), '-Xmx1g'];
      const args = [...options, '-jar', jar, ...listen];
      return { file: java.file, args, cwd: folder, settings: {} };
    },
    behindDoor,
    classArchive,
  };
}

/** The door gives the emulator a place of its own, and has the one that everybody knows. */
function behindDoor({ file, args, ...command }: Command, { ports }: Pick<Site, 'ports'>): Command {
  const words = args.map((word) => word.replace(/^--(host|port)=.*/, '--$1={$1}'));
  const door = join(cloneFolder, 'infra/pubsub-door/main.ts');
  return {
    ...command,
    file: process.execPath,
    args: [...doorHeap, door, `127.0.0.1:${ports['port']}`, file, ...words],
    settings: { ...command.settings, NODE_COMPILE_CACHE: compiledCode },
  };
}

/** It holds nothing but what is on its way. */
const doorHeap = ['--max-semi-space-size=4', '--max-old-space-size=64'];

async function probe(address: string): Promise<void> {
  const response = await fetch(`http://${address}/`, { signal: AbortSignal.timeout(2_000) });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`the emulator answers ${response.status}`);
}

/**
 * A call of the emulator's REST interface. `name` is a resource, such as
 * `topics/payment-events.v1`.
 */
export type PubSubRequest = {
  method: 'GET' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  name: string;
  body?: object;
};

/** The emulator's project. It checks no credentials, so any name does. */
export const pubsubProject = 'triplock';

/** The resource's full name, as bodies refer to it. */
export function pubsubName(name: string): string {
  return `projects/${pubsubProject}/${name}`;
}

/** What the emulator answered: the status, and the body as text. */
export type PubSubAnswer = { status: number; ok: boolean; text: string };

/**
 * Asks the Pub/Sub emulator for one thing. An answer that says no is an answer too.
 *
 * @param emulator its `host:port`.
 * @throws when it does not answer within 10 s.
 */
export async function askPubSub(
  emulator: string,
  { method, name, body }: PubSubRequest,
): Promise<PubSubAnswer> {
  const response = await fetch(`http://${emulator}/v1/${pubsubName(name)}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  });
  return { status: response.status, ok: response.ok, text: await response.text() };
}
