import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { context, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { createLogger } from '../logger.ts';
import { sampleWork } from './sdk.ts';
import {
  annotateSpan,
  carriedTraceparent,
  inBatchSpan,
  inSpan,
  openSpan,
  traceparentFrom,
  useTracer,
} from './spans.ts';
import { exportAllowed } from './span-export.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const exporter = new InMemorySpanExporter();
const sampled = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const unsampled = `00-${'c'.repeat(32)}-${'d'.repeat(16)}-00`;

beforeEach(() => {
  const settings = { OTEL_TRACES_SAMPLER: 'parentbased_always_on', OTEL_TRACES_SAMPLER_ARG: 1 };
  const provider = new BasicTracerProvider({
    sampler: sampleWork(settings as Parameters<typeof sampleWork>[0]),
    spanProcessors: [new SimpleSpanProcessor(exportAllowed(exporter, logger))],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  useTracer(provider.getTracer('test'));
});
afterEach(() => {
  useTracer(undefined);
  context.disable();
  exporter.reset();
});

const finished = () => exporter.getFinishedSpans();

test('work continues the trace that it came with, and carries its own span on', async () => {
  const carried = await inSpan({ name: 'work', parent: sampled }, async () => {
    annotateSpan({ 'triplock.attempt': 2 });
    return { outcome: 'done', header: carriedTraceparent('nothing') };
  });
  const [span] = finished();
  const { traceId, spanId } = span!.spanContext();
  assert.equal(carried.header, `00-${traceId}-${spanId}-01`);
  assert.equal(traceId, 'a'.repeat(32));
  assert.equal(span!.parentSpanContext?.spanId, 'b'.repeat(16));
  assert.deepEqual(span!.attributes, { 'triplock.attempt': 2, 'triplock.outcome': 'done' });
});

test('what is not traced carries its own trace on, and leaves nothing', async () => {
  const carried = async () =>
    trace.getActiveSpan() === undefined ? carriedTraceparent('nothing') : 'in a span';
  const header = await inSpan({ name: 'work', parent: unsampled }, () =>
    // A statement, or another step: there is no span that it could be in.
    inSpan({ name: 'step' }, () => carried()),
  );
  assert.equal(header, unsampled);
  assert.equal(finished().length, 0);
});

test('a batch links to those of its payments that are traced, and is nobody’s child', async () => {
  await inSpan({ name: 'who gathers', parent: sampled }, () =>
    inBatchSpan({ name: 'batch', of: () => [unsampled, sampled, 'no header'] }, async () =>
      inSpan({ name: 'statement' }, async () => undefined),
    ),
  );
  const [statement, batch] = finished();
  assert.deepEqual(
    batch!.links.map(({ context: { traceId } }) => traceId),
    ['a'.repeat(32)],
  );
  assert.equal(batch!.parentSpanContext, undefined);
  assert.equal(statement!.parentSpanContext?.spanId, batch!.spanContext().spanId);
});

test('a batch of which nobody is traced leaves nothing, and nor does what is done in it', async () => {
  await inBatchSpan({ name: 'batch', of: () => [unsampled] }, () =>
    inSpan({ name: 'statement', kind: 'client' }, async () => undefined),
  );
  assert.equal(finished().length, 0);
});

test('a failure is recorded by its kind and never by its message', async () => {
  const secret = 'a secret of the driver';
  const failing = inSpan({ name: 'work', parent: sampled }, async () => {
    annotateSpan({ 'db.query.text': secret });
    throw new RangeError(secret);
  });
  await assert.rejects(failing, RangeError);
  const open = openSpan({ name: 'record', parent: sampled });
  open.fail(new TypeError(secret));
  open.fail(new TypeError(secret));
  assert.deepEqual(
    finished().map(({ status, attributes }) => [status, attributes]),
    ['RangeError', 'TypeError'].map((type) => [
      { code: SpanStatusCode.ERROR },
      { 'error.type': type },
    ]),
  );
});

const newForm = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const given = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test("a caller's trace goes on", () => {
  assert.equal(traceparentFrom(given), given);
});

const unusable = [
  undefined,
  '',
  'garbage',
  given.toUpperCase(),
  `${given}-extra`,
  given.replace('00-', 'ff-'),
  `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
  `${given}\n`,
];

test('what cannot be used begins a new trace, another one each time', () => {
  const traces = unusable.map((each) => traceparentFrom(each));
  for (const trace of traces) assert.match(trace, newForm);
  assert.equal(new Set(traces).size, unusable.length);
});
