import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import { createLogger } from '@triplock/runtime';
import {
  type Cleanup,
  createRedisUser,
  createTestKeyspace,
  createTestRedis,
  createTestRelay,
  eventually,
} from '@triplock/testing';
import { Redis } from 'ioredis';
import { describeClaims } from '../claims.conformance.ts';
import { ClaimsUnavailableError, type Claims, type OwnerToken } from '../claims.ts';
import { aClaim, expectOutcome, hourMs, lasting, warmUp } from '../test/claims-under-test.ts';
import { openRedisClaims } from './redis-claims.ts';
import { openRedisWalk } from './redis-walk.ts';
import { RedisPolicyError } from './redis-server.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

/** Where the users of Redis stand, by whom each service works with as many rights as it needs. */
const operating = new URL('../../../docs/operating.md', import.meta.url);

/** One of those users, for one namespace: a URL with it. */
async function asUser(
  test: Cleanup,
  { url, namespace }: { url: string; namespace: string },
  service: 'gateway' | 'auditor',
): Promise<string> {
  const line = new RegExp(`^user ${service} on >\\S+ (.*)$`, 'm').exec(
    readFileSync(operating, 'utf8'),
  );
  assert.ok(line, `docs/operating.md has no line "user ${service} …"`);
  return createRedisUser(test, url, line[1]!.replaceAll('{triplock:', `{${namespace}:`));
}

// By the users of the manual: what the suite needs and they may not do fails here.
describeClaims('redis', async (test, times) => {
  const { url: asOwner, namespace, forget } = await createTestKeyspace(test);
  const url = await asUser(test, { url: asOwner, namespace }, 'gateway');
  const readOnly = await asUser(test, { url: asOwner, namespace }, 'auditor');
  const relay = await createTestRelay(test, url);
  const open = async (way: string) => {
    const claims = await openRedisClaims({ url: way, namespace, logger, ...times });
    test.after(() => claims.close());
    return claims;
  };
  const redis = new Redis(asOwner);
  test.after(() => redis.quit());
  const walkBy = new URL(relay.url);
  const { username, password } = new URL(readOnly);
  Object.assign(walkBy, { username, password });
  return {
    claims: await open(relay.url),
    another: () => open(url),
    async openWalk() {
      const walk = await openRedisWalk({ url: walkBy.href, namespace, logger, ...times });
      test.after(() => walk.close());
      return walk;
    },
    forget,
    async age(txnId, ms) {
      const { record, shown } = keysOf(namespace, txnId);
      await redis.hincrby(record, 'l', -ms);
      for (const key of [record, shown]) await ageKey(redis, key, ms);
    },
    async ageHeld({ txnId, partnerId }, ms) {
      const key = keysOf(namespace, txnId).record.replace(/claim:.*/, `held:${partnerId}`);
      const counts = Object.entries(await redis.hgetall(key));
      const hours = Math.floor(ms / hourMs);
      const aged = counts.flatMap(([field, count]) => {
        if (field === 'hour') return [field, Number(count) - hours];
        if (field === 'window') return [field, Number(count) - Math.floor(ms / lasting.shownMs)];
        return [/^\d+$/.test(field) ? Number(field) - hours : field, count];
      });
      await redis
        .multi()
        .del(key)
        .hset(key, ...aged)
        .exec();
    },
    bytes: async (txnId) => {
      const key = keysOf(namespace, txnId).record;
      return (await redis.memory('USAGE', key))! + expiryBytes;
    },
    valueBytes: async (txnId) => {
      const record = await redis.hgetall(keysOf(namespace, txnId).record);
      return Object.entries(record).flat().join('').length;
    },
    relay,
  };
});

function keysOf(namespace: string, txnId: TxnId) {
  const tag = `{${namespace}:${bucketOf(txnId, bucketCount)}}`;
  return { record: `${tag}:claim:${txnId}`, shown: `${tag}:shown:${txnId}` };
}

/** Ends the life of a key that much sooner. */
async function ageKey(redis: Redis, key: string, ms: number): Promise<void> {
  const left = (await redis.pttl(key)) - ms;
  if (left > 0) await redis.pexpire(key, left);
  else await redis.del(key);
}

// MEMORY USAGE leaves out the key's entry among those that expire: 24 bytes, and 8 of its table.
const expiryBytes = 32;

