import type { ClaimPart } from '@triplock/claim-stores';
import type { Outbox } from '@triplock/ledger';
import { openLedgerStore } from '@triplock/ledgers';
import { openForCommand, type Database } from '@triplock/postgres';
import { createLogger } from '@triplock/runtime';
import {
  kafkaOf,
  openPublisher,
  type BrokerConnection,
  type OutgoingMessage,
} from '@triplock/transport';
import { CommandError, UsageError, wordsOf, type Terminal } from '@triplock/command';
import { readConfig, required, type Config, type NeededSetting } from './config.ts';

/** What a command cannot do its work without. */
export type Part = ClaimPart | 'kafka' | 'postgres' | 'pubsub' | 'catcher';

/** Whoever calls a command: a shell, or the launcher for the system on this machine. */
export type Caller = {
  args: readonly string[];
  /** Finds the system to work on; without it the process's own environment says where it is. */
  findSystem?: () => Promise<FoundSystem>;
};

/** Where a system is, and who can tell how it is. */
export type FoundSystem = {
  /** The settings. */
  environment: NodeJS.ProcessEnv;
  diagnose: Diagnose;
};

/**
 * Which of these parts, or of all, do not work, each in a sentence that ends in the next step. Only
 * who started them knows that; others learn it from the error of whatever they try.
 */
export type Diagnose = (only?: readonly Part[]) => Promise<string[]>;

/** A command at work on a system. */
export type Operator = {
  config: Config;
  terminal: Terminal;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  diagnose: Diagnose;
};

/**
 * What every command begins with, once its words make sense.
 *
 * @throws UsageError for a setting that is malformed, or where there is no system.
 */
export async function operatorFor(
  { findSystem }: Caller,
  working: { terminal: Terminal; signal: AbortSignal },
): Promise<Operator> {
  const { environment, diagnose = nobodyKnows } = (await findSystem?.()) ?? {};
  return { config: readConfig(environment), ...working, diagnose };
}

const nobodyKnows: Diagnose = () => Promise.resolve([]);

/** Nobody waits for a command's single call as somebody does for a service's. */
const callLimitMs = 60_000;
/** The same, of a question to the brokers, which is asked again by hand. */
const answerWithinMs = 20_000;

/** @throws UsageError where KAFKA_BROKERS is not set. */
export function brokersOf({ config }: Pick<Operator, 'config'>): BrokerConnection {
  const { KAFKA_BROKERS } = required(config, 'KAFKA_BROKERS');
  const instance = 'triplock-operator';
  const logger = createLogger({ service: 'operator', instance, level: 'silent' });
  const connection = kafkaOf({ ...config, KAFKA_BROKERS }, { clientId: instance, logger });
  return { ...connection, answerWithinMs };
}

/** Works with the outbox of the ledger. One in PostgreSQL is reached by the caller's connection. */
export async function withOutbox<Result>(
  config: Config,
  database: Database,
  work: (outbox: Outbox) => Promise<Result>,
): Promise<Result> {
  // Closing the outbox closes its connection, which is not to be the caller's.
  const lent = { ...database, close: async () => undefined };
  const limits = { callLimitMs, transactionsMax: 1 };
  const { outbox } = await openLedgerStore(config, () => lent, limits);
  try {
    return await work(outbox);
  } finally {
    await outbox.close();
  }
}

/**
 * Publishes one message to the events topic, without an ordering key.
 *
 * @throws UsageError where PUBSUB_PROJECT_ID is not set; the broker's error where nobody knows
 * whether it was published.
 */
export async function publishOnce(
  config: Config,
  message: Omit<OutgoingMessage, 'orderingKey'>,
): Promise<'published' | 'unpublishable'> {
  const { PUBSUB_PROJECT_ID: projectId } = required(config, 'PUBSUB_PROJECT_ID');
  const { EVENTS_TOPIC: topic, PUBSUB_EMULATOR_HOST: emulatorHost } = config;
  const publisher = openPublisher({ projectId, emulatorHost, topic });
  try {
    const [result] = await publisher.publishInOrder([{ ...message, orderingKey: '' }]);
    if (result!.outcome === 'unknown') throw result!.error;
    return result!.outcome;
  } finally {
    await publisher.close();
  }
}

