import { Webhook } from 'standardwebhooks';
import type { Behaviour } from './behaviour.ts';
import type { CaughtWebhooks, WebhookBody } from './caught-webhooks.ts';
import type { PartnerSecrets } from './read-partners.ts';

/** What a partner's server is made of. */
export type CatcherParts = {
  secrets: PartnerSecrets;
  caught: CaughtWebhooks;
  behaviour: Behaviour;
};

/** A request to `POST /hooks/{partner}`. */
export type HookRequest = {
  partner: string;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  body: string;
};

/**
 * What a partner does with a webhook, as the Standard Webhooks guide says: verify the signature
 * over the raw body, know a copy by its `webhook-id`, answer 2xx. Returns the status to answer.
 */
export function receiveWebhook(parts: CatcherParts, request: HookRequest): number {
  const { partner, headers } = request;
  const secret = parts.secrets.get(partner);
  if (secret === undefined) return 404;
  const id = headers['webhook-id'];
  const body = readBody(request.body);
  if (typeof id !== 'string' || body === undefined) return 400;
  const verified = isVerified(secret, request);
  const ordered = verified ? parts.behaviour.next(partner) : 401;
  const status = ordered ?? 204;
  const taken = status >= 200 && status < 300;
  parts.caught.add({ partner, id, verified, taken, body, at: new Date() });
  return status;
}

function isVerified(secret: string, { headers, body }: HookRequest): boolean {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'WebhookVerificationError') return false;
    throw error;
  }
}

function readBody(text: string): WebhookBody | undefined {
  try {
    const body = JSON.parse(text) as Partial<WebhookBody> | null;
    const isWebhook = typeof body?.data === 'object' && body.data !== null;
    return isWebhook ? (body as WebhookBody) : undefined;
  } catch {
    return undefined; // Not JSON, which the sender is told by a 400.
  }
}
