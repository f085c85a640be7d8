import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { paymentRequestSchema } from '@triplock/contracts';
import type { SettingsOfServices } from '@triplock/launcher';
import { fastify } from 'fastify';
import { startHelper, type Helper } from './helper-process.ts';

/** Where the empty POST listens, and the CPU time that its process has used so far. */
export type EmptyPostState = { url: string; cpuMicros: number };

/** A Fastify server whose `POST /v1/payments` does nothing, in a process of its own. */
export function startEmptyPost(signal: AbortSignal): Promise<Helper<object, EmptyPostState>> {
  return startHelper('stand-ins.ts', signal, 'empty-post');
}

/**
 * The yardstick: what Node and Fastify take for a request that is parsed, validated by the same
 * schema, hashed once, as whoever compares requests must, and answered. Fastify's defaults, and no
 * log.
 */
async function openEmptyPost(): Promise<() => Promise<EmptyPostState>> {
  const app = fastify();
  const id = '37585521-60c9-8d90-a37f-2e1b8a7081e6';
  const answer = { id, object: 'payment', status: 'pending' };
  app.post('/v1/payments', { schema: { body: paymentRequestSchema } }, async ({ body }, reply) => {
    const fingerprint = createHash('sha256').update(JSON.stringify(body)).digest('base64url');
    reply.code(202).header('etag', `"${fingerprint}"`);
    return answer;
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return async () => {
    const { user, system } = process.cpuUsage();
    return { url: `http://127.0.0.1:${port}`, cpuMicros: user + system };
  };
}

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
  const sink = await startHelper<object, TraceSinkState>('stand-ins.ts', signal, 'trace-sink');
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
async function openTraceSink(): Promise<() => Promise<TraceSinkState>> {
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

/** The one that is asked for, as a process of its own. */
export function openHelper(which: 'empty-post' | 'trace-sink'): Promise<() => Promise<object>> {
  return which === 'empty-post' ? openEmptyPost() : openTraceSink();
}
