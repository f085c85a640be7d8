import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { findForbidden, isAllowed, type Licensed, type Place } from './allowed.ts';
import { findPassedOver } from './passed-over.ts';
import { imagesOf } from './images.ts';
import { licencesIn, wantedOfMaven } from './maven.ts';
import { npmLicences, type Locked } from './npm.ts';
import { licenceOfProgram, modulesOfGo, modulesRequired } from './programs.ts';
import { licenceOfWheel, unreadOfPip, wheelsOf } from './pypi.ts';

const file = (path: string, text: string) => ({ path, text: () => text });
const source = (text: string) => [file('infra/launcher/parts/planted.ts', text)];

test('what is known to be fetched and stands under nothing that was read is named', () => {
  const lines = findPassedOver([]).join('\n');
  for (const source of ['npm', 'Maven', 'PyPI', 'Go', 'image']) {
    assert.match(lines, new RegExp(`^${source}\\b`, 'm'));
  }
  const jar: Licensed = {
    source: 'Maven',
    name: 'org.slf4j:slf4j-api',
    version: '1.7.36',
    licence: 'MIT',
    place: 'beside ours',
  };
  assert.doesNotMatch(findPassedOver([jar]).join('\n'), /slf4j/);
  const misread = findPassedOver([{ ...jar, licence: 'Apache-2.0' }]);
  assert.match(misread.join('\n'), /^Maven org\.slf4j:slf4j-api 1\.7\.36 .*MIT/m);
});

test('an SPDX expression is allowed where one side of OR is, and both of AND are', () => {
  const all: [expression: string, place: Place, expected: boolean][] = [
    ['MIT', 'in ours', true],
    ['(GPL-2.0 OR MIT)', 'in ours', true],
    ['MIT AND GPL-2.0', 'in ours', false],
    ['MIT AND (SSPL-1.0 OR Apache-2.0)', 'in ours', true],
    ['MIT OR SSPL-1.0 AND BUSL-1.1', 'in ours', true],
    ['(MIT OR SSPL-1.0) AND BUSL-1.1', 'in ours', false],
    ['LicenseRef-RSALv2 OR SSPL-1.0 OR AGPL-3.0-only', 'beside ours', true],
    ['LicenseRef-RSALv2 OR SSPL-1.0 OR AGPL-3.0-only', 'in ours', false],
    ['AGPL-3.0-only', 'in ours', false],
    ['SSPL-1.0', 'beside ours', false],
    ['BUSL-1.1', 'beside ours', false],
    ['MIT WITH an-exception', 'in ours', false],
    ['MIT MIT', 'in ours', false],
    ['(MIT', 'in ours', false],
    ['MIT)', 'in ours', false],
    ['MIT OR', 'in ours', false],
    ['', 'in ours', false],
    ['toString', 'in ours', false],
    ['SEE LICENSE IN X', 'in ours', false],
  ];
  for (const [expression, place, expected] of all) {
    assert.equal(isAllowed(expression, place), expected, `${expression}, ${place}`);
  }
});

test('a package of npm under another licence, or none, is refused', () => {
  const entry = (license?: string): Record<string, Locked> => {
    const given = { version: '1.2.3', ...(license !== undefined && { license }) };
    return { 'node_modules/a/node_modules/@b/c': given };
  };
  const refused = (license?: string) => findForbidden(npmLicences(entry(license)));
  for (const license of ['GPL-3.0', 'AGPL-3.0-only', 'MIT AND GPL-2.0', 'SEE LICENSE IN X']) {
    assert.deepEqual(refused(license), [`npm: @b/c@1.2.3: ${license}, in ours`]);
  }
  assert.deepEqual(refused(), ['npm: @b/c@1.2.3: no licence, in ours']);
  assert.deepEqual(refused('(GPL-2.0 OR MIT)'), []);
});

/** A repository of Maven with these POMs, by `group:artifact:version`, and a jar beside each. */
function aRepository(t: TestContext, poms: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-repository-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [coordinates, content] of Object.entries(poms)) {
    const [group, artifact, version] = coordinates.split(':') as [string, string, string];
    const path = join(folder, ...group.split('.'), artifact, version, `${artifact}-${version}.jar`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '');
    const pom = `<?xml version="1.0"?><!-- <licenses/> --><project>${content}</project>`;
    writeFileSync(path.replace(/jar$/, 'pom'), pom);
  }
  return folder;
}

