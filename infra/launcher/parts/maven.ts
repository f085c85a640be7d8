import { accessSync, constants } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { partsCache } from '../home.ts';
import { runTool } from '../processes/run-tool.ts';
import type { Session } from '../session.ts';
import { findOnPath } from './find-program.ts';

const dependencyPlugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1';

/** Whether Maven can be asked at all. */
export const hasMaven = () => findOnPath('mvn') !== undefined;

/** Runs one goal of Maven's dependency plugin in a folder. */
export async function runMaven(
  session: Session,
  fetch: { name: string; doing: string; goal: string; options: readonly string[]; cwd: string },
): Promise<void> {
  const { name, doing, goal, options, cwd } = fetch;
  session.report(`${doing} with Maven`);
  const args = [
    '-B',
    '-Dstyle.color=never',
    ...repositoryOption(),
    `${dependencyPlugin}:${goal}`,
    ...options,
  ];
  const file = findOnPath('mvn') ?? 'mvn';
  // Maven alone gets the whole environment: proxies and mirrors are set up there.
  const settings = process.env as Record<string, string>;
  await runTool(session, { name, doing, command: { file, args, cwd, settings } });
}

/**
 * Users without a home folder to write to, such as `nobody`, get a Maven repository in the cache.
 */
function repositoryOption(): string[] {
  try {
    // Java asks the system for the home folder and does not look at HOME.
    accessSync(userInfo().homedir, constants.W_OK);
    return [];
  } catch {
    return [`-Dmaven.repo.local=${join(partsCache, 'maven-repository')}`];
  }
}
