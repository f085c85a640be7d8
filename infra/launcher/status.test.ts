import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { freePort } from '@triplock/testing';
import { bringUpParts } from './bring-up.ts';
import { continueProcess, killProcess, pauseProcess } from './faults.ts';
import { homeAt } from './home.ts';
import { unreachableParts } from './status.ts';
import { givenBrokers, testHome } from './test/home.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

test('a server that was given and does not answer is named with its variable', async (t) => {
  const home = testHome(t);
  await bringUpParts({ home });
  const { endpoints } = homeAt(home);
  const left = JSON.parse(readFileSync(endpoints, 'utf8')) as object;
  const kafka = `127.0.0.1:${await freePort()}`;
  writeFileSync(endpoints, JSON.stringify({ ...left, kafka }));
  assert.deepEqual(await unreachableParts({ home }), [
    `kafka at ${kafka}, given by KAFKA_BROKERS, does not answer`,
  ]);
});

test('a part that does not answer is named with the next step, whether it died or stands still', async (t) => {
  const home = testHome(t);
  await bringUpParts({ home });
  assert.deepEqual(await unreachableParts({ home }), []);

  const up = `\`npm run up -- --home '${home}'\``;
  await pauseProcess({ home, name: 'postgres' });
  const startedMs = performance.now();
  assert.deepEqual(await unreachableParts({ home }), [
    `postgres stands still: ${up} lets it go on`,
  ]);
  assert.ok(performance.now() - startedMs < 4_000);
  await continueProcess({ home, name: 'postgres' });

  await killProcess({ home, name: 'redis' });
  assert.deepEqual(await unreachableParts({ home }), [
    `redis is not running: ${up} starts it again`,
  ]);
  assert.deepEqual(await unreachableParts({ home, only: ['postgres', 'kafka'] }), []);
});
