import assert from 'node:assert/strict';
import { test, afterEach, beforeEach } from 'node:test';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import {
  ROOT_CONTEXT,
  SpanKind,
  trace,
  TraceFlags,
  type Link,
  context,
  SpanStatusCode,
} from '@opentelemetry/api';
import {
  SamplingDecision,
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { sampleWork } from './sdk.ts';
import { createLogger } from '../logger.ts';
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

const module = new URL('../index.ts', import.meta.url).href;

/**
 * Runs a service of its own process to its end; `work` is what it does before it is told to stop.
 */
async function runToEnd(work: string, environment: Record<string, string>) {
  const program = `
    import http from 'node:http';
    import Module from 'node:module';
    import { inBatchSpan, inSpan, readSettings, runService, serviceSettings } from '${module}';
    const readConfig = () => readSettings(process.env, serviceSettings);
    await runService({ name: 'demo', crashPoints: ['worker.polled', 'worker.committed'] }, readConfig, async (config, { logger }) => {
      setInterval(() => undefined, 1000);
      ${work}
      process.kill(process.pid, 'SIGTERM');
    });
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ADMIN_PORT: '1', INSTANCE_NAME: 'demo-1', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const written = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  const [stdout, stderr] = await written;
  const lines = stdout.split('\n').filter((line) => line !== '');
  const logged = lines.map((line) => JSON.parse(line) as { msg: string; level: number });
  return { logged, stderr, code: child.exitCode };
}

const parent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

test('without an endpoint no SDK is loaded, nothing is wrapped, and work is only done', async () => {
  const work = `
    const done = await inSpan({ name: 'work', parent: '${parent}' }, async () => 'done');
    const loaded = Object.keys(Module._cache).filter((file) => /opentelemetry.(?!api\\b)/.test(file));
    logger.info([done, http.request.name, http.Server.prototype.emit.name, loaded.length].join());
  `;
  const { logged, code } = await runToEnd(work, {});
  assert.deepEqual([logged[0]!.msg, code], ['done,request,emit,0', 0]);
});

test('a collector that cannot be reached costs one line, and no work and no shutdown', async () => {
  const work = `
    for (let n = 0; n < 3; n += 1) {
      await inSpan({ name: 'work', parent: '${parent}' }, async () => undefined);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  `;
  const { logged, code, stderr } = await runToEnd(work, {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    OTEL_BSP_SCHEDULE_DELAY: '10',
    OTEL_EXPORTER_OTLP_TIMEOUT: '50',
  });
  assert.deepEqual(
    logged.map(({ msg }) => msg),
    [
      'traces cannot be sent and are dropped until they can',
      ...['started', 'shutting down', 'stopped'],
    ],
  );
  assert.deepEqual([code, stderr], [0, '']);
});

test('what is no setting of OpenTelemetry ends the boot with its name', async () => {
  const wrong = {
    OTEL_EXPORTER_OTLP_ENDPOINT: 'localhost:4318',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_SAMPLER: 'sometimes',
    OTEL_TRACES_SAMPLER_ARG: '2',
  };
  const { code, stderr } = await runToEnd('', wrong);
  assert.equal(code, 2);
  for (const name of Object.keys(wrong)) assert.match(stderr, new RegExp(`${name} is malformed`));
});

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
