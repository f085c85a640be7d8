import { IncomingMessage } from 'node:http';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { FastifyOtelInstrumentation } from '@fastify/otel';
import {
  context,
  diag,
  DiagLogLevel,
  isSpanContextValid,
  SpanKind,
  trace,
  TraceFlags,
  type Context,
  type Link,
  type Span,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { setGlobalErrorHandler } from '@opentelemetry/core';
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  type Sampler,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import { withDeadline } from '../loop.ts';
import type { Logger } from '../logger.ts';
import { isTraceparent, spanContextOf, useTracer } from './spans.ts';
import { exportAllowed } from './span-export.ts';
import type { TracingSettings } from './settings.ts';

/** Who is traced. */
export type TracedService = {
  service: string;
  instance: string;
  adminPort: number;
  logger: Logger;
};

/** The part of a shutdown's time that a collector gets, also when it does not answer. */
const flushLimitMs = 2_000;

/**
 * Starts tracing. To be called before anything listens or connects. `close` sends what is left, for
 * 2 s at most.
 */
export async function openSdk(
  settings: TracingSettings,
  { service, instance, adminPort, logger }: TracedService,
): Promise<{ close(): Promise<void> }> {
  // What exporting logs over and over, `exportAllowed` logs once.
  setGlobalErrorHandler((error) => logger.debug({ err: error }, 'tracing'));
  diag.setLogger(toLogger(logger), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  const own = resourceFromAttributes({
    'service.namespace': 'triplock',
    'service.name': service,
    'service.instance.id': instance,
  });
  const provider = new BasicTracerProvider({
    resource: own.merge(detectResources({ detectors: [envDetector] })),
    sampler: sampleWork(settings),
    spanProcessors: [new BatchSpanProcessor(exportAllowed(await openExporter(settings), logger))],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  instrumentHttp({ adminPort });
  useTracer(provider.getTracer('triplock'));
  return {
    close: async () => {
      const limit = { ms: flushLimitMs, what: 'the collector of traces' };
      await withDeadline(provider.shutdown(), limit).catch((err: unknown) => {
        logger.debug({ err }, 'the last traces were not sent');
      });
    },
  };
}

/** Loads one of the two: the other would only lengthen the start. */
async function openExporter(settings: TracingSettings): Promise<SpanExporter> {
  const { OTLPTraceExporter } = await (settings.OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json'
    ? import('@opentelemetry/exporter-trace-otlp-http')
    : import('@opentelemetry/exporter-trace-otlp-proto'));
  return new OTLPTraceExporter();
}

function toLogger(logger: Logger) {
  const debug = (message: string) => logger.debug({ message }, 'tracing');
  return { error: debug, warn: debug, info: debug, debug, verbose: debug };
}

type SamplerSettings = Pick<TracingSettings, 'OTEL_TRACES_SAMPLER' | 'OTEL_TRACES_SAMPLER_ARG'>;

/**
 * The sampler of the settings for what begins a trace, which is a request alone. A batch is traced
 * when one of its payments is, so that a payment's trace never links to nothing. What a process
 * does by itself, as looking for work, begins no trace.
 */
export function sampleWork(settings: SamplerSettings): Sampler {
  const asked = samplerOf(settings);
  return {
    shouldSample(within, traceId, ...rest) {
      const [, kind, , links] = rest;
      if (hasParent(within) || kind === SpanKind.SERVER) {
        return asked.shouldSample(within, traceId, ...rest);
      }
      return {
        decision: links.some(isSampled)
          ? SamplingDecision.RECORD_AND_SAMPLED
          : SamplingDecision.NOT_RECORD,
      };
    },
    toString: () => `SampleWork{${asked.toString()}}`,
  };
}

function samplerOf(settings: SamplerSettings): Sampler {
  const { OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio } = settings;
  switch (name) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
    default:
      return name satisfies never;
  }
}

function hasParent(within: Context): boolean {
  const parent = trace.getSpanContext(within);
  return parent !== undefined && isSpanContextValid(parent);
}

const isSampled = ({ context }: Link) => (context.traceFlags & TraceFlags.SAMPLED) !== 0;

/**
 * Spans of HTTP in both directions, by the standard instrumentations. Stripe's package and our
 * webhooks both go by `node:http`; nothing here uses `fetch`.
 *
 * They are put into the modules in place, so no loader is needed and what imported them before is
 * instrumented too. No propagator is set: where a caller's trace would be taken over, a partner
 * would decide what is sampled and whose spans are one trace, so it is a link; and no header of
 * ours goes to Stripe or into webhooks.
 */
function instrumentHttp({ adminPort }: { adminPort: number }): void {
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
