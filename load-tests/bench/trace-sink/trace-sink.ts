import type { SettingsOfServices } from '@triplock/launcher';
import { startHelper } from '../start-helper.ts';

/** Where the sink listens, and what it was sent so far. */
export type TraceSinkState = { url: string; requests: number; bytes: number };

type Told = SettingsOfServices[string];

/**
 * Does `work` with what services are to be told of tracing: nothing, whatever the environment says
 * of it, or to trace that share of the payments into a sink of the bench's own.
 */
export async function withTracing<Result>(
  share: number | undefined,
  signal: AbortSignal,
  work: (told: Told) => Promise<Result>,
): Promise<Result> {
  if (share === undefined) return work({ OTEL_SDK_DISABLED: 'true' });
  const sink = await startHelper<object, TraceSinkState>('trace-sink/main.ts', signal);
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
