import { consumeEvents } from '@triplock/consumer';
import { openDatabase, readDurability } from '@triplock/postgres';
import { Counter, Gauge, runLoop, runService } from '@triplock/runtime';
import { readConfig } from './config.ts';
import { settlementFeed } from './service.ts';
import { addToBatches, closeDays } from './settlement-batches.ts';

// A day is closed once; until then this says how far its batches are complete.
const closeEveryMs = 60_000;

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
  const overdue = new Gauge({
    name: 'triplock_settlement_open_day_over_seconds',
    help: 'For how long the first day that is not closed has been over.',
    registers: [service.metrics],
  });
  const closing = runLoop(
    closeDays(database, { afterMs: config.SETTLEMENT_DAY_CLOSES_AFTER_MS }, (seconds) =>
      overdue.set(Math.max(0, seconds)),
    ),
    { name: 'close days', idleMs: closeEveryMs, logger },
  );
  service.onClose('close days', () => closing.stop());

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => events.ping() },
  });
});
