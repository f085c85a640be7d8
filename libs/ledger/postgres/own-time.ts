/**
 * How long a pending row is left to whoever posted it, milliseconds: longer than a charge takes with
 * all its tries, and short enough that the partner does not feel a worker's death for long.
 */
export const ownMs = 60_000;
