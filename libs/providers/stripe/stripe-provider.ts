import type { ProviderDeclaration, ProviderError } from '@triplock/provider';
import {
  refusedInProduction,
  SettingsError,
  text,
  url,
  withDefault,
  type Setting,
  type SettingsOf,
} from '@triplock/runtime';
import { toCharge, toStripe } from './currencies.ts';
import { readStripeEvent, stripeModeOf } from './webhooks.ts';

const stripeUrl = 'https://api.stripe.com';
/** What the simulator takes for a key. */
const simulatorKey = 'sk_test_triplock';

const settings = {
  /**
   * The account that cards are charged for; a test key charges nobody. For the audit and `trace` it
   * needs to read PaymentIntents, Charges and Refunds, and Disputes, and nothing else.
   */
  STRIPE_API_KEY: withDefault(text, undefined),
  /** Another URL that speaks Stripe's API, such as the simulator. */
  STRIPE_API_URL: refusedInProduction(withDefault(url(['http:', 'https:']), undefined), (given) =>
    given !== undefined && !isStripe(given)
      ? "it is not Stripe's, so whoever answers there gets the key and says what was charged: unset it"
      : undefined,
  ),
};

/** Another port of Stripe's host is nobody else's, and has every call end unknown. */
function isStripe(given: string): boolean {
  const { protocol, hostname } = new URL(given);
  return protocol === 'https:' && hostname === new URL(stripeUrl).hostname;
}

/** Two, because one follows the other while it is rotated. */
const webhookSecrets: Setting<readonly string[]> = {
  expected: 'a secret that begins with whsec_, or two separated by a comma',
  parse: (value) => {
    const secrets = value.split(',').map((each) => each.trim());
    return secrets.length <= 2 && secrets.every((each) => /^whsec_\S{8,}$/.test(each))
      ? secrets
      : undefined;
  },
};

/** Stripe, which charges cards and what else it calls a payment method. */
export const stripeProvider = {
  title: 'Stripe',
  settings,
  needs: ['STRIPE_API_KEY'],
  advice: { STRIPE_API_KEY: 'a key that may refund charges and cancel PaymentIntents' },
  keys: ['STRIPE_API_KEY'],
  takes: (paymentMethod) => paymentMethod.startsWith('pm_'),
  whyUnpayable: ({ money }) => {
    const asked = toCharge(money);
    return asked.outcome === 'inexpressible' ? asked : undefined;
  },
  whyImmovable: (money) => {
    const asked = toStripe(money);
    return asked.outcome === 'inexpressible' ? asked.failure : undefined;
  },
  open: async (given, options) => {
    const { openStripe } = await import('./stripe.ts');
    return openStripe({ ...accountIn(given), ...options });
  },
  openJournal: async (given, options) => {
    const { openStripeJournal } = await import('./journal.ts');
    return openStripeJournal({ ...accountIn(given), ...options });
  },
  // docs.stripe.com/refunds#failed-refunds; of a charge that is asked back there is a dispute.
  mayBeUndone: ['refund'],
  nextStep,
  reports: {
    settings: {
      /**
       * What Stripe signs its webhooks with, as its dashboard or `stripe listen` shows it; needed
       * with a port. To rotate it give both, the new one and the old one, until Stripe no longer
       * signs with the old one.
       */
      STRIPE_WEBHOOK_SECRETS: withDefault(webhookSecrets, []),
    },
    secrets: 'STRIPE_WEBHOOK_SECRETS',
    signature: 'stripe-signature',
    secretOf: (random) => `whsec_${random}`,
    forged:
      'not signed by Stripe with a secret that is known here, or not within five minutes of now',
    read: (received, { secrets, settings: { STRIPE_API_KEY: key } }) =>
      readStripeEvent({ ...received, secrets, mode: stripeModeOf(key ?? '') }),
  },
  simulator: {
    name: 'stripe-simulator',
    workspace: 'infra/stripe-simulator',
    prefix: 'STRIPE_SIMULATOR',
    memoryMiB: 1_024,
    containerMiB: 192,
    port: { usual: 18_095, variable: 'TRIPLOCK_STRIPE_PORT', inside: 8_095 },
  },
  givenIn: (environment) => (keyIn(environment) === undefined ? undefined : stripeUrl),
  settingsAt: (at, environment) => ({
    STRIPE_API_KEY: at === stripeUrl ? (keyIn(environment) ?? '') : simulatorKey,
    STRIPE_API_URL: at,
  }),
} as const satisfies ProviderDeclaration<typeof settings>;

function accountIn(given: SettingsOf<typeof settings>) {
  const { STRIPE_API_KEY: apiKey, STRIPE_API_URL: apiUrl } = given;
  return { apiKey: apiKey!, ...(apiUrl === undefined ? {} : { apiUrl }) };
}

/** @throws SettingsError for a key that would charge real cards. */
function keyIn(environment: NodeJS.ProcessEnv): string | undefined {
  const key = environment['STRIPE_API_KEY']?.trim();
  if (!key) return undefined;
  if (/^[rs]k_test_/.test(key)) return key;
  throw new SettingsError([
    'STRIPE_API_KEY is no test key: give one that begins with sk_test_ or rk_test_, or none for the simulator',
  ]);
}

function nextStep({ statusCode }: ProviderError): string {
  switch (statusCode) {
    case 401:
      return 'give the auditor a STRIPE_API_KEY that Stripe knows, and audit again';
    case 403:
      return 'let its key read PaymentIntents, Charges and Refunds, and Disputes, and audit again';
    case 429:
      return 'lower PROVIDER_READS_PER_SECOND of the auditor, and audit again';
    case undefined:
      return 'see that Stripe can be reached at STRIPE_API_URL, and audit again';
    default:
      return 'audit again when Stripe is well (status.stripe.com)';
  }
}
