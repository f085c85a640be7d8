import { join } from 'node:path';
import { cloneFolder, compiledCode } from './home.ts';
import { askedPort, choosePorts, type PortRequest } from './ports.ts';
import { isPaused, isSameProcess } from './processes/identity.ts';
import {
  type Command,
  connectOnce,
  hashOf,
  probeHttp,
  type Running,
  startProcess,
  stillRunning,
  together,
  waitUntilReady,
  yieldToOthers,
} from './processes/start.ts';
import { signalFamily, stopProcess } from './processes/stop.ts';
import { allParts } from './parts/start-parts.ts';
import { agent, firstAdminPort, heapWithin, type Service } from './service-table.ts';
import { settingsGiven } from './providers.ts';
import type { ProcessRecord, Session } from './session.ts';
import { stopOrderOf } from './stop-order.ts';
import type { Wiring } from './wiring.ts';

/** One process of a service. Copies are counted from 0. */
type Copy = { service: Service; name: string; copy: number };
type Ports = Readonly<Record<string, number>>;

/**
 * What is to run; services and processes called by a name in `except` are left alone, and all
 * processes but those in `only`, if it is given.
 */
type Wanted = { table: readonly Service[]; except?: readonly string[]; only?: readonly string[] };

/** A copy as it is to run. */
type Start = { copy: Copy; ports: Ports; command: Command };

/**
 * Has every service running and ready, in as many copies as the session's state says. One that runs
 * with the same settings is left alone.
 *
 * Where some run with other settings, or from another clone, each copy is replaced once the one
 * before it is ready, in the order of an upgrade (docs/operating.md): the others go on meanwhile.
 * One that does not get ready ends it, with those behind it as they were.
 */
export async function startServices(
  session: Session,
  wanted: Wanted,
  wiring: Wiring,
): Promise<void> {
  const starts: Start[] = [];
  for (const copy of wantedCopies(wanted, session.state.replicas)) {
    const ports = await portsOf(session, copy);
    starts.push({ copy, ports, command: commandOf(copy, ports, wiring) });
  }
  if (starts.some((start) => runsOtherwise(session, start))) {
    for (const start of starts) await awaitService(session, await startCopy(session, start));
    return;
  }
  const started: Started[] = [];
  for (const start of starts) started.push(await startCopy(session, start));
  await together(
    session.signal,
    started.map((each) => (signal) => awaitService({ ...session, signal }, each)),
  );
}

/** The choices of ports that starting so many of each will need. */
export function portsOfServices(
  session: Session,
  wanted: Wanted,
  replicas: number,
): (() => Promise<unknown>)[] {
  return wantedCopies(wanted, replicas).map((copy) => () => portsOf(session, copy));
}

/** In the order in which they start: those that take work in come last. */
function wantedCopies({ table, except = [], only }: Wanted, replicas: number): Copy[] {
  return copiesOf(table.toReversed(), replicas).filter(
    ({ name, service }) =>
      !except.includes(name) &&
      !except.includes(service.name) &&
      (only === undefined || only.includes(name)),
  );
}

/** The ports of a process, chosen before anything starts; none where the table does not have it. */
export async function portsOfOne(
  session: Session,
  table: readonly Service[],
  name: string,
): Promise<Ports> {
  const copy = copiesOf(table, 1).find((each) => each.name === name);
  return copy === undefined ? {} : portsOf(session, copy);
}

/** Every process of the pipeline's services, and where each answers operators, by its ports. */
export async function processUrls(
  session: Session,
  table: readonly Service[],
): Promise<{ name: string; url: string }[]> {
  const urls: { name: string; url: string }[] = [];
  for (const copy of copiesOf(table, session.state.replicas)) {
    const { admin } = await portsOf(session, copy);
    if (admin !== undefined) urls.push({ name: copy.name, url: `http://127.0.0.1:${admin}` });
  }
  return urls;
}

/** What the processes of a table are called. */
export function processNames(table: readonly Service[], replicas: number): string[] {
  return copiesOf(table, replicas).map(({ name }) => name);
}

function copiesOf(table: readonly Service[], replicas: number): Copy[] {
  return table.flatMap((service) => {
    if (service.copies === 'one') return [{ service, name: service.name, copy: 0 }];
    return Array.from({ length: replicas }, (_, copy) => {
      return { service, name: `${service.name}-${copy + 1}`, copy };
    });
  });
}

type Started = { copy: Copy; running: Running };

async function startCopy(session: Session, { copy, ports, command }: Start): Promise<Started> {
  const { name } = copy;
  const record = runningRecord(session, name);
  if (record?.settings === hashOf(command)) {
    // A fault that was interrupted may have left it standing still.
    if (isPaused(record.pid)) signalFamily(record.pid, 'SIGCONT');
    return { copy, running: stillRunning(session, record) };
  }
  if (record !== undefined) {
    session.report(`${name}: its settings changed, starting it again`);
    await stopProcess(record, stopOrderOf(name));
  }
  return { copy, running: await startProcess(session, { name, ports, command }) };
}

