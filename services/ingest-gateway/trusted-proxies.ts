import type { Setting } from '@triplock/runtime';
import { isIP } from 'node:net';

/** Addresses and networks (CIDR) of proxies, separated by commas. Never names: they can change. */
export const trustedProxies: Setting<readonly string[]> = {
  expected: 'addresses or networks such as 10.0.0.0/8, separated by commas',
  parse(text) {
    const list = text.split(',').map((each) => each.trim());
    return list.every(isNetwork) ? list : undefined;
  },
};

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  // A network of no bits is everybody, whose word is worth nothing.
  const bitsMax = version === 4 ? 32 : 128;
  return bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= bitsMax);
}
