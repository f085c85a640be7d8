import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { freePort, openCommands, type Ran } from '@triplock/testing';
import { cloneFolder, createHome } from './home.ts';
import { nodeIn, provideNode } from './install-dependencies.mjs';
import { launcher, processesOf, runScript, testHome } from './test/home.ts';

/** As {@link runScript}, but for the launcher, and all in one process. */
const runCommand = openCommands(
  { after },
  { module: new URL('./test/command-line.ts', import.meta.url), name: 'runByWords' },
  process.env,
);

/** Fails unless a command does the same as the process that `npm run` starts. */
async function sameAsScript(args: readonly string[], ran: Ran) {
  assert.deepEqual(await runScript(args), ran);
}

test('every command explains itself, and what it lists fits 100 columns', async () => {
  const { stdout } = await runScript(['--help']);
  const names = [...stdout.matchAll(/^ {2}(\S+)/gm)].map(([, name]) => name!);
  assert.ok(names.includes('prove') && names.includes('scenario'));
  const helps = await Promise.all(names.map((name) => runCommand([name, '--help'])));
  for (const [n, { code, stdout: help, stderr }] of helps.entries()) {
    assert.equal(code, 0, stderr);
    assert.match(help, new RegExp(`^npm (run )?${names[n]}`));
  }
  const listing = names.filter((_, n) => /^ {2}--list\b/m.test(helps[n]!.stdout));
  assert.deepEqual(listing, ['scenario', 'load', 'prove']);
  const lists = await Promise.all(listing.map((name) => runCommand([name, '--list'])));
  for (const [n, { code, stdout: list, stderr }] of lists.entries()) {
    assert.equal(code, 0, stderr);
    assert.deepEqual(tooWide(list), [], listing[n]);
  }
  assert.deepEqual(tooWide(stdout), []);
  await sameAsScript(['trace', '--help'], helps[names.indexOf('trace')]!);
  await sameAsScript(['scenario', '--list'], lists[0]!);
});

const tooWide = (text: string) => text.split('\n').filter((line) => line.length > 100);

test('a wrong argument is refused in one line that names it', async () => {
  const wrong: [string[], RegExp][] = [
    [['up', 'everything'], /'everything'/],
    [['up', '--replica', '2'], /'--replica'/],
    [['up', '--replicas', '0'], /--replicas .*from 1 to 10, not '0'/],
    [['up', '--ledger', 'paper'], /--ledger takes one of .*not 'paper'/],
    [['up', '--claims', 'paper'], /--claims takes one of .*not 'paper'/],
    [['down', '--volume'], /'--volume'/],
    [['status', 'gateway'], /'gateway'/],
    [['partners'], /an act is missing: one of list, log, add/],
    [['partners', 'add', 'Acme'], /not 'Acme'/],
    [['partners', 'revoke-key', 'acme'], /KEYPREFIX is missing: .* revoke-key ID KEYPREFIX/],
    [['logs', '-n', 'many'], /--lines .*not 'many'/],
    [['logs', '-n', '-1'], /-n takes a value that does not begin with a dash/],
  ];
  const ran = await Promise.all(wrong.map(([args]) => runCommand(args)));
  const unknown = await runScript(['start']);
  for (const [n, { code, stderr, stdout }] of [unknown, ...ran].entries()) {
    assert.equal(code, 2, stderr);
    assert.match(stderr, n === 0 ? /"start"/ : wrong[n - 1]![1]);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
    assert.equal(stdout, '');
  }
  // A command of the launcher, and one of the operators.
  for (const n of [2, 8]) await sameAsScript(wrong[n]![0], ran[n]!);
});

test('a reader of logs that goes away is no failure, and ends --follow', async (t) => {
  const home = testHome(t);
  const { logs } = createHome(home);
  writeFileSync(join(logs, 'redis.log'), `${'a line\n'.repeat(100_000)}`);
  const reader = `"${process.execPath}" "${launcher}" logs -n 100000 --follow --home "${home}" | head -n 1`;
  const { stdout, stderr } = await promisify(execFile)('sh', ['-c', reader]);
  assert.equal(stdout, 'a line\n');
  assert.equal(stderr, '');
});

test('the machine’s own Node is taken where it is new enough and runs types, and found again after an update', async (t) => {
  const root = testHome(t);
  mkdirSync(root, { recursive: true });
  const { execPath } = process;
  const own = (node: string, typescript: unknown = 'strip') =>
    provideNode(root, { versions: { node }, features: { typescript }, execPath });
  assert.match(own('23.11.1') ?? '', /^Node 23.11.1 cannot run this, .*npm rebuild node/);
  assert.match(own('24.0.0', false) ?? '', /npm rebuild node/);
  // The one that npm ci fetched before, and has removed.
  const fetched = { versions: { node: '24.0.0' }, features: { typescript: 'strip' } };
  const gone = provideNode(root, { ...fetched, execPath: nodeIn(root) });
  assert.match(gone ?? '', /npm rebuild node/);
  assert.equal(own('24.0.0'), undefined);
  assert.equal(realpathSync(nodeIn(root)), realpathSync(execPath));

  rmSync(nodeIn(root));
  symlinkSync('/nowhere/node', nodeIn(root));
  assert.equal(own('26.10.0'), undefined);
  assert.equal(realpathSync(nodeIn(root)), realpathSync(execPath));
  // What is there serves an older one too, as in a shell that was given another.
  assert.equal(own('20.19.0'), undefined);
});

test('a part that cannot be had is named with the ways to get it, and nothing starts', async (t) => {
  const home = testHome(t);
  const start = `
    const { bringUpParts } = await import('${cloneFolder}/infra/launcher/bring-up.ts');
    await bringUpParts({ home: process.argv[1] });`;
  const env = { ...process.env, PATH: '/nowhere', JAVA_HOME: '/nowhere' };
  const words = ['--input-type=module', '-e', start, home];
  await assert.rejects(
    promisify(execFile)(process.execPath, words, { env }),
    ({ stderr }: { stderr: string }) => {
      assert.match(stderr, /Kafka: .*java/);
      assert.match(stderr, /install it here: Java 17 or newer \(.*\) and Maven \(/);
      assert.match(stderr, /KAFKA_BROKERS=/);
      assert.match(stderr, /Pub\/Sub emulator: .*java/);
      return true;
    },
  );
  assert.deepEqual(processesOf(home), []);
});

test('a given part that does not answer is named, without its password', async (t) => {
  const port = await freePort();
  const { code, stderr } = await runScript(['up', '--parts-only', '--home', testHome(t)], {
    REDIS_URL: `redis://someone:hidden@127.0.0.1:${port}`,
    KAFKA_BROKERS: `127.0.0.1:${port}`,
    DATABASE_URL: `postgres://someone:hidden@127.0.0.1:${port}/none`,
    PUBSUB_EMULATOR_HOST: `127.0.0.1:${port}`,
  });
  assert.equal(code, 1);
  assert.match(stderr, /127\.0\.0\.1:\d+.*, given by [A-Z_]+, does not answer/);
  assert.doesNotMatch(stderr, /hidden/);
});
