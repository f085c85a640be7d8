import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { TestContext } from 'node:test';
import { parse } from 'yaml';
import { cloneFolder } from '../home.ts';

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

/** What docker-compose.yml says of one container. */
export type ComposeService = {
  image: string;
  build?: { target?: string; args: { WORKSPACE: string } };
  command?: string[];
  environment?: Record<string, string | number>;
  ports?: string[];
  restart: string;
  healthcheck?: { test: string[]; interval: string; start_interval: string };
  mem_limit?: string;
  volumes?: string[];
  profiles?: string[];
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  pids_limit?: number;
  privileged?: boolean;
  cap_add?: string[];
};

const text = readFileSync(join(cloneFolder, 'docker-compose.yml'), 'utf8');
const file = parse(text, { merge: true }) as { services: Record<string, ComposeService> };

/** Every container of docker-compose.yml by its name. */
export const containers = Object.entries(file.services);

/** The container of that name; fails the test where there is none. */
export function containerOf(name: string): ComposeService {
  const found = file.services[name];
  assert.ok(found, `docker-compose.yml has no container ${name}: write one beside the others`);
  return found;
}
