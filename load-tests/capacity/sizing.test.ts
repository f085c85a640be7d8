import assert from 'node:assert/strict';
import { test } from 'node:test';
import { measuredServices, type Cpu } from '../bench/measurements.ts';
import { predictRate, sizeFor, type Costs } from './sizing.ts';

/** Each stage 100 µs of its own, 20 of Redis, 50 of PostgreSQL. */
function costs(ofStage: (name: (typeof measuredServices)[number]) => Cpu = () => ({})): Costs {
  const stages = measuredServices.map((name) => {
    const cpu = { [name]: 100, redis: 20, postgres: 50, ...ofStage(name) };
    return [name, { perSecond: 5_000, cpu }] as const;
  });
  return {
    stages: Object.fromEntries(stages) as Costs['stages'],
    recordBytes: 500,
    eventBytes: 1_000,
    walBytes: 2_000,
    ledgerRows: 7,
  };
}

const means = { fullness: 0.5, postgresCores: 16, orderingKeys: 8 };

test('a rate takes as many processes and cores as its CPU fills to the share that was given', () => {
  const { needs } = sizeFor(10_000, costs(), means);
  const count = (what: string) => needs.find((need) => need.what === what)!.count;
  // 10 000 times 100 µs is one core: two that are half full.
  for (const name of measuredServices) assert.equal(count(name), 2);
  assert.equal(count('Kafka: partitions'), 2);
  assert.equal(count('Kafka: records'), 5);
  assert.equal(count('Redis'), Math.ceil(0.4 * measuredServices.length));
  assert.equal(count('PostgreSQL'), measuredServices.length);
  assert.equal(count('PostgreSQL: log'), 20);
  assert.equal(count('Pub/Sub: published'), 10);
  assert.equal(count('Pub/Sub: ordering keys'), 20);
  // 70 000 rows a second at 3 500 a node of which 65 % may be used.
  assert.equal(count('or Spanner, for the ledger'), 31);
});

test('a rate that is a little higher never takes less', () => {
  let before = sizeFor(1, costs(), means).needs;
  for (let rate = 500; rate < 40_000; rate += 500) {
    const { needs } = sizeFor(rate, costs(), means);
    for (const [at, { what, count }] of needs.entries()) {
      assert.ok(count >= before[at]!.count, `${what} at ${rate}/s`);
    }
    before = needs;
  }
});

test('what is full first stands first, with the rate that fills it', () => {
  const { ceilings } = sizeFor(1_000, costs(), means);
  assert.equal(ceilings[0]!.what, 'Pub/Sub, 8 ordering keys');
  assert.equal(ceilings[0]!.perSecond, 8_000);
  const rates = ceilings.map(({ perSecond }) => perSecond);
  assert.deepEqual(
    rates,
    rates.toSorted((one, other) => one - other),
  );
});

test('so many processes are so many times as fast, until the machine has no more cores', () => {
  const one = { perSecond: 1_000, cpu: { postgres: 300, redis: 100 }, senderMicros: 100 };
  assert.equal(predictRate(one, { processes: 2, cores: 4 }), 2_000);
  // 500 µs a payment fill two cores at 4 000 a second.
  assert.equal(predictRate(one, { processes: 8, cores: 2 }), 4_000);
});
