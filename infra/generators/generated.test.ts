import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { declarations, filesOfServices } from '@triplock/launcher';
import { format, resolveConfig } from 'prettier';
import { generatedFiles, staleFiles } from './generated.ts';

const root = resolve(import.meta.dirname, '../..');

test('what is generated is as `npm run generate` writes it', async () => {
  const stale = (await staleFiles()).map(({ path }) => path);
  const why = 'old or edited by hand: change what it is made from and run npm run generate';
  assert.deepEqual(stale, [], `${stale.join(', ')}: ${why}`);
});

test('what is generated stays as it is when it is formatted', async () => {
  const config = await resolveConfig(join(root, 'package.json'));
  for (const { path, text } of await generatedFiles()) {
    if (!path.endsWith('.yml')) continue;
    assert.equal(await format(text, { ...config, filepath: path }), text, path);
  }
});

test('a service more or less changes each file that names services, and nothing outside its marks', (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-generated-'));
  t.after(() => rmSync(clone, { recursive: true }));
  for (const { path } of filesOfServices()) cpSync(join(root, path), join(clone, path));
  const write = (declared: typeof declarations) => {
    const files = filesOfServices(clone, declared);
    for (const { path, text } of files) writeFileSync(join(clone, path), text);
    return files;
  };
  const [first] = declarations;
  const named = {
    name: 'console',
    role: 'triplock_console',
    schema: 'console',
    inbox: true,
  } as const;
  const events = { does: 'receive', subscription: 'console' } as const;
  for (const { path, text } of write([...declarations, { ...first!, ...named, events }]))
    assert.match(text, /\b(triplock_)?console\b/, path);
  for (const { path, text } of write(declarations))
    assert.equal(text, readFileSync(join(root, path), 'utf8'), path);
});

test('a file that lost its marks is refused by name', (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-generated-'));
  t.after(() => rmSync(clone, { recursive: true }));
  for (const { path } of filesOfServices()) cpSync(join(root, path), join(clone, path));
  writeFileSync(join(clone, 'docker-compose.yml'), 'services: {}\n');
  assert.throws(() => filesOfServices(clone), /docker-compose\.yml lacks the marks/);
});
