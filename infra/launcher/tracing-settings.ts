/**
 * OpenTelemetry's variables as they are set where the launcher is called, for the services of the
 * pipeline: nothing is traced without them (docs/tracing.md). Each service keeps its own name.
 */
export function tracingSettings(): Record<string, string> {
  const told = Object.entries(process.env).flatMap(([name, value]) =>
    name.startsWith('OTEL_') && name !== 'OTEL_SERVICE_NAME' && value ? [[name, value]] : [],
  );
  return Object.fromEntries(told) as Record<string, string>;
}
