import assert from 'node:assert/strict';
import { test } from 'node:test';
import { billOfProduction, findLoose, findSecrets, readAudit, readLock } from './supply-chain.ts';
import { locksOf, type Locked } from './licences/npm.ts';
import { workspaceFiles } from './workspace-files.ts';

const sound: Locked = {
  version: '1.2.3',
  license: 'MIT',
  integrity: `sha512-${'a'.repeat(86)}==`,
};
const lockOf = (entry: Locked) => ({ 'node_modules/a/node_modules/@b/c': { ...sound, ...entry } });

test('every package in the lock is known by its hash', () => {
  const lock = readLock();
  assert.ok(Object.keys(lock).length > 500);
  assert.deepEqual(findLoose(lock), []);
  const apart = locksOf(workspaceFiles());
  assert.ok(apart.length > 0);
  assert.deepEqual(apart.flatMap(findLoose), []);
});

test('a package without a hash, or from elsewhere, is found', () => {
  for (const entry of [
    { integrity: '' },
    { integrity: 'sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=' },
    { resolved: 'https://packages.example/c-1.2.3.tgz' },
    { resolved: 'git+ssh://git@github.com/b/c.git#1234567' },
    { version: 'file:../c' },
  ]) {
    assert.equal(findLoose(lockOf(entry)).length, 1, JSON.stringify(entry));
  }
  assert.deepEqual(findLoose(lockOf({ resolved: 'https://registry.npmjs.org/c.tgz' })), []);
});

test('no file holds a secret', () => {
  const found = workspaceFiles().flatMap(({ path, text }) => findSecrets({ path, text: text() }));
  assert.deepEqual(found, []);
});

test('a planted secret is found by its kind and line, and not repeated', () => {
  const random = 'Q7f3Zk9LmX2vB8nT4wR6yH1c';
  // Put together here, or this file would be found.
  for (const [kind, ...parts] of [
    ['a live key of Stripe', 'sk_', 'live_', random],
    ['a live key of Stripe', 'rk_', 'live_', random],
    ['a private key', '-----BEGIN ', 'PRIVATE KEY-----'],
    ['a private key', '-----BEGIN RSA ', 'PRIVATE KEY-----'],
    ['a webhook secret', 'whsec', '_', random, random],
    ['a key of AWS', 'AK', 'IA', 'Q7F3ZK9LMX2VB8NT'],
    ['a key of Google', 'AI', 'za', random, 'abcdefghijk'],
    ['a token of GitHub', 'gh', 'p_', random, 'abcdefghijkl'],
    ['a token of npm', 'np', 'm_', random, 'abcdefghijkl'],
  ]) {
    const text = `first\nconst key = '${parts.join('')}';\n`;
    assert.deepEqual(findSecrets({ path: 'a.ts', text }), [`a.ts:2: ${kind}`]);
  }
  for (const text of [
    'sk_live_…',
    'sk_test_triplock',
    `whsec_${btoa('secret-of-a-test-in-words')}`,
  ]) {
    assert.deepEqual(findSecrets({ path: 'a.ts', text }), [], text);
  }
});

test('what a registry says of weaknesses is told apart by severity, and silence is no answer', () => {
  const advisory = (severity: string) => ({ title: 'bad', url: `https://a/${severity}`, severity });
  const via = [advisory('moderate'), 'b', advisory('critical')];
  assert.deepEqual(readAudit({ vulnerabilities: { a: { via }, b: { via: [] } } }), {
    outcome: 'asked',
    harmful: ['a: bad (critical, https://a/critical)'],
    others: ['a: bad (moderate, https://a/moderate)'],
  });
  const refused = { error: {}, message: '405 Method Not Allowed' };
  assert.deepEqual(readAudit(refused), { outcome: 'not-asked', why: '405 Method Not Allowed' });
  assert.equal(readAudit({}).outcome, 'not-asked');
});

test('the bill of materials has all that runs in production, and nothing that only tests need', () => {
  const lock = {
    'node_modules/@b/runs': sound,
    'node_modules/alias': { ...sound, name: 'real' },
    'node_modules/tests': { ...sound, dev: true },
    // One version is for tests, and another runs.
    'node_modules/both': sound,
    'node_modules/tests/node_modules/both': { ...sound, version: '2.0.0', dev: true },
  };
  const refs = ['@b/runs@1.2.3', 'real@1.2.3', 'tests@1.2.3', 'both@1.2.3', 'both@2.0.0', 'own@1'];
  const component = (ref: string) => ({
    'bom-ref': ref,
    purl: `pkg:npm/${ref.replace('@b', '%40b')}`,
  });
  const dependencies = [
    { ref: 'own@1', dependsOn: refs },
    { ref: 'tests@1.2.3', dependsOn: [] },
  ];
  const run = ['@b/runs@1.2.3', 'real@1.2.3', 'both@1.2.3', 'own@1'];
  const whole = billOfProduction(lock, { components: refs.map(component), dependencies });
  assert.deepEqual(whole, {
    bill: { components: run.map(component), dependencies: [{ ref: 'own@1', dependsOn: run }] },
    lacking: [],
  });
  const without = refs.filter((ref) => ref !== '@b/runs@1.2.3').map(component);
  const { lacking } = billOfProduction(lock, { components: without, dependencies: [] });
  assert.deepEqual(lacking, ['@b/runs@1.2.3']);
});
