import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { eventually, freePort } from '@triplock/testing';
import { cloneFolder } from '../home.ts';
import { processesOf, testHome } from '../test/home.ts';
import { findJava } from '../programs/programs.ts';
import { pubsub } from './pubsub.ts';

/** What a launcher said while it made the archive, and what it would start the emulator with. */
type Made = { lines: string[]; file: string; args: string[] };

/** Launchers whose parts cache is one test's own. */
function launchers(t: TestContext) {
  const home = testHome(t);
  const cache = join(home, 'cache', 'triplock');
  const program = `
    const [{ makeClassArchive }, { pubsub }, { createHome }, { openSession }] = await Promise.all(
      [${['parts/class-archive', 'parts/pubsub', 'home', 'session'].map((name) => `import('${cloneFolder}/infra/launcher/${name}.ts')`).join()}]);
    const [, folder, port, make] = process.argv;
    const lines = [];
    const session = openSession(createHome(folder), {
      report: (line) => lines.push(line), signal: new AbortController().signal });
    const [fetched, ports] = [await pubsub.fetch(session), { port: Number(port) }];
    if (make === 'make') await makeClassArchive(session, pubsub, { fetched, ports });
    const { file, args } = await fetched.command({ session, folder: folder + '/data/pubsub', ports });
    console.log(JSON.stringify({ lines, file, args }));`;
  return {
    cache,
    home: (name: string) => join(home, name),
    async launch(name: string, what: 'make' | 'look', more = {}): Promise<Made> {
      const words = ['--input-type=module', '-e', program, join(home, name)];
      const env = { ...process.env, XDG_CACHE_HOME: join(home, 'cache'), ...more };
      const port = String(await freePort());
      const run = promisify(execFile)(process.execPath, [...words, port, what], { env });
      return JSON.parse((await run).stdout) as Made;
    },
  };
}

/** Starts the emulator as the launcher would; counts the classes that came from its archive. */
async function classesShared(folder: string, { file, args }: Made): Promise<number> {
  const log = join(folder, 'loaded');
  const server = spawn(file, [`-Xlog:class+load:file=${log}`, ...args], { stdio: 'ignore' });
  const ended = once(server, 'exit');
  try {
    const [port] = args.flatMap((word) => /^--port=(\d+)$/.exec(word)?.[1] ?? []);
    await eventually(() => pubsub.probe(`127.0.0.1:${port}`).then(() => true));
    return readFileSync(log, 'utf8').split('shared objects file (top)').length - 1;
  } finally {
    server.kill('SIGKILL');
    await ended;
  }
}

test('classes are archived once, however many launchers want them, and a server takes them from there, unless the archive is not as it was made', async (t) => {
  const { cache, home, launch } = launchers(t);
  const both = await Promise.all(['one', 'two'].map((name) => launch(name, 'make')));
  const said = both.flatMap(({ lines }) => lines).filter((line) => /keeping its class/.test(line));
  assert.equal(said.length, 1, JSON.stringify(both));
  for (const name of ['one', 'two']) assert.deepEqual(processesOf(home(name)), []);
  const [archive, ...others] = readdirSync(cache).filter((name) => !name.startsWith('lock.'));
  assert.deepEqual(others, []);
  assert.ok((await classesShared(home('one'), both[0]!)) > 1_000);

  // As by a machine that lost power; Java itself would die by it.
  const file = join(cache, archive!, 'classes.jsa');
  chmodSync(file, 0o600);
  truncateSync(file, 1_000_000);
  const { args } = await launch('one', 'look');
  assert.ok(!args.join().includes('SharedArchiveFile'), args.join(' '));
});

test('a server that cannot have its classes archived is started without, and it is said why', async (t) => {
  const { cache, home, launch } = launchers(t);
  const java = await findJava();
  assert.ok(java.outcome === 'found');
  const JAVA_HOME = home('java');
  mkdirSync(join(JAVA_HOME, 'bin'), { recursive: true });
  // As a Java does that has no room for what it is to write.
  writeFileSync(
    join(JAVA_HOME, 'bin', 'java'),
    `#!/bin/sh
case "$*" in *ArchiveClassesAtExit*) echo 'Unable to write to shared archive file.'; exit 1; esac
exec '${java.file}' "$@"
`,
    { mode: 0o755 },
  );
  const { lines, args } = await launch('one', 'make', { JAVA_HOME });
  assert.match(lines.at(-1)!, /^pubsub: starts without an archive .* Unable to write to shared/s);
  assert.ok(!args.join().includes('SharedArchiveFile'));
  assert.deepEqual(
    readdirSync(cache).filter((name) => !name.startsWith('lock.')),
    [],
  );
});
