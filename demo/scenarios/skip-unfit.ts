import { UsageError, type Endpoints } from '@triplock/infra';
import type { Scenario, Step } from './scenario.ts';

/** A scenario that was not run, because it is about another claim store; printed by `--json`. */
export type SkippedScenario = Pick<Step, 'name' | 'failure' | 'absorbedBy'> & { skipped: string };

/** The scenario as one that was left out, with the reason; nothing when it can be run. */
export function skipUnfit(
  { name, failure, absorbedBy, needsClaims }: Step,
  { claims }: Pick<Endpoints, 'claims'>,
): SkippedScenario | undefined {
  if (needsClaims === undefined || needsClaims === claims) return undefined;
  const skipped =
    `claims are kept in ${claims}; this scenario needs ${needsClaims}: ` +
    `npm run up -- --claims ${needsClaims}`;
  return { name, failure, ...(absorbedBy !== undefined && { absorbedBy }), skipped };
}

/** @throws UsageError that says what to do when the system keeps its claims elsewhere. */
export function refuseUnfit(scenario: Scenario, endpoints: Pick<Endpoints, 'claims'>): void {
  const unfit = skipUnfit(scenario, endpoints);
  if (unfit !== undefined) throw new UsageError(unfit.skipped);
}