/**
 * Does the work if the parts that it needs do theirs.
 *
 * @throws UsageError that names what does not work and the next step, also when that began during
 * the work and the work failed; else the work's own error.
 */
export async function withParts<Result>(
  { diagnose, signal }: Pick<Operator, 'diagnose' | 'signal'>,
  only: readonly Part[],
  work: () => Promise<Result>,
): Promise<Result> {
  const refuse = async (cause?: unknown) => {
    const broken = await diagnose(only);
    if (broken.length > 0) throw new UsageError(broken.join('\n'), { cause });
  };
  await refuse();
  try {
    return await work();
  } catch (error) {
    if (signal.aborted || error instanceof CommandError) throw error;
    await refuse(error);
    throw isUnreachable(error) ? new CommandError(wordsOf(error), { cause: error }) : error;
  }
}

/** What a command needs besides the database that it changes. */
export type Needs = {
  /** The command, by which the database's own lists show its sessions. */
  name: string;
  parts: readonly Part[];
  settings?: readonly NeededSetting[];
  statementTimeoutMs?: number;
};

/**
 * Does the work on the database, as its owner, if all that it needs is there.
 *
 * @throws UsageError that names every setting that is missing, and as {@link withParts}.
 */
export async function withDatabase<Result>(
  operator: Operator,
  { name, parts, settings = [], ...limits }: Needs,
  work: (database: Database) => Promise<Result>,
): Promise<Result> {
  const { DATABASE_URL: url } = required(operator.config, 'DATABASE_URL', ...settings);
  const database = openForCommand({ url, applicationName: name, connectionsMax: 2, ...limits });
  try {
    return await withParts(operator, ['postgres', ...parts], () => work(database));
  } finally {
    operator.terminal.clear();
    await database.close();
  }
}

/** What a network, or a database that does not know us, answers: no matter of a stack. */
const unreachable = ['ECONNREFUSED', 'ENOTFOUND', 'ETIMEDOUT', 'EHOSTUNREACH', '28P01', '3D000'];

function isUnreachable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isUnreachable);
  if (!(error instanceof Error)) return false;
  const { code } = error as { code?: unknown };
  if (error.name === 'DeadlineError' || unreachable.includes(String(code))) return true;
  return isUnreachable(error.cause);
}

/** A part that could not be asked, in a sentence that ends in the next step. */
export type Unasked = { part: string; why: string };

/**
 * Asks a part if it does its work, and otherwise goes on with `otherwise`, having noted why in
 * `unasked`. What hangs is noticed before it is asked, where somebody can tell.
 */
export async function askPart<Answer>(
  { diagnose, signal }: Pick<Operator, 'diagnose' | 'signal'>,
  { part, otherwise, unasked }: { part: Part; otherwise: Answer; unasked: Unasked[] },
  ask: () => Promise<Answer>,
): Promise<Answer> {
  const broken = await diagnose([part]);
  if (broken.length > 0) {
    unasked.push(...broken.map((why) => ({ part, why })));
    return otherwise;
  }
  try {
    return await ask();
  } catch (error) {
    if (signal.aborted) throw error;
    unasked.push({ part, why: `${part}: ${wordsOf(error)}` });
    return otherwise;
  }
}

/**
 * Work on an address. Its operator acts on what it said, not on where in this code that arrived.
 *
 * @throws CommandError that names the address, without its password.
 */
export async function atAddress<Result>(
  address: string,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CommandError || (error as Error).name === 'AbortError') throw error;
    throw new CommandError(`${withoutPassword(address)}: ${wordsOf(error)}`, { cause: error });
  }
}

function withoutPassword(address: string): string {
  return address.replace(/\/\/[^@/]*@/, '//');
}