const under = (name: string, url = '') =>
  `<licenses><license><name>${name}</name><url>${url}</url></license></licenses>`;
const below = (artifact: string) =>
  `<parent><groupId>a.b</groupId><artifactId>${artifact}</artifactId><version>1</version></parent>`;

test('an artifact of Maven under a vendor’s terms, or under none, is refused, by its POM or one above it', (t) => {
  const repository = aRepository(t, {
    'a.b:above:1': under('Amazon Software License', 'https://aws.amazon.com/asl/'),
    'a.b:vendor:2.0': below('above'),
    'a.b:vendors-own:1': under('DynamoDB Local License'),
    'a.b:open:1': below('above') + under('Apache License, Version 2.0'),
    'a.b:by-url:1': under('ASL', 'http://www.apache.org/licenses/LICENSE-2.0.txt'),
    'a.b:chosen:1': `<licenses><license><name>Some</name></license><license><name>MIT</name></license></licenses>`,
    // A plugin's settings are no licence of the artifact.
    'a.b:plugin:1': `<build><plugins><plugin><configuration>${under('MIT')}</configuration></plugin></plugins></build>`,
    'a.b:lost:1': below('nowhere'),
  });
  const refused = findForbidden(licencesIn(repository)).toSorted();
  assert.deepEqual(refused, [
    "Maven: a.b:above@1: 'Amazon-Software-License', beside ours",
    'Maven: a.b:lost@1: no POM of a.b:nowhere:1, beside ours',
    'Maven: a.b:plugin@1: no licence, beside ours',
    "Maven: a.b:vendor@2.0: 'Amazon-Software-License', beside ours",
    "Maven: a.b:vendors-own@1: 'DynamoDB-Local-License', beside ours",
  ]);
});

test('whatever Maven is asked for is found: each POM, and an artifact wherever a source names it', () => {
  const pom = file('infra/launcher/parts/new-pom.xml', '<project/>');
  const wanted = wantedOfMaven([pom, ...source(`const artifact = 'com.vendor:thing:3.3.1';`)]);
  assert.deepEqual(wanted, { poms: [pom], artifacts: ['com.vendor:thing:3.3.1'] });
});

test('a wheel under another licence, or none, is refused, and so is one whose program nobody knows', () => {
  const wheel = { name: 'a-wheel', version: '1.0' };
  const refused = (fields: string) =>
    findForbidden([licenceOfWheel(wheel, `Metadata-Version: 2.4\n${fields}\n\nLicense: MIT\n`)]);
  assert.deepEqual(refused('License-Expression: SSPL-1.0\nLicense: MIT'), [
    'PyPI: a-wheel@1.0: SSPL-1.0, beside ours',
  ]);
  assert.deepEqual(refused('License: All rights reserved'), [
    'PyPI: a-wheel@1.0: All rights reserved, beside ours',
  ]);
  assert.deepEqual(refused('Name: a-wheel'), ['PyPI: a-wheel@1.0: no licence, beside ours']);
  assert.deepEqual(refused('License-Expression: MIT'), []);
  assert.deepEqual(
    refused('License: see LICENSE\nClassifier: License :: OSI Approved :: MIT License'),
    [],
  );
  const unknown = findForbidden([licenceOfProgram({ source: 'PyPI', ...wheel })]);
  assert.match(unknown.join(), /^PyPI: a-wheel@1\.0: unknown: add a line/);
});

