import type { SettingsOfServices } from '@triplock/launcher';
import { measuredServices } from './measurements.ts';
import { profiledSettings } from './runs.ts';

export const noTracing = { OTEL_SDK_DISABLED: 'true' };

/**
 * As production would have it, but for the rates of one partner and one host, which here are those
 * of all.
 */
export function benchSettings(
  profile: string | undefined,
  tracing: SettingsOfServices[string],
): SettingsOfServices {
  const profiled = profile === undefined ? {} : profiledSettings;
  const each = Object.fromEntries(measuredServices.map((name) => [name, profiled] as const));
  return {
    ...each,
    all: { LOG_LEVEL: 'info', ...tracing },
    'ingest-gateway': {
      ...profiled,
      RATE_LIMIT_PER_SECOND: '1000000',
      RATE_LIMIT_BURST: '1000000',
    },
    'partner-notifier': {
      ...profiled,
      WEBHOOKS_PER_PARTNER_PER_SECOND: '1000000',
      WEBHOOKS_PER_HOST_PER_SECOND: '1000000',
    },
  };
}
