import { join } from 'node:path';
import { askVersion, findOnPath } from './find-program.ts';

/** Kafka 4 needs Java 17 (its release notes); the Pub/Sub emulator is content with less. */
const oldestMajor = 17;

/** A Java that is new enough, from JAVA_HOME or PATH. */
export type Java =
  { outcome: 'found'; file: string; major: number } | { outcome: 'missing'; because: string };

let answer: Promise<Java> | undefined;

/** Looks for Java and asks it for its version, once: it takes a moment to say. */
export function findJava(): Promise<Java> {
  answer ??= lookForJava();
  return answer;
}

async function lookForJava(): Promise<Java> {
  const home = process.env['JAVA_HOME'];
  const files = [home && join(home, 'bin', 'java'), findOnPath('java')].filter(Boolean);
  const tooOld: string[] = [];
  for (const file of files as string[]) {
    const words = await askVersion(file, '-version');
    const major = Number(/version "(?:1\.)?(\d+)/.exec(words ?? '')?.[1]);
    if (major >= oldestMajor) return { outcome: 'found', file, major };
    tooOld.push(Number.isNaN(major) ? `${file} does not run` : `${file} is Java ${major}`);
  }
  const found = tooOld.join(' and ') || 'there is no java on PATH';
  return { outcome: 'missing', because: `it needs Java ${oldestMajor} or newer, and ${found}` };
}

/** Options every Java process gets: little memory, and no files outside its own folders. */
export const javaOptions = ['-XX:+UseSerialGC', '-XX:-UsePerfData'];

/**
 * Compiles code once and quickly: for the broker and the Pub/Sub emulator, whose CPU in a run of
 * minutes would else be spent half on optimising themselves.
 */
export const compiledOnce = '-XX:TieredStopAtLevel=1';
