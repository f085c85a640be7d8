import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { findFloating, overrideOf, thirdPartyImages } from './image-digests.ts';
import { root } from './workspace-files.ts';

test('every image of others is named by an exact version', () => {
  const images = thirdPartyImages();
  assert.ok(images.length >= 8, JSON.stringify(images));
  assert.deepEqual(findFloating(images), []);
});

test('a tag that another image may be under tomorrow is found', () => {
  const floating = (name: string, version: string) =>
    findFloating([{ source: 'image', name, version }]).length === 1;
  for (const version of ['', 'latest', '8', '8-alpine', '24-slim', '8.2-alpine', 'emulators']) {
    assert.ok(floating('redis', version), version);
  }
  for (const version of ['8.2.3', '8.2.3-alpine', 'v3.5.0', '528.0.0-emulators']) {
    assert.ok(!floating('redis', version), version);
  }
  assert.ok(floating('postgres', '18-alpine'));
  assert.ok(!floating('postgres', '18.4-alpine'));
});

test('containers run on the Node that package.json pins', () => {
  const { devDependencies } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
    devDependencies: { node: string };
  };
  const node = thirdPartyImages().filter(({ name }) => name === 'node');
  assert.deepEqual(
    node.map(({ version }) => version),
    [`${devDependencies.node}-slim`],
  );
});

const digest = (digit: string) => `sha256:${digit.repeat(64)}`;

test('the override names the bytes of every image that compose takes or builds on', () => {
  const compose = readFileSync(`${root}docker-compose.yml`, 'utf8');
  const dockerfile = readFileSync(`${root}infra/images/Dockerfile`, 'utf8');
  const images = thirdPartyImages().map(({ name, version }) => `${name}:${version}`);
  const override = overrideOf(
    { compose, dockerfile },
    new Map(images.map((each) => [each, digest('a')])),
  );
  assert.doesNotMatch(override, /undefined/);
  const taken = [...compose.matchAll(/^ {4}image: (\S+)$/gm)].map(([, image]) => image!);
  const others = taken.filter((image) => !image.startsWith('triplock/'));
  for (const image of others) {
    const named = image.replace(/\}$/, '');
    assert.ok(override.includes(`    image: ${named}@${digest('a')}`), image);
  }
  const built = compose.match(/^ {4}build:/gm)!;
  assert.equal(override.match(/docker-image:\/\/node:\S+@sha256:a{64}$/gm)!.length, built.length);
});

/** A `docker` whose registry tells of each image what the shell's words say of it. */
function aRegistry(folder: string, answer: string) {
  const docker = join(folder, 'docker');
  return (verb: string) => {
    writeFileSync(docker, `#!/bin/sh\n${answer}\n`);
    chmodSync(docker, 0o755);
    const env = { ...process.env, PATH: `${folder}${delimiter}${process.env['PATH']}` };
    const main = join(root, 'infra/lint/image-digests.ts');
    const words = [main, verb, '--file', join(folder, 'digests.yml')];
    const options = { env, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync(process.execPath, words, options);
    return { status, said: stdout + stderr };
  };
}

test('digests are written where registries answer, and a tag that moves is named', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-digests-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const away = aRegistry(folder, 'echo "no such host" >&2; exit 1');
  const nothing = away('write');
  assert.equal(nothing.status, 2);
  assert.match(nothing.said, /redis:\S+: its registry did not answer: no such host/);
  assert.ok(!existsSync(join(folder, 'digests.yml')));

  const answering = aRegistry(folder, `echo ${digest('a')}`);
  assert.equal(answering('write').status, 0);
  assert.equal(answering('compare').status, 0);
  const [one, other] = [digest('a'), digest('b')];
  const moved = aRegistry(
    folder,
    `case "$*" in *redis:*) echo ${other};; *) echo ${one};; esac`,
  )('compare');
  assert.equal(moved.status, 1);
  assert.match(
    moved.said,
    /^redis:\S+ was sha256:a{64} and is sha256:b{64}\n\d+ images .* 1 moved/,
  );
  assert.equal(away('compare').status, 2);
});
