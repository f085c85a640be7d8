import type { Guards } from '../guards.ts';
import type { System } from '../system.ts';

/** A step of the story; one without a failure has nothing to absorb. */
export type Step = Omit<Scenario, 'absorbedBy'> & { absorbedBy?: string };

/** A failure that is made to happen for real, and what must then still hold. */
export type Scenario = {
  name: string;
  failure: string;
  /** The guard that absorbs it. */
  absorbedBy: string;
  /**
   * Makes it happen and looks from outside at what came of it.
   *
   * @throws BrokenPromise when an effect was lost or doubled, FaultDidNotFire when the fault was
   * not really there and the run proves nothing.
   */
  run(system: System): Promise<Observation>;
};

/** What was seen: the payments it was tried on, and a line for each guard. */
export type Observation = { ids: readonly string[]; guards: Guards };
