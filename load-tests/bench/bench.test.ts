import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseIdempotencyKey, parseStrictJson, validatePaymentRequest } from '@triplock/contracts';
import { bodyOf, keyOf } from './load-generator.ts';
import { readBenchOptions, readSample } from './measurements.ts';

test('what is not given has a default', () => {
  assert.deepEqual(readBenchOptions({}), { seconds: 20, connections: 64, repeat: 3 });
  assert.deepEqual(readBenchOptions({ repeat: '1', connections: '8' }), {
    seconds: 20,
    connections: 8,
    repeat: 1,
  });
});

test('what is no number, or out of range, is refused by its name', () => {
  for (const option of ['seconds', 'connections', 'repeat']) {
    for (const text of ['0', '-1', '1.5', 'many', '']) {
      assert.throws(() => readBenchOptions({ [option]: text }), {
        name: 'UsageError',
        message: new RegExp(`^--${option} takes`),
      });
    }
  }
});

test('the share of payments that is traced is from 0 to 1', () => {
  for (const [text, tracing] of Object.entries({ '1': 1, '0.01': 0.01, '.5': 0.5, '0': 0 })) {
    assert.equal(readBenchOptions({ tracing: text }).tracing, tracing);
  }
  for (const text of ['', '2', '1.5', '-1', '1%', 'all']) {
    assert.throws(() => readBenchOptions({ tracing: text }), /--tracing takes a share/);
  }
});

const metrics = (cpuSeconds: number, rssBytes: number) => `
# TYPE process_cpu_user_seconds_total counter
process_cpu_user_seconds_total{service="auditor"} 900
process_cpu_seconds_total{service="auditor"} ${cpuSeconds}
process_resident_memory_bytes{service="auditor"} ${rssBytes}
`;

test("a service's replicas are added up", () => {
  assert.deepEqual(readSample([metrics(1.5, 1_000), metrics(0.25, 500)]), {
    cpuMicros: 1_750_000,
    rssBytes: 1_500,
  });
});

test('a service that reports nothing of its CPU is an error and not a cost of nothing', () => {
  assert.throws(() => readSample(['up 1']), /reports nothing/);
  assert.throws(() => readSample([]), /reports nothing/);
});

test('the gateway takes every request, and all of them are equally long', () => {
  const numbers = [0, 7, 99_999_999];
  const bodies = numbers.map((number) => bodyOf({ run: '0123456789ab', number }));
  assert.equal(new Set(bodies.map((body) => body.length)).size, 1);
  for (const body of bodies) {
    const json = parseStrictJson(Buffer.from(body));
    assert.equal(json.outcome, 'value');
    assert.equal(validatePaymentRequest(json.value).outcome, 'valid');
  }
});

test('no key is used twice, in a run or in another one', () => {
  const keys = ['0123456789ab', 'ba9876543210'].flatMap((run) =>
    [1, 2, 12].map((number) => keyOf({ run, number })),
  );
  assert.equal(new Set(keys).size, keys.length);
  for (const key of keys) assert.equal(parseIdempotencyKey([key]).outcome, 'key');
});
