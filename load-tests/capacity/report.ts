import { renderTable, style } from '@triplock/command';
import { measuredServices } from '../bench/measurements.ts';
import type { Rig } from '../systems.ts';
import { predictRate, type Means, type Sizing } from './sizing.ts';
import type { Measured } from './stages.ts';

/** What `capacity` prints. */
export type CapacityReport = {
  /** The audit after each run found no drift. */
  ok: boolean;
  rig: Rig;
  means: Means;
  /** By the number of processes; the first of them, of one process, is what the others rest on. */
  measured: readonly Measured[];
  sizings: readonly Sizing[];
};

const right = (head: string) => ({ head, align: 'right' as const });

/** The report for people. */
export function renderCapacity({ ok, rig, means, measured, sizings }: CapacityReport): string[] {
  return [
    style.faint(`${rig.cpu}, ${rig.cores} cores; ${rig.commit}; load before ${rig.loadBefore}`),
    '',
    ...sizings.flatMap((sizing) => [...renderSizing(sizing, means), '']),
    ...renderCeilings(sizings[0]!),
    '',
    ...renderPredictions(measured, rig.cores),
    '',
    ok ? style.good('✔ no drift') : style.bad('✘ drift'),
  ];
}

function renderSizing({ perSecond, needs }: Sizing, { fullness }: Means): string[] {
  const rows = needs.map(({ what, count, unit, why }) => [what, shown(count), unit, why]);
  const head = `${perSecond} payments a second, nothing more than ${fullness * 100} % full`;
  return [head, ...renderTable([{ head: '' }, right(''), { head: '' }, { head: '' }], rows)];
}

function renderCeilings({ ceilings }: Sizing): string[] {
  const rows = ceilings.map(({ what, perSecond }) => [what, perSecond.toFixed(0)]);
  return [
    'full at, the first of them first',
    ...renderTable([{ head: '' }, right('a second')], rows),
  ];
}

/** Each stage with more processes than one, as it was predicted from one, and as it was. */
function renderPredictions([one, ...others]: readonly Measured[], cores: number): string[] {
  if (one === undefined) return [];
  const rows = measuredServices.flatMap((stage) =>
    [one, ...others].map((measured) => {
      const { processes, stages } = measured;
      const found = stages[stage].perSecond;
      const predicted = predictRate(one.stages[stage], { processes, cores });
      const error = measured === one ? '' : `${(100 * (predicted / found - 1)).toFixed(0)} %`;
      return [stage, `${processes}`, predicted.toFixed(0), found.toFixed(0), error];
    }),
  );
  const columns = [{ head: 'backlog of' }, right('processes'), right('predicted/s')];
  return [
    `all on this machine's ${cores} cores`,
    ...renderTable([...columns, right('found/s'), right('off by')], rows),
  ];
}

function shown(count: number): string {
  return Number.isInteger(count) || count >= 100 ? count.toFixed(0) : count.toFixed(1);
}
