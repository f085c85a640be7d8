import type { TestContext } from 'node:test';
import type { DatabaseRole } from '@triplock/postgres';
import { createCrashPoints, createLogger, createMetrics } from '@triplock/runtime';
import { createTestDatabase } from '@triplock/testing';
import { handlerOf, type Consumer } from '../consume-events.ts';

/** Which consumer is tried: its names, its role in the database and its effect. */
export type TriedConsumer = Pick<Consumer, 'name' | 'shortName' | 'effect'> & {
  role: DatabaseRole;
  /** At once and in batches of 100, where nothing else is said. */
  batch?: Consumer['batch'];
};

/** A consumer on a database of its own, and without a subscription: a test hands it messages. */
export async function aConsumer(context: TestContext, { role, ...tried }: TriedConsumer) {
  const store = await createTestDatabase(context);
  const database = store.open(role);
  const crashPoints = createCrashPoints();
  const metrics = createMetrics('test');
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  const handle = handlerOf(
    { logger, metrics, crashPoints },
    {
      batch: { apartMs: 0, itemsMax: 100 },
      ...tried,
      database,
      countReaped: () => undefined,
    },
  );
  const rows = <Row extends object>(sql: string) => database.query<Row>(sql);
  return { store, database, handle, rows, crashPoints, metrics, logger };
}
