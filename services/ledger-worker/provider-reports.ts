import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { WakeOutcome } from '@triplock/ledger';
import type { TxnId } from '@triplock/payments';
import type { ProviderReport, ReadReport } from '@triplock/provider';
import { doorAt, type ProviderSettings, type ReportSettings } from '@triplock/providers';
import {
  createBoundedServer,
  quickLimits,
  explainListenError,
  type ConnectionLimits,
  type Service,
} from '@triplock/runtime';
import type { Config } from './config.ts';
import { noteDispute, withinLimits } from './disputes.ts';
import type { ProviderEventOutcome } from './metrics.ts';
import { workerAt } from './providers.ts';
import type { Resolvers } from './resolver.ts';
import type { Worker, WorkerAt } from './worker.ts';

/** Serves the providers' webhooks, where a port is set. */
export async function openReports(
  worker: Worker,
  resolvers: Resolvers,
  { config, onClose }: { config: Config } & Service,
): Promise<void> {
  const { WEBHOOKS_HOST: host, WEBHOOKS_PORT: port } = config;
  if (port === undefined) {
    worker.logger.info('WEBHOOKS_PORT is not set: the resolver asks providers, none reports');
    return;
  }
  const server = await serveReports(worker, { host, port, settings: config, resolvers });
  onClose('webhooks', () => server.close());
}

/** Where webhooks come in, by which settings they are verified, and whom they wake. */
export type Reports = {
  host: string;
  port: number;
  settings: ProviderSettings & ReportSettings;
  resolvers: Resolvers;
};

/** The largest objects of Stripe, and so of any known here, are some tens of kilobytes. */
export const bodyBytesMax = 256 * 1_024;

/**
 * A connection that is closed on what was not read loses its answer, so what is too large is read
 * to its end and dropped, up to this.
 */
const droppedBytesMax = 64 * bodyBytesMax;

/**
 * As many as can have a body in memory; providers hold far fewer open. Anybody can fill them with
 * half-sent requests: the oldest of those make way for a webhook, and for the balancer's question.
 */
export const connectionLimits: ConnectionLimits = { ...quickLimits, connectionsMax: 256 };
/** What a request that is under way may still take once the worker stops. */
const drainMs = 2_000;

/**
 * Serves `POST /NAME/webhooks` of each provider that reports, and `GET /healthz` for a load
 * balancer. It answers 2xx once what was received is durable, 400 to a forgery, and 503 when the
 * provider has to send it again. Rejects when the port is taken.
 */
export async function serveReports(
  worker: Worker,
  reports: Reports,
): Promise<{ close(): Promise<void> }> {
  const server = createBoundedServer((request, response) => {
    answer(worker, reports, request).then(
      (answered) => answered !== 'nobody-left' && send(response, answered),
      (err: unknown) => {
        worker.logger.warn(
          { err },
          'a report could not be handled, the provider will send it again',
        );
        send(response, plain(503));
      },
    );
  }, connectionLimits);
  server.listen({ host: reports.host, port: reports.port });
  await once(server, 'listening').catch((error: Error) => {
    throw explainListenError(error, 'WEBHOOKS_PORT');
  });
  return { close: () => closeInTime(server) };
}

type Answer = { status: 200 | 400 | 404 | 405 | 413 | 503; detail: string };

const details = {
  200: 'ok',
  404: 'nothing is here',
  405: 'POST only',
  413: 'too large',
  503: 'not now',
} as const satisfies Partial<Record<Answer['status'], string>>;

const plain = (status: keyof typeof details): Answer => ({ status, detail: details[status] });

/** Anybody can reach this, so what no secret has signed makes no noise in the log. */
async function answer(
  worker: Worker,
  reports: Reports,
  request: IncomingMessage,
): Promise<Answer | 'nobody-left'> {
  const { metrics, logger } = worker;
  const path = request.url?.split('?', 1)[0];
  if (path === '/healthz') return plain(200);
  const door = doorAt(path, reports.settings);
  if (door === undefined) return plain(404);
  if (request.method !== 'POST') return plain(405);
  const read = await readBody(request);
  if (read.outcome !== 'read') {
    metrics.providerEvents.count(read.outcome);
    logger.debug({ outcome: read.outcome }, 'a webhook that was not read to its end');
    return read.outcome === 'too-large' ? plain(413) : 'nobody-left';
  }
  const signature = request.headers[door.signature]?.toString();
  const webhook = { body: read.body, signature };
  const received = await receive(workerAt(worker, door.name), reports.resolvers, () =>
    door.read(webhook),
  );
  return received === 'received' ? plain(200) : { status: 400, detail: door.forged };
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

function send(response: ServerResponse, { status, detail }: Answer): void {
  const later = status === 503 ? { 'retry-after': '5' } : {};
  response.writeHead(status, { 'content-type': 'application/json', ...later });
  response.end(JSON.stringify({ detail }));
}

async function closeInTime(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  await Promise.race([closed, delay(drainMs, undefined, { ref: false })]);
  server.closeAllConnections();
  await closed;
}

/** What it came to. `received`: it is durable, or of no concern, and must not come again. */
type Received = 'received' | 'forged';

/**
 * A provider reports most charges while the worker that confirmed one is about to settle it by its
 * own answer. It is given so long, and then nobody else has to ask. Meanwhile the event is in
 * memory alone and not acknowledged: after a crash it comes again.
 */
export const graceMs = 300;

/**
 * Receives one report of a provider's: a dispute is noted; what any other is about is due now, when
 * it is genuine, and the resolver reads the intent itself. No state that it reports is believed, so
 * copies, any order, and one that is early or late or about nothing of ours do no harm. One that is
 * lost costs time: the row is due by itself later, and the audit names a dispute that was not told.
 *
 * @throws when the ledger does not answer; then it has to come again.
 */
async function receive(
  worker: WorkerAt,
  resolvers: Resolvers,
  readReport: () => ReadReport,
): Promise<Received> {
  const read = readReport();
  const outcome =
    read.outcome === 'event' ? await handle(worker, resolvers, read.event) : read.outcome;
  if (read.outcome === 'event') {
    await withinLimits(alarmIfUndone(worker, read.event));
  }
  worker.metrics.providerEvents.count(outcome);
  if (read.outcome === 'forged') worker.logger.debug({ detail: read.detail }, 'a forged webhook');
  return read.outcome === 'forged' ? 'forged' : 'received';
}

async function handle(
  worker: WorkerAt,
  resolvers: Resolvers,
  event: ProviderReport,
): Promise<ProviderEventOutcome> {
  const { dispute } = event;
  return dispute === undefined
    ? wake(worker, resolvers, event)
    : noteDispute(worker, { intentId: event.intentId, ...dispute });
}

async function wake(
  worker: WorkerAt,
  resolvers: Resolvers,
  { id: eventId, type, intentId, paid }: ProviderReport,
): Promise<WakeOutcome['outcome']> {
  const { name: provider, wakeDue, logger } = worker;
  const about = { provider, eventId, type, intentId };
  const event = paid === undefined ? about : { ...about, paidFor: paid.txnId };
  await delay(graceMs);
  const woken = await withinLimits(wakeDue(event));
  if (woken.outcome === 'woken') {
    logger.debug({ txnIds: woken.txnIds, eventId, type }, 'the provider has news');
    // Whichever worker looks first: this one need not wait for its next pass.
    resolvers.wake(provider);
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
  { id: eventId, failedRefund }: ProviderReport,
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
  { ledger, provider, metrics, logger }: WorkerAt,
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
