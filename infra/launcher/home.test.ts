import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { generateSealingKey } from '@triplock/runtime';
import { freePort, testEndpoints } from '@triplock/testing';
import { bringUpParts } from './bring-up.ts';
import type { PartEndpoints } from './endpoints.ts';
import { createHome, homeAt, homeWithout, separateHomes, sealingKeysIn } from './home.ts';
import { withLock } from './lock.ts';
import { kafka } from './parts/kafka.ts';
import { postgres } from './parts/postgres.ts';
import { redis } from './parts/redis.ts';
import { probeOwn } from './parts/start-parts.ts';
import { startTimeOf } from './processes/identity.ts';
import { lastLines } from './processes/logs.ts';
import { findStranger, startProcess, waitUntilReady } from './processes/start.ts';
import { withDatabase } from './provision/database.ts';
import { openReservations, reservationsFolder } from './ports.ts';
import { openSession, readState, writeState } from './session.ts';
import { takeDown } from './take-down.ts';
import {
  type Checkout,
  givenBrokers,
  processesOf,
  runScript,
  testCheckout,
  testHome,
} from './test/home.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

/** Takes the ports that a first clone would have; one that is taken already serves as well. */
async function takeUsualPorts(t: TestContext): Promise<number[]> {
  const usual = [...redis.ports, ...postgres.ports].map((port) => port.usual);
  for (const port of usual) {
    const squatter = createServer();
    await new Promise<void>((resolve) => {
      squatter.once('error', () => resolve());
      squatter.listen(port, '127.0.0.1', resolve);
    });
    t.after(() => squatter.close());
  }
  return usual;
}

type Started = { printed: string; endpoints: PartEndpoints };

async function up(checkout: Checkout): Promise<Started> {
  const { code, stdout, stderr } = await checkout.run('up', '--parts-only', '--json');
  assert.equal(code, 0, stderr);
  return { printed: stderr, endpoints: JSON.parse(stdout) as PartEndpoints };
}

const portsOf = ({ home }: Checkout) => Object.values(readState(homeAt(home)).ports);

test('two clones that start at once where the usual ports are taken each find others, say so, and leave each other alone', async (t) => {
  const usual = await takeUsualPorts(t);
  const [one, other] = [testCheckout(t), testCheckout(t)];
  const [first, second] = await Promise.all([up(one), up(other)]);
  for (const { printed } of [first, second]) {
    for (const port of usual)
      assert.match(printed, new RegExp(`port ${port} is taken, using \\d+`));
  }
  assert.equal(new Set([...portsOf(one), ...portsOf(other)]).size, 2 * portsOf(one).length);
  await seeOnlyOwnTables(first.endpoints, second.endpoints);

  const running = processesOf(one.home);
  assert.equal((await other.run('down', '--volumes')).code, 0);
  assert.deepEqual(processesOf(other.home), []);
  assert.deepEqual(processesOf(one.home), running);
  await withDatabase(first.endpoints.postgres, (database) =>
    database.query('SELECT FROM of_the_first'),
  );
  assert.equal((await one.run('down', '--volumes')).code, 0);
});

async function seeOnlyOwnTables(first: PartEndpoints, second: PartEndpoints): Promise<void> {
  await withDatabase(first.postgres, (database) =>
    database.query('CREATE TABLE of_the_first (id int)'),
  );
  const seen = await withDatabase(second.postgres, (database) =>
    database.query(`SELECT FROM pg_tables WHERE tablename = 'of_the_first'`),
  );
  assert.deepEqual(seen, []);
}

test('a port that a home reserved is no other’s while its launcher is at work or a process of it lives', async (t) => {
  const [mine, other] = [createHome(testHome(t)), createHome(testHome(t))];
  const port = await freePort();
  assert.equal(openReservations(mine).reserve(port), true);
  assert.equal(openReservations(other).reserve(port), false);
  // As the next `up` of the home does.
  const reservations = openReservations(mine);
  assert.equal(reservations.reserve(port), true);

  const sleeper = spawn('sleep', ['300'], { stdio: 'ignore' });
  t.after(() => sleeper.kill('SIGKILL'));
  const startedAt = startTimeOf(sleeper.pid!)!;
  const record = { name: 'redis', pid: sleeper.pid!, startedAt, ports: {}, settings: '' };
  writeState(mine, { ...readState(mine), processes: { redis: record } });
  reservations.release();
  assert.equal(openReservations(other).reserve(port), false);

  const ended = once(sleeper, 'exit');
  sleeper.kill('SIGKILL');
  await ended;
  assert.equal(openReservations(other).reserve(port), true);
  assert.equal(openReservations(mine).reserve(port), false);
});

