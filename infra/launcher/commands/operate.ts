import { existsSync } from 'node:fs';
import { operate, type OperatorCommand } from '@triplock/operator';
import type { FoundSystem } from '@triplock/inspect';
import { takeUpContainers } from '../containers/take-up.ts';
import { type Endpoints, isWholeSystem, type PartEndpoints } from '../endpoints.ts';
import { UsageError } from '@triplock/command';
import { homeAt, startCommand } from '../home.ts';
import { usualNames } from '../names.ts';
import { readState } from '../session.ts';
import { runningSystem, unreachableParts } from '../status.ts';
import { accountAt, settingsOfAccounts } from '../providers.ts';
import { providerNames } from '@triplock/providers';
import { claimsAt, kafkaClient, ledgerAt } from '../wiring.ts';

// Runs an operators' command on the system of a home: `operate.ts COMMAND [words and options]`.
const [name, ...given] = process.argv.slice(2) as [OperatorCommand, ...string[]];
const { home, args } = withoutHome(given);
// These two are for a system elsewhere, by what the environment says.
const isElsewhere = name === 'migrate' || (name === 'partners' && isSet('PARTNERS_DATABASE_URL'));
await operate(name, { args, ...(!isElsewhere && { findSystem: () => findSystem(home) }) });

/** Takes `--home DIR` out of a command line: only the launcher knows homes. */
function withoutHome(words: readonly string[]): { home: string | undefined; args: string[] } {
  const args = [...words];
  const at = args.findIndex((word) => word === '--home' || word.startsWith('--home='));
  if (at < 0) return { home: undefined, args };
  const inOne = args[at] !== '--home';
  const value = inOne ? args[at]!.slice('--home='.length) : args[at + 1];
  // Without a value it is left there, and refused with what is wrong about it.
  if (value === undefined || value === '') return { home: undefined, args };
  args.splice(at, inOne ? 1 : 2);
  return { home: value, args };
}

function isSet(variable: string): boolean {
  return (process.env[variable] ?? '') !== '';
}

/** @throws UsageError that says how to start it when it does not run. */
async function findSystem(home: string | undefined): Promise<FoundSystem> {
  await takeUpContainers(home, (line) => process.stderr.write(`${line}\n`));
  const { endpoints, running: names } = await runningSystem(home);
  const running = names.length > 0;
  const diagnoseIn = (folder: string) => (only?: Parameters<FoundSystem['diagnose']>[0]) =>
    unreachableParts({ home: folder, ...(only && { only }) });
  // It wants the parts and no service: those that `up --parts-only` started are enough.
  if (running && name === 'rewind' && endpoints !== undefined && !isWholeSystem(endpoints)) {
    return { environment: settingsOfParts(endpoints), diagnose: diagnoseIn(endpoints.home) };
  }
  if (!running || endpoints === undefined || !isWholeSystem(endpoints)) {
    throw new UsageError(`the system is not up: start it with \`${startCommand(home)}\``);
  }
  return {
    environment: settingsOf(endpoints),
    diagnose: diagnoseIn(endpoints.home),
  };
}

/** The same of parts alone: the database as its owner, and where the last `up` kept the ledger. */
function settingsOfParts(parts: PartEndpoints): NodeJS.ProcessEnv {
  const database = new URL(parts.postgres);
  database.pathname = `/${usualNames.database}`;
  const { ledger = 'postgres' } = readState(homeAt(parts.home));
  return {
    TRIPLOCK_MODE: 'demo',
    DATABASE_URL: database.href,
    ...brokersOf(parts),
    ...ledgerAt(ledger, parts, usualNames),
  };
}

function brokersOf({ kafka, pubsubProject, pubsub }: PartEndpoints): NodeJS.ProcessEnv {
  return {
    KAFKA_BROKERS: kafka,
    KAFKA_CLIENT: kafkaClient(),
    PUBSUB_PROJECT_ID: pubsubProject,
    PUBSUB_EMULATOR_HOST: pubsub,
  };
}

/** What the operators' commands are given of a system. */
function settingsOf(endpoints: Endpoints): NodeJS.ProcessEnv {
  const { databases, services } = endpoints;
  const keysFile = homeAt(endpoints.home).webhookKeys;
  const auditor = services.find(({ service }) => service === 'auditor');
  if (name === 'audit' && auditor === undefined) {
    throw new UsageError(`no auditor runs: \`${startCommand(endpoints.home)}\` starts it again`);
  }
  return {
    TRIPLOCK_MODE: endpoints.mode,
    DATABASE_URL: name === 'trace' ? databases.auditor : endpoints.postgres,
    PARTNERS_DATABASE_URL: databases.partners,
    ...brokersOf(endpoints),
    AUDITOR_URL: auditor?.health,
    ...ledgerAt(endpoints.ledger, endpoints, usualNames),
    CLAIM_NAMESPACE: usualNames.claims,
    ...claimsAt(endpoints.claims, { ...endpoints, postgres: databases.claims }),
    ...settingsOfAccounts(
      providerNames.map((name) => accountAt(name, endpoints.providers[name].url)),
    ),
    CATCHER_URL: endpoints.catcher,
    ...(existsSync(keysFile) && { WEBHOOK_KEYS_FILE: keysFile }),
  };
}
