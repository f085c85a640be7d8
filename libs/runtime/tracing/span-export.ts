import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { ExportResultCode, type ExportResult } from '@opentelemetry/core';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { Logger } from '../logger.ts';

/**
 * What a span may say outside of this process: methods, routes, statuses, addresses of servers,
 * names of topics and statements, ids and outcomes. Instrumentations add more, and so will their
 * next versions: a URL, which may hold a token, the statement, a user agent, an error's message.
 */
const allowedAttributes = new Set([
  'http.request.method',
  'http.response.status_code',
  'http.route',
  'url.scheme',
  'network.protocol.version',
  'server.address',
  'server.port',
  'error.type',
  'db.system.name',
  'db.namespace',
  'db.query.summary',
  'messaging.system',
  'messaging.operation.name',
  'messaging.operation.type',
  'messaging.destination.name',
  'messaging.destination.partition.id',
  'messaging.destination.subscription.name',
  'messaging.consumer.group.name',
  'messaging.batch.message_count',
  'messaging.message.id',
  'messaging.kafka.offset',
  'triplock.txn_id',
  'triplock.partner_id',
  'triplock.event_id',
  'triplock.guard.claim',
  'triplock.guard.ledger',
  'triplock.guard.inbox',
  'triplock.outcome',
  'triplock.attempt',
]);

/** On a span of a server, whoever calls chooses these freely. */
const chosenByCallers = new Set(['server.address', 'server.port']);

/**
 * An exporter that lets nothing else out, and logs once when the collector cannot be reached and
 * once when it can be again: what it does not get is dropped, and nobody waits for it.
 */
export function exportAllowed(exporter: SpanExporter, logger: Logger): SpanExporter {
  let lost = false;
  const logChange = ({ code, error }: ExportResult) => {
    if (code === ExportResultCode.FAILED && !lost) {
      logger.warn({ err: error }, 'traces cannot be sent and are dropped until they can');
    } else if (code === ExportResultCode.SUCCESS && lost) {
      logger.info('traces are sent again');
    }
    lost = code === ExportResultCode.FAILED;
  };
  return {
    export: (spans, done) =>
      exporter.export(spans.map(allowedPartOf), (result) => {
        logChange(result);
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush && { forceFlush: () => exporter.forceFlush!() }),
  };
}

function allowedPartOf(span: ReadableSpan): ReadableSpan {
  const mayLeave = (name: string) =>
    allowedAttributes.has(name) && !(span.kind === SpanKind.SERVER && chosenByCallers.has(name));
  const attributes = Object.fromEntries(
    Object.entries(span.attributes).filter(([name]) => mayLeave(name)),
  );
  const { code } = span.status;
  const status = { code: code === SpanStatusCode.ERROR ? code : SpanStatusCode.UNSET };
  // The rest is the span's own, and some of it stands in its prototype.
  return Object.create(span, {
    attributes: { value: attributes },
    status: { value: status },
    events: { value: [] },
  }) as ReadableSpan;
}
