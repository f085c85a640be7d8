// What docker-compose.yml runs once at every `up`, before the services: `node steps.ts credentials`
// and then `node steps.ts provision`. Run again they change nothing that is there already.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type ClaimStore,
  parseClaimStore,
  parseLedgerStore,
  partsForStores,
  type Stores,
} from '../choices.ts';
import { CommandError } from '@triplock/command';
import { credentialsIn, readJson, sealingKeysIn, webhookSecretsOf, writeJson } from '../home.ts';
import type { PartName } from '../parts/part-names.ts';
import { redisOwner, redisUsers } from '../parts/redis.ts';
import { allParts } from '../parts/start-parts.ts';
import { provisionClaims } from '../provision/claims.ts';
import { ledgerOf, provisionLedger } from '../provision/ledger.ts';
import { provisionSystem } from '../provision/system.ts';
import { services } from '../service-table.ts';
import { declarations } from '../services.ts';
import type { Report } from '../session.ts';
import { pathOfReports, providerNames, type ListedProvider } from '@triplock/providers';
import {
  accountAt,
  givenAccount,
  givenSecrets,
  settingsOfAccounts,
  simulatorSecret,
  type ProviderAccount,
} from '../providers.ts';
import { ledgerStoreAt, type Wiring } from '../wiring.ts';
import {
  apiKeysFile,
  credentialFiles,
  fileOf,
  inNetwork,
  networkWiring,
  settingsInFiles,
  writtenAt,
} from './network.ts';

/** An emulator starts for some seconds, on a busy machine for more. */
const partAnswersWithinMs = 60_000;
const askAgainMs = 250;

const steps: Readonly<Record<string, (report: Report) => unknown>> = {
  credentials: makeCredentials,
  provision,
};
const [name = ''] = process.argv.slice(2);
try {
  const step = steps[name];
  if (step === undefined) throw new CommandError(`takes ${Object.keys(steps).join(' or ')}`);
  await step((line) => process.stdout.write(`${line}\n`));
} catch (error) {
  // Nothing starts that waits for a step that failed.
  process.exitCode = 1;
  process.stderr.write(`triplock ${name}: ${describe(error)}\n`);
}

/** Makes the credentials of this installation, unless they are there. */
function makeCredentials(report: Report): void {
  const { all, postgresPassword: file } = credentialFiles;
  const credentials = credentialsIn(all);
  const { postgresPassword } = credentials;
  // Made anew, with the rights of this version. Redis reads it as its own user when it starts.
  rmSync(credentialFiles.redisUsers, { force: true });
  writeFileSync(credentialFiles.redisUsers, redisUsers(credentials), { mode: 0o444 });
  if (existsSync(file)) return report('the credentials are there');
  // Read by PostgreSQL's own user; only its container and those of these steps mount the folder.
  writeFileSync(file, postgresPassword, { mode: 0o444 });
  report('made the credentials of this installation');
}

/**
 * Brings database, topics, subscriptions, stores and demo partners up to date, and leaves for each
 * service its settings in files.
 */
async function provision(report: Report): Promise<void> {
  // Refused before anything is done.
  const given = providerNames.map((provider) => givenAccount(provider));
  const state = (readJson(credentialFiles.remembered) as Remembered | undefined) ?? {};
  const claims = parseClaimStore(process.env['CLAIMS'], 'CLAIMS') ?? 'redis';
  const asked = parseLedgerStore(process.env['LEDGER_STORE'], 'LEDGER_STORE');
  const ledger = ledgerOf(state, asked);
  for (const part of partsForStores({ claims, ledger })) {
    await awaitPart(part, inNetwork.parts[part]);
  }
  const credentials = credentialsIn(credentialFiles.all);
  const { postgresPassword, partners, controlToken } = credentials;
  const postgres = new URL(inNetwork.parts.postgres);
  postgres.password = postgresPassword;
  const redis = redisOwner(credentials, new URL(inNetwork.parts.redis).host);
  const parts = { ...inNetwork.parts, postgres: postgres.href, redis };
  const { names } = networkWiring;
  await provisionLedger({ state, report }, { store: ledger, addresses: parts, names });
  // Compose itself does not tell: room for a second one of each, by its --scale.
  const replicas = Number(process.env['TRIPLOCK_REPLICAS'] ?? 2);
  const webhookKeys = sealingKeysIn(credentialFiles.webhookKeys);
  const actionKeys = sealingKeysIn(credentialFiles.actionKeys);
  const system = {
    parts,
    names,
    replicas,
    partners,
    webhookKeys,
    catcher: inNetwork.catcher,
    ledger: ledgerStoreAt(ledger, parts, names),
  };
  const { owner, roles: databases } = await provisionSystem(system, report);
  await provisionClaims(
    { state, report, stopGateways: () => refuseWhileGatewaysRun(claims) },
    { store: claims, addresses: parts, databases },
  );
  const accounts = providerNames.map((provider, nth): ProviderAccount => {
    const account = given[nth] ?? accountAt(provider, inNetwork.providers[provider]);
    const secrets = secretsOf(provider, state);
    const url = `${inNetwork.reports}${pathOfReports(provider)}`;
    return secrets === undefined ? account : { ...account, webhooks: { url, secrets } };
  });
  writeJson(credentialFiles.remembered, state);
  writeSettings({
    ...networkWiring,
    addresses: { ...inNetwork.parts, redis },
    controlToken,
    databases,
    claims,
    ledger,
    accounts,
  });
  writeFiles('operator', {
    DATABASE_URL: owner,
    PARTNERS_DATABASE_URL: databases.partners,
    REDIS_URL: redis,
    CLAIMS_DATABASE_URL: databases.claims,
    ...settingsOfAccounts(accounts),
    WEBHOOK_KEYS: webhookKeys,
  });
  for (const { name, settings } of declarations) {
    if ('WEBHOOK_KEYS' in settings) writeFiles(name, { WEBHOOK_KEYS: webhookKeys });
    if ('ACTION_KEYS' in settings) writeFiles(name, { ACTION_KEYS: actionKeys });
  }
  writeJson(writtenAt('catcher', networkWiring.partnersFile), webhookSecretsOf(partners));
  tellApiKeys(partners, report);
  report(`ready; payments are charged at ${accounts.map(({ url }) => url).join(' and ')}`);
  const { CONSOLE_URL } = process.env;
  if (CONSOLE_URL) report(`console, once the services run: ${CONSOLE_URL}`);
}

