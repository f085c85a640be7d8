import type { Service } from '@triplock/runtime';
import type { Config } from './config.ts';
import { hearStripe, type StripeHearing } from './hear-stripe.ts';
import { serveWebhooks } from './serve-webhooks.ts';

/** docs.stripe.com/keys#obtain-api-keys: a key says whether it moves real money. */
const liveKey = /^[rs]k_live_/;

/** Opens the door for Stripe's webhooks, where one is asked for. */
export async function openWebhooks(
  config: Config,
  parts: Omit<StripeHearing, 'secrets' | 'mode'> & Pick<Service, 'onClose'>,
): Promise<void> {
  const { WEBHOOKS_HOST: host, WEBHOOKS_PORT: port, STRIPE_WEBHOOK_SECRETS: secrets } = config;
  if (port === undefined) {
    parts.logger.info(
      'WEBHOOKS_PORT is not set: the resolver asks Stripe instead of hearing from it',
    );
    return;
  }
  const mode = liveKey.test(config.STRIPE_API_KEY) ? 'live' : 'test';
  const hearing: StripeHearing = { ...parts, secrets, mode };
  const { logger, metrics } = parts;
  const hear = (webhook: Parameters<typeof hearStripe>[1]) => hearStripe(hearing, webhook);
  const server = await serveWebhooks({ host, port, hear, metrics, logger });
  parts.onClose('webhooks', () => server.close());
}
