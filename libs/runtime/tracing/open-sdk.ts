import { context, diag, DiagLogLevel, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { setGlobalErrorHandler } from '@opentelemetry/core';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import type { Logger } from '../logger.ts';
import { instrumentHttp } from './instrument-http.ts';
import { sampleWork } from './sample-work.ts';
import { tellSpans } from './tell-spans.ts';
import { useTracer } from './tracer-in-use.ts';
import type { TracingSettings } from './tracing-settings.ts';

/** Who is traced. */
export type TracedService = {
  service: string;
  instance: string;
  adminPort: number;
  logger: Logger;
};

/** Loads and starts everything; `close` sends what is left. */
export async function openSdk(
  settings: TracingSettings,
  { service, instance, adminPort, logger }: TracedService,
): Promise<{ close(): Promise<void> }> {
  // What exporting says of itself over and over, `tellSpans` says once.
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
    spanProcessors: [new BatchSpanProcessor(tellSpans(await openExporter(settings), logger))],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  instrumentHttp({ adminPort });
  useTracer(provider.getTracer('triplock'));
  return { close: () => provider.shutdown() };
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
