import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { DisputeReport, WakeOutcome } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import {
  readStripeEvent,
  stripeModeOf,
  type StripeEvent,
  type StripeMode,
} from '@triplock/provider';
import {
  createBoundedServer,
  quickLimits,
  explainListenError,
  withDeadline,
  type ConnectionLimits,
  type Loop,
  type Service,
} from '@triplock/runtime';
import type { Config } from './config.ts';
import type { ProviderEventOutcome } from './metrics.ts';
import type { Worker } from './worker.ts';

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
  const mode = stripeModeOf(config.STRIPE_API_KEY);
  const server = await serveStripeWebhooks(worker, { host, port, secrets, mode, resolver });
  onClose('webhooks', () => server.close());
}

/** Where webhooks come in, how they are verified, and whom they wake. */
export type StripeWebhooks = {
  host: string;
  port: number;
  /** Those that Stripe may sign with; two while one follows the other. */
  secrets: readonly string[];
  mode: StripeMode;
  resolver: Loop;
};

/** Stripe's largest objects are some tens of kilobytes. */
export const bodyBytesMax = 256 * 1_024;

/**
 * A connection that is closed on what was not read loses its answer, so what is too large is read
 * to its end and dropped, up to this.
 */
const droppedBytesMax = 64 * bodyBytesMax;

/**
 * As many as can have a body in memory; Stripe holds far fewer open. Anybody can fill them with
 * half-sent requests: the oldest of those make way for a webhook, and for the balancer's question.
 */
export const connectionLimits: ConnectionLimits = { ...quickLimits, connectionsMax: 256 };
/** What a request that is under way may still take once the worker stops. */
const drainMs = 2_000;

/**
 * Serves `POST /stripe/webhooks`, and `GET /healthz` for a load balancer. It answers 2xx
 * once what was received is durable, 400 to a forgery, and 503 when Stripe has to send it again.
 * Rejects when the port is taken.
 */
export async function serveStripeWebhooks(
  worker: Worker,
  webhooks: StripeWebhooks,
): Promise<{ close(): Promise<void> }> {
  const server = createBoundedServer((request, response) => {
    answer(worker, webhooks, request).then(
      (status) => status !== 'nobody-left' && send(response, status),
      (err: unknown) => {
        worker.logger.warn(
          { err },
          'a Stripe webhook could not be handled, Stripe will send it again',
        );
        send(response, 503);
      },
    );
  }, connectionLimits);
  server.listen({ host: webhooks.host, port: webhooks.port });
  await once(server, 'listening').catch((error: Error) => {
    throw explainListenError(error, 'WEBHOOKS_PORT');
  });
  return { close: () => closeInTime(server) };
}

type Status = 200 | 400 | 404 | 405 | 413 | 503;

const details: Readonly<Record<Status, string>> = {
  200: 'ok',
  400: 'not signed by Stripe with a secret that is known here, or not within five minutes of now',
  404: 'nothing is here',
  405: 'POST only',
  413: 'too large',
  503: 'not now',
};

/** Anybody can reach this, so what no secret has signed makes no noise in the log. */
async function answer(
  worker: Worker,
  webhooks: StripeWebhooks,
  request: IncomingMessage,
): Promise<Status | 'nobody-left'> {
  const { metrics, logger } = worker;
  const path = request.url?.split('?', 1)[0];
  if (path === '/healthz') return 200;
  if (path !== '/stripe/webhooks') return 404;
  if (request.method !== 'POST') return 405;
  const read = await readBody(request);
  if (read.outcome !== 'read') {
    metrics.providerEvents.count(read.outcome);
    logger.debug({ outcome: read.outcome }, 'a webhook that was not read to its end');
    return read.outcome === 'too-large' ? 413 : 'nobody-left';
  }
  const signature = request.headers['stripe-signature'];
  const webhook = { body: read.body, signature: signature?.toString() };
  const received = await receive(worker, webhooks, webhook);
  return received === 'received' ? 200 : 400;
}

type ReadBody = { outcome: 'read'; body: Buffer } | { outcome: 'too-large' | 'aborted' };

/** The bytes as they came, because they are what was signed. */
async function readBody(request: IncomingMessage): Promise<ReadBody> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      // Leaving the loop cuts the connection.
      if (bytes > droppedBytesMax) break;
      if (bytes <= bodyBytesMax) chunks.push(chunk);
    }
  } catch (error) {
    if (!request.destroyed) throw error;
    return { outcome: 'aborted' };
  }
  if (bytes > bodyBytesMax) return { outcome: 'too-large' };
  return { outcome: 'read', body: Buffer.concat(chunks) };
}

function send(response: ServerResponse, status: Status): void {
  const later = status === 503 ? { 'retry-after': '5' } : {};
  response.writeHead(status, { 'content-type': 'application/json', ...later });
  response.end(JSON.stringify({ detail: details[status] }));
}

async function closeInTime(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  await Promise.race([closed, delay(drainMs, undefined, { ref: false })]);
  server.closeAllConnections();
  await closed;
}

/** A webhook as it came: the bytes are what was signed. */
type Webhook = { body: Buffer; signature: string | undefined };

/** What it came to. `received`: it is durable, or of no concern, and must not come again. */
type Received = 'received' | 'forged';

/**
 * Stripe reports most charges while the worker that confirmed one is about to settle it by its own
 * answer. It is given so long, and then nobody else has to ask. Meanwhile the event is in memory
 * alone and not acknowledged: after a crash it comes again.
 */
export const graceMs = 300;

/** Stripe sends again what is not answered in time; this leaves it its own limits. */
const answerWithinMs = 5_000;

