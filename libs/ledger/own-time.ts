/**
 * How long a pending row is left to whoever posted it, milliseconds: longer than a charge takes
 * where nothing goes wrong. Two that work on one row cost calls and harm nobody, since each write
 * compares the version.
 */
export const ownMs = 20_000;
