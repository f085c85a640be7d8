import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { missingPart } from '../errors.ts';
import type { Session } from '../session.ts';
import type { Fetched, Part } from './part.ts';
import { cached, fetchJars, findJava, hasMaven, javaOptions } from './programs.ts';

const version = '3.3.1';
const checksum = '07c8bc4748a111f9065938348adeb08a5e0362e9d765a1958809765374c16c2a';
const mainClass = 'software.amazon.dynamodb.services.local.main.ServerRunner';

/**
 * Guard 1's store where claims are kept in DynamoDB: DynamoDB Local, started only when asked for.
 */
export const dynamodb: Part = {
  name: 'dynamodb',
  title: 'DynamoDB Local',
  given: { variable: 'DYNAMODB_ENDPOINT', address: (value) => value },
  ports: [{ use: 'port', usual: 18_000, variable: 'TRIPLOCK_DYNAMODB_PORT' }],
  fetch: fetchDynamodb,
  address: ({ ports }) => `http://127.0.0.1:${ports['port']}`,
  probe,
  stop: { signal: 'SIGTERM', withinMs: 10_000 },
};

async function fetchDynamodb(session: Session): Promise<Fetched> {
  const java = await findJava();
  if (java.outcome === 'missing') throw missing(java.because);
  const jars = await cached(session, { name: `dynamodb-${version}`, checksum }, async (filling) => {
    if (!hasMaven()) throw missing('there is no mvn on PATH to fetch it with');
    await fetchJars(session, {
      name: 'dynamodb',
      title: `DynamoDB Local ${version}`,
      folder: filling,
    });
  });
  return {
    picked: `DynamoDB Local ${version} (Maven, Java ${java.major})`,
    command: async ({ folder, ports }) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      const args = [
        ...[...javaOptions, '-Xmx256m', `-Djava.library.path=${jars}`],
        ...['-cp', join(jars, '*'), mainClass],
        // One database whatever a client's credentials and region are, kept like everything else.
        ...['-port', `${ports['port']}`, '-sharedDb', '-dbPath', folder],
        ...['-disableTelemetry', '-cors', 'http://127.0.0.1'],
      ];
      return { file: java.file, args, cwd: folder, settings: {} };
    },
  };
}

/** DynamoDB refuses a request without a signature, and that is an answer too. */
async function probe(address: string): Promise<void> {
  const response = await fetch(address, { signal: AbortSignal.timeout(2_000) });
  const answer = await response.text();
  if (!answer.includes('com.amazonaws.dynamodb')) throw new Error(`it answers ${response.status}`);
}

function missing(because: string): Error {
  return missingPart({
    title: 'DynamoDB Local',
    because,
    install:
      'Java 17 and Maven, which fetch it (Debian: apt install openjdk-17-jre-headless maven; macOS: brew install openjdk@17 maven)',
    variable: 'DYNAMODB_ENDPOINT',
    example: 'http://127.0.0.1:8000',
  });
}
