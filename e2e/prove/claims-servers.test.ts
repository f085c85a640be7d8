import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { redisLines } from '@triplock/launcher';
import { UsageError } from '@triplock/command';
import { chooseServers, type ProvenServers, renderServers } from './claims-servers.ts';
import type { TestResult } from './run.ts';

test('servers and suites are chosen by one list, and an unknown word is refused', () => {
  const all = chooseServers({ only: undefined, short: false });
  assert.deepEqual(all.lines, redisLines);
  assert.ok(all.files.every(({ path }) => existsSync(path)));
  for (const folder of ['libs/claims/', 'libs/once/', 'services/'])
    assert.ok(
      all.files.some(({ name }) => name.startsWith(folder)),
      folder,
    );
  const short = chooseServers({ only: undefined, short: true });
  assert.deepEqual(short.lines, ['redis-6.2', 'valkey-9.1']);
  assert.ok(short.files.length > 0 && short.files.length < all.files.length);
  const { name } = all.files[0]!;
  const named = chooseServers({ only: `redis-7.0, ${name}`, short: true });
  assert.deepEqual([named.lines, named.files.map((file) => file.name)], [['redis-7.0'], [name]]);
  assert.throws(() => chooseServers({ only: 'redis-7', short: false }), UsageError);
});

test('the last line says on what the suites held and what was not tried, or that they did not', () => {
  const on = (version: string, result: TestResult): ProvenServers['servers'][number] => ({
    line: 'redis-7.0',
    product: 'Redis',
    version,
    from: 'PATH',
    seconds: 60,
    promises: [{ promise: 'a', seconds: 2, outcome: result.outcome, tests: [result] }],
  });
  const passed: TestResult = { name: 'it holds', outcome: 'passed', seconds: 2 };
  const broken: TestResult = { name: 'it holds', outcome: 'failed', seconds: 2, why: 'two rows' };
  const shown = (proof: Omit<ProvenServers, 'seconds'>) =>
    renderServers({ ...proof, seconds: 120 }).map(stripVTControlCharacters);
  const notTried = [{ line: 'redis-8.2', why: 'no Python with pip' }];
  const held = shown({ ok: true, servers: [on('7.0.15', passed)], notTried });
  assert.equal(
    held.at(-1),
    '✔ the claims suite holds on Redis 7.0.15, in 120 s; not tried: redis-8.2',
  );
  assert.ok(held.includes('not tried: redis-8.2: no Python with pip'), held.join('\n'));
  const failed = shown({ ok: false, servers: [on('7.0.15', broken)], notTried: [] });
  assert.ok(failed.includes('✘ Redis 7.0.15: a, “it holds”'), failed.join('\n'));
  assert.equal(failed.at(-1), '✘ a promise failed');
  const none = shown({ ok: false, servers: [], notTried });
  assert.equal(none.at(-1), '✘ there was no server to try');
});
