import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ledgerStores, partsForStores } from './choices.ts';
import { cloneFolder } from './home.ts';
import { lookFirst, type Machine } from './look-first.mjs';
import { declaredParts } from './parts/store-parts.ts';
import { type Ran, testHome } from './test/home.ts';

/** A machine with nothing but the stand-ins that are asked for, each with what it prints. */
function aMachine(t: TestContext, programs: Readonly<Record<string, string>> = {}) {
  const folder = testHome(t);
  for (const [name, prints] of Object.entries(programs)) {
    const file = join(folder, 'bin', name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, `#!/bin/sh\necho called >> '${folder}/${name}-was-called'\n${prints}\n`);
    chmodSync(file, 0o755);
  }
  const environment: Record<string, string> = {
    PATH: join(folder, 'bin'),
    XDG_CACHE_HOME: join(folder, 'cache'),
  };
  const machine: Machine = {
    environment,
    platform: 'linux',
    arch: 'x64',
    places: { java: [], gcloud: [] },
  };
  const ask = (name: string, ...args: string[]) => lookFirst({ name, args, root: folder }, machine);
  return { folder, environment, machine, ask };
}

const java = (version: string) => `echo 'openjdk version "${version}" 2026-01-20' >&2`;
const given = {
  KAFKA_BROKERS: '127.0.0.1:9092',
  PUBSUB_EMULATOR_HOST: '127.0.0.1:8085',
} as const;

test('all that a machine lacks is named at once, with how to get each on Linux and on macOS', async (t) => {
  const { machine, ask } = aMachine(t);
  const onLinux = (await ask('up')) ?? '';
  assert.match(onLinux, /^npm run up .*nothing was fetched or installed/);
  assert.match(onLinux, /Java 17 or newer, for Kafka and the Pub\/Sub emulator: there is no java/);
  assert.match(onLinux, /Linux: .*apt install openjdk-17/);
  assert.match(onLinux, /Maven, for Kafka: .*\n.*apt install maven/);
  assert.match(
    onLinux,
    /gcloud SDK with its Pub\/Sub emulator.*\n.*components install pubsub-emul/,
  );
  assert.match(onLinux, /KAFKA_BROKERS=\S+ PUBSUB_EMULATOR_HOST=\S+/);
  assert.match(onLinux, /start a Docker engine/);
  assert.doesNotMatch(onLinux, /macOS|PostgreSQL|Spanner/);

  machine.platform = 'darwin';
  const onMac = (await ask('demo')) ?? '';
  for (const way of ['openjdk@17', 'maven', '--cask google-cloud-sdk']) {
    assert.match(onMac, new RegExp(`macOS: brew install ${way}`));
  }
  machine.arch = 'ppc64';
  assert.match((await ask('demo')) ?? '', /PostgreSQL 15 or newer.*\n.*brew install postgresql/);
});

test('every command that starts parts looks first, and others do not', async (t) => {
  const { ask } = aMachine(t);
  const starting = [
    ['up', '--parts-only'],
    ['demo', '--once'],
    ['scenario', 'worker-killed'],
    ['scenario', '--all'],
    ['scenario', '--without', 'claims'],
    ['test'],
    ['test', '--touched'],
    ['bench'],
    ['compare'],
    ['journey'],
    ['prove', 'faults'],
  ] as const;
  for (const [name, ...args] of starting) {
    assert.match((await ask(name, ...args)) ?? '', /Java 17/, `${name} ${args.join(' ')}`);
  }
  const others = [
    ['up', '--help'],
    ['scenario', '--list'],
    ['prove'],
    ['prove', 'check', 'a-history'],
    ['load', '--list'],
    ['down'],
    ['status'],
    ['audit'],
  ] as const;
  for (const [name, ...args] of others) {
    assert.equal(await ask(name, ...args), undefined, `${name} ${args.join(' ')}`);
  }
});

