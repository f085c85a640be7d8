import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ROOT_CONTEXT, SpanKind, trace, TraceFlags, type Link } from '@opentelemetry/api';
import { SamplingDecision } from '@opentelemetry/sdk-trace-base';
import { sampleWork } from './sdk.ts';

const traceId = 'f'.repeat(32);
const contextWith = (traceFlags: TraceFlags) =>
  ({ traceId, spanId: 'b'.repeat(16), traceFlags }) as const;
const childOf = (flags: TraceFlags) => trace.setSpanContext(ROOT_CONTEXT, contextWith(flags));
const linked = (flags: TraceFlags): Link[] => [{ context: contextWith(flags) }];
const { SAMPLED, NONE } = TraceFlags;

const never = {
  OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
  OTEL_TRACES_SAMPLER_ARG: 0,
} as const;
const always = { ...never, OTEL_TRACES_SAMPLER_ARG: 1 } as const;

const cases = [
  ['a request, of which all are traced', always, ROOT_CONTEXT, SpanKind.SERVER, [], true],
  ['a request, of which none is', never, ROOT_CONTEXT, SpanKind.SERVER, [], false],
  ['what follows from a traced request', never, childOf(SAMPLED), SpanKind.CLIENT, [], true],
  ['what follows from another', always, childOf(NONE), SpanKind.CLIENT, [], false],
  ['a batch with a traced payment', never, ROOT_CONTEXT, SpanKind.INTERNAL, linked(SAMPLED), true],
  ['a batch without one', always, ROOT_CONTEXT, SpanKind.INTERNAL, linked(NONE), false],
  ['a look for work', always, ROOT_CONTEXT, SpanKind.CLIENT, [], false],
] as const;

for (const [what, settings, within, kind, links, sampled] of cases) {
  test(`${what} is ${sampled ? '' : 'not '}traced`, () => {
    const { decision } = sampleWork(settings).shouldSample(within, traceId, 'work', kind, {}, [
      ...links,
    ]);
    assert.equal(decision === SamplingDecision.RECORD_AND_SAMPLED, sampled);
  });
}
