import { flushCompileCache } from 'node:module';
import { hostname } from 'node:os';
import { serveAdmin, type ShownToOperators } from './admin-server.ts';
import { controlSettings } from './control-access.ts';
import { crashPlan, createCrashPoints, noCrashPoints, type CrashPoints } from './crash-points.ts';
import { createLogger, type Logger } from './logger.ts';
import { createMetrics, type Registry } from './metrics.ts';
import type { Exemption, Mode } from './modes.ts';
import type { ServiceDeclaration } from './service-declaration.ts';
import {
  integer,
  oneOf,
  port,
  refusedInProduction,
  SettingsError,
  text,
  withDefault,
  type Setting,
  type SettingsOf,
  type SettingsTable,
} from './settings.ts';
import { isTracingWanted, tracingSettings } from './tracing/settings.ts';

const mode: Setting<Mode> = oneOf(['production', 'demo', 'test']);
const exemption = withDefault(oneOf(['true', 'false']), 'false' as const);

/** What is refused at boot, and what production may do without. Commands have them as well. */
export const modeSettings = {
  TRIPLOCK_MODE: withDefault(mode, 'production'),
  /**
   * Databases, Redis and Kafka without TLS, the latter two without a login, and an admin port on
   * every address: where the network itself keeps others out.
   */
  ALLOW_INSECURE_DATABASE: exemption,
  ALLOW_INSECURE_REDIS: exemption,
  ALLOW_INSECURE_KAFKA: exemption,
  ALLOW_INSECURE_ADMIN: exemption,
} satisfies Record<Exemption, unknown> & SettingsTable;

/** The settings that every service has; a service's own table is spread after them. */
export const serviceSettings = {
  ...modeSettings,
  LOG_LEVEL: withDefault(oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info' as const),
  /** Health, readiness and metrics listen here: a port of its own that partners never see. */
  ADMIN_HOST: withDefault(text, '127.0.0.1'),
  ADMIN_PORT: port,
  /** Names this replica in logs, leases and claims. It must differ between replicas. */
  INSTANCE_NAME: withDefault(text, `${hostname()}-${process.pid}`),
  CRASH_POINTS: refusedInProduction(withDefault(crashPlan, []), (plan) =>
    plan.length > 0 ? 'processes would end where it says: unset it' : undefined,
  ),
  ...controlSettings,
  /** How long a SIGTERM waits for held work before the process gives up on it. */
  SHUTDOWN_TIMEOUT_MS: withDefault(integer({ min: 100, max: 600_000 }), 12_000),
  ...tracingSettings,
};

type CommonSettings = SettingsOf<typeof serviceSettings>;

/** What every service is given. */
export type Service = {
  logger: Logger;
  metrics: Registry;
  crashPoints: CrashPoints;
  /** Registers something to close on shutdown; the last registered is closed first. */
  onClose(name: string, close: () => Promise<unknown>): void;
  /** Opens health, readiness and metrics. Call it when everything else listens. */
  serveAdmin(shown: ShownToOperators): Promise<void>;
};

/**
 * Runs a service as it declares itself: reads its settings, wires it by `start`, and on SIGTERM or
 * SIGINT closes what was registered in reverse order. Exit codes: 0 after a clean shutdown, 1 when
 * booting failed or closing took longer than `SHUTDOWN_TIMEOUT_MS`, 2 when settings cannot be used.
 */
export async function runService<Settings extends CommonSettings>(
  { name, crashPoints: points }: ServiceDeclaration,
  readConfig: () => Settings,
  start: (settings: Settings, service: Service) => Promise<void>,
): Promise<void> {
  const settings = configOrExit(name, () => checkCrashPlan(readConfig(), points));
  const logger = createLogger({
    service: name,
    instance: settings.INSTANCE_NAME,
    level: settings.LOG_LEVEL,
  });
  const closers: { name: string; close: () => Promise<unknown> }[] = [];
  const service: Service = {
    logger,
    metrics: createMetrics(name),
    crashPoints: crashPointsFor(settings, points),
    onClose: (what, close) => void closers.push({ name: what, close }),
    serveAdmin: async (shown) => {
      const { ADMIN_HOST: host, ADMIN_PORT: port, CONTROL_TOKEN: controlToken } = settings;
      const { metrics, crashPoints } = service;
      const admin = await serveAdmin({ host, port, metrics, crashPoints, controlToken, ...shown });
      service.onClose('admin server', () => admin.close());
    },
  };

  let closing = false;
  const close = async (reason: string, exitCode: number) => {
    if (closing) return;
    closing = true;
    logger.info({ reason }, 'shutting down');
    setTimeout(() => exit(logger, 'shutdown timed out', 1), settings.SHUTDOWN_TIMEOUT_MS);
    for (const closer of closers.reverse()) {
      await closer.close().catch((error: unknown) => {
        logger.error({ err: error, closing: closer.name }, 'closing failed');
      });
    }
    exit(logger, 'stopped', exitCode);
  };
  // `on` and not `once`: a second signal, such as a launcher's after the terminal's own, would
  // otherwise kill the process in the middle of its drain.
  process.on('SIGTERM', () => void close('SIGTERM', 0));
  process.on('SIGINT', () => void close('SIGINT', 0));

  try {
    const { INSTANCE_NAME: instance, ADMIN_PORT: adminPort } = settings;
    if (isTracingWanted(settings)) {
      // Loaded here and not before: without tracing there is no SDK and nothing is instrumented.
      const { openSdk } = await import('./tracing/sdk.ts');
      const tracing = await openSdk(settings, { service: name, instance, adminPort, logger });
      // First in, so that it is closed last, with the spans of all that was closed before.
      service.onClose('tracing', () => tracing.close());
    }
    await start(settings, service);
    // Node keeps compiled code as a process ends, and one that is killed would keep none for the
    // next.
    flushCompileCache();
    logger.info('started');
  } catch (error) {
    logger.fatal({ err: error }, 'boot failed');
    await close('boot failed', 1);
  }
}

function configOrExit<Settings>(name: string, readConfig: () => Settings): Settings {
  try {
    return readConfig();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    process.stderr.write(`${name}: ${error.message}\n`);
    process.exit(2);
  }
}

function checkCrashPlan<Settings extends CommonSettings>(
  settings: Settings,
  declared: readonly string[],
): Settings {
  if (!settings.CRASH_POINTS.every(({ name }) => declared.includes(name))) {
    throw new SettingsError([`CRASH_POINTS must name points of ${declared.join(', ')}`]);
  }
  return settings;
}

function crashPointsFor(settings: CommonSettings, declared: readonly string[]): CrashPoints {
  return settings.TRIPLOCK_MODE === 'production'
    ? noCrashPoints
    : createCrashPoints(settings.CRASH_POINTS, declared);
}

function exit(logger: Logger, message: string, code: number): never {
  logger.info({ exitCode: code }, message);
  logger.flush();
  process.exit(code);
}
