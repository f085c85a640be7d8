/** What a person set wrong, in words. */
export class UsageError extends Error {}

/** How the tests are to run. */
export type Settings = {
  /** How many processes run files of no lane. */
  atOnce: number;
  /** How long a file may take, and each test in it. */
  testMs: number;
  /** How long what a file closed may take to be gone, and what it dropped in passing. */
  goneMs: number;
  seed?: number;
  /** A file that gets the outcome. */
  outcome?: string;
};

/** @throws UsageError naming the variable. */
export function settingsIn(env: Readonly<NodeJS.ProcessEnv>): Settings {
  const seed = wholeNumber(env, 'TRIPLOCK_TEST_SEED', 0);
  const outcome = env['TRIPLOCK_TEST_OUTCOME'];
  // Above the longest real file on a busy machine, so that it only ever ends one that hangs.
  const testMs = 1_000 * (wholeNumber(env, 'TRIPLOCK_TEST_SECONDS', 1) ?? 600);
  return {
    atOnce: wholeNumber(env, 'TRIPLOCK_TEST_PROCESSES', 1) ?? 3,
    testMs,
    goneMs: Math.min(15_000, testMs),
    ...(seed !== undefined && { seed }),
    ...(outcome && { outcome }),
  };
}

/** `undefined` where the variable is not set, or empty. */
function wholeNumber(
  env: Readonly<NodeJS.ProcessEnv>,
  name: string,
  least: number,
): number | undefined {
  const word = env[name]?.trim();
  if (!word) return undefined;
  if (/^\d{1,9}$/.test(word) && Number(word) >= least) return Number(word);
  throw new UsageError(`${name} is a whole number from ${least} on, not '${word}'`);
}
