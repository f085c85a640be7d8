import { spawnSync } from 'node:child_process';

/** What git says when it does not answer; the message is for people. */
export class GitError extends Error {
  override name = 'GitError';
}

/**
 * Every file that differs from a revision, by its path from the root: committed, staged, neither,
 * or new; gone, too.
 *
 * @param since else where the branch began: the last commit that the default branch has too. On the
 *   default branch itself that is what its remote has; without a remote, the last commit.
 * @throws GitError where git does not run, this is no clone, or it has no such revision.
 */
export function changedFiles(folder: string, since?: string): string[] {
  const base = since ?? branchPoint(folder);
  const differing = git(folder, 'diff', '--name-only', '--no-renames', '-z', base, '--');
  const added = git(folder, 'ls-files', '--others', '--exclude-standard', '-z');
  return [...new Set(`${differing}${added}`.split('\0').filter((path) => path !== ''))];
}

function branchPoint(folder: string): string {
  const names = ['origin/HEAD', 'origin/main', 'main'];
  const known = names.find((name) => answers(folder, 'rev-parse', '--verify', '--quiet', name));
  const common = known === undefined ? undefined : answers(folder, 'merge-base', 'HEAD', known);
  return common?.trim() || 'HEAD';
}

function git(folder: string, ...words: string[]): string {
  const { status, stdout, stderr, error } = run(folder, words);
  if (error !== undefined) throw new GitError(`git does not run: ${error.message}`);
  if (status !== 0) throw new GitError(`git ${words[0]}: ${stderr.trim()}`);
  return stdout;
}

/** What git prints; `undefined` when it knows no answer. */
function answers(folder: string, ...words: string[]): string | undefined {
  const { status, stdout } = run(folder, words);
  return status === 0 ? stdout : undefined;
}

function run(cwd: string, words: readonly string[]) {
  return spawnSync('git', words, { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
}
