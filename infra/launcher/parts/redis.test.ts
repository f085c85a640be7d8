import assert from 'node:assert/strict';
import { before, test, type TestContext } from 'node:test';
import { eventually } from '@triplock/testing';
import { Redis } from 'ioredis';
import { redisAs } from './redis.ts';
import { bringUpParts } from '../bring-up.ts';
import { takeDown } from '../take-down.ts';
import { givenBrokers, testHome } from '../test/home.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

test('in the home’s own Redis each user has the rights of its service, and nobody else any', async (t) => {
  const address = (await bringUpParts({ home: testHome(t) })).redis;
  const nobody = `redis://${new URL(address).host}`;
  const [gateway, auditor] = [redisAs(address, 'gateway'), redisAs(address, 'auditor')];
  const call = async (url: string, line: string) => {
    const client = new Redis(url, { enableReadyCheck: false, disableClientInfo: true });
    const [command = '', ...words] = line.split(' ');
    client.on('error', () => undefined); // The call below rejects with the same error.
    return client.call(command, ...words).finally(() => client.disconnect());
  };
  const marker = '{triplock:0}:marker';
  assert.equal(await call(gateway, `HSET ${marker} epoch 1`), 1);
  assert.equal(await call(gateway, 'HSET {without-a-guard.triplock:0}:marker epoch 1'), 1);
  assert.deepEqual(await call(auditor, `HGET ${marker} epoch`), '1');
  for (const [url, refusal, ...lines] of [
    [gateway, /NOPERM/, 'FLUSHALL', 'CONFIG GET dir', 'SCAN 0', 'HSET {another:0}:marker epoch 1'],
    [auditor, /NOPERM/, `DEL ${marker}`, `HSET ${marker} epoch 2`, 'EVAL return 0'],
    [nobody, /NOAUTH/, `HGET ${marker} epoch`, 'INFO', 'FLUSHALL', 'ACL LIST', 'PING'],
  ] as const) {
    for (const line of lines) await assert.rejects(call(url, line), refusal, `${url}: ${line}`);
  }
  const wrong = new URL(gateway);
  wrong.password = 'wrong';
  await assert.rejects(call(wrong.href, 'PING'), /WRONGPASS/);
});

test('what a service has claimed is there after a restart, from before and behind a rewrite of the log', async (t) => {
  const home = testHome(t);
  const claims = ['claimed', 'claimed later'].map((id) => `{triplock:0}:claim:${id}`);
  const script = `redis.call('HSET', KEYS[1], 's', 'in-flight')
    return redis.call('PEXPIRE', KEYS[1], 3600000)`;
  const owner = connect(t, (await bringUpParts({ home })).redis);
  const gateway = connect(t, redisAs(owner.url, 'gateway'));
  await gateway.client.eval(script, 1, claims[0]!);
  await owner.client.bgrewriteaof();
  const isWritten = async () => {
    const log = await owner.client.info('persistence');
    return /^aof_rewrite_in_progress:0/m.test(log) && /^aof_rewrite_scheduled:0/m.test(log);
  };
  await eventually(isWritten, { withinMs: 30_000, what: 'the rewrite of the log' });
  await gateway.client.eval(script, 1, claims[1]!);
  await takeDown({ home });
  const again = connect(t, (await bringUpParts({ home })).redis);
  for (const claim of claims) {
    assert.equal(await again.client.hget(claim, 's'), 'in-flight', claim);
    assert.ok((await again.client.pttl(claim)) > 0);
  }
});

function connect(t: TestContext, url: string) {
  const client = new Redis(url, { disableClientInfo: true });
  client.on('error', () => undefined); // Of a server that is taken down.
  t.after(() => client.disconnect());
  return { url, client };
}
