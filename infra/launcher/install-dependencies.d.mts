import type { ProgressStream } from './progress-line.mjs';

/** A Node, as its `process` describes it. */
type Node = {
  execPath: string;
  versions: { node: string };
  features: { typescript?: unknown };
};

export function installDependencies(
  root: string,
  stream?: ProgressStream,
): Promise<string | undefined>;
export function provideNode(root: string, own?: Node): string | undefined;
export function nodeIn(root: string): string;
