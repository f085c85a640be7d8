import { databaseErrorKind, openDatabase, type Database } from '@triplock/postgres';
import { runService, type Logger } from '@triplock/runtime';
import { readConfig } from './config.ts';
import { Refusal, type Console } from './console.ts';
import { watchFlow } from './flow/flow.ts';
import { actNames } from './acts/kinds-of-acts.ts';
import { consoleMetrics } from './metrics.ts';
import { createConsoleServer } from './edge/server.ts';
import { operatorConsole } from './service.ts';
import { openSessions } from './edge/sessions.ts';
import { shareStreams, streamShares } from './edge/streams.ts';

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
  const records = refusingWhenAway(openAs(config.DATABASE_URL, 2)!, logger);
  const metrics = consoleMetrics(service.metrics, actNames);
  const flow = watchFlow(config.PROCESS_URLS, metrics.looks);
  service.onClose('flow', () => flow.close());
  const context: Console = {
    config,
    database: refusingWhenAway(database, logger),
    records,
    acting: {
      operator: openAs(config.OPERATOR_DATABASE_URL, 4),
      partners: openAs(config.PARTNERS_DATABASE_URL, 1),
    },
    sessions: openSessions(records),
    streams: shareStreams(streamShares),
    flow,
    metrics,
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

/**
 * The same database, but that whoever asks it while it is away is refused with what to do. Acts are
 * not done with this: of an act that was cut off nobody knows how far it came.
 */
function refusingWhenAway(database: Database, logger: Logger): Database {
  const orRefuse = (error: unknown): never => {
    if (error instanceof Refusal || databaseErrorKind(error) !== 'transient') throw error;
    logger.warn({ err: error }, 'the database did not answer');
    throw new Refusal(
      'unavailable',
      'PostgreSQL does not answer. Nothing is lost by that: load this again when it is back.',
    );
  };
  return {
    ...database,
    query: (statement, parameters) => database.query<never>(statement, parameters).catch(orRefuse),
    transaction: (work) => database.transaction(work).catch(orRefuse),
  };
}
