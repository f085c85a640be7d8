import { LauncherError } from './launcher-error.ts';
import type { Service } from './services.ts';
import type { Session } from './session.ts';
import { portsOfOne } from './start-services.ts';

/** Whom cards are charged at, and as whom. */
export type StripePlace = { origin: 'given' | 'simulated'; url: string; apiKey: string };

/** What the simulator takes for a key. */
const simulatorKey = 'sk_test_triplock';
const stripeUrl = 'https://api.stripe.com';

/** The key for whom a running system charges cards at: Stripe itself, or the simulator. */
export function stripeKeyFor(url: string): string | undefined {
  return url === stripeUrl ? process.env['STRIPE_API_KEY']?.trim() : simulatorKey;
}

/** The name of the simulator among the services. */
export const simulator = 'stripe-simulator';

/**
 * Stripe itself when the environment gives a test key of it, else the simulator.
 *
 * @throws LauncherError for a key that would charge real cards.
 */
export async function stripePlace(
  session: Session,
  table: readonly Service[],
): Promise<StripePlace> {
  const given = givenStripe(process.env['STRIPE_API_KEY']);
  if (given !== undefined) return given;
  const known = table.some(({ name }) => name === simulator);
  const ports = known ? await portsOfOne(session, table, simulator) : {};
  return simulatedStripe(`http://127.0.0.1:${ports['http'] ?? 0}`);
}

/**
 * Stripe itself, for a test key of it; `undefined` when there is no key.
 *
 * @throws LauncherError for a key that would charge real cards.
 */
export function givenStripe(key: string | undefined): StripePlace | undefined {
  const apiKey = key?.trim();
  if (apiKey && /^[rs]k_test_/.test(apiKey)) {
    return { origin: 'given', url: stripeUrl, apiKey };
  }
  if (apiKey) {
    throw new LauncherError(
      'STRIPE_API_KEY is no test key: give one that begins with sk_test_ or rk_test_, or none for the simulator',
    );
  }
  return undefined;
}

/** The simulator at a URL, which takes every test key. */
export function simulatedStripe(url: string): StripePlace {
  return { origin: 'simulated', url, apiKey: simulatorKey };
}

/** The table without the simulator where Stripe itself is asked. */
export function servicesFor(place: StripePlace, table: readonly Service[]): readonly Service[] {
  return place.origin === 'simulated' ? table : table.filter(({ name }) => name !== simulator);
}
