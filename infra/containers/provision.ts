// Between the parts and the services: brings database, topics, subscriptions and demo partners up to
// date, and leaves what the services are told by files. It may run as often as one likes.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { credentialsIn, webhookSecretsOf } from '../credentials.ts';
import { writeJson } from '../json-file.ts';
import { usualNames } from '../names.ts';
import { roleNames } from '../provision/database.ts';
import { provisionSystem } from '../provision/system.ts';
import { givenStripe, simulatedStripe } from '../stripe-place.ts';
import { credentialFiles, inNetwork, wiringFiles } from './places.ts';
import { runStep } from './run-step.ts';

await runStep('provision', async (report) => {
  // Refused before anything is done.
  const stripe = givenStripe(process.env['STRIPE_API_KEY']) ?? simulatedStripe(inNetwork.stripe);
  const { postgresPassword, partners } = credentialsIn(credentialFiles.all);
  const postgres = new URL(inNetwork.parts.postgres);
  postgres.password = postgresPassword;
  const parts = { ...inNetwork.parts, postgres: postgres.href };
  const place = { parts, names: usualNames, partners, catcher: inNetwork.catcher };
  const database = await provisionSystem(place, report);
  for (const role of roleNames) {
    writeFileSync(wiringFiles.databases[role], database.roles[role], { mode: 0o600 });
  }
  writeFileSync(wiringFiles.stripeApiKey, stripe.apiKey, { mode: 0o600 });
  writeFileSync(wiringFiles.stripeUrl, stripe.url);
  writeFileSync(wiringFiles.stripeWebhookSecrets, webhookSecrets(), { mode: 0o600 });
  writeJson(wiringFiles.partners, webhookSecretsOf(partners));
  report(`ready; cards are charged at ${stripe.url}`);
});

/** Stripe's, where they are given; else what the simulator signs with, made once. */
function webhookSecrets(): string {
  const given = process.env['STRIPE_WEBHOOK_SECRETS']?.trim();
  if (given) return given;
  const file = wiringFiles.stripeWebhookSecrets;
  return existsSync(file)
    ? readFileSync(file, 'utf8')
    : `whsec_${randomBytes(24).toString('base64url')}`;
}
