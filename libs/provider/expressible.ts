import type { Money, ProviderName } from '@triplock/payments';
import type { Inexpressible } from './provider.ts';
import { toCharge } from './stripe/currencies.ts';

const charges: Readonly<
  Record<ProviderName, (money: Money) => { outcome: 'expressible' } | Refused>
> = { stripe: toCharge };

type Refused = { outcome: 'inexpressible' } & Inexpressible;

/**
 * Why a provider can never charge so much in this currency, known without asking it: it does not
 * take the currency, or its unit has no such amount. Nothing when it may. The amount is in minor
 * units of ISO 4217; the provider's own unit stays in its folder.
 */
export function whyInexpressible(provider: ProviderName, money: Money): Inexpressible | undefined {
  const expressed = charges[provider](money);
  return expressed.outcome === 'inexpressible' ? expressed : undefined;
}
