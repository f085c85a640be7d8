import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { forgetData, keepDataInMemory } from './data-in-memory.ts';
import { createHome, homeAt } from './home.ts';

/** A folder for a home; after the test neither it nor its data is there. */
function aFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-memory-'));
  t.after(() => {
    forgetData(homeAt(folder).data);
    rmSync(folder, { recursive: true });
  });
  return folder;
}

/** Where a new home has its data; the test is skipped where that is not in memory. */
function inMemory(t: TestContext, folder: string): string | undefined {
  const { data } = homeAt(folder);
  keepDataInMemory(data);
  if (existsSync(data)) return readlinkSync(data);
  t.skip('this machine has no room in memory');
  return undefined;
}

test('a home whose data in memory went with a restart of the machine begins anew there', (t) => {
  const folder = aFolder(t);
  // A home of which nothing is left but its mark.
  rmdirSync(createHome(folder).data);
  const target = inMemory(t, folder);
  if (target === undefined) return;
  writeFileSync(join(createHome(folder).data, 'file'), '');
  rmSync(target, { recursive: true });
  assert.deepEqual(readdirSync(createHome(folder).data), []);
  forgetData(homeAt(folder).data);
  assert.equal(existsSync(target), false);
});

test('data that a home has stays where it is', (t) => {
  const folder = aFolder(t);
  const { data } = homeAt(folder);
  mkdirSync(data);
  writeFileSync(join(data, 'file'), 'what it has');
  keepDataInMemory(data);
  assert.equal(lstatSync(data).isDirectory(), true);
  assert.equal(readFileSync(join(data, 'file'), 'utf8'), 'what it has');
});

test('several that ask for one home at once have one folder', async (t) => {
  const folder = aFolder(t);
  const memory = inMemory(t, aFolder(t));
  if (memory === undefined) return;
  const { data } = homeAt(folder);
  const module = join(import.meta.dirname, 'data-in-memory.ts');
  const program = `
    import { keepDataInMemory, makeDataFolder } from ${JSON.stringify(module)};
    import { realpathSync } from 'node:fs';
    const data = ${JSON.stringify(data)};
    keepDataInMemory(data);
    makeDataFolder(data);
    process.stdout.write(realpathSync(data));`;
  const words = ['--input-type=module', '-e', program];
  const asking = Array.from({ length: 4 }, () => promisify(execFile)(process.execPath, words));
  const places = (await Promise.all(asking)).map(({ stdout }) => stdout);
  assert.deepEqual(new Set(places), new Set([readlinkSync(data)]));
});
