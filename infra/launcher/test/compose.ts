import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { cloneFolder } from '../home.ts';

/** What docker-compose.yml says of one container. */
export type ComposeService = {
  image: string;
  build?: { args: { WORKSPACE: string } };
  command?: string[];
  environment?: Record<string, string | number>;
  ports?: string[];
  healthcheck?: object;
  mem_limit?: string;
  volumes?: string[];
  profiles?: string[];
  deploy?: { replicas: number };
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
