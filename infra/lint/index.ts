export { affectedTests } from './affected.ts';
export { changedFiles, GitError } from './changes.ts';
export { judge } from './judge.ts';
