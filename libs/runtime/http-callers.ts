import { isIP, isIPv6, type Socket } from 'node:net';

/** What a request says of where it comes from, and where it does come from. */
export type Caller = { ip: string; socket: Pick<Socket, 'remoteAddress'> };

/**
 * Whom a request without a right is counted to: the caller's IPv4 address, or its IPv6 network of
 * 64 bits, because one machine has all addresses of such a network to choose from. What a proxy
 * says counts only when it is trusted and says an address.
 */
export function callerAddress({ ip, socket }: Caller): string {
  const address = isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  return isIPv6(address) ? networkOf(address) : address;
}

function networkOf(address: string): string {
  // The URL standard writes an address in one form: lower case, hexadecimal, shortest.
  const [zone] = address.split('%', 1);
  const { hostname } = new URL(`http://[${zone}]`);
  const [head = '', tail = ''] = hostname.slice(1, -1).split('::');
  const before = head.split(':').filter((group) => group !== '');
  const after = tail.split(':').filter((group) => group !== '');
  const zeros = Array<string>(8 - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, 4).join(':');
}
