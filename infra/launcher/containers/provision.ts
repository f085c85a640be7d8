// Between the parts and the services: brings database, topics, subscriptions, stores and demo
// partners up to date, and leaves for each service its settings in files. It may run repeatedly.
import { writeFileSync } from 'node:fs';
import { parseClaimStore, partsFor } from '../claim-store.ts';
import { credentialsIn, webhookSecretsOf } from '../credentials.ts';
import { writeJson } from '../json-file.ts';
import { parseLedgerStore, partsForLedger, spannerPlace } from '../ledger-store.ts';
import { provisionClaims } from '../provision/claims.ts';
import { ledgerOf, provisionLedger, refillFrom } from '../provision/ledger.ts';
import { provisionSystem } from '../provision/system.ts';
import { givenStripe, simulatedStripe } from '../stripe-place.ts';
import { awaitPart } from './await-part.ts';
import { refuseWhileGatewaysRun } from './gateways-run.ts';
import { apiKeysFile, credentialFiles, inNetwork, placeInNetwork, writtenAt } from './places.ts';
import { readRemembered, webhookSecrets } from './remembered.ts';
import { runStep } from './run-step.ts';
import { writeFilesOfServices } from './write-files.ts';

await runStep('provision', async (report) => {
  // Refused before anything is done.
  const given = givenStripe(process.env['STRIPE_API_KEY']);
  const remembered = readRemembered(credentialFiles.remembered);
  const claims = parseClaimStore(process.env['CLAIMS'], 'CLAIMS=') ?? 'redis';
  const asked = parseLedgerStore(process.env['LEDGER_STORE'], 'LEDGER_STORE=');
  const ledger = ledgerOf({ state: remembered }, asked);
  const optional = [...partsFor(claims), ...partsForLedger(ledger)];
  for (const name of optional) await awaitPart(name, inNetwork.parts[name]);

  const { postgresPassword, partners } = credentialsIn(credentialFiles.all);
  const postgres = new URL(inNetwork.parts.postgres);
  postgres.password = postgresPassword;
  const parts = { ...inNetwork.parts, postgres: postgres.href };
  const { names } = placeInNetwork;
  await provisionLedger({ state: remembered, report }, { store: ledger, addresses: parts, names });
  const spanner = ledger === 'spanner' && { refill: refillFrom(spannerPlace(parts, names)) };
  const place = { parts, names, partners, catcher: inNetwork.catcher, ...spanner };
  const { roles: databases } = await provisionSystem(place, report);
  await provisionClaims(
    { state: remembered, report, stopGateways: () => refuseWhileGatewaysRun(claims) },
    { store: claims, addresses: parts, databases },
  );
  const stripe = {
    ...(given ?? simulatedStripe(inNetwork.stripe)),
    webhooks: { url: inNetwork.stripeWebhooks, secrets: webhookSecrets(remembered) },
  };
  writeJson(credentialFiles.remembered, remembered);
  writeFilesOfServices({ ...placeInNetwork, databases, claims, ledger, stripe });
  writeJson(writtenAt('catcher', placeInNetwork.partnersFile), webhookSecretsOf(partners));
  const apiKeys = Object.fromEntries(partners.map(({ id, apiKey }) => [id, apiKey]));
  // Read by k6's own user; only its container mounts the folder.
  writeFileSync(writtenAt('k6', apiKeysFile), JSON.stringify(apiKeys), { mode: 0o644 });
  report(`ready; cards are charged at ${stripe.url}`);
});
