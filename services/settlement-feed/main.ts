import { consumeEvents } from '@triplock/consumer';
import { openDatabase, readDurability } from '@triplock/postgres';
import { Counter, runService } from '@triplock/runtime';
import { readConfig } from './config.ts';
import { settlementFeed } from './service.ts';
import { addToBatches } from './settlement-batches.ts';

await runService(settlementFeed, readConfig, async (config, service) => {
  const { logger } = service;
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    // An event is acknowledged after the commit: one that vanished would not be sent again.
    onConnect: readDurability,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  service.onClose('database', () => database.close());
  const reaped = new Counter({
    name: 'triplock_settlement_reaped_total',
    help: 'Inbox rows removed by the reaper.',
    registers: [service.metrics],
  });

  const events = await consumeEvents(service, config, {
    name: 'settlement-feed',
    shortName: 'settlement',
    database,
    effect: addToBatches,
    // No settlement is in a hurry. What waits after an outage fills a batch sooner.
    batch: { apartMs: 250, itemsMax: 1_000 },
    countReaped: (rows) => reaped.inc(rows),
  });

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => events.ping() },
  });
});
