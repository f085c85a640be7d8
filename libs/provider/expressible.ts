import type { Failure, Money, ProviderName } from '@triplock/payments';
import type { Inexpressible } from './provider.ts';
import { toCharge, toStripe } from './stripe/currencies.ts';

type Express = (money: Money) => { outcome: 'expressible' } | Refused;
type Refused = { outcome: 'inexpressible' } & Inexpressible;

const charges: Readonly<Record<ProviderName, Express>> = { stripe: toCharge };
const moves: Readonly<Record<ProviderName, Express>> = { stripe: toStripe };

/**
 * Why a provider can never charge so much in this currency, known without asking it: it does not
 * take the currency, or its unit has no such amount. Nothing when it may. The amount is in minor
 * units of ISO 4217; the provider's own unit stays in its folder.
 */
export function whyInexpressible(provider: ProviderName, money: Money): Inexpressible | undefined {
  const expressed = charges[provider](money);
  return expressed.outcome === 'inexpressible' ? expressed : undefined;
}

/**
 * The same of what was charged before: why a provider can never capture or give back so much of it,
 * also in a currency in which it charges nothing new.
 */
export function whyImmovable(provider: ProviderName, money: Money): Failure | undefined {
  const expressed = moves[provider](money);
  return expressed.outcome === 'inexpressible' ? expressed.failure : undefined;
}
