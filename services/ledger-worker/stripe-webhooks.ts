import type { WakeOutcome } from '@triplock/ledger';
import { readStripeEvent, type StripeEvent } from '@triplock/provider';
import { withDeadline, type Loop, type Service } from '@triplock/runtime';
import type { Config } from './config.ts';
import { serveWebhooks, type Received, type Webhook } from './webhook-server.ts';
import type { Worker } from './worker.ts';

/** docs.stripe.com/keys#obtain-api-keys: a key shows whether it moves real money. */
const liveKey = /^[rs]k_live_/;

/** Serves Stripe's webhooks, where a port is set. */
export async function openStripeWebhooks(
  worker: Worker,
  resolver: Loop,
  { config, onClose }: { config: Config } & Service,
): Promise<void> {
  const { WEBHOOKS_HOST: host, WEBHOOKS_PORT: port, STRIPE_WEBHOOK_SECRETS: secrets } = config;
  if (port === undefined) {
    worker.logger.info('WEBHOOKS_PORT is not set: the resolver asks Stripe, no webhook reports');
    return;
  }
  const mode = liveKey.test(config.STRIPE_API_KEY) ? 'live' : 'test';
  const signing = { secrets, mode, resolver } as const;
  const server = await serveWebhooks(worker, {
    ...{ host, port },
    receive: (webhook) => receiveStripeWebhook(worker, signing, webhook),
  });
  onClose('webhooks', () => server.close());
}

/** How webhooks are verified, and whom they wake. */
export type StripeSigning = {
  /** Those that Stripe may sign with; two while one follows the other. */
  secrets: readonly string[];
  mode: 'live' | 'test';
  resolver: Loop;
};

/**
 * Stripe reports most charges while the worker that confirmed one is about to settle it by its own
 * answer. It is given so long, and then nobody else has to ask.
 */
const graceMs = 300;

/** Clocks of the database are read in milliseconds, and timers fire up to one early. */
const lateMs = 10;

/** Stripe sends again what is not answered in time; this leaves it its own limits. */
const answerWithinMs = 5_000;

/**
 * Receives one webhook of Stripe's: when it is genuine, what it is about is due now, and the
 * resolver reads the intent itself. No state that the webhook reports is believed, so copies, any
 * order, and one that is early or late or about nothing of ours do no harm. One that is lost costs
 * time: the row is due by itself later.
 *
 * @throws when the ledger does not answer; then it has to come again.
 */
export async function receiveStripeWebhook(
  worker: Worker,
  { secrets, mode, resolver }: StripeSigning,
  webhook: Webhook,
): Promise<Received> {
  const read = readStripeEvent({ ...webhook, secrets, mode });
  const outcome =
    read.outcome === 'event' ? await wake(worker, resolver, read.event) : read.outcome;
  if (read.outcome === 'event') await withinLimits(alarmIfUndone(worker, read.event));
  worker.metrics.providerEvents.count(outcome);
  if (read.outcome === 'forged') worker.logger.debug({ detail: read.detail }, 'a forged webhook');
  return read.outcome === 'forged' ? 'forged' : 'received';
}

async function wake(
  { wakeDue, logger }: Worker,
  resolver: Loop,
  { id: eventId, type, intentId }: StripeEvent,
): Promise<WakeOutcome['outcome']> {
  const event = { provider: 'stripe' as const, eventId, type, intentId };
  const woken = await withinLimits(wakeDue(event, { graceMs }));
  if (woken.outcome === 'woken') {
    logger.debug({ txnIds: woken.txnIds, eventId, type }, 'the provider has news');
    // Whichever worker looks first: this one need not wait for its next pass.
    setTimeout(() => resolver.wake(), graceMs + lateMs).unref();
  }
  return woken.outcome;
}

/**
 * A refund that has succeeded stays so in the ledger, and its partner was informed. When a bank
 * sends the money back later, a person has to see that the customer gets it. Each webhook counts,
 * copies too: that is an alarm; the audit is what names the refund as long as ledger and provider
 * differ.
 */
async function alarmIfUndone(
  { refunds, metrics, logger }: Worker,
  { id: eventId, failedRefund }: StripeEvent,
): Promise<void> {
  if (failedRefund === undefined) return;
  const { txnId, refundId } = failedRefund;
  const row = await refunds.find(txnId);
  const stored = row?.provider && 'refundId' in row.provider ? row.provider.refundId : undefined;
  if (row?.state !== 'succeeded' || stored !== refundId) return;
  metrics.refundsUndone.inc();
  logger.error(
    { txnId, refundId, eventId },
    'a refund failed at the provider after it had succeeded',
  );
}

function withinLimits<Value>(asked: Promise<Value>): Promise<Value> {
  return withDeadline(asked, { ms: answerWithinMs, what: 'the ledger' });
}
