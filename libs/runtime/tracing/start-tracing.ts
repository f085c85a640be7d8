import { withDeadline } from '../deadline.ts';
import type { TracedService } from './open-sdk.ts';
import { isTracingWanted, type TracingSettings } from './tracing-settings.ts';

/** The part of a shutdown's time that a collector gets, also when it does not answer. */
const flushLimitMs = 2_000;

/** Tracing under way. */
export type Tracing = { close(): Promise<void> };

/**
 * Starts tracing where the settings want it. To be called before anything listens or connects; the
 * SDK and the instrumentations are loaded here and not before, so without tracing there are none.
 */
export async function startTracing(
  settings: TracingSettings,
  traced: TracedService,
): Promise<Tracing | undefined> {
  if (!isTracingWanted(settings)) return undefined;
  const { openSdk } = await import('./open-sdk.ts');
  const sdk = await openSdk(settings, traced);
  return {
    close: async () => {
      const limit = { ms: flushLimitMs, what: 'the collector of traces' };
      await withDeadline(sdk.close(), limit).catch((err: unknown) => {
        traced.logger.debug({ err }, 'the last traces were not sent');
      });
    },
  };
}