/** Whoever has a service's password can do none of these, the auditor not even change a key. */
const refused = {
  both: `FLUSHALL; FLUSHDB; KEYS *; CONFIG GET *; CONFIG SET maxmemory-policy allkeys-lru; ACL LIST;
    ACL SETUSER other on nopass; SHUTDOWN NOSAVE; REPLICAOF 127.0.0.1 1; DEBUG SLEEP 0; SCRIPT FLUSH;
    CLIENT LIST; MONITOR; SUBSCRIBE all; HMGET {other:0}:marker epoch;
    RENAME {own:0}:marker {own:1}:marker`,
  gateway: 'SCAN 0; SET {other:0}:a b; DEL {other:0}:marker',
  auditor: 'HSET {own:0}:marker a b; DEL {own:0}:marker; PEXPIRE {own:0}:marker 1; EVAL return 0',
};

it('the users of Redis do nothing but their service’s work, on their own keys', async (test) => {
  const { url, command: asOwner } = await createTestRedis(test);
  for (const service of ['gateway', 'auditor'] as const) {
    const redis = new Redis(await asUser(test, { url, namespace: 'own' }, service));
    test.after(() => redis.disconnect());
    assert.deepEqual(await redis.hmget('{own:0}:marker', 'epoch'), [null]);
    for (const line of `${refused.both}; ${refused[service]}`.split(/;\s+/)) {
      const [command = '', ...words] = line.split(' ');
      const refusal = await refusalOf(redis.call(command, ...words));
      if (refusal?.startsWith('NOPERM ')) continue;
      // What its configuration allows to nobody a server may refuse before it looks at rights, as
      // those from 7.0 on do with DEBUG.
      assert.match(refusal ?? 'done', /^ERR \w+ command not allowed\b/, `${service}: ${line}`);
      assert.equal(await refusalOf(asOwner(command, ...words)), refusal, line);
    }
  }
});

/** What a server answers to a command that it does not run; nothing where it does. */
function refusalOf(command: Promise<unknown>): Promise<string | undefined> {
  return command.then(
    () => undefined,
    ({ message }: Error) => message,
  );
}

it('says what a Redis that is there refuses, as long as it is there, and goes on once it no longer does', async (test) => {
  const server = await createTestRedis(test);
  const { command } = server;
  const ours = new URL(server.url);
  Object.assign(ours, { username: 'ours', password: 'right' });
  const claims = await openOn(test, ours.href);
  const refused = (message: RegExp) =>
    eventually(() =>
      claims.ping().then(
        () => false,
        (error: Error) => message.test(error.message),
      ),
    );
  await refused(/^Redis refuses: WRONGPASS /);
  await server.kill();
  await refused(/^Redis is away$/);
  await server.start();
  await refused(/^Redis refuses: WRONGPASS /);
  await command('ACL', 'SETUSER', 'ours', 'on', '>right', '~*', '+@connection');
  await refused(/^Redis refuses: NOPERM .*'info'/);
  await command('ACL', 'SETUSER', 'ours', '+@all');
  await eventually(() => claims.ping().then(() => true));
});

async function openOn(test: TestContext, url: string): Promise<Claims> {
  const claims = await openRedisClaims({ url, namespace: 'own', logger });
  test.after(() => claims.close());
  return claims;
}

/** Claims of many buckets, which are warm, asked for in one turn of the event loop. */
async function claimTogether(claims: Claims) {
  const requests = Array.from({ length: 20 }, () => aClaim());
  for (const request of requests) await warmUp(claims, request);
  return { requests, claim: () => Promise.allSettled(requests.map((each) => claims.claim(each))) };
}

