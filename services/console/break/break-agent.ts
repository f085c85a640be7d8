import { setTimeout as delay } from 'node:timers/promises';
import { wordsOf } from '@triplock/command';
import type { Config } from '../config.ts';
import { Refusal } from '../console.ts';
import * as json from '../edge/schema.ts';
import { type KnownScenario } from '@triplock/inspect';

/** Where the launcher's agent answers, and what it wants to be shown. */
export type Agent = { url: string; token: string };

const stamp: json.Schema<string> = { type: 'string', format: 'date-time' };
const storyLine = json.component('StoryLine', {
  at: stamp,
  kind: json.choice(['told', 'aside']),
  text: json.text,
});
/** A line of a story. */
export type StoryLine = json.ValueOf<typeof storyLine>;

type Order = { run: 'scenario'; scenario: string; without?: string } | { run: 'load' };
const order: json.Schema<Order> = { type: 'object', description: 'what was asked for' };
type JobState = 'running' | 'cancelling' | 'done' | 'failed' | 'cancelled';
const jobState: json.Schema<JobState> = { type: 'string' };

const job = json.component('Job', {
  id: json.whole,
  order,
  command: json.text,
  startedAt: stamp,
  state: jobState,
  endedAt: json.optional(stamp),
  /** The newest lines. */
  story: json.listOf(storyLine),
});
/** What an agent runs, or ran last, with what its command has said until now. */
export type Job = json.ValueOf<typeof job>;

const breakable = json.component('Breakable', {
  name: json.text,
  state: json.choice(['running', 'paused', 'gone']),
  restarts: { ...json.whole, description: 'since it was brought up, after it ended by itself' },
});
/** A process that can be broken. */
export type Breakable = json.ValueOf<typeof breakable>;

/** What there is to break, and what is under way. */
export const breakSchema = json.component('Break', {
  agent: json.choice(['none', 'away', 'up']),
  why: json.optional({ ...json.text, description: 'of an agent that is away' }),
  job: json.optional(json.orNull(job)),
  processes: json.optional(json.listOf(breakable)),
  scenarios: json.listOf(
    json.shapeOf<KnownScenario>('Scenario', {
      name: json.text,
      failure: json.text,
      absorbedBy: json.text,
      shows: json.optional(json.text),
    }),
  ),
  guards: json.listOf(json.text),
  loadLimits: json.byName(json.object({ min: json.whole, max: json.whole })),
});

/** What is known of an agent. */
export type AgentView =
  /** This system has none: it is in containers, or was not brought up to be broken. */
  | { agent: 'none' }
  | { agent: 'away'; why: string }
  | { agent: 'up'; job: Job | null; processes: Breakable[] };

/** What becomes known of an agent: all of it, or lines that its story has besides. */
type AgentNews = { view: AgentView } | { added: StoryLine[] };

type Told = { job: Job | null } | { line: StoryLine } | { processes: Breakable[] };

/** As much of a story as somebody reads; a page has twice that before it is drawn anew. */
export const storyLinesMax = 300;

/** Longer than a process takes to start on a busy machine. */
const answersWithinMs = 120_000;
const looksWithinMs = 3_000;
const askAgainMs = 2_000;

/** What is said where a system has no agent. */
export const noAgent =
  'This system has no agent that could run or kill anything: it runs in containers, or was not brought up by npm run up or npm run demo.';

/** The agent of the settings, if there is one. */
export function agentIn({ CONSOLE_AGENT_URL: url, CONSOLE_AGENT_TOKEN: token }: Config) {
  return url === undefined || token === undefined ? undefined : { url, token };
}

/** What an agent has under way now, and how processes are. */
export async function lookAtAgent(agent: Agent | undefined): Promise<AgentView> {
  if (agent === undefined) return { agent: 'none' };
  try {
    const answer = await ask(agent, { path: '/state', signal: AbortSignal.timeout(looksWithinMs) });
    const told = (await answer.json()) as { job: Job | null; processes: Breakable[] };
    return { agent: 'up', ...told, job: newestOf(told.job) };
  } catch (error) {
    return { agent: 'away', why: wordsOf(error) };
  }
}

const newestOf = (job: Job | null) => job && { ...job, story: job.story.slice(-storyLinesMax) };

/** The same from now on, and each line of a story, until the signal aborts. */
export async function* watchAgent(agent: Agent, signal: AbortSignal): AsyncGenerator<AgentNews> {
  while (!signal.aborted) {
    try {
      yield* follow(agent, signal);
    } catch (error) {
      if (signal.aborted) return;
      yield { view: { agent: 'away', why: wordsOf(error) } };
    }
    await delay(askAgainMs, undefined, { signal }).catch(() => undefined);
  }
}

async function* follow(agent: Agent, signal: AbortSignal): AsyncGenerator<AgentNews> {
  const answer = await ask(agent, { path: '/events', signal });
  let view: Extract<AgentView, { agent: 'up' }> = { agent: 'up', job: null, processes: [] };
  let [rest, addedSince] = ['', 0];
  for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    const told = lines.map((line) => JSON.parse(line) as Told);
    const added = told.flatMap((each) => ('line' in each ? each.line : []));
    for (const each of told) {
      if ('line' in each) view.job?.story.push(each.line);
      else view = { ...view, ...each };
    }
    view = { ...view, job: newestOf(view.job) };
    addedSince += added.length;
    if (added.length < told.length || addedSince > storyLinesMax) {
      addedSince = 0;
      yield { view };
    } else if (added.length > 0) {
      yield { added };
    }
  }
}

/**
 * Has an agent do something.
 *
 * @throws Refusal with what it said when it did not; an error of the network when nobody answered,
 * and it may have been done.
 */
export async function orderAgent(
  agent: Agent,
  path: `/${string}`,
  order: object = {},
): Promise<unknown> {
  const signal = AbortSignal.timeout(answersWithinMs);
  return (await ask(agent, { path, signal, order })).json();
}

type Question = { path: `/${string}`; signal: AbortSignal; order?: object };

async function ask({ url, token }: Agent, { path, signal, order }: Question): Promise<Response> {
  const answer = await fetch(new URL(path, url), {
    headers: { authorization: `Bearer ${token}` },
    ...(order && { method: 'POST', body: JSON.stringify(order) }),
    signal,
  });
  if (answer.ok) return answer;
  const { error } = (await answer.json()) as { error: string };
  throw new Refusal(answer.status === 409 ? 'conflict' : 'invalid_request', error);
}
