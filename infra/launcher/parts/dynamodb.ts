import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cloneFolder, compiledCode } from '../home.ts';
import type { Fetched, Part } from './part.ts';

/**
 * Guard 1's store where claims are kept in DynamoDB: dynalite, which stands for the service,
 * started only when asked for. It comes with the packages.
 */
export const dynamodb: Part = {
  name: 'dynamodb',
  title: 'DynamoDB',
  given: { variable: 'DYNAMODB_ENDPOINT', address: (value) => value },
  ports: [{ use: 'port', usual: 18_000, variable: 'TRIPLOCK_DYNAMODB_PORT' }],
  fetch: fetchDynamodb,
  address: ({ ports }) => `http://127.0.0.1:${ports['port']}`,
  probe,
  stop: { signal: 'SIGTERM', withinMs: 10_000 },
};

function fetchDynamodb(): Promise<Fetched> {
  return Promise.resolve({
    picked: `dynalite ${versionOfDynalite()} (npm)`,
    command: ({ folder, ports }) =>
      Promise.resolve({
        file: process.execPath,
        args: [...heap, join(cloneFolder, 'libs/stores/claims-dynamodb/server/main.ts')],
        cwd: cloneFolder,
        settings: {
          NODE_COMPILE_CACHE: compiledCode,
          DYNAMODB_SERVER_PORT: `${ports['port']}`,
          DYNAMODB_SERVER_FOLDER: folder,
        },
      }),
  });
}

/** By itself V8 lets gigabytes fill with what nobody needs. */
const heap = ['--max-semi-space-size=16', '--max-old-space-size=192'];

function versionOfDynalite(): string {
  const manifest = readFileSync(join(cloneFolder, 'node_modules/dynalite/package.json'), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}

/**
 * Dynalite and the service say that they are well; DynamoDB Local refuses, which is an answer too.
 */
async function probe(address: string): Promise<void> {
  const response = await fetch(address, { signal: AbortSignal.timeout(2_000) });
  const answer = await response.text();
  if (!answer.includes('dynamodb')) throw new Error(`it answers ${response.status}`);
}
