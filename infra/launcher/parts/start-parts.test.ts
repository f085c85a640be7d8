import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { eventually, freePort } from '@triplock/testing';
import { Redis } from 'ioredis';
import { bringUpParts } from '../bring-up.ts';
import { continueProcess, killProcess, pauseProcess } from '../faults.ts';
import { cloneFolder, homeAt } from '../home.ts';
import { isFree } from '../ports.ts';
import { withDatabase } from '../provision/database.ts';
import { readState } from '../session.ts';
import { systemStatus } from '../status.ts';
import { takeDown } from '../take-down.ts';
import {
  givenBrokers,
  processesOf,
  runScript,
  testCheckout,
  testHome,
  testPartsCache,
} from '../test/home.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

/** What a test broke in it, or took down, the next one starts again; the first finds nothing up. */
const home = testHome({ after });

const pidsOf = (home: string) =>
  Object.fromEntries(Object.values(readState(homeAt(home)).processes).map((p) => [p.name, p.pid]));

test('two launchers on one home take turns and start everything once', async () => {
  const ups = await Promise.all([bringUpParts({ home }), bringUpParts({ home })]);
  assert.deepEqual(ups[0], ups[1]);
  const recorded = Object.values(pidsOf(home));
  assert.deepEqual(
    processesOf(home).filter((pid) => !recorded.includes(pid)),
    [],
  );
});

test('up again leaves alone what runs and starts what was killed, on the same port and data', async () => {
  const first = await bringUpParts({ home });
  const pids = pidsOf(home);
  await withDatabase(first.postgres, (database) => database.query('CREATE TABLE kept (id int)'));
  await killProcess({ home, name: 'postgres' });
  assert.equal((await systemStatus({ home })).ready, false);

  const second = await bringUpParts({ home });
  assert.deepEqual(second, first);
  assert.equal(pidsOf(home)['redis'], pids['redis']);
  assert.notEqual(pidsOf(home)['postgres'], pids['postgres']);
  await withDatabase(second.postgres, (database) => database.query('SELECT * FROM kept'));
  assert.equal((await systemStatus({ home })).ready, true);
});

test('in a fresh clone test files that are run by themselves start what they need, once, and say how it is stopped', async (t) => {
  const { folder, home } = testCheckout(t);
  cpSync(join(cloneFolder, 'package-lock.json'), join(folder, 'package-lock.json'));
  cpSync(join(cloneFolder, 'libs/postgres'), join(folder, 'libs/postgres'), { recursive: true });
  const names = '--test-name-pattern=two migrators at once|commits what its work wrote';
  const files = ['libs/postgres/migrate.test.ts', 'libs/postgres/pool.test.ts'];
  const words = ['--test', '--test-reporter=tap', names, ...files];
  // Neither the parts of this run nor the marks of its runner.
  const { TRIPLOCK_TEST_ENDPOINTS: _, NODE_TEST_CONTEXT: __, ...env } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, words, { cwd: folder, env });
  assert.match(stdout, /^# pass 2$/m);
  assert.match(stdout, /stays up for the next run: npm run down -- --home .triplock\/test$/m);
  const shared = join(home, 'test');
  const recorded = Object.values(pidsOf(shared));
  assert.equal(recorded.length, 2);
  const started = processesOf(shared).filter((pid) => !recorded.includes(pid));
  assert.deepEqual(started, [], 'somebody started parts of their own');
});

test('down leaves no process and no port and keeps the data; forgetting leaves nothing', async () => {
  const { redis } = await bringUpParts({ home });
  const client = new Redis(redis);
  await client.set('kept', 'yes');
  await client.quit();
  const { ports } = readState(homeAt(home));

  await takeDown({ home });
  assert.deepEqual(processesOf(home), []);
  for (const port of Object.values(ports)) assert.equal(await isFree(port), true);
  // A snapshot beside the log would be written here, and every minute under load, for nobody.
  const kept = readdirSync(join(home, 'data', 'redis')).filter((file) => !/\.acl$/.test(file));
  assert.ok(kept.length > 0 && kept.every((file) => file.startsWith('appendonly')), kept.join());

  const again = new Redis((await bringUpParts({ home })).redis);
  assert.equal(await again.get('kept'), 'yes');
  await again.quit();
  await takeDown({ home, data: 'forget' });
  await takeDown({ home });
  assert.equal(existsSync(home), false);
});

test('a taken port is reported, and another one is used and remembered', async (t) => {
  const { redis } = await bringUpParts({ home });
  await takeDown({ home });
  const taken = Number(new URL(redis).port);
  const squatter = createServer();
  await new Promise<void>((resolve) => squatter.listen(taken, '127.0.0.1', resolve));
  t.after(() => squatter.close());

  const lines: string[] = [];
  const moved = await bringUpParts({ home, report: (line) => lines.push(line) });
  assert.notEqual(moved.redis, redis);
  assert.ok(lines.some((line) => line.startsWith(`redis.port: port ${taken} is taken, using `)));
  assert.equal((await bringUpParts({ home })).redis, moved.redis);
});

test('a port that was asked for and is taken is an error that names both', async (t) => {
  const squatter = createServer();
  const taken = await freePort();
  await new Promise<void>((resolve) => squatter.listen(taken, '127.0.0.1', resolve));
  t.after(() => squatter.close());
  const { code, stderr } = await runScript(['up', '--parts-only', '--home', testHome(t)], {
    TRIPLOCK_REDIS_PORT: String(taken),
  });
  assert.equal(code, 1);
  assert.match(stderr, new RegExp(`port ${taken} .* is taken: .* TRIPLOCK_REDIS_PORT`));
});

