import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { CommandError } from '@triplock/command';
import { PartMissing } from '../errors.ts';
import { askedPort, chooseFirst, choosePorts } from '../ports.ts';
import { isPaused, isSameProcess } from '../processes/identity.ts';
import {
  type Running,
  startProcess,
  stillRunning,
  together,
  waitUntilReady,
} from '../processes/start.ts';
import { signalFamily } from '../processes/stop.ts';
import type { ProcessRecord, Session } from '../session.ts';
import { makeClassArchive } from './class-archive.ts';
import { kafka } from './kafka.ts';
import {
  type Addresses,
  type Fetched,
  type OwnServer,
  type Part,
  type Site,
  withoutPassword,
} from './part.ts';
import { type OptionalPartName } from './part-names.ts';
import { postgres } from './postgres.ts';
import { pubsub } from './pubsub.ts';
import { redis } from './redis.ts';
import { storeParts } from './store-parts.ts';

type Picked =
  | { part: Part; outcome: 'given'; address: string }
  | { part: Part; outcome: 'running'; running: Running; address: string }
  | { part: Part; outcome: 'native'; fetched: Fetched };
type Ready = { part: Part; address: string };

/**
 * Has every usual part running and ready, and those that are asked for or run already: one that is
 * given by the environment, one that runs, or one that is started here. Says which it picked.
 * Nothing is started when a part cannot be had, or a port that was asked for.
 *
 * @param how `startedOften`: they will be started many times, which is worth making ready for.
 * `asTheyAre`: none is started, nor does one go on that stands still; that is refused instead.
 */
export async function startParts(
  session: Session,
  asked: readonly OptionalPartName[] = [],
  how?: 'startedOften' | 'asTheyAre',
): Promise<Addresses> {
  if (how === 'asTheyAre') refuseAway(session, asked);
  await chooseFirst(portsOfParts(session, asked));
  const tasks: ((signal: AbortSignal) => Promise<Ready>)[] = [];
  for (const picked of await pickParts(session, asked)) {
    const ports = picked.outcome === 'native' ? await portsFor(session, picked.part) : {};
    if (how === 'asTheyAre' && picked.outcome !== 'given') {
      tasks.push((signal) => findPicked({ ...session, signal }, picked));
      continue;
    }
    if (how === 'startedOften' && picked.outcome === 'native') {
      await makeClassArchive(session, picked.part, { fetched: picked.fetched, ports });
    }
    tasks.push((signal) => startPicked({ ...session, signal }, picked, ports));
  }
  const ready = await together(session.signal, tasks);
  return Object.fromEntries(ready.map(({ part, address }) => [part.name, address])) as Addresses;
}

/** The choices of ports that starting the parts will need. */
export function portsOfParts(
  session: Session,
  asked: readonly OptionalPartName[] = [],
): (() => Promise<Site['ports']>)[] {
  return wantedParts(session, asked)
    .filter((part) => givenAddress(part) === undefined && runs(session, part) === undefined)
    .map((part) => () => portsFor(session, part));
}

function wantedParts(session: Session, asked: readonly OptionalPartName[]): Part[] {
  const isWanted = (part: Part) =>
    usualParts.includes(part) ||
    asked.some((name) => name === part.name) ||
    runs(session, part) !== undefined;
  return allParts.filter(isWanted);
}

async function pickParts(session: Session, asked: readonly OptionalPartName[]): Promise<Picked[]> {
  const picked: Picked[] = [];
  const problems: CommandError[] = [];
  for (const part of wantedParts(session, asked)) {
    try {
      picked.push(await pickPart(session, part));
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      problems.push(error);
    }
  }
  if (problems.length > 0) {
    const words = problems.map(({ message }) => message).join('\n');
    const isMissing = problems.every((each) => each instanceof PartMissing);
    throw isMissing ? new PartMissing(words) : new CommandError(words);
  }
  return picked;
}

async function pickPart(session: Session, part: Part): Promise<Picked> {
  const address = givenAddress(part);
  if (address !== undefined) {
    session.report(`${part.name}: given by ${part.given.variable}, ${withoutPassword(address)}`);
    return { part, outcome: 'given', address };
  }
  const record = runs(session, part);
  if (record !== undefined) {
    refuseMove(part, record.ports);
    const address = part.address({ session, ports: record.ports });
    return { part, outcome: 'running', running: stillRunning(session, record), address };
  }
  const fetched = await part.fetch(session);
  session.report(`${part.name}: native, ${fetched.picked}`);
  return { part, outcome: 'native', fetched };
}

function givenAddress({ given }: Part): string | undefined {
  const value = process.env[given.variable]?.trim();
  return value ? given.address(value) : undefined;
}

function runs({ state }: Session, { name }: Part): ProcessRecord | undefined {
  const record = state.processes[name];
  return record !== undefined && isSameProcess(record) ? record : undefined;
}

