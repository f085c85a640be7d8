import { createHash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import type { UnverifiedEndpoint } from '@triplock/partners';
import type { Pass } from '@triplock/runtime';
import type { EndpointAnswer, SendWebhook, WebhookRequest } from './webhook-client.ts';
import { disableIfGone, type Notifier } from './webhook-sender.ts';

/** Whether an endpoint has to prove that it wants webhooks. */
type VerificationPolicy = 'required' | 'off';

/** The policy of a service's mode: only a demo and a test take any URL that a partner sets. */
export function verificationPolicyOf(mode: 'production' | 'demo' | 'test'): VerificationPolicy {
  return mode === 'production' ? 'required' : 'off';
}

/** How endpoints are verified. `stopping` ends the questions that are under way. */
type Verification = { policy: VerificationPolicy; stopping: AbortSignal };

// A pass ends with its slowest question, after ten seconds at most.
const askedAtOnce = 64;

/**
 * A pass that asks the endpoints that were set whether they want webhooks, and opens those that say
 * so; what is parked for them is then released. The loop comes again at once while there are more.
 *
 * An endpoint that is taken is written down as asked. So a crash before the answer, or between the
 * answer and the opening, costs the pause until the next question, which has another token. What
 * was proved of an endpoint that was changed meanwhile opens nothing.
 */
export function verifyEndpoints(notifier: Notifier, verification: Verification): Pass {
  return async () => {
    const which = verification.policy === 'required' ? 'paced' : 'all';
    const taken = await notifier.partners.takeUnverified(askedAtOnce, which);
    const verified = taken.map((endpoint) =>
      verify(notifier, endpoint, verification).catch((err: unknown) => {
        const { partnerId } = endpoint;
        notifier.logger.warn({ err, partnerId }, 'webhook endpoint not asked, will be asked again');
      }),
    );
    await Promise.all(verified);
    return taken.length;
  };
}

/** @throws when the database does not answer, or the key of a secret is not there. */
async function verify(
  notifier: Notifier,
  { partnerId, url, version, asks, openSecrets }: UnverifiedEndpoint,
  { policy, stopping }: Verification,
): Promise<void> {
  const { partners, metrics, logger } = notifier;
  if (policy === 'off') {
    await partners.verifyEndpoint({ partnerId, version, because: 'WEBHOOK_VERIFICATION is off' });
    return;
  }
  const endpoint = { url, secrets: openSecrets() };
  const answer = await askEndpoint(notifier.send, endpoint, stopping);
  metrics.verifications.count(answer.outcome);
  if (answer.outcome !== 'echoed') {
    await disableIfGone(notifier, { partnerId, version, outcome: answer });
    return logger.warn({ partnerId, asks, ...answer }, 'webhook endpoint not verified');
  }
  const because = 'its server echoed the token of a question';
  const opened = await partners.verifyEndpoint({ partnerId, version, because });
  logger.info({ partnerId, asks, opened }, 'webhook endpoint answered that it wants webhooks');
}

// The look-up of the name, the connection and the whole answer.
const questionMs = 10_000;
// A token of 43 characters with what a framework may put around it.
const echoBytesMax = 4_096;

/**
 * Asks a server whether it wants webhooks: an `endpoint.verification`, signed and guarded as every
 * webhook, whose answer has to be a 2xx with the token of this very question, within 10 s: as text,
 * or as the `token` of a JSON object. A server that sends back whatever it gets does not pass.
 *
 * The token is kept nowhere, so that no answer is good for another question, URL or partner.
 */
export async function askEndpoint(
  send: SendWebhook,
  endpoint: WebhookRequest['endpoint'],
  signal: AbortSignal,
): Promise<EndpointAnswer> {
  const token = randomBytes(32).toString('base64url');
  const timestamp = new Date().toISOString();
  const body = JSON.stringify({ type: 'endpoint.verification', timestamp, data: { token } });
  const readAnswer = { bytesMax: echoBytesMax, timeoutMs: questionMs };
  const sent = await send({ endpoint, id: randomUUID(), body, signal, readAnswer });
  if (sent.outcome !== 'delivered') return sent;
  return { outcome: isSame(tokenOf(sent.answer ?? ''), token) ? 'echoed' : 'not-echoed' };
}

function tokenOf(answer: string): string {
  const text = answer.trim();
  try {
    const { token } = JSON.parse(text) as { token?: unknown };
    return typeof token === 'string' ? token : '';
  } catch {
    return text; // Not JSON: the token itself, or nothing that is one.
  }
}

/** In a time that does not depend on how much of them is the same. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(a!, b!);
}
