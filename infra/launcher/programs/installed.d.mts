type Environment = Readonly<Record<string, string | undefined>>;

/** A Java that is new enough, or why there is none. */
export type Java =
  | { outcome: 'found'; file: string; major: number; version: string }
  | { outcome: 'missing'; because: string };

/** A folder of the parts cache, with `checksum` where what is fetched is the same for everybody. */
export type CacheEntry = { name: string; checksum?: string };

export const oldestJava: number;
export const usualPlaces: { java: string[]; gcloud: string[] };
export function findOnPath(program: string, environment?: Environment): string | undefined;
export function askVersion(file: string, ...words: readonly string[]): Promise<string | undefined>;
export function lookForJava(environment?: Environment, places?: readonly string[]): Promise<Java>;
export function inGcloudSdk(
  path: string,
  environment?: Environment,
  places?: readonly string[],
): string[];
export function findPubsubEmulator(
  environment?: Environment,
  places?: readonly string[],
): string | undefined;
export function usualPartsCache(environment?: Environment, platform?: NodeJS.Platform): string;
export function cacheFolderOf(entry: CacheEntry): string;
export function waysToK6(version: string): string;
