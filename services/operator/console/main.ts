import { openDatabase, type Database } from '@triplock/postgres';
import { runService } from '@triplock/runtime';
import { readConfig } from './config.ts';
import type { Console } from './console.ts';
import { watchFlow } from './flow.ts';
import { createConsoleServer } from './server.ts';
import { operatorConsole } from './service.ts';
import { openSessions } from './sessions.ts';

await runService(operatorConsole, readConfig, async (config, service) => {
  const { logger } = service;
  const applicationName = config.INSTANCE_NAME;
  const onIdleError = (err: Error) => logger.warn({ err }, 'an idle database connection broke');
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName,
    connectionsMax: 6,
    readOnly: true,
    onIdleError,
  });
  service.onClose('database', () => database.close());
  const openAs = (url: string | undefined, connectionsMax: number): Database | undefined => {
    if (url === undefined) return undefined;
    const pool = openDatabase({ url, applicationName, connectionsMax, onIdleError });
    service.onClose('database', () => pool.close());
    return pool;
  };
  const records = openAs(config.DATABASE_URL, 2)!;
  const flow = watchFlow(config.PROCESS_URLS);
  service.onClose('flow', () => flow.close());
  const context: Console = {
    config,
    database,
    records,
    acting: {
      operator: openAs(config.OPERATOR_DATABASE_URL, 4),
      partners: openAs(config.PARTNERS_DATABASE_URL, 1),
    },
    sessions: openSessions(records, Date.now),
    flow,
    crashPoints: service.crashPoints,
    logger,
    now: () => new Date(),
  };

  const app = await createConsoleServer(context);
  await app.listen({ host: config.CONSOLE_HOST, port: config.CONSOLE_PORT });
  service.onClose('console', () => app.close());
  // It goes on, and says what is away, whatever is: nothing makes it unready.
  await service.serveAdmin({ readiness: {} });
});
