import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAllowedAddress, targetPolicyOf, targetRefusal } from './target-policy.ts';

const notPublic = [
  '0.0.0.0',
  '10.1.2.3',
  '100.64.0.1',
  '127.0.0.1',
  '127.255.255.254',
  '169.254.169.254',
  '172.31.255.255',
  '192.168.0.1',
  '198.18.0.1',
  '224.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::ffff:10.0.0.1',
  '::ffff:8.8.8.8',
  '64:ff9b::a00:1',
  '2001::1',
  '2001:db8::1',
  '2002:a00:1::1',
  'fc00::1',
  'fd12:3456::1',
  'fe80::1',
  'ff02::1',
  'not an address',
];

test('no webhook goes to an address that is not public', () => {
  for (const address of notPublic) {
    assert.equal(isAllowedAddress(address, 'public'), false, address);
  }
  for (const address of ['8.8.8.8', '172.32.0.1', '2606:4700::1111', '2a00:1450::1']) {
    assert.equal(isAllowedAddress(address, 'public'), true, address);
  }
});

test('the demo may send to this machine, and not to its neighbours', () => {
  for (const address of ['127.0.0.1', '::1', '8.8.8.8']) {
    assert.equal(isAllowedAddress(address, 'loopback-too'), true, address);
  }
  for (const address of ['10.1.2.3', '169.254.169.254', '192.168.0.1', 'fd00::1']) {
    assert.equal(isAllowedAddress(address, 'loopback-too'), false, address);
  }
});

test('a demo in containers may send to a private network, and not to link-local addresses', () => {
  for (const address of ['127.0.0.1', '10.1.2.3', '172.18.0.5', '192.168.0.1', 'fd00::1']) {
    assert.equal(isAllowedAddress(address, 'private-too'), true, address);
  }
  for (const address of ['169.254.169.254', '0.0.0.0', 'fe80::1']) {
    assert.equal(isAllowedAddress(address, 'private-too'), false, address);
  }
  assert.equal(targetRefusal(new URL('http://catcher:8090/hooks'), 'private-too'), undefined);
});

test('an address is known in every way to write it', () => {
  for (const host of [
    '127.1',
    '0x7f.0.0.1',
    '2130706433',
    '0177.0.0.1',
    '[::1]',
    '[::ffff:7f00:1]',
  ]) {
    assert.notEqual(targetRefusal(new URL(`https://${host}/`), 'public'), undefined, host);
  }
});

test('only https is sent to, and http too where the demo runs', () => {
  assert.equal(targetRefusal(new URL('https://partner.example/hooks'), 'public'), undefined);
  for (const text of ['http://partner.example/', 'ftp://partner.example/', 'file:///etc/passwd']) {
    assert.match(targetRefusal(new URL(text), 'public')!, /is not allowed/, text);
  }
  assert.equal(targetRefusal(new URL('http://127.0.0.1:1/'), 'loopback-too'), undefined);
});

test('no webhook goes to a name that only this network knows', () => {
  for (const host of [
    'localhost',
    'localhost.',
    'api.localhost',
    'printer.local',
    'metadata.google.internal',
    'metadata.google.internal.',
    'intranet',
  ]) {
    assert.equal(
      targetRefusal(new URL(`https://${host}/`), 'public'),
      'its host name is not public',
      host,
    );
  }
});

test('a port below 1024 is sent to only when it is that of https', () => {
  for (const port of [22, 25, 80, 587, 993]) {
    const target = new URL(`https://partner.example:${port}/`);
    assert.equal(targetRefusal(target, 'public'), 'its port is not allowed', `${port}`);
  }
  for (const port of [443, 1_024, 8_443, 65_535]) {
    const target = new URL(`https://partner.example:${port}/`);
    assert.equal(targetRefusal(target, 'public'), undefined, `${port}`);
  }
});

test('a URL that carries a user or a password is refused everywhere', () => {
  for (const credentials of ['user', 'user:password', ':password']) {
    const target = new URL(`https://${credentials}@partner.example/`);
    for (const policy of ['public', 'loopback-too'] as const) {
      assert.match(targetRefusal(target, policy)!, /user or a password/, credentials);
    }
  }
});

test('only a demo and a test may send to their own machine', () => {
  const policies = (['production', 'demo', 'test'] as const).map(targetPolicyOf);
  assert.deepEqual(policies, ['public', 'loopback-too', 'loopback-too']);
});
