import { randomFillSync } from 'node:crypto';
import {
  context,
  createContextKey,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type Context,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api';

/** A piece of work as a trace shows it. Where nothing is traced, it is nothing but the work. */
export type SpanSpec = {
  /** One of few, as `send triplock.payments.accepted`: ids are attributes. */
  name: string;
  kind?: 'client' | 'producer' | 'consumer';
  /**
   * Ids, counts and outcomes; any other attribute stays in the process (`allowedAttributes`).
   */
  attributes?: Attributes;
};

/** `parent` is the `traceparent` that the work came with; by default, the span it is done in. */
export type PaymentSpanSpec = SpanSpec & { parent?: string | undefined };

/** `of`: the `traceparent` of each piece that shares the work. */
export type BatchSpanSpec = SpanSpec & { of: () => Iterable<string> };

/** A span that is open before the work of its own begins, as for one record of a batch. */
export type OpenSpan = {
  /** The `traceparent` for the next hop: of this span, or `given` where nothing is traced. */
  carried(given: string): string;
  /** Does a first part of the work in it. */
  within<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Does the work, or the rest of it, and ends it. */
  run<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Ends it, failed, unless it has ended: the rest of the work is not reached. */
  fail(error: unknown): void;
};

/** Whether this process traces anything. */
export function isTracing(): boolean {
  return tracerInUse() !== undefined;
}

/** Does work of one payment in a span of the payment's own trace. */
export function inSpan<Result>(
  spec: PaymentSpanSpec,
  work: () => Promise<Result>,
): Promise<Result> {
  if (tracerInUse() === undefined) return work();
  return openSpan(spec).run(work);
}

/** Opens a span of a payment's own trace. */
export function openSpan(spec: PaymentSpanSpec): OpenSpan {
  const tracer = tracerInUse();
  if (tracer === undefined) return untracedSpan;
  const within = spec.parent === undefined ? context.active() : remote(spec.parent);
  const parent = trace.getSpanContext(within);
  // Decided at the request: most are not traced, and a span that is not recorded costs
  // as much as one that is.
  if (parent !== undefined && !isSampled(parent)) {
    return passedOn(traceparentOfSpan(parent), within);
  }
  const passed = parent === undefined ? within.getValue(passedKey) : undefined;
  if (typeof passed === 'string') return passedOn(passed, within);
  const span = tracer.startSpan(spec.name, optionsOf(spec), within);
  return opened(span, trace.setSpan(within, span));
}

/** A header may come from anybody who can write to a broker; one that is none is nobody's. */
function remote(parent: string): Context {
  if (!isTraceparent(parent)) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, spanContextOf(parent));
}

/** What stands for a span where nothing is traced. */
export const untracedSpan: OpenSpan = {
  carried: (given) => given,
  within: (work) => work(),
  run: (work) => work(),
  fail: () => undefined,
};

/** Where an untraced request goes on: without a span, so that no instrumentation makes any. */
const passedKey = createContextKey('traceparent that is passed on');

function passedOn(header: string, within: Context): OpenSpan {
  const without = trace.deleteSpan(within).setValue(passedKey, header);
  return {
    carried: () => header,
    within: (work) => context.with(without, work),
    run: (work) => context.with(without, work),
    fail: () => undefined,
  };
}

function opened(span: Span, within: Context): OpenSpan {
  const header = traceparentOfSpan(span.spanContext());
  return {
    carried: () => header,
    within: (work) => context.with(within, work),
    run: (work) => context.with(within, () => endWith(span, work)),
    fail: (error) => {
      if (!span.isRecording()) return;
      markFailed(span, error);
      span.end();
    },
  };
}

/**
 * Does work that many payments share in a span and a trace of its own, with a link to each of them:
 * no one of them is its parent. It is traced when one of them is.
 */
