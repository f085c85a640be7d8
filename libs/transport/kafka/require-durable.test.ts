import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestTopic } from '@triplock/testing';
import { findWeakness, requireDurable } from './require-durable.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

test('a record counts as kept when two brokers must have it before it is acknowledged', () => {
  const strong = { replicas: 3, minInSync: 2, uncleanElection: false };
  assert.equal(findWeakness(strong), undefined);
  assert.equal(findWeakness({ ...strong, replicas: 2 }), undefined);
  assert.match(findWeakness({ ...strong, minInSync: 1 })!, /^has min\.insync\.replicas 1,/);
  assert.match(findWeakness({ ...strong, uncleanElection: true })!, /^has unclean\.leader/);
  assert.match(findWeakness({ ...strong, replicas: 1 })!, /^has one replica,/);
});

test('what a broker says of a topic is what is checked', async (t) => {
  const warnings: string[] = [];
  const told = Object.assign(Object.create(logger) as typeof logger, {
    warn: (_: object, message: string) => void warnings.push(message),
  });
  const place = { ...(await createTestTopic(t)), clientId: 'test', logger: told };
  const refused = requireDurable({ ...place, otherwise: 'refuse' });
  await assert.rejects(
    refused,
    /^Error: topic test\.\w+ has one replica,.* give it three replicas/,
  );
  assert.deepEqual(warnings, []);
  await requireDurable({ ...place, otherwise: 'warn' });
  assert.deepEqual(warnings, ['an acknowledged record may be lost if one broker is lost']);
});

test('brokers that are away refuse nothing', async () => {
  const place = { brokers: ['127.0.0.1:1'], topic: 'any', clientId: 'test', logger };
  await requireDurable({ ...place, otherwise: 'refuse' });
});
