import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { callerAddress } from './caller-address.ts';

const from = (ip: string) =>
  callerAddress({ ip, socket: { remoteAddress: '192.0.2.1' } as Socket });

test('an IPv4 address is one caller, however it is written', () => {
  assert.equal(from('203.0.113.9'), '203.0.113.9');
  assert.equal(from('::ffff:203.0.113.9'), '203.0.113.9');
});

test('an IPv6 network of 64 bits is one caller', () => {
  const one = from('2001:db8:0:7::1');
  for (const same of ['2001:DB8:0:7:ffff::', '2001:db8::7:1:2:3:4', '2001:db8:0:7:0:0:0:9%eth0']) {
    assert.equal(from(same), one, same);
  }
  assert.notEqual(from('2001:db8:0:8::1'), one);
  assert.equal(from('::1'), '0:0:0:0');
});

test('what is no address is taken for the address of whoever says it', () => {
  for (const said of ['', 'unknown', '_hidden', 'x'.repeat(10_000), '1.2.3.4.5']) {
    assert.equal(from(said), '192.0.2.1');
  }
});