export function inBatchSpan<Result>(
  spec: BatchSpanSpec,
  work: () => Promise<Result>,
): Promise<Result> {
  const tracer = tracerInUse();
  if (tracer === undefined) return work();
  const links = [...spec.of()]
    .filter(isTraceparent)
    .map(spanContextOf)
    .filter(isSampled)
    .map(linkTo);
  // Whoever began to gather the batch is not who it is done for.
  if (links.length === 0) return context.with(ROOT_CONTEXT, work);
  const span = tracer.startSpan(spec.name, { ...optionsOf(spec), links, root: true });
  return context.with(trace.setSpan(ROOT_CONTEXT, span), () => endWith(span, work));
}

/** Adds to the span that the caller is in. */
export function annotateSpan(attributes: Attributes): void {
  if (tracerInUse() !== undefined) trace.getActiveSpan()?.setAttributes(attributes);
}

/**
 * What to carry on as `traceparent`: the span that the caller is in, or `given` where there is
 * none.
 */
export function carriedTraceparent(given: string): string {
  if (tracerInUse() === undefined) return given;
  const span = trace.getActiveSpan();
  if (span !== undefined) return traceparentOfSpan(span.spanContext());
  const passed = context.active().getValue(passedKey);
  return typeof passed === 'string' ? passed : given;
}

const kinds = {
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
} as const;

function optionsOf({ kind, attributes }: SpanSpec) {
  return {
    kind: kind === undefined ? SpanKind.INTERNAL : kinds[kind],
    ...(attributes && { attributes }),
  };
}

const isSampled = ({ traceFlags }: SpanContext) => (traceFlags & TraceFlags.SAMPLED) !== 0;
const linkTo = (each: SpanContext) => ({ context: each });

async function endWith<Result>(span: Span, work: () => Promise<Result>): Promise<Result> {
  try {
    const result = await work();
    // The field that distinguishes the members of a union of outcomes.
    const outcome = (result as { outcome?: unknown } | undefined)?.outcome;
    if (typeof outcome === 'string') span.setAttribute('triplock.outcome', outcome);
    return result;
  } catch (error) {
    markFailed(span, error);
    throw error;
  } finally {
    span.end();
  }
}

/** Its kind alone: messages of drivers quote what they worked on. */
function markFailed(span: Span, error: unknown): void {
  const name = error instanceof Error ? error.name : typeof error;
  span.setAttribute('error.type', name).setStatus({ code: SpanStatusCode.ERROR });
}

/** A span as the header of W3C Trace Context that is carried from hop to hop. */
function traceparentOfSpan({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`;
}

/** The span that a header of version 00 names; its form was checked where it came in. */
export function spanContextOf(traceparent: string): SpanContext {
  return {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: parseInt(traceparent.slice(53, 55), 16) & TraceFlags.SAMPLED,
    isRemote: true,
  };
}

const traceparentForm = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Whether it has the form of W3C Trace Context, version 00. */
export function isTraceparent(header: string): boolean {
  return traceparentForm.test(header);
}

/**
 * The caller's `traceparent` when it has the form of W3C Trace Context (version 00), else a new
 * one. It is carried through every hop and decides nothing.
 */
export function traceparentFrom(incoming: string | undefined): string {
  if (incoming !== undefined && isTraceparent(incoming)) return incoming;
  return `00-${randomHex(16)}-${randomHex(8)}-01`;
}

// Drawn for 128 traces at once: two draws a request would take twenty times as long.
const drawn = Buffer.alloc(128 * 24);
let used = drawn.length;

/** So many bytes that were never given before, as lower-case hex. */
function randomHex(bytes: number): string {
  if (used + bytes > drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  used += bytes;
  return drawn.toString('hex', used - bytes, used);
}

let inUse: Tracer | undefined;

/** The tracer of this process, or nothing while it traces nothing: then there is no SDK either. */
function tracerInUse(): Tracer | undefined {
  return inUse;
}

/** Has everything from here on traced by it, or nothing. */
export function useTracer(tracer: Tracer | undefined): void {
  inUse = tracer;
}
