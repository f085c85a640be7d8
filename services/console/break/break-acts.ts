import { UsageError } from '@triplock/command';
import { agentIn, noAgent, orderAgent, type Job } from './break-agent.ts';
import { act } from '../acts/kind-of-act.ts';
import type { Console } from '../console.ts';
import * as json from '../edge/schema.ts';
import { missingGuardNames, loadLimits, knownScenarios } from '@triplock/inspect';

/** Who may break things, where that is possible at all, and where it is seen. */
const breaking = { role: 'admin', except: 'production', then: '/break' } as const;

const number = (name: keyof typeof loadLimits, what: string) => {
  const { min, max } = loadLimits[name];
  const description = `${what}: a whole number from ${min} to ${max}`;
  return { ...json.whole, minimum: min, maximum: max, description };
};

/** What a page has the launcher's agent do: the console itself starts and kills nothing. */
export const breakingActs = {
  'scenarios.run': act({
    ...breaking,
    label: 'Run a scenario',
    fields: {
      scenario: json.optional(
        json.choice(
          knownScenarios().map(({ name }) => name),
          'the name of a scenario; without one that which shows best what escapes',
        ),
      ),
      without: json.optional(json.choice(missingGuardNames(), 'a guard to go without')),
    },
    prepare: prepareScenario,
  }),
  'load.run': act({
    ...breaking,
    label: 'Send load',
    fields: {
      ratePerSecond: number('ratePerSecond', 'payments a second'),
      seconds: number('seconds', 'how long'),
      duplicatesPercent: number('duplicatesPercent', 'of 100 sent again'),
    },
    prepare: (load) => ({
      target: Object.entries(load)
        .map(([name, value]) => `${name} ${value}`)
        .join(', '),
      perform: begin({ run: 'load', ...load }),
    }),
  }),
  'job.cancel': act({
    ...breaking,
    label: 'Cancel what is under way',
    fields: { job: json.sent('the number of a job', '^[1-9][0-9]{0,8}$') },
    prepare: prepareCancel,
  }),
  'processes.kill': processAct('kill', {
    label: 'Kill a process',
    did: 'killed (SIGKILL): it stays dead until it is started again',
  }),
  'processes.pause': processAct('pause', {
    label: 'Stop a process',
    did: 'stands still (SIGSTOP), with its connections open',
  }),
  'processes.continue': processAct('continue', {
    label: 'Have a process go on',
    did: 'goes on (SIGCONT)',
  }),
  'processes.start': processAct('start', {
    label: 'Start a process again',
    did: 'runs, and is ready',
  }),
} as const;

/** By its name, or without a guard the one that shows best what then escapes. */
function prepareScenario({ scenario: name, without }: { scenario?: string; without?: string }) {
  const found = knownScenarios().find((each) =>
    name === undefined ? without !== undefined && each.shows === without : each.name === name,
  );
  if (found === undefined) throw new UsageError('scenario must be the name of one');
  const { name: scenario } = found;
  return {
    target: without === undefined ? scenario : `${scenario} without ${without}`,
    perform: begin({ run: 'scenario', scenario, ...(without !== undefined && { without }) }),
  };
}

/** A job that begins is an act that is done: its story tells the rest. */
function begin(order: object) {
  return async (console: Console) => {
    const { job } = (await orderAgent(agentOf(console), '/jobs', order)) as { job: Job };
    return {
      outcome: 'done' as const,
      detail: `${job.command} is under way, as job ${job.id} of the agent`,
      result: { job },
    };
  };
}

/** One job and no later one, which somebody else may have begun meanwhile. */
function prepareCancel({ job: id }: { job: string }) {
  return {
    target: `job ${id}`,
    async perform(console: Console) {
      const { job } = (await orderAgent(agentOf(console), `/jobs/${id}/cancel`)) as { job: Job };
      return {
        outcome: 'done' as const,
        detail: `${job.command} is broken off, and puts right what it broke`,
        result: { job },
      };
    },
  };
}

/** @param did says what came of it. */
function processAct(
  order: 'kill' | 'pause' | 'continue' | 'start',
  { label, did }: { label: string; did: string },
) {
  return act({
    ...breaking,
    label,
    fields: { process: json.sent('the name of a process', '^[a-z][a-z0-9-]{0,62}$') },
    prepare: ({ process }) => ({
      target: process,
      async perform(console: Console) {
        const result = await orderAgent(agentOf(console), `/processes/${process}/${order}`);
        return { outcome: 'done', detail: did, result };
      },
    }),
  });
}

/** @throws UsageError where the system has no agent. */
function agentOf({ config }: Console) {
  const agent = agentIn(config);
  if (agent === undefined) throw new UsageError(noAgent);
  return agent;
}
