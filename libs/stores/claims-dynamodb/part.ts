import type { PartDeclaration } from '@triplock/runtime';

/** Dynalite, which stands for DynamoDB; it comes with the packages. */
export const dynamoServer = {
  name: 'dynamodb',
  title: 'DynamoDB',
  folder: import.meta.dirname,
  given: { variable: 'DYNAMODB_ENDPOINT', example: 'http://127.0.0.1:8000' },
  port: { usual: 18_000, variable: 'TRIPLOCK_DYNAMODB_PORT' },
  addressOf: (host, port) => `http://${host}:${port}`,
  probe,
  keeps: 'everything',
  program: {
    from: 'npm',
    package: 'dynalite',
    workspace: 'server',
    oldSpaceMiB: 192,
    settings: ({ host, port, folder }) => ({
      DYNAMODB_SERVER_HOST: host,
      DYNAMODB_SERVER_PORT: `${port}`,
      DYNAMODB_SERVER_FOLDER: folder,
    }),
  },
  container: { port: 8_000, memoryMiB: 384, ready: '/', lacks: {} },
  licences: [
    {
      source: 'npm',
      name: 'classic-level',
      line: '3',
      program: 'LevelDB',
      licence: 'BSD-3-Clause',
      knownFrom: 'deps/leveldb of the package',
    },
  ],
} as const satisfies PartDeclaration;

/**
 * Dynalite and the service say that they are well; DynamoDB Local refuses, which is an answer too.
 */
async function probe(address: string): Promise<void> {
  const response = await fetch(address, { signal: AbortSignal.timeout(2_000) });
  const answer = await response.text();
  if (!answer.includes('dynamodb')) throw new Error(`it answers ${response.status}`);
}
