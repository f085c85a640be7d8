import { BlockList, isIP } from 'node:net';

/**
 * Where webhooks may go. `public`: https to addresses of the public internet. `loopback-too`: also
 * http, and this machine's own loopback addresses, for the demo and for tests. `private-too`: also
 * private networks, for a demo in containers, which reach each other over one.
 */
export type TargetPolicy = (typeof targetPolicies)[number];

export const targetPolicies = ['public', 'loopback-too', 'private-too'] as const;

// IANA's special-purpose address registries (RFC 6890 and its updates): everything that is not
// globally reachable, or that embeds another address and may lead to one that is not.
const specialPurpose = new BlockList();
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const) {
  specialPurpose.addSubnet(network, prefix, 'ipv4');
}
for (const [network, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  specialPurpose.addSubnet(network, prefix, 'ipv6');
}

// Of IPv6 only this is assigned as global unicast; mapped, local and link-local addresses are not
// in it.
const globalUnicast = new BlockList();
globalUnicast.addSubnet('2000::', 3, 'ipv6');

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

// RFC 1918 and RFC 4193. Link-local addresses, where clouds keep their credentials, are not in it.
const privateNetworks = new BlockList();
privateNetworks.addSubnet('10.0.0.0', 8, 'ipv4');
privateNetworks.addSubnet('172.16.0.0', 12, 'ipv4');
privateNetworks.addSubnet('192.168.0.0', 16, 'ipv4');
privateNetworks.addSubnet('fc00::', 7, 'ipv6');

/** Whether a webhook may connect to an IP address. */
export function isAllowedAddress(address: string, policy: TargetPolicy): boolean {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (isIP(address) === 0) return false;
  if (policy !== 'public' && loopback.check(address, family)) return true;
  if (policy === 'private-too' && privateNetworks.check(address, family)) return true;
  if (family === 'ipv6' && !globalUnicast.check(address, family)) return false;
  return !specialPurpose.check(address, family);
}

// Names that no public DNS holds (RFC 6761, RFC 6762, ICANN's .internal), or that only a search
// list completes.
const localName = /^[^.]*$|\.(localhost|local|internal)$/;

// Below 1024 live other protocols, such as mail, that a signed POST might be made to speak with.
const firstFreePort = 1_024;

/** The policy of a service's mode: only a demo and a test may send to their own machine. */
export function targetPolicyOf(mode: 'production' | 'demo' | 'test'): TargetPolicy {
  return mode === 'production' ? 'public' : 'loopback-too';
}

/**
 * The host that a URL leads to, however it is written: in small letters, an international name in
 * its ASCII form, an address in its usual one, and without the dot that may end a name.
 */
export function targetHost(target: URL): string {
  return target.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/**
 * Why a URL may not be sent to, as far as the URL itself shows: its protocol, its port, a password
 * in it, a name that is local, or an IP address, which no name resolution ever sees. Undefined when
 * nothing speaks against it; what a name resolves to is judged when it is connected to.
 */
export function targetRefusal(target: URL, policy: TargetPolicy): string | undefined {
  const protocols = policy === 'public' ? ['https:'] : ['https:', 'http:'];
  if (!protocols.includes(target.protocol)) return `${target.protocol} is not allowed`;
  if (target.username !== '' || target.password !== '') return 'it carries a user or a password';
  const host = targetHost(target);
  if (host === '') return 'it names no host';
  if (isIP(host) !== 0 && !isAllowedAddress(host, policy)) return 'its address is not public';
  if (policy !== 'public') return undefined;
  if (isIP(host) === 0 && localName.test(host)) return 'its host name is not public';
  // No port in the URL is the protocol's own, 443.
  if (target.port !== '' && Number(target.port) < firstFreePort) return 'its port is not allowed';
  return undefined;
}
