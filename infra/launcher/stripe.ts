import { CommandError } from '@triplock/command';

/** Whom cards are charged at, and as whom. */
export type StripeAccount = {
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

/** The name of the simulator among the services. */
export const simulator = 'stripe-simulator';

/**
 * Stripe itself when the environment gives a test key of it, else the simulator. Stripe reports
 * what it decided later where the environment also gives the secret that it signs that with.
 *
 * @param ports those of the worker that webhooks go to and of the simulator, where they run here.
 * @throws CommandError for a key that would charge real cards.
 */
export function chooseStripe(ports: {
  webhooks: number | undefined;
  simulator: number | undefined;
}): StripeAccount {
  const reporting = (secrets: string | undefined) =>
    secrets && ports.webhooks
      ? { webhooks: { url: `http://127.0.0.1:${ports.webhooks}/stripe/webhooks`, secrets } }
      : {};
  const given = givenStripe(process.env['STRIPE_API_KEY']);
  if (given !== undefined) {
    return { ...given, ...reporting(process.env['STRIPE_WEBHOOK_SECRETS']?.trim()) };
  }
  const simulated = simulatedStripe(`http://127.0.0.1:${ports.simulator ?? 0}`);
  return { ...simulated, ...reporting('whsec_triplock_simulator') };
}

/**
 * Stripe itself, for a test key of it; `undefined` when there is no key.
 *
 * @throws CommandError for a key that would charge real cards.
 */
export function givenStripe(key: string | undefined): StripeAccount | undefined {
  const apiKey = key?.trim();
  if (apiKey && /^[rs]k_test_/.test(apiKey)) {
    return { origin: 'given', url: stripeUrl, apiKey };
  }
  if (apiKey) {
    throw new CommandError(
      'STRIPE_API_KEY is no test key: give one that begins with sk_test_ or rk_test_, or none for the simulator',
    );
  }
  return undefined;
}

/** The simulator at a URL, which takes every test key. */
export function simulatedStripe(url: string): StripeAccount {
  return { origin: 'simulated', url, apiKey: simulatorKey };
}

/** The key for whom a running system charges cards at: Stripe itself, or the simulator. */
export function stripeKeyFor(url: string): string | undefined {
  return url === stripeUrl ? process.env['STRIPE_API_KEY']?.trim() : simulatorKey;
}
