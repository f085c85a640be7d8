import { createRequire } from 'node:module';
import type * as PgTracing from '@opentelemetry/instrumentation-pg';
import { nameOfSql } from './load-sql.ts';

let traced = false;

/**
 * Spans of statements, by the standard instrumentation. It is loaded here, when something is traced
 * and before the first pool, and put into the driver in place.
 *
 * Its spans for getting a connection stay on: they also carry who asked over the pool's queue,
 * without which a statement that waited would be told of whoever gave its connection back.
 */
export function traceStatements(): void {
  if (traced) return;
  traced = true;
  const require = createRequire(import.meta.url);
  const { PgInstrumentation } = require('@opentelemetry/instrumentation-pg') as typeof PgTracing;
  new PgInstrumentation({
    // A loop that looks for work is nobody's.
    requireParentSpan: true,
    requestHook: (span, { query }) => {
      // It would call each after the first word of its file, which begins with a comment.
      const summary = nameOfSql(query.text);
      span.updateName(summary).setAttribute('db.query.summary', summary);
    },
  });
  require('pg');
  createRequire(require.resolve('pg'))('pg-pool');
}
