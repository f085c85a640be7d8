import type { Partners } from '@triplock/partners';
import { backoffMs, inSpan, annotateSpan, type CrashPoints, type Logger } from '@triplock/runtime';
import type { Deliveries, LeasedDelivery, RecordOutcome } from './deliveries.ts';
import type { NotifierMetrics } from './metrics.ts';
import type { SendWebhook, WebhookOutcome } from './webhook-client.ts';

/** What sends webhooks stands on. */
export type Notifier = {
  deliveries: Deliveries;
  partners: Partners;
  send: SendWebhook;
  retry: RetryLimits;
  metrics: NotifierMetrics;
  logger: Logger;
  crashPoints: CrashPoints;
};

/** When to try again, and from when on not to; milliseconds. */
export type RetryLimits = { firstMs: number; maxMs: number; giveUpAfterMs: number };

/**
 * One attempt at one delivery: look up the endpoint, send, record. After a crash between sending
 * and recording, the webhook is sent again under its webhook-id, by which the receiver knows it.
 *
 * @throws when the database does not answer; the lease then ends and the attempt is repeated.
 */
export function deliverWebhook(
  notifier: Notifier,
  delivery: LeasedDelivery,
  signal: AbortSignal,
): Promise<RecordOutcome> {
  return inSpan(spanOf(delivery), () => sendAndRecord(notifier, delivery, signal));
}

/** Every attempt is in the trace of the request that began it all, however late it is. */
function spanOf({ eventId, txnId, partnerId, attempt, traceparent }: LeasedDelivery) {
  const attributes = {
    'triplock.txn_id': txnId,
    'triplock.partner_id': partnerId,
    'triplock.event_id': eventId,
    'triplock.attempt': attempt,
  };
  return { name: 'deliver webhook', parent: traceparent ?? undefined, attributes };
}

async function sendAndRecord(
  notifier: Notifier,
  delivery: LeasedDelivery,
  signal: AbortSignal,
): Promise<RecordOutcome> {
  const started = performance.now();
  const outcome = await notifier.metrics.attemptSeconds.time(
    () => attempt(notifier, delivery, signal),
    (made) => made.outcome,
    'failed',
  );
  annotateSpan({ 'triplock.outcome': outcome.outcome });
  await notifier.crashPoints.reached('webhook.answered');
  const recorded = await notifier.deliveries.record(delivery, {
    outcome: outcome.outcome,
    ...whatToKeep(outcome),
    tookMs: performance.now() - started,
    nextInMs: backoffMs(delivery.failedBefore, notifier.retry),
    giveUpAfterMs: notifier.retry.giveUpAfterMs,
  });
  await notifier.crashPoints.reached('webhook.recorded');
  report(notifier, delivery, { outcome, recorded });
  return recorded;
}

/**
 * The receiver wants no more webhooks (Standard Webhooks 1.0, "Deliverability and reliability").
 */
const gone = 410;

async function attempt(
  { partners, send, metrics, logger }: Notifier,
  { partnerId, eventId, body }: LeasedDelivery,
  signal: AbortSignal,
): Promise<WebhookOutcome> {
  // Asked now and not when the event came: a partner that repairs its endpoint gets what waits.
  const endpoint = await partners.webhookEndpoint(partnerId);
  if (endpoint === undefined) {
    return { outcome: 'unsendable', error: 'the partner has no webhook endpoint' };
  }
  if (endpoint.disabled) {
    return { outcome: 'unsendable', error: 'the webhook endpoint is disabled since a 410 Gone' };
  }
  const outcome = await send({ endpoint, eventId, body, signal });
  if (outcome.outcome === 'refused' && outcome.status === gone) {
    if (await partners.disableEndpoint({ partnerId, version: endpoint.version })) {
      metrics.endpointsGone.inc();
      logger.error(
        { partnerId, eventId },
        'webhook endpoint disabled: its server answered 410 Gone',
      );
    }
  }
  return outcome;
}

function whatToKeep(outcome: WebhookOutcome): { status: number | null; error: string | null } {
  switch (outcome.outcome) {
    case 'delivered':
      return { status: outcome.status, error: null };
    case 'refused':
      return { status: outcome.status, error: `answered ${outcome.status}` };
    case 'unanswered':
    case 'unsendable':
      return { status: null, error: outcome.error };
    default:
      return outcome satisfies never;
  }
}

function report(
  { metrics, logger }: Notifier,
  { eventId, txnId, partnerId, attempt: number }: LeasedDelivery,
  { outcome, recorded }: { outcome: WebhookOutcome; recorded: RecordOutcome },
): void {
  metrics.attempts.count(outcome.outcome);
  const facts = { eventId, txnId, partnerId, attempt: number, ...outcome };
  switch (recorded) {
    case 'delivered':
      if (number === 1) return logger.debug(facts, 'webhook delivered');
      return logger.info(facts, 'webhook delivered, not at the first attempt');
    case 'pending':
      return logger.warn(facts, 'webhook not delivered, will retry');
    case 'failed':
      metrics.givenUp.inc();
      return logger.error(facts, 'webhook given up: the partner did not get it');
    case 'overtaken':
      metrics.overtaken.inc();
      return logger.warn(
        facts,
        'webhook attempt outlived its lease, another sender has taken over',
      );
    default:
      return recorded satisfies never;
  }
}