test('whatever pip is asked for is found, or the file that asks is named', () => {
  const asks = `run('-m', 'pip', 'download', '--no-deps');`;
  const object = `{ name: 'a-wheel', version: '1.0.post2', holds: 'A server' }`;
  const found = [{ name: 'a-wheel', version: '1.0.post2' }];
  assert.deepEqual(wheelsOf(source(`${asks} const pinned = ${object};`)), found);
  assert.deepEqual(wheelsOf(source(`${asks} const pinned = 'a-wheel==1.0.post2';`)), found);
  assert.deepEqual(wheelsOf(source(`const one = ${object};`)), []);
  assert.match(
    unreadOfPip(source(asks)).join(),
    /^infra\/launcher\/parts\/planted\.ts: it has pip/,
  );
  const listed = source(`${asks} run('--requirement', 'requirements.txt');`);
  assert.equal(unreadOfPip(listed).length, 1);
  assert.deepEqual(unreadOfPip([...listed, file('a/requirements.txt', 'a-wheel==1.0')]), []);
});

test('an image is refused under a vendor’s terms, and where the table has no line or only one of another major', () => {
  const compose = (image: string) => [
    file('docker-compose.yml', `services:\n  a:\n    image: ${image}\n`),
  ];
  const refused = (image: string, line?: Partial<Licensed>) => {
    const known = line && [
      {
        source: 'image',
        name: 'vendor/thing',
        line: '3',
        program: 'Thing',
        knownFrom: '',
        ...line,
      },
    ];
    const [only, ...more] = imagesOf(compose(image));
    assert.deepEqual(more, []);
    return findForbidden([licenceOfProgram(only!, known as never)]).join();
  };
  assert.match(
    refused('amazon/dynamodb-local:3.3.1'),
    /^image: amazon\/dynamodb-local@3\.3\.1: unknown/,
  );
  assert.match(refused('${REDIS_IMAGE:-redis:7.4-alpine}'), /^image: redis@7\.4-alpine: unknown/);
  assert.equal(refused('redis:8.2.3-alpine'), '');
  assert.match(
    refused('vendor/thing:3.3', { licence: 'SSPL-1.0' }),
    /vendor\/thing \(Thing\)@3\.3: SSPL-1\.0/,
  );
  assert.equal(refused('vendor/thing:3.3', { licence: 'MIT' }), '');
});

test('whatever an engine is asked for is found, in compose, in Dockerfiles and in sources', () => {
  const images = imagesOf([
    file('docker-compose.yml', '    image: a/compose:1\n    image: triplock/ours\n'),
    file('.github/workflows/ci.yml', '      - image: "ci.example/image:2"\n'),
    file(
      'infra/images/Dockerfile',
      'FROM base:3 AS first\nFROM --platform=linux/amd64 other:4\nFROM first\n',
    ),
    ...source(
      `const version = '5'; const image = \`a/source:\${version}\`;
       export const testImages = {\n  redis: 'a/redis:6',\n  kafka: 'a/kafka:7',\n} as const;
       const spannerImage = 'gcr.io/a/spanner:8';`,
    ),
  ]);
  assert.deepEqual(
    images.map(({ name, version }) => `${name}:${version}`),
    [
      'a/compose:1',
      'a/kafka:7',
      'a/redis:6',
      'a/source:5',
      'base:3',
      'ci.example/image:2',
      'gcr.io/a/spanner:8',
      'other:4',
    ],
  );
});

test('whatever Go is asked to build is found', () => {
  const text = `findOnPath('go'); const version = '1.8.1'; run('install', \`go.example.io/tool@v\${version}\`);`;
  const [tool] = modulesOfGo(source(text));
  assert.deepEqual(tool, { source: 'Go', name: 'go.example.io/tool', version: 'v1.8.1' });
  assert.match(findForbidden([licenceOfProgram(tool)]).join(), /unknown: add a line/);

  const own = 'require go.example.io/one v1.0.0\n';
  const block = `require (\n\tgo.example.io/two v2.0.0\n\tgo.example.io/tool v1.8.1 // indirect
\tgo.example.io/deep v0.1.0 // indirect\n)\n`;
  const required = modulesRequired([
    file('a/go.mod', `module m\n\ntool go.example.io/tool/cmd/tool\n\n${own}\n${block}`),
  ]);
  assert.deepEqual(
    required.map(({ name, version }) => `${name} ${version}`),
    ['go.example.io/one v1.0.0', 'go.example.io/two v2.0.0', 'go.example.io/tool v1.8.1'],
  );
});