test('of many launchers that want one port at once one gets it, also after its owner was killed', async (t) => {
  const homes = Array.from({ length: 3 }, () => testHome(t));
  const port = await freePort();
  const script = `
    const [{ openReservations }, { createHome }] = await Promise.all([
      import(${JSON.stringify(join(import.meta.dirname, 'ports.ts'))}),
      import(${JSON.stringify(join(import.meta.dirname, 'home.ts'))}),
    ]);
    process.stdout.write(openReservations(createHome(process.argv[1])).reserve(${port}) ? 'mine' : 'not');
    setInterval(() => undefined, 1_000);`;
  const launch = async (home: string) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, home]);
    t.after(() => child.kill('SIGKILL'));
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    return { child, got: String(said) === 'mine' };
  };
  for (const round of ['nobody had it', 'its owner was killed']) {
    const launchers = await Promise.all(homes.map(launch));
    assert.equal(launchers.filter(({ got }) => got).length, 1, round);
    const ends = launchers.map(({ child }) => once(child, 'exit'));
    for (const { child } of launchers) child.kill('SIGKILL');
    await Promise.all(ends);
  }
});

test('a lock is one launcher’s at a time, however many find that its owner was killed', async (t) => {
  const home = testHome(t);
  const script = `
    const [{ take, rewrite, thisProcess }, { isSameProcess }, { rmSync, writeFileSync }] =
      await Promise.all([
        import(${JSON.stringify(join(import.meta.dirname, 'lock.ts'))}),
        import(${JSON.stringify(join(import.meta.dirname, 'processes/identity.ts'))}),
        import('node:fs'),
      ]);
    const [lock, inside] = [process.argv[1] + '/lock', process.argv[1] + '/inside'];
    for (let times = 0; times < 150;) {
      const taken = take(lock, thisProcess(), isSameProcess);
      if (taken.outcome === 'taken') continue;
      writeFileSync(inside, '', { flag: 'wx' });
      // As long as it takes others to judge the owner before.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      rmSync(inside);
      // As a killed one leaves it.
      rewrite(taken.name, { pid: process.pid, startedAt: 'long ago' });
      times += 1;
    }`;
  mkdirSync(home, { recursive: true });
  const launchers = Array.from({ length: 4 }, async () => {
    const args = ['--input-type=module', '-e', script, home];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    const [code] = (await once(child, 'exit')) as [number];
    return code;
  });
  assert.deepEqual(await Promise.all(launchers), [0, 0, 0, 0]);
});

test('whoever answers in the place of a process that could not bind its port is not taken for it', async (t) => {
  const home = createHome(testHome(t));
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  const controller = new AbortController();
  const report = () => undefined;
  const session = openSession(home, { report, signal: controller.signal });
  const command = { file: 'sleep', args: ['300'], cwd: home.folder, settings: {} };
  const running = await startProcess(session, { name: 'redis', ports: { port }, command });
  assert.match(findStranger(running.record, [port]) ?? '', /what answers on port \d+ is not this/);
  assert.equal(findStranger({ ...running.record, pid: process.pid }, [port]), undefined);

  let probes = 0;
  const probe = async () => {
    probes += 1;
    if (probes === 3) process.kill(running.record.pid, 'SIGKILL');
  };
  const waiting = waitUntilReady(running, { probe, ports: [port], signal: controller.signal });
  await assert.rejects(waiting, /redis .*ended.* before it was ready/);
  assert.ok(probes >= 3, 'the answer of another server counted');
});

test('Redis, Kafka and PostgreSQL of another home are not taken for one’s own', async (t) => {
  const { redis: store, kafka: brokers, postgres: database } = await testEndpoints();
  const home = createHome(testHome(t));
  mkdirSync(join(home.data, 'kafka'));
  writeFileSync(join(home.data, 'kafka', 'formatted'), 'a-cluster-of-our-own\n');
  const own = { home, pid: process.pid };
  await assert.rejects(probeOwn(redis, store, own), /process \d+ answers instead of/);
  await assert.rejects(probeOwn(kafka, brokers, own), /answers instead of a-cluster-of-our-own/);
  await assert.rejects(probeOwn(postgres, database, own), /the server of .* answers/);
});

/** What a file of reservations says; nothing where it was another home's and is gone by now. */
function reservationOf(name: string): string {
  try {
    return readFileSync(join(reservationsFolder, name), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return '';
  }
}

test('down --volumes leaves nothing of a home anywhere, and says what it keeps and where', async (t) => {
  const home = testHome(t);
  const { kafka, pubsub } = await bringUpParts({ home });
  assert.ok(kafka !== '' && pubsub !== '');
  const postgres = realpathSync(join(home, 'data', 'postgres'));
  const { ports } = readState(homeAt(home));
  const reserved = () =>
    readdirSync(reservationsFolder)
      .filter((name) => /^\d+\.\d+$/.test(name))
      .filter((name) => reservationOf(name).includes(home));
  assert.ok(reserved().length >= Object.keys(ports).length / 2);

  mkdirSync(join(home, 'load'));
  const first = await runScript(['down', '--volumes', '--home', home]);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^kept: \/.*: fetched programs, for every clone of this user$/m);
  assert.match(first.stdout, /^kept: \/.*\/load: reports of load$/m);
  // By its mark `up` knows it again.
  assert.deepEqual(readdirSync(home), ['load', 'triplock-home']);
  assert.deepEqual([existsSync(postgres), reserved(), processesOf(home)], [false, [], []]);

  rmdirSync(join(home, 'load'));
  await bringUpParts({ home });
  await runScript(['down', '--volumes', '--home', home]);
  assert.equal(existsSync(home), false);
});

