import { UsageError } from '@triplock/launcher';
import { nearestName } from '../nearest-name.ts';
import { allScenarios } from './all-scenarios.ts';
import type { Scenario } from './scenario.ts';

/**
 * The scenario of that name, or every one.
 *
 * @throws UsageError that gives the names when it is not clear which.
 */
export function chooseScenarios(name: string | undefined, all: boolean): readonly Scenario[] {
  if (all && name === undefined) return allScenarios;
  if (all) throw new UsageError('give either a name or --all');
  const found = allScenarios.find((each) => each.name === name);
  if (found !== undefined) return [found];
  const known = allScenarios.map((each) => each.name);
  const names = known.join(', ');
  if (name === undefined) throw new UsageError(`give a name, --all or --list; names: ${names}`);
  const near = nearestName(name, known);
  const hint = near === undefined ? '' : `did you mean ${near}? `;
  throw new UsageError(`there is no scenario '${name}': ${hint}names: ${names}`);
}
