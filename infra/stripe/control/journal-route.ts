import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import type { Engine } from '../engine/engine.ts';

/**
 * The journal as it is on disk, from a byte on, one JSON entry per line. `Journal-Size` is where the
 * next reading goes on from.
 */
export function addJournalRoute(app: FastifyInstance, engine: Engine, path: string): void {
  const from = { type: 'integer', minimum: 0, default: 0 };
  app.get<{ Querystring: { from: number } }>(
    '/_simulator/journal',
    { schema: { querystring: { type: 'object', properties: { from } } } },
    async ({ query }, reply) => {
      await engine.store.settled();
      const size = engine.store.journalSize();
      const none = query.from >= size;
      const lines = none
        ? Readable.from([])
        : createReadStream(path, { start: query.from, end: size - 1 });
      return reply.header('journal-size', size).type('application/x-ndjson').send(lines);
    },
  );
}