test('a lock that leaves nothing is held by one at a time all the same', async (t) => {
  const folder = join(testHome(t), 'locks');
  mkdirSync(folder);
  const file = join(folder, 'lock');
  const { signal } = new AbortController();
  let held = 0;
  const once = () =>
    withLock(file, { report: () => undefined, signal, leavesNothing: () => true }, async () => {
      held += 1;
      assert.equal(held, 1);
      await stat(dirname(file));
      held -= 1;
    });
  await Promise.all(Array.from({ length: 8 }, once));
  assert.deepEqual(readdirSync(folder), []);
});

test('down ends what lived beside a home too, and leaves other homes below it alone', async (t) => {
  const home = testHome(t);
  const separate = homeWithout(home, 'claims');
  const other = join(home, 'e2e');
  for (const folder of [separate, other]) mkdirSync(folder, { recursive: true });
  const marks = { TRIPLOCK_HOME: realpathSync(separate), TRIPLOCK_LAUNCHER: '1 long ago' };
  const env = { ...process.env, ...marks };
  const stray = spawn('sleep', ['300'], { env, stdio: 'ignore' });
  const ended = once(stray, 'exit');
  t.after(() => stray.kill());
  assert.deepEqual(separateHomes(home), [separate]);

  await takeDown({ home });
  await ended;
  assert.deepEqual(processesOf(separate), []);
  assert.deepEqual([existsSync(separate), existsSync(other)], [false, true]);
});

/** A folder outside of this clone, with what somebody keeps in it under names that a home has. */
function somebodysFolder(t: TestContext): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'somebodys-')));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const name of ['data', 'logs', 'tmp', 'without-claims']) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'theirs'), 'theirs');
  }
  for (const name of ['credentials.json', 'state.json']) writeFileSync(join(folder, name), '{}');
  return folder;
}

const all = (folder: string) => readdirSync(folder, { recursive: true }).sort();

test('up makes nothing in a folder that holds other things, and down removes nothing of it', async (t) => {
  const folder = somebodysFolder(t);
  const before = all(folder);
  const up = await runScript(['up', '--parts-only', '--home', folder]);
  assert.equal(up.code, 2);
  assert.match(up.stderr, /holds other things and no home of Triplock: give --home a folder/);
  assert.deepEqual(all(folder), before);
  // As a home that somebody has led here, with a mark that is not of this folder.
  const marked = createHome(testHome(t));
  symlinkSync(join(marked.folder, 'triplock-home'), join(folder, 'triplock-home'));
  for (const volumes of [[], ['--volumes']]) {
    const down = await runScript(['down', ...volumes, '--home', folder]);
    assert.equal(down.code, 2);
    assert.match(down.stderr, /is no home of Triplock: .* Nothing in it was touched/);
  }
  assert.deepEqual(all(folder), [...before, 'triplock-home'].sort());
});

test('a home is marked when it is made, and down removes what it made there and nothing else', async (t) => {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), 'homes-')));
  t.after(() => rmSync(parent, { recursive: true }));
  const foreign = somebodysFolder(t);
  const folder = join(parent, 'home');
  const home = createHome(folder);
  const unmarked = homeWithout(folder, 'something of somebody');
  mkdirSync(unmarked);
  rmSync(home.data, { recursive: true });
  symlinkSync(join(foreign, 'data'), home.data);
  const before = all(foreign);
  await takeDown({ home: folder, data: 'forget' });
  assert.deepEqual(all(foreign), before);
  assert.deepEqual(all(folder), ['triplock-home', basename(unmarked)].sort());
  rmdirSync(unmarked);
  // It is a home still, by its mark.
  createHome(folder);
  await takeDown({ home: folder, data: 'forget' });
  assert.equal(existsSync(folder), false);
});

test('the keys of webhook secrets are made once for a home, for its owner alone, and change by people only', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-keys-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'webhook-keys');
  const made = sealingKeysIn(file);
  assert.match(made, /^[\w-]+:[A-Za-z0-9+/]{43}=\n$/);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(sealingKeysIn(file), made);
  writeFileSync(file, `${generateSealingKey()}\n${made}`);
  assert.ok(sealingKeysIn(file).endsWith(made));
});

test('as many last lines as are wanted, all of them whole, however long they are', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-log-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'a.log');
  const written = Array.from({ length: 3_000 }, (_, n) => `${n} ${'é'.repeat(100)}`);
  writeFileSync(file, `${written.join('\n')}\n`);
  for (const lines of [1, 20, 2_999, 3_000, 9_999]) {
    assert.deepEqual(lastLines(file, { lines }), written.slice(-lines));
  }
  const from = Buffer.byteLength(`${written.slice(0, 2_990).join('\n')}\n`);
  assert.deepEqual(lastLines(file, { lines: 20, from }), written.slice(2_990));
  assert.deepEqual(lastLines(join(folder, 'none.log'), { lines: 1 }), []);
});
