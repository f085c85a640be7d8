import { isIban, type Failure, type Money } from '@triplock/payments';
import type { ProviderDeclaration, ProviderError, Unpayable } from '@triplock/provider';
import { refusedInProduction, text, url, withDefault, type SettingsOf } from '@triplock/runtime';
import { methodPrefix } from './transfers.ts';

/** What the simulator takes for a token. */
const simulatorToken = 'giro-token-triplock';

/** The most that one transfer moves, in cents (SEPA: 999 999 999.99 euro). */
const amountMax = 99_999_999_999n;

const settings = {
  /** The bank's interface. */
  GIRO_API_URL: refusedInProduction(withDefault(url(['http:', 'https:']), undefined), (given) =>
    given?.startsWith('http:')
      ? 'it has no TLS, so whoever answers there gets the token and says what was paid: give https://'
      : undefined,
  ),
  /** The account that money comes to. For the audit and `trace` it needs to read, nothing else. */
  GIRO_API_TOKEN: withDefault(text, undefined),
};

/** Transfers from bank accounts, by a bank that settles them later or returns them. */
export const giroProvider = {
  title: 'The bank',
  settings,
  needs: ['GIRO_API_URL', 'GIRO_API_TOKEN'],
  advice: {
    GIRO_API_URL: 'the URL of the bank',
    GIRO_API_TOKEN: 'a token that may refund and cancel transfers',
  },
  keys: ['GIRO_API_TOKEN'],
  takes: (paymentMethod) => paymentMethod.startsWith(methodPrefix),
  whyUnpayable: ({ money, paymentMethod, captureMethod, returnUrl }) => {
    if (!isIban(paymentMethod.slice(methodPrefix.length))) {
      return unpayable('payment_method', {
        code: 'account_invalid',
        message: `Expected ${methodPrefix} and an IBAN without spaces whose check digits are right.`,
      });
    }
    if (captureMethod !== undefined) {
      const message = 'Money of a bank account is not held: leave it out.';
      return unpayable('capture_method', { code: 'capture_method_not_supported', message });
    }
    if (returnUrl !== undefined) {
      const message = 'Nobody is sent elsewhere for a transfer: leave it out.';
      return unpayable('return_url', { code: 'return_url_not_supported', message });
    }
    const immovable = whyImmovable(money);
    return (
      immovable &&
      unpayable(immovable.code === 'amount_too_large' ? 'amount' : 'currency', immovable)
    );
  },
  whyImmovable,
  open: async (given, options) => {
    const { openGiro } = await import('./giro.ts');
    return openGiro({ ...bankIn(given), ...options });
  },
  openJournal: async (given, options) => {
    const { openGiroJournal } = await import('./journal.ts');
    return openGiroJournal({ ...bankIn(given), ...options });
  },
  // A bank may return what it has settled, or settle what it has returned, whatever it promises.
  mayBeUndone: ['charge'],
  nextStep,
  simulator: {
    name: 'giro-simulator',
    workspace: 'libs/providers/giro/simulator',
    prefix: 'GIRO_SIMULATOR',
    memoryMiB: 512,
    containerMiB: 128,
    port: { usual: 18_097, variable: 'TRIPLOCK_GIRO_PORT', inside: 8_097 },
  },
  // A bank has no test account that a developer could have for the asking.
  givenIn: () => undefined,
  settingsAt: (at) => ({ GIRO_API_URL: at, GIRO_API_TOKEN: simulatorToken }),
} as const satisfies ProviderDeclaration<typeof settings>;

const unpayable = (field: Unpayable['field'], failure: Failure): Unpayable => ({ field, failure });

function whyImmovable({ amount, currency }: Money): Failure | undefined {
  if (currency !== 'EUR') {
    const message = `A bank account is charged in EUR and not in ${currency}: choose EUR.`;
    return { code: 'currency_not_supported', message };
  }
  if (amount <= amountMax) return undefined;
  return { code: 'amount_too_large', message: `A transfer moves at most ${amountMax} cents.` };
}

function bankIn({ GIRO_API_URL: apiUrl, GIRO_API_TOKEN: token }: SettingsOf<typeof settings>) {
  return { apiUrl: apiUrl!, token: token! };
}

function nextStep({ statusCode }: ProviderError): string {
  switch (statusCode) {
    case 401:
    case 403:
      return 'give the auditor a GIRO_API_TOKEN that may read, and audit again';
    case 429:
      return 'lower PROVIDER_READS_PER_SECOND of the auditor, and audit again';
    case undefined:
      return 'see that the bank can be reached at GIRO_API_URL, and audit again';
    default:
      return 'audit again when the bank is well';
  }
}