test('PostgreSQL runs below a private folder, and forgetting removes what root put elsewhere', async (t) => {
  const home = testHome(t, { below: 'private folder' });
  const { postgres } = await bringUpParts({ home });
  await withDatabase(postgres, (database) => database.ping());
  const data = realpathSync(join(home, 'data', 'postgres'));
  assert.equal(statSync(data).mode & 0o077, 0);
  await takeDown({ home, data: 'forget' });
  assert.equal(existsSync(data), false);
});

test('a paused part is shown as paused; up lets it go on, and down ends it', async () => {
  const { redis } = await bringUpParts({ home });
  const stateOf = async (name: string) =>
    (await systemStatus({ home })).processes.find((each) => each.name === name)?.state;
  await pauseProcess({ home, name: 'redis' });
  assert.equal(await stateOf('redis'), 'paused');
  await continueProcess({ home, name: 'redis' });
  assert.equal(await stateOf('redis'), 'ready');
  await pauseProcess({ home, name: 'redis' });
  assert.equal((await bringUpParts({ home })).redis, redis);
  assert.equal(await stateOf('redis'), 'ready');
  for (const name of ['redis', 'postgres']) await pauseProcess({ home, name });
  await takeDown({ home });
  assert.deepEqual(processesOf(home), []);
});

test('a part is fetched once per user, however many clones want it, again when it was changed, and refused when it is not what was pinned', async (t) => {
  const { fetch, fetched, folderOf, kept } = testPartsCache(t);
  const folder = folderOf('the server');
  await assert.rejects(fetch('one', { got: 'another server' }), /part is not what was pinned/);
  assert.deepEqual([kept(), fetched()], [[], 1]);
  await Promise.all(['one', 'two', 'three'].map((clone) => fetch(clone)));
  assert.equal(fetched(), 2);
  writeFileSync(join(folder, 'server'), 'changed since');
  await fetch('two');
  assert.deepEqual([readFileSync(join(folder, 'server'), 'utf8'), fetched()], ['the server', 3]);
  symlinkSync('/elsewhere', join(folder, 'library'));
  await fetch('two');
  assert.deepEqual([readdirSync(folder), fetched()], [['server'], 4]);
  assert.deepEqual(kept(), [basename(folder)]);
});

test('clones that pin different contents of one version have one each, and take neither away', async (t) => {
  const { fetch, fetched, folderOf } = testPartsCache(t);
  const pins = ['the server', 'a newer server'] as const;
  for (const _ of ['at first', 'again']) {
    for (const pinned of pins) await fetch(pinned, { pinned, got: pinned });
    assert.equal(fetched(), 2);
  }
  for (const pinned of pins) {
    assert.equal(readFileSync(join(folderOf(pinned), 'server'), 'utf8'), pinned);
  }
});

test('only a process of the home can be paused or killed', async () => {
  const home = '/nowhere';
  await assert.rejects(pauseProcess({ home, name: 'redis' }), /no process redis runs here/);
});

/** At work for longer than any test, unless it hears that its server is gone. */
const busy = 'SELECT pg_sleep(600)';

test('up right after a SIGKILL of PostgreSQL waits for the backends that are still at work', async () => {
  const { postgres } = await bringUpParts({ home });
  const work = Promise.allSettled([withDatabase(postgres, (database) => database.query(busy))]);
  const isBusy = `SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query = '${busy}'`;
  const backend = await eventually(() =>
    withDatabase(postgres, async (database) => (await database.query<{ pid: number }>(isBusy))[0]),
  );
  // As one that never waits for anything notices nothing, and takes no processor for it.
  process.kill(backend.pid, 'SIGSTOP');
  const { pid } = readState(homeAt(home)).processes['postgres']!;
  process.kill(pid, 'SIGKILL');

  const lines: string[] = [];
  const again = await bringUpParts({
    home,
    report: (line) => {
      lines.push(line);
      // Now it hears it, and ends.
      if (line.includes('still at work')) process.kill(backend.pid, 'SIGCONT');
    },
  });
  assert.equal(again.postgres, postgres);
  assert.ok(
    lines.some((line) => line.includes('still at work')),
    lines.join('\n'),
  );
  await withDatabase(postgres, (database) => database.ping());
  await work;
});

test('a lock file that names a process of somebody else does not keep PostgreSQL from starting', async (t) => {
  await bringUpParts({ home });
  const lockFile = join(home, 'data', 'postgres', 'cluster', 'postmaster.pid');
  const left = readFileSync(lockFile, 'utf8');
  await killProcess({ home, name: 'postgres' });
  // As after a reboot, or while the killed one is not collected: its number is that of a process.
  // PostgreSQL cares about those of its own user only.
  const { uid, gid } = statSync(dirname(lockFile));
  const somebody = spawn('sleep', ['300'], { uid, gid, stdio: 'ignore' });
  t.after(() => somebody.kill());
  writeFileSync(lockFile, left.replace(/^\d+/, String(somebody.pid)));
  const { postgres } = await bringUpParts({ home });
  await withDatabase(postgres, (database) => database.ping());
});
