import {
  isSpanContextValid,
  SpanKind,
  trace,
  TraceFlags,
  type Context,
  type Link,
} from '@opentelemetry/api';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  type Sampler,
} from '@opentelemetry/sdk-trace-base';
import type { TracingSettings } from './tracing-settings.ts';

type SamplerSettings = Pick<TracingSettings, 'OTEL_TRACES_SAMPLER' | 'OTEL_TRACES_SAMPLER_ARG'>;

/**
 * The sampler of the settings for what begins a trace, which is a request alone. A batch is traced
 * when one of its payments is, so that a payment's trace never links to nothing. What a process
 * does by itself, as looking for work, begins no trace.
 */
export function sampleWork(settings: SamplerSettings): Sampler {
  const asked = samplerOf(settings);
  return {
    shouldSample(within, traceId, ...rest) {
      const [, kind, , links] = rest;
      if (hasParent(within) || kind === SpanKind.SERVER) {
        return asked.shouldSample(within, traceId, ...rest);
      }
      return {
        decision: links.some(isSampled)
          ? SamplingDecision.RECORD_AND_SAMPLED
          : SamplingDecision.NOT_RECORD,
      };
    },
    toString: () => `SampleWork{${asked.toString()}}`,
  };
}

function samplerOf(settings: SamplerSettings): Sampler {
  const { OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio } = settings;
  switch (name) {
    case 'always_on':
      return new AlwaysOnSampler();
    case 'always_off':
      return new AlwaysOffSampler();
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_always_off':
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
    default:
      return name satisfies never;
  }
}

function hasParent(within: Context): boolean {
  const parent = trace.getSpanContext(within);
  return parent !== undefined && isSpanContextValid(parent);
}

const isSampled = ({ context }: Link) => (context.traceFlags & TraceFlags.SAMPLED) !== 0;
