import { CommandError } from '@triplock/command';
import { createHome } from '../home.ts';
import { openSession, type Session } from '../session.ts';
import { findJava, javaOptions } from './programs.ts';
import { pinnedWheels, programOfWheel } from './wheels.ts';

/** openapi-generator, or why it cannot be had on this machine. */
export type OpenApiGenerator =
  | {
      outcome: 'found';
      version: string;
      /** Java's program, for what is compiled. */
      java: string;
      /** What stands before its own words. */
      command: readonly string[];
    }
  | { outcome: 'missing'; why: string };

/** Finds the generator of clients for many languages: a jar, fetched with pip the first time. */
export async function findOpenApiGenerator(
  listening: Pick<Session, 'report' | 'signal'>,
): Promise<OpenApiGenerator> {
  const java = await findJava();
  if (java.outcome === 'missing') return { outcome: 'missing', why: java.because };
  const { openApiGenerator } = pinnedWheels;
  try {
    const session = openSession(createHome(), listening);
    const jar = await programOfWheel(session, openApiGenerator);
    const command = [java.file, ...javaOptions, '-jar', jar];
    return { outcome: 'found', version: openApiGenerator.version, java: java.file, command };
  } catch (error) {
    listening.signal.throwIfAborted();
    if (!(error instanceof CommandError)) throw error;
    // A tool's own words follow, and are in its log.
    return { outcome: 'missing', why: error.message.split('\n')[0]! };
  }
}
