import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  bodyWithin,
  createBoundedServer,
  explainListenError,
  quickLimits,
  refusedControl,
  refusedVisit,
  saysOnce,
} from '@triplock/runtime';
import { knownScenarios, loadLimits, missingGuardNames } from '@triplock/inspect';
import { CommandError } from '@triplock/command';
import { continueProcess, killProcess, pauseProcess } from '../faults.ts';
import { runStates } from '../status.ts';
import type { JobNews, Jobs, Order } from './jobs.ts';

/** What an agent works with: the jobs of a home, and the token that every request has to show. */
export type Agent = { jobs: Jobs; home: string; token: string };

type Answer = { status: number; body: unknown };

/** Nothing that it is asked is longer. */
const bodyBytesMax = 4 * 1024;
/** How often somebody who listens is told of a process that came or went, and of all at least. */
const lookEveryMs = 500;
const looksBetweenMax = 60;
/** A listener who takes in nothing is let go of. */
const unreadBytesMax = 4 * 1024 * 1024;

/** Serves the agent on the loopback address. Rejects when the port is taken. */
export async function serveAgent(
  agent: Agent,
  port: number,
): Promise<{ url: string; close(): void }> {
  const server = createBoundedServer((request, response) => {
    handle(agent, request, response).catch((error: unknown) =>
      send(response, { status: 500, body: { error: String(error) } }),
    );
  }, quickLimits);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(explainListenError(error, 'AGENT_PORT')));
    server.listen({ host: '127.0.0.1', port }, resolve);
  });
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}`, close };
}

async function handle(agent: Agent, request: IncomingMessage, response: ServerResponse) {
  const { pathname } = new URL(request.url ?? '/', 'http://agent');
  const asked = `${request.method} ${pathname}`;
  const isHealth = asked === 'GET /healthz';
  const refused = isHealth
    ? refusedVisit(request)
    : saysOnce(request, 'authorization')
      ? refusedControl(request, agent.token)
      : 'say who asks once';
  if (refused !== undefined) return send(response, { status: 403, body: { error: refused } });
  if (asked === 'GET /events') return tellEvents(agent, response);
  send(response, await answer(agent, { asked, request }));
}

async function answer(
  { jobs, home }: Agent,
  { asked, request }: { asked: string; request: IncomingMessage },
): Promise<Answer> {
  switch (asked) {
    case 'GET /healthz':
      return { status: 200, body: { status: 'ok' } };
    case 'GET /scenarios':
      return { status: 200, body: { scenarios: knownScenarios(), guards: missingGuardNames() } };
    case 'GET /state':
      return { status: 200, body: { job: jobs.last() ?? null, processes: breakable(home) } };
    case 'POST /jobs': {
      const order = orderIn((await bodyWithin(request, bodyBytesMax))?.toString('utf8'));
      if (typeof order === 'string') return { status: 400, body: { error: order } };
      const begun = jobs.begin(order);
      if (begun.outcome === 'begun') return { status: 202, body: { job: begun.job } };
      return { status: 409, body: { error: `${begun.by} is under way: wait for it to end` } };
    }
    default:
      return /^POST \/jobs\//.test(asked) ? cancel(jobs, asked) : processAct({ jobs, home }, asked);
  }
}

/** `POST /jobs/ID/cancel`. */
function cancel(jobs: Jobs, asked: string): Answer {
  const [, id] = /^POST \/jobs\/(\d{1,9})\/cancel$/.exec(asked) ?? [];
  if (id === undefined) return { status: 404, body: { error: 'no such path' } };
  if (jobs.cancel(Number(id)) === 'cancelling') return { status: 202, body: { job: jobs.last() } };
  return { status: 409, body: { error: `job ${id} is not under way` } };
}

const signals = { kill: killProcess, pause: pauseProcess, continue: continueProcess } as const;

/** `POST /processes/NAME/kill`, `pause`, `continue` or `start`. */
async function processAct({ jobs, home }: Omit<Agent, 'token'>, asked: string): Promise<Answer> {
  const [, name, act] = /^POST \/processes\/([a-z0-9-]+)\/([a-z]+)$/.exec(asked) ?? [];
  if (name === undefined || act === undefined)
    return { status: 404, body: { error: 'no such path' } };
  if (!breakable(home).some((each) => each.name === name)) {
    return { status: 404, body: { error: `no process here is called ${name}` } };
  }
  if (act !== 'start' && !Object.hasOwn(signals, act)) {
    return { status: 404, body: { error: `nothing is called ${act}` } };
  }
  const held = jobs.hold(`${act} ${name}`);
  if (held.outcome === 'busy') {
    const error = `${held.by} is under way and has the processes: wait for its end`;
    return { status: 409, body: { error } };
  }
  try {
    if (act !== 'start') {
      await signals[act as keyof typeof signals]({ home, name });
      return { status: 200, body: { name } };
    }
    const { code, said } = await jobs.runBeside(['up', name]);
    return code === 0
      ? { status: 200, body: { name, said } }
      : { status: 502, body: { error: said.trim().split('\n').slice(-5).join('\n') } };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return { status: 409, body: { error: error.message } };
  } finally {
    held.release();
  }
}

/** All but the console: without its page nobody could start it again there. */
function breakable(home: string) {
  return runStates(home).filter(({ name }) => name !== 'console');
}

/** What a body asks for, or what is wrong with it. Whatever it says besides is refused. */
function orderIn(text: string | undefined): Order | string {
  const fields = fieldsIn(text);
  if (fields === undefined) return 'send a JSON object of 4 KiB at most';
  const { run, ...rest } = fields;
  const allowed = { scenario: ['scenario', 'without'], load: Object.keys(loadLimits) };
  if (run !== 'scenario' && run !== 'load') return 'run must be scenario or load';
  const other = Object.keys(rest).find((name) => !allowed[run].includes(name));
  if (other !== undefined) return `${other} is not known here`;
  return run === 'scenario' ? scenarioIn(rest) : loadIn(rest);
}

function scenarioIn({ scenario, without }: Readonly<Record<string, unknown>>): Order | string {
  const found = knownScenarios().find(({ name }) => name === scenario);
  if (found === undefined) return 'no scenario has this name';
  if (without === undefined) return { run: 'scenario', scenario: found.name };
  const guard = missingGuardNames().find((name) => name === without);
  if (guard === undefined) return `without must be one of ${missingGuardNames().join(', ')}`;
  return { run: 'scenario', scenario: found.name, without: guard };
}

function loadIn(fields: Readonly<Record<string, unknown>>): Order | string {
  for (const [name, { min, max }] of Object.entries(loadLimits)) {
    const value = fields[name];
    const fits = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
    if (!fits) return `${name} must be a whole number from ${min} to ${max}`;
  }
  const { ratePerSecond, seconds, duplicatesPercent } = fields as Record<string, number>;
  return {
    run: 'load',
    ratePerSecond: ratePerSecond!,
    seconds: seconds!,
    duplicatesPercent: duplicatesPercent!,
  };
}

function fieldsIn(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '');
    const isObject = value !== null && typeof value === 'object' && !Array.isArray(value);
    return isObject ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

/** What somebody who listens hears: of jobs as they go, and of every process when one changes. */
type News = JobNews | { processes: ReturnType<typeof breakable> };

/** One JSON object a line, from what there is now on: first the last job with all its story. */
function tellEvents({ jobs, home }: Agent, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' });
  const tell = (news: News) => {
    response.write(`${JSON.stringify(news)}\n`);
    if (response.writableLength > unreadBytesMax) response.destroy();
  };
  let known = '';
  let looks = 0;
  const look = () => {
    const processes = breakable(home);
    const seen = JSON.stringify(processes);
    // Now and then also the same: a connection on which nothing ever comes is taken for a dead one.
    if (seen !== known || looks % looksBetweenMax === 0) tell({ processes });
    known = seen;
    looks += 1;
  };
  const unlisten = jobs.listen(tell);
  // A look that fails, as at a home that is taken away, ends this one connection and nothing else.
  const looking = setInterval(() => {
    try {
      look();
    } catch {
      response.destroy();
    }
  }, lookEveryMs);
  response.once('close', () => {
    unlisten();
    clearInterval(looking);
  });
  tell({ job: jobs.last() ?? null });
  look();
}

function send(response: ServerResponse, { status, body }: Answer): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