/**
 * Receives one webhook of Stripe's: a dispute is noted; what any other is about is due now, when it
 * is genuine, and the resolver reads the intent itself. No state that the webhook reports is
 * believed, so copies, any order, and one that is early or late or about nothing of ours do no
 * harm. One that is lost costs time: the row is due by itself later, and the audit names a dispute
 * that was not told.
 *
 * @throws when the ledger does not answer; then it has to come again.
 */
async function receive(
  worker: Worker,
  { secrets, mode, resolver }: StripeWebhooks,
  webhook: Webhook,
): Promise<Received> {
  const read = readStripeEvent({ ...webhook, secrets, mode });
  const outcome =
    read.outcome === 'event' ? await handle(worker, resolver, read.event) : read.outcome;
  if (read.outcome === 'event') {
    await withinLimits(alarmIfUndone(worker, read.event));
  }
  worker.metrics.providerEvents.count(outcome);
  if (read.outcome === 'forged') worker.logger.debug({ detail: read.detail }, 'a forged webhook');
  return read.outcome === 'forged' ? 'forged' : 'received';
}

async function handle(
  worker: Worker,
  resolver: Loop,
  event: StripeEvent,
): Promise<ProviderEventOutcome> {
  const { dispute } = event;
  return dispute === undefined
    ? wake(worker, resolver, event)
    : noteDispute(worker, { intentId: event.intentId, ...dispute });
}

/**
 * Notes a dispute beside its payment and tells the partner, both in one transaction and each
 * dispute once.
 *
 * @throws while the payment is pending, and has no end whose number the dispute could follow: the
 * report has to come again.
 */
export async function noteDispute(
  { ledger, crashPoints, logger }: Worker,
  dispute: Omit<DisputeReport, 'provider'>,
): Promise<ProviderEventOutcome> {
  const noted = await withinLimits(ledger.noteDispute({ provider: 'stripe', ...dispute }));
  switch (noted.outcome) {
    case 'disputed':
      logger.warn({ txnId: noted.txnId, disputeId: dispute.disputeId }, 'a payment is disputed');
      await crashPoints.reached('worker.disputed');
      return 'disputed';
    case 'already-noted':
      return 'duplicate';
    case 'not-final':
      throw new Error(`payment ${noted.txnId} is disputed and not final yet`);
    case 'other-currency':
      // It would be so again: a person has to see what the bank wants, and tell the partner.
      logger.error(
        { txnId: noted.txnId, disputeId: dispute.disputeId, currency: dispute.currency },
        'a dispute is of another currency than its payment, and its partner is not told',
      );
      return 'other-currency';
    case 'unknown':
      return 'nothing-waits';
    default:
      return noted satisfies never;
  }
}

async function wake(
  worker: Worker,
  resolver: Loop,
  { id: eventId, type, intentId, paid }: StripeEvent,
): Promise<WakeOutcome['outcome']> {
  const { wakeDue, logger } = worker;
  const about = { provider: 'stripe' as const, eventId, type, intentId };
  const event = paid === undefined ? about : { ...about, paidFor: paid.txnId };
  await delay(graceMs);
  const woken = await withinLimits(wakeDue(event));
  if (woken.outcome === 'woken') {
    logger.debug({ txnIds: woken.txnIds, eventId, type }, 'the provider has news');
    // Whichever worker looks first: this one need not wait for its next pass.
    resolver.wake();
  }
  if (woken.paidAfterEnd && paid !== undefined) {
    const money = { eventId, intentId, txnId: paid.txnId };
    await withinLimits(alarmIfPaidAfterEnd(worker, money), 'the ledger or the provider');
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
  { followUps, metrics, logger }: Worker,
  { id: eventId, failedRefund }: StripeEvent,
): Promise<void> {
  if (failedRefund === undefined) return;
  const { txnId, refundId } = failedRefund;
  const row = await followUps.find(txnId);
  const stored = row?.provider && 'refundId' in row.provider ? row.provider.refundId : undefined;
  if (row?.state !== 'succeeded' || stored !== refundId) return;
  metrics.refundsUndone.inc();
  logger.error(
    { txnId, refundId, eventId },
    'a refund failed at the provider after it had succeeded',
  );
}

/**
 * A payment that was told to have ended without money, and of which an intent holds or has taken
 * some all the same: confirmed by hand at the provider, or by a right that somebody kept. What is
 * final does not change, so a person gives the money back (`npm run give-back`). The intent is
 * read, because a report may be late: what was held and let go since is well. Each webhook counts,
 * copies too; without any the audit names the payment.
 *
 * @throws when the provider does not answer: then the report has to come again.
 */
async function alarmIfPaidAfterEnd(
  { ledger, provider, metrics, logger }: Worker,
  { eventId, intentId, txnId }: { eventId: string; intentId: string; txnId: TxnId },
): Promise<void> {
  const row = await ledger.find(txnId);
  if (row === undefined) throw new Error(`payment ${txnId} had ended and is gone`);
  const seen = await provider.readIntent({ txnId, intentId, money: row.details.money });
  switch (seen.outcome) {
    case 'succeeded':
    case 'authorized':
      metrics.paidAfterEnd.inc();
      logger.error(
        { txnId, intentId, eventId, state: row.state, money: seen.outcome },
        'the provider has money of a payment that had ended without it',
      );
      return;
    case 'unknown':
      throw seen.error;
    case 'declined':
    case 'reopened':
    case 'unconfirmed':
    case 'waiting':
      return;
    default:
      return seen satisfies never;
  }
}

function withinLimits<Value>(asked: Promise<Value>, what = 'the ledger'): Promise<Value> {
  return withDeadline(asked, { ms: answerWithinMs, what });
}
