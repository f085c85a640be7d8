import { UsageError } from '@triplock/command';
import { agentIn, orderAgent, type Job } from './break-agent.ts';
import type { Console } from '../console.ts';
import { words } from '../html/words.ts';
import { missingGuardNames, loadLimits, knownScenarios } from '@triplock/inspect';

const say = words.breaking;

/** Who may break things, where that is possible at all, and where it is seen. */
const breaking = { role: 'admin', except: 'production', then: '/break' } as const;

/** What a page has the launcher's agent do: the console itself starts and kills nothing. */
export const breakingActs = {
  'scenarios.run': { ...breaking, prepare: prepareScenario },
  'load.run': { ...breaking, prepare: prepareLoad },
  'job.cancel': { ...breaking, prepare: prepareCancel },
  'processes.kill': { ...breaking, prepare: processAct('kill') },
  'processes.pause': { ...breaking, prepare: processAct('pause') },
  'processes.continue': { ...breaking, prepare: processAct('continue') },
  'processes.start': { ...breaking, prepare: processAct('start') },
} as const;

/** By its name, or without a guard the one that shows best what then escapes. */
function prepareScenario(fields: URLSearchParams) {
  const without = fields.get('without') || undefined;
  if (without !== undefined && !missingGuardNames().includes(without)) {
    throw new UsageError(say.badGuard(missingGuardNames().join(', ')));
  }
  const name = fields.get('scenario') || undefined;
  const found = knownScenarios().find((each) =>
    name === undefined ? without !== undefined && each.shows === without : each.name === name,
  );
  if (found === undefined) throw new UsageError(say.badScenario);
  const { name: scenario } = found;
  return {
    target: without === undefined ? scenario : say.without(scenario, without),
    perform: begin({ run: 'scenario', scenario, ...(without !== undefined && { without }) }),
  };
}

function prepareLoad(fields: URLSearchParams) {
  const load = Object.entries(loadLimits).map(([name, { min, max }]) => {
    const text = fields.get(name) ?? '';
    const value = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max)) throw new UsageError(say.badLoad(name, min, max));
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
    return { outcome: 'done' as const, detail: say.begun(job.command, job.id), result: { job } };
  };
}

/** One job and no later one, which somebody else may have begun meanwhile. */
function prepareCancel(fields: URLSearchParams) {
  const id = fields.get('job') ?? '';
  if (!/^[1-9]\d{0,8}$/.test(id)) throw new UsageError(say.badJob);
  return {
    target: say.jobNamed(id),
    async perform(console: Console) {
      const { job } = (await orderAgent(agentOf(console), `/jobs/${id}/cancel`)) as { job: Job };
      return { outcome: 'done' as const, detail: say.cancelled(job.command), result: { job } };
    },
  };
}

function processAct(act: keyof typeof say.acts) {
  return (fields: URLSearchParams) => {
    const name = fields.get('process') ?? '';
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) throw new UsageError(say.badProcess);
    return {
      target: name,
      async perform(console: Console) {
        const result = await orderAgent(agentOf(console), `/processes/${name}/${act}`);
        return { outcome: 'done' as const, detail: say.did[act], result };
      },
    };
  };
}

/** @throws UsageError where the system has no agent. */
function agentOf({ config }: Console) {
  const agent = agentIn(config);
  if (agent === undefined) throw new UsageError(say.noAgent);
  return agent;
}
