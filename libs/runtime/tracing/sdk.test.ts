import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ROOT_CONTEXT, SpanKind, trace, TraceFlags, type Link } from '@opentelemetry/api';
import { SamplingDecision } from '@opentelemetry/sdk-trace-base';
import { sampleWork } from './sdk.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';

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
