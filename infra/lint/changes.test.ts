import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { changedFiles, GitError } from './changes.ts';

/** A clone of a repository whose default branch has one commit with one file. */
function aClone(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'changes-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [origin, clone] = [join(folder, 'origin'), join(folder, 'clone')];
  const author = [
    '-c',
    'user.name=a',
    '-c',
    'user.email=a@example.com',
    '-c',
    'commit.gpgsign=false',
  ];
  const git = (...words: string[]) => {
    execFileSync('git', [...author, ...words], { cwd: clone, stdio: 'pipe' });
  };
  const write = (path: string, text = path) => writeFileSync(join(clone, path), text);
  const commit = (path: string) => {
    write(path);
    git('add', '--all');
    git('commit', '--quiet', '--message', path);
  };
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', origin]);
  execFileSync('git', ['clone', '--quiet', origin, clone], { stdio: 'pipe' });
  git('checkout', '--quiet', '-B', 'main');
  commit('first.ts');
  git('push', '--quiet', '--set-upstream', 'origin', 'main');
  return { clone, git, write, commit };
}

test('on a branch it is all since it began, whatever the default branch has got meanwhile', (t) => {
  const { clone, git, write, commit } = aClone(t);
  git('checkout', '--quiet', '-b', 'mine');
  commit('committed.ts');
  git('checkout', '--quiet', 'main');
  commit('of-others.ts');
  git('push', '--quiet');
  git('checkout', '--quiet', 'mine');
  write('new of mine.ts');
  write('first.ts', 'changed');
  const all = ['committed.ts', 'first.ts', 'new of mine.ts'];
  assert.deepEqual(changedFiles(clone).sort(), all);
  assert.deepEqual(changedFiles(clone, 'HEAD').sort(), all.slice(1));
});

test('on the default branch it is what its remote does not have, and what is not committed', (t) => {
  const { clone, git, write, commit } = aClone(t);
  assert.deepEqual(changedFiles(clone), []);
  commit('not-pushed.ts');
  write('staged.ts');
  git('add', 'staged.ts');
  git('rm', '--quiet', 'first.ts');
  assert.deepEqual(changedFiles(clone).sort(), ['first.ts', 'not-pushed.ts', 'staged.ts']);
});

test('without a remote it is what is not committed', (t) => {
  const { clone, git, write, commit } = aClone(t);
  git('remote', 'remove', 'origin');
  commit('committed.ts');
  write('new.ts');
  assert.deepEqual(changedFiles(clone), ['new.ts']);
});

test('a revision that there is not, or a folder that is no clone, is an error for people', (t) => {
  const { clone } = aClone(t);
  assert.throws(() => changedFiles(clone, 'nowhere'), GitError);
  const folder = mkdtempSync(join(tmpdir(), 'no-clone-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.throws(() => changedFiles(folder), /^GitError: git .*not a git repository/i);
});
