import { consumeEvents } from '@triplock/consumer';
import { openDatabase, readDurability } from '@triplock/postgres';
import { Counter, Gauge, runLoop, runService, type Registry } from '@triplock/runtime';
import { readConfig } from './config.ts';
import { settlementFeed } from './service.ts';
import { addToBatches, closeDays, type DaysSeen } from './settlement-batches.ts';

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
  const started = new Date();
  let seen: DaysSeen = { lookedAt: started, openUntil: null };
  const closing = runLoop(
    closeDays(database, {
      afterMs: config.SETTLEMENT_DAY_CLOSES_AFTER_MS,
      seen: (days) => (seen = days),
    }),
    { name: 'close days', idleMs: closeEveryMs, logger },
  );
  service.onClose('close days', () => closing.stop());
  addDaysGauges(service.metrics, () => seen);

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => events.ping() },
  });
});

/** As of when they are asked for, so that they grow also while nobody can look. */
function addDaysGauges(metrics: Registry, seen: () => DaysSeen): void {
  const secondsSince = (time: Date) => Math.max(0, (Date.now() - time.getTime()) / 1_000);
  new Gauge({
    name: 'triplock_settlement_open_day_over_seconds',
    help: 'For how long the first day that is not closed has been over.',
    registers: [metrics],
    collect() {
      const { openUntil } = seen();
      this.set(openUntil === null ? 0 : secondsSince(openUntil));
    },
  });
  new Gauge({
    name: 'triplock_settlement_days_looked_at_seconds',
    help: 'How long ago it was looked how far the days are complete.',
    registers: [metrics],
    collect() {
      this.set(secondsSince(seen().lookedAt));
    },
  });
}