test('nobody is asked for what another server, a running part or a container stands for', async (t) => {
  const { folder, environment, ask } = aMachine(t, { docker: 'echo 8000000000' });
  assert.equal(await ask('up'), undefined, 'an engine answers');
  assert.match((await ask('up', '--parts', 'native')) ?? '', /Java 17/);
  assert.match((await ask('up', '--parts-only')) ?? '', /Java 17/);
  environment['PATH'] = '/nowhere';
  assert.match((await ask('up')) ?? '', /Java 17/);
  assert.equal(await ask('up', '--parts', 'docker'), undefined);
  assert.equal(await ask('up', '--parts=docker'), undefined);

  Object.assign(environment, given);
  assert.equal(await ask('up'), undefined);
  for (const { name, title, program } of declaredParts) {
    const needing = ledgerStores.filter((ledger) =>
      partsForStores({ ledger }).some((each) => each === name),
    );
    const isLookedFor = program.from === 'gcloud SDK';
    for (const ledger of needing) {
      assert.equal(
        (await ask('up', '--ledger', ledger))?.includes(title),
        isLookedFor || undefined,
      );
    }
  }
  for (const name of Object.keys(given)) delete environment[name];

  const home = join(folder, 'instance');
  mkdirSync(home);
  const running = { pid: process.pid };
  const state = (value: object) => writeFileSync(join(home, 'state.json'), JSON.stringify(value));
  state({ processes: { kafka: running, pubsub: running } });
  assert.equal(await ask('up', '--home', home), undefined);
  assert.match((await ask('up', '--home', join(folder, 'another'))) ?? '', /Java 17/);
  state({ processes: {}, parts: 'docker' });
  assert.equal(await ask('up', '--home', home), undefined);
});

test('a Java that is too old is named with its version, and one that will do is taken', async (t) => {
  const old = aMachine(t, { java: java('11.0.2'), mvn: '' });
  const lacking = (await old.ask('up')) ?? '';
  assert.match(lacking, /Java 17 or newer, .*: .*\/java is Java 11$/m);
  assert.doesNotMatch(lacking, /Maven/);

  const whole = aMachine(t, { java: java('21.0.1'), mvn: '' });
  whole.environment['CLOUDSDK_ROOT'] = join(whole.folder, 'sdk');
  const emulator = join(whole.folder, 'sdk', 'platform', 'pubsub-emulator', 'lib');
  mkdirSync(emulator, { recursive: true });
  assert.match((await whole.ask('up')) ?? '', /Pub\/Sub emulator/);
  writeFileSync(join(emulator, 'cloud-pubsub-emulator-0.8.22-all.jar'), '');
  assert.equal(await whole.ask('up'), undefined);
});

test('load names the ways to k6 in one sentence where there is neither k6 nor Go', async (t) => {
  const { ask, environment } = aMachine(t, { go: '' });
  assert.equal(await ask('load', 'smoke'), undefined);
  environment['PATH'] = '/nowhere';
  const words = (await ask('load', 'smoke')) ?? '';
  assert.match(words, /^k6 is neither .*install k6 1\.0 or newer.*, or Go 1\.24 or newer/);
  assert.equal(words.split('\n').length, 1);
});

/** A clone that has seen nothing yet: the launcher's own files alone. */
function freshClone(t: TestContext, programs: Readonly<Record<string, string>> = {}) {
  const { folder, environment } = aMachine(t, programs);
  const parts = ['launcher', 'package.json', 'package-lock.json'];
  const root = join(folder, 'clone');
  for (const name of parts.slice(1)) cpSync(join(cloneFolder, name), join(root, name));
  cpSync(join(cloneFolder, 'infra', 'launcher'), join(root, 'infra', 'launcher'), {
    recursive: true,
  });
  const run = (flags: readonly string[], ...words: string[]): Promise<Ran> =>
    new Promise((resolve) => {
      const file = join(root, 'infra', 'launcher', 'triplock.mjs');
      const env = { ...environment, JAVA_HOME: '/nowhere' };
      execFile(process.execPath, [...flags, file, ...words], { env }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
    });
  return { folder, root, run };
}

test('what is missing is said before npm is called, and leaves nothing behind', async (t) => {
  const { folder, root, run } = freshClone(t, { npm: '' });
  const { code, stderr } = await run([], 'demo');
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^triplock: npm run demo needs .*\n.*Java 17.*\/nowhere\/bin\/java does not/,
  );
  assert.equal(existsSync(join(folder, 'npm-was-called')), false);
  assert.equal(existsSync(join(root, '.triplock')), false);
  await run([], 'status');
  assert.equal(existsSync(join(folder, 'npm-was-called')), true);
});

test('a Node that is too old says so, with all else that is missing', async (t) => {
  const { run } = freshClone(t);
  const old = `Object.defineProperty(process.versions, 'node', { value: '18.20.4' })`;
  const flags = ['--import', `data:text/javascript,${encodeURIComponent(old)}`];
  const { code, stderr } = await run(flags, 'demo');
  assert.equal(code, 1);
  assert.match(stderr, /^triplock: Node 18\.20\.4 is too old: install Node 24 or newer/);
  assert.match(stderr, /Java 17 or newer/);
});
