import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { TestContext } from 'node:test';

/** A `docker` that answers as one does in a state that a test cannot bring a real engine into. */
export type FakeEngine = {
  /** What makes it the one that is found. */
  environment: { PATH: string };
  /** The words of every call of it, one call a line. */
  calls(): string[];
};

/** One whose answers are the branches of a shell's `case` over the words it is called with. */
export function fakeEngine(t: TestContext, answers: string): FakeEngine {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-engine-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const log = join(folder, 'calls');
  const file = join(folder, 'docker');
  writeFileSync(log, '');
  const script = ['#!/bin/sh', `echo "$*" >> '${log}'`, 'case "$*" in', answers, 'esac', ''];
  writeFileSync(file, script.join('\n'));
  chmodSync(file, 0o755);
  return {
    environment: { PATH: `${folder}${delimiter}${process.env['PATH']}` },
    calls: () => readFileSync(log, 'utf8').trim().split('\n'),
  };
}

/** An engine with 8 GB and the compose plugin. */
export const able = `info*) echo 8589934592;; 'compose version'*) echo 2.40.3;;`;
