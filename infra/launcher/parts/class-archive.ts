import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { partsCache } from '../home.ts';
import { type Command, startProcess, waitUntilReady } from '../processes/start.ts';
import { killProcessFamily, stopProcess } from '../processes/stop.ts';
import { forget, type Session } from '../session.ts';
import type { Java } from '../programs/installed.mjs';
import type { ClassArchive, Fetched, Part, Site } from './part.ts';
import { cached } from '../programs/programs.ts';

/*
 * Java reads, checks and links thousands of classes whenever a broker starts. An archive of them
 * (class data sharing, JEP 350) holds them as they are in memory. It costs more to make than a few
 * starts save, so nobody's first `up` waits for it: `npm test`, which starts many, has it made, and
 * whatever starts uses one that is there.
 */

/** What a Java program is: another one, or another Java, has another archive. */
type Program = { name: string; java: Extract<Java, { outcome: 'found' }>; jars: readonly string[] };

/** The archive of a program, which need not be there. */
export function classArchiveOf({ name, java, jars }: Program): ClassArchive {
  // Java takes no archive of another build, nor one whose jars were written at another time.
  const made = jars.map((jar) => {
    const { size, mtimeMs } = statSync(jar);
    return [jar, size, mtimeMs];
  });
  const identity = JSON.stringify([realpathSync(java.file), java.version, made]);
  return { name: `${name}-classes-java-${java.major}-${sha256(identity).slice(0, 32)}` };
}

/** The jars of a folder, which are its class path. */
export function jarsIn(folder: string): string[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.jar'));
  return names.sort().map((name) => join(folder, name));
}

/** The options by which Java takes its classes from the archive; none where none is whole. */
export function sharedClasses(archive: ClassArchive): string[] {
  const folder = join(partsCache(), archive.name);
  return isWhole(folder) ? [`-XX:SharedArchiveFile=${join(folder, file)}`] : [];
}

const file = 'classes.jsa';
const digest = `${file}.sha256`;

/**
 * Java 17 looks at an archive's header alone, and dies of SIGBUS by one that was cut off, as by a
 * machine that lost power before it had written all: so it gets one only when that is as it was
 * made. What cannot be read is no reason not to start either.
 */
function isWhole(folder: string): boolean {
  try {
    return sha256(readFileSync(join(folder, file))) === readFileSync(join(folder, digest), 'utf8');
  } catch {
    return false;
  }
}

const sha256 = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex');

/**
 * Makes the archive of a part that is started next, on its ports, unless it is there whole.
 * Launchers that want the same take turns. Without one the part only starts more slowly, so a
 * failure is said and no more.
 *
 * @throws when the session's signal is aborted.
 */
export async function makeClassArchive(
  session: Session,
  part: Part,
  { fetched, ports }: { fetched: Fetched; ports: Site['ports'] },
): Promise<void> {
  const { classArchive } = fetched;
  if (classArchive === undefined) return;
  const fill = async (folder: string) => {
    session.report(`${part.name}: keeping its classes in a form that starts faster, once`);
    await runOnce(session, part, { fetched, ports, folder });
    writeFileSync(join(folder, digest), sha256(readFileSync(join(folder, file))));
  };
  try {
    await cached(session, classArchive, fill, isWhole);
  } catch (error) {
    session.signal.throwIfAborted();
    const why = error instanceof Error ? error.message : String(error);
    session.report(`${part.name}: starts without an archive of its classes, because ${why}`);
  }
}

/** Longer than what it takes to write the archive on a busy machine. */
const stop = { signal: 'SIGTERM', withinMs: 120_000 } as const;
/** What Java exits with after a SIGTERM, unless it could not write. */
const ended = 'exited with code 143';

/** The same command, whose Java writes down at its end what it has loaded. */
function writingTo(archive: string, command: Command): Command {
  return { ...command, args: [`-XX:ArchiveClassesAtExit=${archive}`, ...command.args] };
}

/** Runs the part until it is ready, on data of its own, and then has it end. */
async function runOnce(
  session: Session,
  part: Part,
  { fetched, ports, folder }: { fetched: Fetched; ports: Site['ports']; folder: string },
): Promise<void> {
  const data = join(folder, 'data');
  const site = { session, folder: data, ports };
  const command = writingTo(join(folder, file), await fetched.command(site));
  const running = await startProcess(session, { name: `${part.name}-classes`, ports, command });
  const { record } = running;
  try {
    const probe = () => part.probe(part.address(site));
    const port = ports[part.ports[0]!.use]!;
    await waitUntilReady(running, { probe, ports: [port], signal: session.signal });
    await stopProcess(record, stop);
    await running.exited?.();
    const end = running.ended();
    if (end !== ended) throw new Error(`Java ${end} instead of writing it: ${running.log}`);
  } finally {
    await killProcessFamily(record);
    forget(session, record.name);
    await rm(data, { recursive: true, force: true });
  }
}