function portsFor(session: Session, { name, ports }: Part): Promise<Site['ports']> {
  return choosePorts(session, { name, requests: ports });
}

async function startPicked(session: Session, picked: Picked, ports: Site['ports']): Promise<Ready> {
  const { part } = picked;
  switch (picked.outcome) {
    case 'given':
      await probeGiven(part, picked.address);
      return { part, address: picked.address };
    case 'running': {
      const { pid, ports: kept } = picked.running.record;
      // A fault that was interrupted may have left it standing still.
      if (isPaused(pid)) signalFamily(pid, 'SIGCONT');
      try {
        await awaitPart(session, part, picked);
        return { part, address: picked.address };
      } catch (error) {
        // Met while it was dying of a signal of a moment ago.
        if (session.signal.aborted || picked.running.ended() === undefined) throw error;
        const fetched = await part.fetch(session);
        session.report(`${part.name}: ended just now, starting it again`);
        return startPicked(session, { part, outcome: 'native', fetched }, kept);
      }
    }
    case 'native': {
      const site = { session, folder: join(session.home.data, part.name), ports };
      const bare = await picked.fetched.command(site);
      const command = picked.fetched.behindDoor?.(bare, site) ?? bare;
      const running = await startProcess(session, { name: part.name, ports, command });
      const address = part.address(site);
      await awaitPart(session, part, { running, address });
      return { part, address };
    }
    default:
      return picked satisfies never;
  }
}

/** One that was killed, or stands still, a moment ago is left so. */
async function findPicked(
  session: Session,
  picked: Exclude<Picked, { outcome: 'given' }>,
): Promise<Ready> {
  const { part } = picked;
  if (picked.outcome === 'native') throw isAway(part);
  await awaitPart(session, part, picked);
  return { part, address: picked.address };
}

function refuseAway(session: Session, asked: readonly OptionalPartName[]): void {
  const away = wantedParts(session, asked).find((part) => {
    if (givenAddress(part) !== undefined) return false;
    const record = runs(session, part);
    return record === undefined || isPaused(record.pid);
  });
  if (away !== undefined) throw isAway(away);
}

const isAway = ({ name }: Part) => new CommandError(`${name} does not run, and services need it`);

async function awaitPart(
  session: Session,
  part: Part,
  { running, address }: { running: Running; address: string },
): Promise<void> {
  const startedMs = performance.now();
  const { home, signal } = session;
  const probe = () => probeOwn(part, address, { home, pid: running.record.pid });
  await waitUntilReady(running, { probe, ports: probedPorts(part, running.record), signal });
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  session.report(`${part.name}: ready on ${withoutPassword(address)} (${seconds} s)`);
}

/** Asks a part of this home whether it is ready, and whether it is the one that answers. */
export async function probeOwn(part: Part, address: string, own: OwnServer): Promise<void> {
  await part.probe(address);
  await part.recognise?.(address, own);
}

/** The port that a part is asked on, which its process must listen on itself. */
export function probedPorts(part: Part, { ports }: ProcessRecord): number[] {
  return [ports[part.ports[0]!.use]!];
}

/** Everything else was given the old port, so a running part does not move. */
function refuseMove(part: Part, ports: Readonly<Record<string, number>>): void {
  for (const request of part.ports) {
    const asked = askedPort(request);
    const current = ports[request.use];
    if (asked === undefined || asked === current) continue;
    const why = `${request.variable} asks for ${asked}, but ${part.name} runs on ${current}`;
    throw new CommandError(`${why}: stop it first (npm run down)`);
  }
}

/**
 * A server that refuses is away; one that takes its time may be busy, and is asked again, as is a
 * broker that answers and has yet to make its group coordinator.
 */
async function probeGiven(part: Part, address: string, triesLeft = 4): Promise<void> {
  const asked = performance.now();
  try {
    await part.probe(address);
  } catch (error) {
    const isSlow = performance.now() - asked > 1_000;
    const isMaking = error instanceof Error && error.name === 'KafkaJSGroupCoordinatorNotFound';
    if ((isSlow || isMaking) && triesLeft > 1) {
      if (isMaking) await setTimeout(2_000);
      return probeGiven(part, address, triesLeft - 1);
    }
    const why = error instanceof Error ? error.message : String(error);
    const server = `${withoutPassword(address)}, given by ${part.given.variable}`;
    throw new CommandError(`${part.title}: ${server}, does not answer: ${why}`);
  }
}

/** Parts that are always there. */
export const usualParts: readonly Part[] = [redis, kafka, postgres, pubsub];

/** Every part, in the order in which they are shown and fetched. */
export const allParts: readonly Part[] = [...usualParts, ...storeParts];

/** The parts of a system, in words. */
export function titlesOfParts(addresses: Addresses): string[] {
  return allParts.filter(({ name }) => addresses[name] !== undefined).map(({ title }) => title);
}
