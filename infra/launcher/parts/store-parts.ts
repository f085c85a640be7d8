import { mkdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { claimParts, type ClaimPart } from '@triplock/claim-stores';
import { ledgerParts, type LedgerPart } from '@triplock/ledgers';
import type { PartDeclaration, ProgramInSdk, ProgramOfNpm } from '@triplock/runtime';
import { missingPart } from '../errors.ts';
import { cloneFolder, compiledCode } from '../home.ts';
import type { Fetched, Part } from './part.ts';
import { inGcloudSdk } from '../programs/installed.mjs';

/** A server that some store brings along. */
export type DeclaredPart = PartDeclaration<ClaimPart | LedgerPart>;

/** What is declared of each of them. */
export const declaredParts: readonly DeclaredPart[] = [...new Set([...claimParts, ...ledgerParts])];

/** Parts that are started only when asked for, and then stay. */
export const storeParts: readonly Part[] = declaredParts.map((declared): Part => {
  const { name, title, given, port, addressOf, probe } = declared;
  return {
    name,
    title,
    given: { variable: given.variable, address: (value) => value },
    ports: [{ use: 'port', ...port }],
    fetch: async () => findProgram(declared),
    address: ({ ports }) => addressOf('127.0.0.1', ports['port']!),
    probe,
    stop: { signal: 'SIGTERM', withinMs: 10_000 },
  };
});

/** @throws PartMissing where this machine has no such program. */
function findProgram(declared: DeclaredPart): Fetched {
  const { program } = declared;
  switch (program.from) {
    case 'gcloud SDK':
      return inSdk(declared, program);
    case 'npm':
      return ofNpm(declared, program);
    default:
      return program satisfies never;
  }
}

/** The program's file in the gcloud SDK of this machine. */
export function findInSdk(
  { file, only }: ProgramInSdk,
  here = process.platform,
): string | undefined {
  return here === only.platform ? inGcloudSdk(file)[0] : undefined;
}

function inSdk({ name, title, keeps }: DeclaredPart, program: ProgramInSdk): Fetched {
  const file = findInSdk(program);
  if (file === undefined) {
    const { name: system } = program.only;
    const why = `no gcloud SDK with the emulator was found, which there is for ${system} alone`;
    throw missingPart(name, why);
  }
  const forgets = keeps === 'nothing' ? '; it forgets its data when it stops' : '';
  return {
    picked: `${title} (gcloud SDK)${forgets}`,
    command: async ({ folder, ports }) => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      return { file, args: program.args(ports['port']!), cwd: folder, settings: {} };
    },
  };
}

function ofNpm({ folder: room }: DeclaredPart, program: ProgramOfNpm): Fetched {
  const manifest = join(cloneFolder, 'node_modules', program.package, 'package.json');
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  return {
    picked: `${program.package} ${version} (npm)`,
    command: async ({ folder, ports }) => ({
      file: process.execPath,
      args: [...heapOf(program), join(room, program.workspace, 'main.ts')],
      cwd: cloneFolder,
      settings: {
        NODE_COMPILE_CACHE: compiledCode,
        ...program.settings({ host: '127.0.0.1', port: ports['port']!, folder }),
      },
    }),
  };
}

/** Node's options for such a program. */
export function heapOf({ oldSpaceMiB }: ProgramOfNpm): string[] {
  return ['--max-semi-space-size=16', `--max-old-space-size=${oldSpaceMiB}`];
}

/** Its workspace, from the clone's root. */
export function workspaceOf({ folder }: DeclaredPart, { workspace }: ProgramOfNpm): string {
  return relative(cloneFolder, join(folder, workspace));
}