describe('claims that come together', { concurrency: 3 }, () => {
  it('are a call or two for the server, and so are their completions', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server.url);
    const { requests, claim } = await claimTogether(claims);
    await claims.complete({ ...requests[0]!, token: 'nobody' as OwnerToken });
    await server.command('CONFIG', 'RESETSTAT');
    const made = await claim();
    const owners = made.map((each, at) => {
      assert.ok(each.status === 'fulfilled');
      return { ...requests[at]!, token: expectOutcome(each.value, 'claimed').token };
    });
    const completed = await Promise.all(owners.map((owner) => claims.complete(owner)));
    assert.deepEqual(new Set(completed), new Set(['completed']));
    const stats = String(await server.command('INFO', 'commandstats'));
    const calls = [...stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)];
    const count = calls.reduce((sum, [, each]) => sum + Number(each), 0);
    // A script that the server does not know yet takes a second call.
    assert.ok(count >= 2 && count <= 4, stats);
  });

  it('fail for themselves: what one finds broken spoils no other', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server.url);
    const { requests, claim } = await claimTogether(claims);
    await server.command('SET', keysOf('own', requests[7]!.txnId).record, 'is no hash');
    const made = await claim();
    const failed = made.flatMap(({ status }, at) => (status === 'rejected' ? [at] : []));
    assert.deepEqual(failed, [7]);
    const [broken] = made.filter((each) => each.status === 'rejected');
    assert.ok(broken!.reason instanceof ClaimsUnavailableError);
    assert.match(broken!.reason.message, /WRONGTYPE/);
  });

  it('go alone where keys of several slots may not meet, and are made once', async (t) => {
    const server = await createTestRedis(t, { running: true, cluster: true });
    const slots = Array.from({ length: 16_384 }, (_, slot) => `${slot}`);
    await server.command('CLUSTER', 'ADDSLOTS', ...slots);
    await eventually(async () => /state:ok/.test(String(await server.command('CLUSTER', 'INFO'))));
    const claims = await openOn(t, server.url);
    const { claim } = await claimTogether(claims);
    for (const outcome of ['claimed', 'in-flight']) {
      const made = await claim();
      const outcomes = made.map((each) => each.status === 'fulfilled' && each.value.outcome);
      assert.deepEqual(new Set(outcomes), new Set([outcome]));
    }
  });
});

/** How long the promise took to reject; it must, and with the error that means "unknown". */
async function rejectionMs(work: Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await assert.rejects(work, ClaimsUnavailableError);
  return performance.now() - begin;
}

describe('claims on a redis that is away', { concurrency: 2 }, () => {
  it('a redis that stands still makes claims unknown within two seconds, then at once', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server.url);
    const request = aClaim();
    await warmUp(claims, request);
    server.pause();
    const waits = await Promise.all(
      Array.from({ length: 200 }, () => rejectionMs(claims.claim(request))),
    );
    assert.ok(Math.max(...waits) < 2_000, `slowest ${Math.max(...waits)} ms`);
    await eventually(async () => (await rejectionMs(claims.claim(request))) < 100);
    await assert.rejects(claims.ping());
    server.resume();
    await eventually(() => claims.ping().then(() => true));
    // One of the unanswered claims reached the server after all. Nobody works on it, so it is
    // released long before its lease of 30 s is over.
    await eventually(async () => (await claims.claim(request)).outcome === 'claimed');
  });

  it('a killed redis makes claims fail at once, and they work again when it is back', async (t) => {
    const server = await createTestRedis(t);
    const claims = await openOn(t, server.url);
    await server.kill();
    assert.ok((await rejectionMs(claims.claim(aClaim()))) < 1_000);
    await server.start();
    const cold = await eventually(() => claims.claim(aClaim()));
    assert.deepEqual(cold, { outcome: 'cold' });
  });

  it('claims can be opened while redis is away and work once it comes', async (t) => {
    const server = await createTestRedis(t, { running: false });
    const claims = await openOn(t, server.url);
    await assert.rejects(claims.claim(aClaim()), ClaimsUnavailableError);
    await server.start();
    await eventually(() => claims.ping().then(() => true));
  });
});

describe('claims on a redis that evicts', { concurrency: 2 }, () => {
  const evicting = { running: true, args: ['--maxmemory-policy', 'volatile-lru'] };

  it('any policy but noeviction is refused at the start, whether or not memory is limited', async (t) => {
    const server = await createTestRedis(t, evicting);
    await assert.rejects(openOn(t, server.url), (error: Error) => {
      assert.ok(error instanceof RedisPolicyError);
      assert.match(error.message, /maxmemory-policy volatile-lru.*set maxmemory-policy noeviction/);
      return true;
    });
  });

  it('a policy that is only seen later makes claims and readiness fail until it is put right', async (t) => {
    const server = await createTestRedis(t, { ...evicting, running: false });
    const claims = await openOn(t, server.url);
    await server.start();
    await eventually(() =>
      claims.ping().then(
        () => false,
        (error: Error) => /volatile-lru/.test(error.message),
      ),
    );
    await assert.rejects(claims.claim(aClaim()), /volatile-lru/);
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await eventually(() => claims.ping().then(() => true));
    expectOutcome(await claims.claim(aClaim()), 'cold');
    // Changed under way, on a connection that stays.
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    const refused = () =>
      claims.claim(aClaim()).then(
        () => false,
        (error: Error) => /allkeys-lru/.test(error.message),
      );
    await eventually(refused);
    await assert.rejects(claims.ping(), /allkeys-lru/);
  });
});
