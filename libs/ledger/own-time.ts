/**
 * How long a pending row is left to the worker that posted it, milliseconds: longer than a charge
 * takes where nothing goes wrong. Two workers at one row cost calls and do no harm, since each
 * write compares the version.
 */
export const ownMs = 20_000;
