import {
  eventsHandler,
  gatherEvents,
  openInbox,
  openInboxReaper,
  openRefusedMessages,
  watchInHand,
  type ReapedInbox,
} from '@triplock/inbox';
import { openDatabase, type Database } from '@triplock/postgres';
import { runLoop, runService, type Service } from '@triplock/runtime';
import { openSubscriber, readSubscriptionRetention } from '@triplock/transport';
import { addToBatches } from './add-to-batches.ts';
import { readConfig, type Config } from './config.ts';
import { settlementMetrics, type SettlementMetrics } from './metrics.ts';

const consumer = 'settlement-feed';

// Fewer and larger transactions cost less, and no settlement is in such a hurry.
const batchLimits = { apartMs: 50, itemsMax: 256 };
const reapEveryMs = 60_000;

await runService(consumer, readConfig, async (config, service) => {
  const { logger, metrics: registry, crashPoints } = service;
  const metrics = settlementMetrics(registry);
  const database = openDatabase({
    url: config.DATABASE_URL,
    applicationName: config.INSTANCE_NAME,
    onIdleError: (err) => logger.warn({ err }, 'an idle database connection broke'),
  });
  service.onClose('database', () => database.close());

  const inbox = openInbox(database, consumer);
  await forgetWhatIsOld(config, service, { inbox, database, metrics });
  const subscriber = openSubscriber({
    ...subscriptionOf(config),
    maxInFlight: config.EVENTS_IN_FLIGHT_MAX,
    logger,
    handle: eventsHandler({
      receive: gatherEvents((received) => addToBatches(inbox, received), batchLimits),
      refusedMessages: openRefusedMessages(database, consumer),
      metrics,
      logger,
      reached: (step) => crashPoints.reached(`settlement.${step}`),
    }),
  });
  service.onClose('subscriber', () => subscriber.close());
  watchInHand(registry, 'triplock_settlement', subscriber.inHand);

  await service.serveAdmin({
    readiness: { postgres: () => database.ping(), pubsub: () => subscriber.ping() },
  });
});

function subscriptionOf(config: Config) {
  return {
    projectId: config.PUBSUB_PROJECT_ID,
    emulatorHost: config.PUBSUB_EMULATOR_HOST,
    subscription: config.EVENTS_SUBSCRIPTION,
  };
}

/** Reaps by the horizon of the settings, once it is sure that it outlives what may come again. */
async function forgetWhatIsOld(
  config: Config,
  { logger, onClose }: Service,
  parts: { inbox: ReapedInbox; database: Database; metrics: SettlementMetrics },
): Promise<void> {
  const reapInbox = await openInboxReaper({
    ...parts,
    keepInboxHours: config.INBOX_RETENTION_HOURS,
    subscription: await readSubscriptionRetention(subscriptionOf(config)),
    logger,
  });
  const pass = async () => {
    const events = await reapInbox();
    parts.metrics.reaped.inc(events);
    return events;
  };
  const reaper = runLoop(pass, { name: 'reap', idleMs: reapEveryMs, logger });
  onClose('reaper', () => reaper.stop());
}
