import { LauncherError } from './launcher-error.ts';
import type { Service } from './services.ts';
import type { Session } from './session.ts';
import { portsOfOne } from './start-services.ts';

/** Whom cards are charged at, and as whom. */
export type StripePlace = {
  origin: 'given' | 'simulated';
  url: string;
  apiKey: string;
  /**
   * Where it reports what it decided later, and what it signs that with; absent: it reports
   * nothing.
   */
  webhooks?: { url: string; secrets: string };
};

/** What the simulator takes for a key. */
const simulatorKey = 'sk_test_triplock';
const stripeUrl = 'https://api.stripe.com';

/** The key for whom a running system charges cards at: Stripe itself, or the simulator. */
export function stripeKeyFor(url: string): string | undefined {
  return url === stripeUrl ? process.env['STRIPE_API_KEY']?.trim() : simulatorKey;
}

/** The name of the simulator among the services. */
export const simulator = 'stripe-simulator';

/** Any worker will do; this one is always there. */
const hearing = 'ledger-worker-1';

/**
 * Stripe itself when the environment gives a test key of it, else the simulator. Stripe reports
 * what it decided later where the environment also gives the secret that it signs that with.
 *
 * @throws LauncherError for a key that would charge real cards.
 */
export async function stripePlace(
  session: Session,
  table: readonly Service[],
): Promise<StripePlace> {
  const { webhooks } = await portsIn(session, table, hearing);
  const told = (secrets: string | undefined) =>
    secrets && webhooks
      ? { webhooks: { url: `http://127.0.0.1:${webhooks}/stripe/webhooks`, secrets } }
      : {};
  const given = givenStripe(process.env['STRIPE_API_KEY']);
  if (given !== undefined) {
    return { ...given, ...told(process.env['STRIPE_WEBHOOK_SECRETS']?.trim()) };
  }
  const { http = 0 } = await portsIn(session, table, simulator);
  const simulated = simulatedStripe(`http://127.0.0.1:${http}`);
  return { ...simulated, ...told('whsec_triplock_simulator') };
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

/** The ports of a process, none where the table does not have it. */
async function portsIn(
  session: Session,
  table: readonly Service[],
  name: string,
): Promise<{ http?: number; webhooks?: number }> {
  const known = table.some((service) => name === service.name || name === `${service.name}-1`);
  return known ? portsOfOne(session, table, name) : {};
}

/**
 * The table without the simulator where Stripe itself is asked, and without a door for what it
 * tells where it tells nothing.
 */
export function servicesFor(place: StripePlace, table: readonly Service[]): readonly Service[] {
  const asked =
    place.origin === 'simulated' ? table : table.filter(({ name }) => name !== simulator);
  if (place.webhooks) return asked;
  return asked.map((each) => ({
    ...each,
    ports: each.ports.filter(({ use }) => use !== 'webhooks'),
  }));
}
