import { IncomingMessage } from 'node:http';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { FastifyOtelInstrumentation } from '@fastify/otel';
import type { Span } from '@opentelemetry/api';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { isTraceparent } from '../traceparent.ts';
import { spanContextOf } from './traceparent-of-span.ts';

/**
 * Spans of HTTP in both directions, by the standard instrumentations. Stripe's package and our
 * webhooks both go by `node:http`; nothing here uses `fetch`.
 *
 * They are put into the modules in place, so no loader is needed and what imported them before is
 * instrumented too. No propagator is set: where a caller's trace would be taken over, a partner
 * would decide what is sampled and whose spans are one trace, so it is a link; and no header of
 * ours goes to Stripe or into webhooks.
 */
export function instrumentHttp({ adminPort }: { adminPort: number }): void {
  new HttpInstrumentation({
    ignoreIncomingRequestHook: ({ socket, url }) =>
      socket.localPort === adminPort || url === '/healthz',
    requestHook: (span, request) => {
      if (request instanceof IncomingMessage) linkToCaller(span, request);
    },
  });
  // The route's name for the span above. Its own spans for hooks and handlers would be eight a
  // request.
  new FastifyOtelInstrumentation({
    registerOnInitialization: true,
    instrumentHooks: false,
    instrumentHandler: false,
    recordExceptions: false,
  });
  const require = createRequire(import.meta.url);
  require('node:http');
  require('node:https');
  syncBuiltinESMExports();
}

function linkToCaller(span: Span, { headers: { traceparent } }: IncomingMessage): void {
  if (typeof traceparent !== 'string' || !isTraceparent(traceparent)) return;
  span.addLink({ context: spanContextOf(traceparent) });
}
