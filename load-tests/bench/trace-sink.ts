import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SettingsOfServices } from '@triplock/launcher';
import { startHelper } from './helper-process.ts';

/** Where the sink listens, and what it has received so far. */
export type TraceSinkState = { url: string; requests: number; bytes: number };

type TracingSettings = SettingsOfServices[string];

/**
 * Does `work` with the settings of tracing for the services: none, whatever the environment has, or
 * to trace that share of the payments into a sink of the bench's own.
 */
export async function withTracing<Result>(
  share: number | undefined,
  signal: AbortSignal,
  work: (settings: TracingSettings) => Promise<Result>,
): Promise<Result> {
  if (share === undefined) return work({ OTEL_SDK_DISABLED: 'true' });
  const sink = await startHelper<object, TraceSinkState>('trace-sink.ts', signal);
  try {
    const { url } = await sink.ask({});
    const result = await work({
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: String(share),
    });
    const { requests } = await sink.ask({});
    if (share > 0 && requests === 0) throw new Error('no span came: nothing was traced');
    return result;
  } finally {
    await sink.stop();
  }
}

/** A collector that keeps nothing, so that only what services do for their spans is measured. */
export async function openHelper(): Promise<() => Promise<TraceSinkState>> {
  let requests = 0;
  let bytes = 0;
  const server = createServer((request, response) => {
    requests += 1;
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.on('end', () => response.writeHead(200).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return async () => ({ url: `http://127.0.0.1:${port}`, requests, bytes });
}
