import type { Tracer } from '@opentelemetry/api';

let inUse: Tracer | undefined;

/** The tracer of this process, or nothing while it traces nothing: then there is no SDK either. */
export function tracerInUse(): Tracer | undefined {
  return inUse;
}

/** Has everything from here on traced by it, or nothing. */
export function useTracer(tracer: Tracer | undefined): void {
  inUse = tracer;
}
