import { toJson } from '@triplock/operator';

/** Something the system promises did not hold: the one failure that matters. */
export class BrokenPromise extends Error {
  override name = 'BrokenPromise';
  /** Payments it was seen on. */
  readonly ids: readonly string[];
  constructor(promise: string, ids: readonly string[]) {
    super(`broken promise: ${promise}`);
    this.ids = ids;
  }
}

/** The run proves nothing, because what was to be broken was not. */
export class FaultDidNotFire extends Error {
  override name = 'FaultDidNotFire';
  constructor(fault: string, options?: ErrorOptions) {
    super(`the fault did not fire: ${fault}`, options);
  }
}

/** What was looked at, and on which payments. */
export type Evidence = { ids: readonly string[]; saw: unknown };

/** Holds the system to a promise. */
export function promised(promise: string, holds: boolean, evidence: Evidence): asserts holds {
  if (holds) return;
  throw new BrokenPromise(`${promise}; saw ${toJson(evidence.saw)}`, evidence.ids);
}

/** Makes sure that a fault was really there. */
export function fired(fault: string, seen: boolean): asserts seen {
  if (!seen) throw new FaultDidNotFire(fault);
}
