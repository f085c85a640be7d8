import { openDatabase } from '@triplock/postgres';
import { runService } from '@triplock/runtime';
import { readConfig } from './config.ts';
import type { Console } from './console.ts';
import { createConsoleServer } from './server.ts';
import { operatorConsole } from './service.ts';

await runService(operatorConsole, readConfig, async (config, service) => {
  const { logger } = service;
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    connectionsMax: 6,
    readOnly: true,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  service.onClose('database', () => database.close());
  const context: Console = { config, database, logger, now: () => new Date() };

  const app = await createConsoleServer(context);
  await app.listen({ host: config.CONSOLE_HOST, port: config.CONSOLE_PORT });
  service.onClose('console', () => app.close());
  // It goes on, and says what is away, whatever is: nothing makes it unready.
  await service.serveAdmin({ readiness: {} });
});
