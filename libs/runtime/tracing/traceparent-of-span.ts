import { TraceFlags, type SpanContext } from '@opentelemetry/api';

/** A span's place as the header of W3C Trace Context that is carried from hop to hop. */
export function traceparentOfSpan({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`;
}

/** The place that a header of version 00 names; its form was checked where it came in. */
export function spanContextOf(traceparent: string): SpanContext {
  return {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: parseInt(traceparent.slice(53, 55), 16) & TraceFlags.SAMPLED,
    isRemote: true,
  };
}
