import { createHash } from 'node:crypto';
import { replicasMax } from '../choices.ts';
import { CommandError, UsageError } from '@triplock/command';
import { defaultHome } from '../home.ts';
import { allParts } from '../parts/start-parts.ts';
import { chooseFirst, choosePorts, isFree } from '../ports.ts';
import { services } from '../service-table.ts';
import { declarations } from '../services.ts';
import type { Session } from '../session.ts';

/** Where replicas are published, a range for each port, and where it begins in the default home. */
const ranges = declarations.flatMap(({ ports }) =>
  ports.map(({ published, usual }) => ({ published, usual })),
);

/** Above where the launcher's processes get theirs, and below those of outgoing connections. */
const slots = (() => {
  const wide = ranges.length * replicasMax;
  return { from: 30_000, wide, count: Math.floor(2_700 / wide) };
})();

/**
 * The ports of this machine that the containers of a home are published on where there is one of
 * each, as docker-compose.yml takes them from the environment. Choose them only when no container
 * of the home has them yet.
 *
 * @throws CommandError when one that was asked for is taken.
 */
export async function publishedPorts(session: Session): Promise<Record<string, string>> {
  const ports: Record<string, string> = {};
  const ones = services.filter(({ copies }) => copies === 'one');
  for (const { name, ports: requests } of [...allParts, ...ones]) {
    const [request] = requests;
    const chosen = await choosePorts(session, { name, requests: [request!] });
    ports[request!.variable] = String(chosen[request!.use]);
  }
  return ports;
}

/**
 * Those of replicas, from where {@link chooseRanges} put them. A range is as wide as there are
 * replicas: within a wider one an engine goes on where it was, and the first gateway would be
 * elsewhere after every start.
 */
export function publishedRanges(
  { home, state }: Pick<Session, 'home' | 'state'>,
  replicas: number,
): Record<string, string> {
  const wide = ranges.map(({ published, usual }, index) => {
    const asked = askedRange(published);
    const from = state.publishedFrom ?? slots.from;
    const first = home.folder === defaultHome ? usual : from + index * replicasMax;
    return [published, asked ?? `${first}-${first + replicas - 1}`];
  });
  return Object.fromEntries(wide) as Record<string, string>;
}

/**
 * Chooses where the ranges of a home that is not the default one begin, and remembers it: each may
 * grow to as many replicas as there can be, and all of it is free now and nobody else's until then.
 * Choose only when no container of the home is published yet.
 *
 * @throws CommandError when no such place is left.
 */
export async function chooseRanges({ home, state, reservations }: Session): Promise<void> {
  if (home.folder === defaultHome) return;
  const start = createHash('sha256').update(home.folder).digest().readUInt32BE() % slots.count;
  for (let step = 0; step < slots.count; step += 1) {
    const from = slots.from + ((start + step) % slots.count) * slots.wide;
    const ports = Array.from({ length: slots.wide }, (_, n) => from + n);
    // Reserved before it is looked at: whoever else finds it free leaves it alone.
    if (!ports.every((port) => reservations.reserve(port))) continue;
    if (!(await Promise.all(ports.map(isFree))).every(Boolean)) continue;
    state.publishedFrom = from;
    return;
  }
  const variables = ranges.map(({ published }) => published).join(', ');
  throw new CommandError(
    `no free ports for the services: set ${variables} to ranges that are free`,
  );
}

/**
 * Looks whether so many replicas find a port each, before any container starts.
 *
 * @throws CommandError that names every range that is taken.
 */
export function refuseTakenRanges(
  ranges: Readonly<Record<string, string>>,
  replicas: number,
): Promise<void> {
  return chooseFirst(
    Object.entries(ranges).map(([variable, range]) => async () => {
      const { name, copies } = declarations.find(({ ports }) =>
        ports.some(({ published }) => published === variable),
      )!;
      const [first = NaN, last = first] = range.split('-').map(Number);
      const ports = Array.from({ length: last - first + 1 }, (_, n) => first + n);
      const taken: number[] = [];
      for (const port of ports) if (!(await isFree(port))) taken.push(port);
      // An engine publishes each on the next that is free.
      const wanted = copies === 'one' ? 1 : replicas;
      if (ports.length - taken.length >= wanted || taken.length === 0) return;
      throw new CommandError(
        `port ${taken.join(' and ')} for ${name} is taken: end what listens there, or set ${variable} to others`,
      );
    }),
  );
}

/** The variable that holds the port. */
export function variableOf(
  port: number,
  published: Readonly<Record<string, string>>,
): string | undefined {
  return Object.keys(published).find((name) => {
    const [first = NaN, last = first] = published[name]!.split('-').map(Number);
    return first <= port && port <= last;
  });
}

function askedRange(name: string): string | undefined {
  const asked = process.env[name]?.trim();
  if (!asked) return undefined;
  const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(asked) ?? [];
  if (1 <= Number(first) && Number(first) <= Number(last) && Number(last) <= 65_535) return asked;
  throw new UsageError(`${name}: expected a port, or ports such as 18080-18081`);
}