/** These steps are of a demo, and its partners too: whoever has no Node reads their keys here. */
function tellApiKeys(partners: readonly { id: string; apiKey: string }[], report: Report): void {
  const apiKeys = Object.fromEntries(partners.map(({ id, apiKey }) => [id, apiKey]));
  // Read by k6's own user; only its container mounts the folder.
  writeFileSync(writtenAt('k6', apiKeysFile), JSON.stringify(apiKeys), { mode: 0o644 });
  for (const [id, apiKey] of Object.entries(apiKeys)) report(`API key of ${id}: ${apiKey}`);
}

/** What the steps remember from one `up` to the next, in a volume. */
type Remembered = Stores & {
  /** What simulators sign with is made of it; made once. */
  webhookSecret?: string;
};

/** A provider's own, where they are given; else what its simulator signs with. */
function secretsOf(provider: ListedProvider, remembered: Remembered): string | undefined {
  const given = givenSecrets(provider);
  if (given !== undefined) return given;
  remembered.webhookSecret ??= randomBytes(24).toString('base64url');
  return simulatorSecret(provider, remembered.webhookSecret);
}

/** Leaves for each service its settings in files, and nothing of the others' settings. */
function writeSettings(wiring: Wiring): void {
  for (const service of services) {
    const settings = service.settings(wiring);
    // An empty file counts as no setting: a service names it also where the stores leave it out.
    const inFiles = settingsInFiles.map((setting) => [setting, settings[setting] ?? '']);
    writeFiles(service.name, Object.fromEntries(inFiles) as Record<string, string>);
  }
}

/** Leaves settings in files that only one container sees. */
function writeFiles(container: string, settings: Readonly<Record<string, string>>): void {
  for (const [setting, value] of Object.entries(settings)) {
    writeFileSync(writtenAt(container, fileOf(setting)), value, { mode: 0o600 });
  }
}

/**
 * Waits for a part whose image has nothing to ask it with, so that no health check can.
 *
 * @throws CommandError when it does not answer, mostly because its profile was not asked for.
 */
async function awaitPart(name: PartName, address: string): Promise<void> {
  const part = allParts.find((each) => each.name === name)!;
  const deadline = performance.now() + partAnswersWithinMs;
  for (;;) {
    try {
      return await part.probe(address);
    } catch (error) {
      if (performance.now() < deadline) {
        await delay(askAgainMs);
        continue;
      }
      const why = `${part.title} does not answer at ${address}`;
      throw new CommandError(`${why}: docker compose --profile ${name} up brings it`, {
        cause: error,
      });
    }
  }
}

/**
 * A step cannot stop a gateway, and one that goes on with the store of before would take keys that
 * the new store is then asked for in vain.
 *
 * @throws CommandError while one runs.
 */
async function refuseWhileGatewaysRun(store: ClaimStore): Promise<void> {
  if (!(await accepts(inNetwork.gateway))) return;
  throw new CommandError(
    `claims do not move to ${store} while gateways run: docker compose stop ingest-gateway, then up again`,
  );
}

/** Its name cannot be resolved either when no container of it runs. */
async function accepts(address: string): Promise<boolean> {
  const { hostname: host, port } = new URL(`tcp://${address}`);
  const socket = connect({ host, port: Number(port) });
  const signal = AbortSignal.timeout(5_000);
  const connected = once(socket, 'connect', { signal }).then(
    () => true,
    () => false,
  );
  return connected.finally(() => socket.destroy());
}

/** One sentence that speaks of containers for what a person can act on, else the stack. */
function describe(error: unknown): string {
  if (error instanceof CommandError) {
    return error.message
      .replaceAll('npm run down -- --volumes', 'docker compose down --volumes')
      .replaceAll('this home', 'these volumes')
      .replaceAll('another --home', 'another project (docker compose -p)');
  }
  if (!(error instanceof Error)) return String(error);
  // PostgreSQL took its password from the credentials when its volume was made.
  if ((error as { code?: unknown }).code === '28P01') {
    return 'PostgreSQL refuses the password, so its volume and that of the credentials are of two installations: docker compose down --volumes forgets both';
  }
  return error.stack ?? error.message;
}
