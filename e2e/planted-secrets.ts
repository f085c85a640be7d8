import { randomBytes } from 'node:crypto';
import type { Endpoints } from '@triplock/launcher';

const mark = randomBytes(6).toString('hex');

/** A text that is nowhere else in the world, with the form of an identifier. */
export function planted(what: string): string {
  return `planted_${what}_${mark}`;
}

/** What partners put into requests that are accepted. */
export const told = {
  key: planted('key'),
  description: planted('description'),
  reference: planted('reference'),
  metadataName: planted('name'),
  metadataValue: planted('value'),
  reason: planted('reason'),
  paymentMethod: `pm_${planted('method')}`,
};

/** What they, or others, put into requests that are refused. */
export const refused = {
  apiKey: planted('wrong_api_key'),
  password: planted('password'),
  cookie: planted('cookie'),
  queryKey: planted('query_key'),
  cardNumber: `4000${BigInt(`0x${mark}`).toString().padStart(15, '0').slice(0, 12)}`,
  fieldName: planted('field'),
  fieldValue: planted('field_value'),
  otherBody: planted('other_body'),
  urlPassword: planted('url_password'),
  stripeBody: planted('stripe_body'),
  stripeSignature: planted('stripe_signature'),
};

/** What is about a webhook and not in it. */
export const endpoint = {
  token: planted('token'),
  answerBody: planted('answer_body'),
  answerHeader: planted('answer_header'),
};

/** What a stranger wrote to the brokers. */
export const poison = {
  key: planted('poison_key'),
  value: planted('poison_value'),
  forgedKey: planted('forged_key'),
  header: planted('poison_header'),
  event: planted('poison_event'),
};

/** A trace of 16 bytes and a span of 8 (W3C Trace Context). */
export const traceId = `${mark}${randomBytes(10).toString('hex')}`;
export const traceparent = `00-${traceId}-${mark}0001-01`;

/** What the system itself was made with: credentials of partners, database and provider. */
export function ownSecrets(system: Endpoints): Record<string, string> {
  const urls = Object.entries({ ...system.databases, owner: system.postgres });
  const passwords = urls.map(([role, url]) => [`password of ${role}`, new URL(url).password]);
  const partners = system.partners.flatMap(({ id, apiKey, webhookSecret }) => [
    [`API key of ${id}`, apiKey],
    [`webhook secret of ${id}`, webhookSecret],
  ]);
  return Object.fromEntries([
    ...passwords,
    ...partners,
    ['STRIPE_API_KEY', 'sk_test_triplock'],
    ['STRIPE_WEBHOOK_SECRETS', 'whsec_triplock_simulator'],
  ]) as Record<string, string>;
}
