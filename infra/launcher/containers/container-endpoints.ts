import { partsFor } from '../claim-store.ts';
import type { Credentials } from '../credentials.ts';
import { systemEndpoints, type Endpoints } from '../endpoints.ts';
import type { Home } from '../home.ts';
import { partsForLedger } from '../ledger-store.ts';
import { usualNames } from '../names.ts';
import { allParts } from '../parts/all-parts.ts';
import { databaseUrls } from '../provision/database.ts';
import type { State } from '../state.ts';
import { givenStripe, simulatedStripe } from '../stripe-place.ts';
import type { ContainerRecord } from './container-records.ts';
import { docker } from './engine.ts';
import { credentialFiles } from './places.ts';

/**
 * Where a system answers whose containers all run: where they are published, with the credentials
 * that were made for them.
 */
export async function endpointsIn(
  home: Home,
  { state, records }: { state: State; records: readonly ContainerRecord[] },
): Promise<Endpoints> {
  const find = (name: string) => records.find((each) => each.name === name)!;
  const portOf = (name: string) => find(name).ports['port'];
  const { container } = find('postgres');
  const kept = await docker('exec', container, 'cat', credentialFiles.all);
  const credentials = JSON.parse(kept) as Credentials;
  const optional = [...partsFor(state.claims), ...partsForLedger(state.ledger)].map((name) => {
    const part = allParts.find((each) => each.name === name)!;
    return [name, part.address({ session: { credentials }, ports: find(name).ports })] as const;
  });
  const owner = `postgres://postgres:${credentials.postgresPassword}@127.0.0.1:${portOf('postgres')}/${usualNames.database}`;
  const processes = Object.fromEntries(records.map((record) => [record.name, record]));
  const stripeUrl = `http://127.0.0.1:${find('stripe-simulator').ports['http']}`;
  return systemEndpoints(
    { home, state: { ...state, processes }, credentials },
    {
      addresses: {
        redis: `redis://127.0.0.1:${portOf('redis')}`,
        kafka: `127.0.0.1:${portOf('kafka')}`,
        postgres: owner,
        pubsub: `127.0.0.1:${portOf('pubsub')}`,
        ...Object.fromEntries(optional),
      },
      names: usualNames,
      database: { owner, roles: databaseUrls(owner) },
      stripe: givenStripe(process.env['STRIPE_API_KEY']) ?? simulatedStripe(stripeUrl),
      mode: 'demo',
    },
  );
}
