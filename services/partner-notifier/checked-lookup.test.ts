import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { test } from 'node:test';
import { isAllowedAddress, type TargetPolicy } from '@triplock/partners';
import { checkedLookup, resolverFor } from './checked-lookup.ts';

function lookUp(addresses: string[], policy: TargetPolicy): Promise<string | LookupAddress[]> {
  const lookup = checkedLookup(policy, async () => addresses);
  return new Promise((resolve, reject) => {
    lookup('partner.example', { all: true }, (error, found) =>
      error ? reject(error) : resolve(found),
    );
  });
}

test('a connection goes to just the addresses that were checked', async () => {
  assert.deepEqual(await lookUp(['8.8.8.8', '2606:4700::1111'], 'public'), [
    { address: '8.8.8.8', family: 4 },
    { address: '2606:4700::1111', family: 6 },
  ]);
});

test('a name with one private address among its public ones is refused', async () => {
  await assert.rejects(lookUp(['8.8.8.8', '10.0.0.1'], 'public'), { name: 'AddressRefusedError' });
  await assert.rejects(lookUp(['127.0.0.1'], 'public'), { name: 'AddressRefusedError' });
  assert.equal((await lookUp(['127.0.0.1'], 'loopback-too')).length, 1);
});

test('a demo finds the names of its own machine, and a name that nobody has stays without address', async () => {
  const resolve = resolverFor('loopback-too');
  const found = await resolve('localhost');
  assert.ok(found.length > 0);
  for (const address of found) assert.equal(isAllowedAddress(address, 'loopback-too'), true);
  await assert.rejects(resolve('partner.invalid'), { message: 'its host name has no address' });
});