function runsOtherwise(session: Session, { copy, command }: Start): boolean {
  const record = runningRecord(session, copy.name);
  return record !== undefined && record.settings !== hashOf(command);
}

function runningRecord({ state }: Session, name: string): ProcessRecord | undefined {
  const record = state.processes[name];
  return record !== undefined && isSameProcess(record) ? record : undefined;
}

/** A running service keeps its ports, unless others are asked for. */
async function portsOf(session: Session, { service, name, copy }: Copy): Promise<Ports> {
  const requests: PortRequest[] = service.ports.map(({ use, usual, variable }) => {
    // One variable moves the admin ports of all services; they keep their distances.
    if (use !== 'admin') return { use, usual, variable, offset: copy };
    return { use, usual: firstAdminPort, variable, offset: usual - firstAdminPort + copy };
  });
  const kept = runningRecord(session, name)?.ports ?? {};
  const moved = requests.filter((request) => {
    const current = kept[request.use];
    return current === undefined || (askedPort(request) ?? current) !== current;
  });
  return { ...kept, ...(await choosePorts(session, { name, requests: moved })) };
}

function commandOf({ service, name }: Copy, ports: Ports, wiring: Wiring): Command {
  const listening = service.ports.map(({ use, setting }) => [setting, String(ports[use])]);
  return {
    file: process.execPath,
    // kafkajs computes a negative timer on newer Nodes; harmless, and only noise in the log.
    args: [
      '--disable-warning=TimeoutNegativeWarning',
      ...heapWithin(service.memoryMiB),
      join(cloneFolder, service.main),
    ],
    cwd: cloneFolder,
    settings: {
      NODE_COMPILE_CACHE: compiledCode,
      TRIPLOCK_MODE: wiring.mode,
      INSTANCE_NAME: name,
      LOG_LEVEL: process.env['LOG_LEVEL'] ?? 'info',
      ...(Object.fromEntries(listening) as Record<string, string>),
      ...(service.isTraced && tracingSettings()),
      ...service.settings(wiring),
      ...wiring.settings['all'],
      ...wiring.settings[service.name],
    },
  };
}

async function awaitService(session: Session, { copy, running }: Started): Promise<void> {
  const { ports } = running.record;
  const asked = copy.service.ports.map(({ use, ready }) => ({ port: ports[use]!, ready }));
  const urls = asked.map(({ port, ready }) => `http://127.0.0.1:${port}${ready}`);
  const listening = asked.map(({ port }) => port);
  const probe = async () => {
    await connectOnce(listening[0]!);
    for (const url of urls) await probeHttp(url);
  };
  const startedMs = performance.now();
  await waitUntilReady(running, { probe, ports: listening, signal: session.signal });
  // Not before: whoever starts it waits for it.
  if (copy.service.yields) await yieldToOthers(running.record);
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  const where = new URL(urls.at(-1)!).origin;
  session.report(`${copy.name}: ready on ${where} (${seconds} s)`);
}

/**
 * OpenTelemetry's variables as they are set where the launcher is called, for the services of the
 * pipeline: nothing is traced without them (docs/observability.md). Each service keeps its name.
 */
export function tracingSettings(): Record<string, string> {
  const given = Object.entries(process.env).flatMap(([name, value]) =>
    name.startsWith('OTEL_') && name !== 'OTEL_SERVICE_NAME' && value ? [[name, value]] : [],
  );
  return Object.fromEntries(given) as Record<string, string>;
}

/** Where the agent answers whom; nothing where the table has none. */
export async function wireAgent(
  session: Session,
  table: readonly Service[],
): Promise<NonNullable<Wiring['agent']> | undefined> {
  const { http } = await portsOfOne(session, table, agent.name);
  if (http === undefined) return undefined;
  const { home, credentials } = session;
  return {
    url: `http://127.0.0.1:${http}`,
    token: credentials.agentToken,
    home: home.folder,
    environment: environmentOfLauncher(),
  };
}

/**
 * What the launcher itself goes by: a command that the agent runs would otherwise start services
 * with other settings than they have, or not find what a part is made of.
 */
function environmentOfLauncher(): Record<string, string> {
  const names = [
    ...allParts.map(({ given }) => given.variable),
    ...settingsGiven,
    ...['XDG_CACHE_HOME', 'JAVA_HOME', 'CLOUDSDK_ROOT'],
  ];
  const given = names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : []));
  return { ...tracingSettings(), ...(Object.fromEntries(given) as Record<string, string>) };
}
