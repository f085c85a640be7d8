import { hostname } from 'node:os';
import { crashPlan } from './crash-points.ts';
import { integer, oneOf, port, text, withDefault, type Setting } from './settings.ts';
import { tracingSettings } from './tracing/tracing-settings.ts';

/** `production` refuses everything that exists to be broken on purpose. */
export type Mode = 'production' | 'demo' | 'test';

const mode: Setting<Mode> = oneOf(['production', 'demo', 'test']);

/** The settings that every service has; a service's own table is spread after them. */
export const serviceSettings = {
  TRIPLOCK_MODE: withDefault(mode, 'production'),
  LOG_LEVEL: withDefault(oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info' as const),
  /** Health, readiness and metrics listen here: a port of its own that partners never see. */
  ADMIN_HOST: withDefault(text, '127.0.0.1'),
  ADMIN_PORT: port,
  /** Names this replica in logs, leases and claims. It must differ between replicas. */
  INSTANCE_NAME: withDefault(text, `${hostname()}-${process.pid}`),
  CRASH_POINTS: withDefault(crashPlan, []),
  /** How long a SIGTERM waits for held work before the process gives up on it. */
  SHUTDOWN_TIMEOUT_MS: withDefault(integer({ min: 100, max: 600_000 }), 12_000),
  ...tracingSettings,
};
