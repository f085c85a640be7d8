import { oneOf, text, url, withDefault, type Setting, type SettingsOf } from '../settings.ts';

/** A share, such as 0.01. */
const share: Setting<number> = {
  expected: 'a number from 0 to 1',
  parse: (value) => {
    const number = /^\d*\.?\d+$/.test(value) ? Number(value) : NaN;
    return number >= 0 && number <= 1 ? number : undefined;
  },
};

const collector = withDefault(url(['http:', 'https:']), undefined);

/**
 * Tracing by OpenTelemetry's own variables (opentelemetry.io/docs/specs/otel/configuration).
 * Without an endpoint there is none, and no code of it is loaded. What is not in this table, such
 * as `OTEL_BSP_MAX_QUEUE_SIZE` or `OTEL_EXPORTER_OTLP_HEADERS`, the SDK reads by itself.
 */
export const tracingSettings = {
  /** Where spans go, as `http://localhost:4318`: `/v1/traces` is added. */
  OTEL_EXPORTER_OTLP_ENDPOINT: collector,
  /** The same for traces alone, and in full. */
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: collector,
  OTEL_EXPORTER_OTLP_PROTOCOL: withDefault(oneOf(['http/protobuf', 'http/json']), 'http/protobuf'),
  /** `otlp` alone is enough: the endpoint is then http://localhost:4318. `none` is nothing. */
  OTEL_TRACES_EXPORTER: withDefault(oneOf(['otlp', 'none']), undefined),
  OTEL_SDK_DISABLED: withDefault(oneOf(['true', 'false']), 'false'),
  /** Which requests begin a trace. All that is done for a payment follows its request. */
  OTEL_TRACES_SAMPLER: withDefault(
    oneOf([
      'always_on',
      'always_off',
      'traceidratio',
      'parentbased_always_on',
      'parentbased_always_off',
      'parentbased_traceidratio',
    ]),
    'parentbased_always_on',
  ),
  OTEL_TRACES_SAMPLER_ARG: withDefault(share, 1),
  /** Another name than the service's own. */
  OTEL_SERVICE_NAME: withDefault(text, undefined),
};

/** The settings as read. */
export type TracingSettings = SettingsOf<typeof tracingSettings>;

/** Whether anything is to be traced. */
export function isTracingWanted(settings: TracingSettings): boolean {
  if (settings.OTEL_SDK_DISABLED === 'true') return false;
  if (settings.OTEL_TRACES_EXPORTER !== undefined) return settings.OTEL_TRACES_EXPORTER === 'otlp';
  const { OTEL_EXPORTER_OTLP_ENDPOINT: all, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traces } = settings;
  return all !== undefined || traces !== undefined;
}
