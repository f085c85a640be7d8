import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import type { Engine } from '../engine/engine.ts';

/**
 * The journal as it is on disk, from a byte on, one JSON entry per line. `Journal-Size` is where
 * the next reading goes on from.
 */
export function addJournalRoute(app: FastifyInstance, engine: Engine, path: string): void {
  const from = { type: 'string', pattern: '^\\d{1,15}$', default: '0' };
  app.get<{ Querystring: { from: string } }>(
    '/_simulator/journal',
    { schema: { querystring: { type: 'object', properties: { from } } } },
    async ({ query }, reply) => {
      await engine.store.settled();
      const size = engine.store.journalSize();
      const start = Number(query.from);
      const lines =
        start >= size ? Readable.from([]) : createReadStream(path, { start, end: size - 1 });
      return reply.header('journal-size', size).type('application/x-ndjson').send(lines);
    },
  );
}
