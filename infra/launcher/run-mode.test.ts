import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { chooseParts } from './run-mode.ts';
import { able, fakeEngine } from './test/engine.ts';

const images = ['redis:8-alpine', 'node:24-slim'];
const needs = `*'config --images') echo redis:8-alpine; echo triplock/auditor;;`;

async function chosenOn(t: TestContext, answers: string, given: Record<string, string> = {}) {
  const { environment } = fakeEngine(t, answers);
  const before = { ...process.env };
  t.after(() => void (process.env = before));
  process.env = { ...before, ...environment, ...given };
  const said: string[] = [];
  return { ...(await chooseParts((line) => said.push(line))), said: said.join('\n') };
}

test('containers where an engine has the images, else processes', async (t) => {
  const has = `'image ls'*) printf '${images.join('\\n')}\\n';;`;
  const { said, ...chosen } = await chosenOn(t, `${able} ${needs} ${has}`);
  assert.deepEqual(chosen, { parts: 'docker' });
  assert.match(said, /^containers: .*--parts native/);
  assert.deepEqual(await chosenOn(t, 'info*) exit 1;;'), { parts: 'native', said: '' });
  const lacking = await chosenOn(t, `${able} ${needs} 'image ls'*) echo node:24-slim;;`);
  assert.deepEqual(lacking, {
    parts: 'native',
    otherwise: 'docker',
    said: 'processes rather than containers: the engine has no redis:8-alpine',
  });
});

test('an engine that is unfit is passed over with a word, and parts that are given stay', async (t) => {
  const small = await chosenOn(t, 'info*) echo 1073741824;;');
  assert.equal(small.parts, 'native');
  assert.match(small.said, /^processes rather than containers: .* 1.0 GB of memory/);
  const given = await chosenOn(t, able, { REDIS_URL: 'redis://127.0.0.1:6379' });
  assert.deepEqual(given, { parts: 'native', said: '' });
});
