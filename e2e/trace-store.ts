import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A span as a test reads it. Times are nanoseconds since 1970. */
export type StoredSpan = {
  service: string;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  name: string;
  startNs: bigint;
  endNs: bigint;
  failed: boolean;
  attributes: Readonly<Record<string, string | number>>;
  /** Trace ids that it links to. */
  links: readonly string[];
};

/** What collectors speak on port 4318: OTLP over HTTP, here as JSON. */
export type TraceStore = {
  url: string;
  /** Everything that came, as it came. */
  bodies: string[];
  spans(): StoredSpan[];
  /** One trace in the form in which it came, which viewers of traces open as a file. */
  traceAsOtlp(traceId: string): OtlpTraces;
  close(): Promise<void>;
};

type OtlpValue = { stringValue?: string; intValue?: number | string; doubleValue?: number };
type OtlpAttribute = { key: string; value: OtlpValue };
type OtlpSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: OtlpAttribute[];
  links?: { traceId: string }[];
  status?: { code?: number };
};
type OtlpTraces = {
  resourceSpans: {
    resource: { attributes: OtlpAttribute[] };
    scopeSpans: { scope: { name: string }; spans: OtlpSpan[] }[];
  }[];
};

const failedCode = 2;

/** Opens one on a port of its own. */
export async function openTraceStore(): Promise<TraceStore> {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      if (request.url === '/v1/traces') bodies.push(body);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const resources = () => bodies.flatMap((body) => (JSON.parse(body) as OtlpTraces).resourceSpans);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bodies,
    spans: () =>
      resources().flatMap(({ resource, scopeSpans }) => {
        const service = String(valuesOf(resource.attributes)['service.name']);
        return scopeSpans.flatMap(({ spans }) => spans.map((span) => stored(service, span)));
      }),
    traceAsOtlp: (traceId) => ({
      resourceSpans: resources().flatMap(({ resource, scopeSpans }) => {
        const some = scopeSpans
          .map(({ scope, spans }) => ({ scope, spans: spans.filter(isOf(traceId)) }))
          .filter(({ spans }) => spans.length > 0);
        return some.length === 0 ? [] : [{ resource, scopeSpans: some }];
      }),
    }),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const isOf = (traceId: string) => (span: OtlpSpan) => span.traceId === traceId;

function stored(service: string, span: OtlpSpan): StoredSpan {
  return {
    service,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId || undefined,
    name: span.name,
    startNs: BigInt(span.startTimeUnixNano),
    endNs: BigInt(span.endTimeUnixNano),
    failed: span.status?.code === failedCode,
    attributes: valuesOf(span.attributes),
    links: (span.links ?? []).map(({ traceId }) => traceId),
  };
}

function valuesOf(attributes: readonly OtlpAttribute[]): Record<string, string | number> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? Number(value.intValue ?? value.doubleValue),
    ]),
  );
}
