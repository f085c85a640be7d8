import { lookup, Resolver } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { isAllowedAddress, type TargetPolicy } from '@triplock/partners';

/** Every address of a host name; rejects when it has none. */
export type ResolveHost = (host: string) => Promise<string[]>;

/** The name leads to an address that webhooks may not go to. */
export class AddressRefusedError extends Error {
  override name = 'AddressRefusedError';
}

/**
 * Resolves names for outgoing connections and refuses a name when any of its addresses is not
 * allowed. The socket connects to just the addresses that were checked here, so a name that
 * changes its mind between check and connection gains nothing (DNS rebinding).
 */
export function checkedLookup(policy: TargetPolicy, resolve: ResolveHost): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (addresses) => {
        if (!addresses.every((address) => isAllowedAddress(address, policy))) {
          return callback(new AddressRefusedError('its address is not public'), '', 0);
        }
        const found = addresses.map((address) => ({ address, family: familyOf(address) }));
        if (options.all === true) return callback(null, found);
        return callback(null, found[0]!.address, found[0]!.family);
      },
      (error: Error) => callback(error, '', 0),
    );
  };
}

/**
 * Asks DNS directly. Not by `dns.lookup`: its four threads are the whole process's, and four names
 * whose servers are silent would hold up everybody's webhooks.
 */
function dnsResolver(): ResolveHost {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  return async (host) => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const addresses = answers.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
    if (addresses.length > 0) return addresses;
    throw new Error('its host name has no address', { cause: answers });
  };
}

/**
 * As the policy asks: where webhooks may go to this machine, its own names lead there as well, such
 * as localhost and what its hosts file adds, which no DNS knows.
 */
export function resolverFor(policy: TargetPolicy): ResolveHost {
  const ask = dnsResolver();
  if (policy === 'public') return ask;
  return async (host) => {
    try {
      return await ask(host);
    } catch (error) {
      const found = await lookup(host, { all: true }).catch(() => []);
      if (found.length === 0) throw error;
      return found.map(({ address }) => address);
    }
  };
}

function familyOf(address: string): 4 | 6 {
  return address.includes(':') ? 6 : 4;
}
