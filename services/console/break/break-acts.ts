import { UsageError } from '@triplock/command';
import { agentIn, noAgent, orderAgent, type Job } from './break-agent.ts';
import type { Console } from '../console.ts';
import { missingGuardNames, loadLimits, knownScenarios } from '@triplock/inspect';

/** Who may break things, where that is possible at all, and where it is seen. */
const breaking = { role: 'admin', except: 'production', then: '/break' } as const;

/** What a page has the launcher's agent do: the console itself starts and kills nothing. */
export const breakingActs = {
  'scenarios.run': {
    ...breaking,
    label: 'Run a scenario',
    fields: { scenario: 'its name', without: 'a guard; by itself: what shows it best' },
    optional: ['scenario', 'without'],
    prepare: prepareScenario,
  },
  'load.run': {
    ...breaking,
    label: 'Send load',
    fields: { ratePerSecond: 'payments', seconds: 'how long', duplicatesPercent: 'sent again' },
    prepare: prepareLoad,
  },
  'job.cancel': {
    ...breaking,
    label: 'Cancel what is under way',
    fields: { job: 'its number' },
    prepare: prepareCancel,
  },
  'processes.kill': {
    ...breaking,
    label: 'Kill a process',
    fields: { process: 'its name' },
    prepare: processAct('kill', 'killed (SIGKILL): it stays dead until it is started again'),
  },
  'processes.pause': {
    ...breaking,
    label: 'Stop a process',
    fields: { process: 'its name' },
    prepare: processAct('pause', 'stands still (SIGSTOP), with its connections open'),
  },
  'processes.continue': {
    ...breaking,
    label: 'Have a process go on',
    fields: { process: 'its name' },
    prepare: processAct('continue', 'goes on (SIGCONT)'),
  },
  'processes.start': {
    ...breaking,
    label: 'Start a process again',
    fields: { process: 'its name' },
    prepare: processAct('start', 'runs, and is ready'),
  },
} as const;

/** By its name, or without a guard the one that shows best what then escapes. */
function prepareScenario(fields: URLSearchParams) {
  const without = fields.get('without') || undefined;
  if (without !== undefined && !missingGuardNames().includes(without)) {
    throw new UsageError(`without must be one of ${missingGuardNames().join(', ')}`);
  }
  const name = fields.get('scenario') || undefined;
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

function prepareLoad(fields: URLSearchParams) {
  const load = Object.entries(loadLimits).map(([name, { min, max }]) => {
    const text = fields.get(name) ?? '';
    const value = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) {
      throw new UsageError(`${name} must be a whole number from ${min} to ${max}`);
    }
    return [name, value] as const;
  });
  return {
    target: load.map(([name, value]) => `${name} ${value}`).join(', '),
    perform: begin({ run: 'load', ...Object.fromEntries(load) }),
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
function prepareCancel(fields: URLSearchParams) {
  const id = fields.get('job') ?? '';
  if (!/^[1-9]\d{0,8}$/.test(id)) throw new UsageError('job must be the number of one');
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
function processAct(act: 'kill' | 'pause' | 'continue' | 'start', did: string) {
  return (fields: URLSearchParams) => {
    const name = fields.get('process') ?? '';
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) {
      throw new UsageError('process must be the name of one');
    }
    return {
      target: name,
      async perform(console: Console) {
        const result = await orderAgent(agentOf(console), `/processes/${name}/${act}`);
        return { outcome: 'done' as const, detail: did, result };
      },
    };
  };
}

/** @throws UsageError where the system has no agent. */
function agentOf({ config }: Console) {
  const agent = agentIn(config);
  if (agent === undefined) throw new UsageError(noAgent);
  return agent;
}
