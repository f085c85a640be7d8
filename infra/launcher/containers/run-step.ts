import { LauncherError } from '../launcher-error.ts';
import type { Report } from '../session.ts';

/**
 * Runs one of the steps that come before the services. What a person can act on is printed as one
 * sentence, and in the words of containers; anything else with its stack. Exit code 1 then, so that
 * nothing starts that waits for it.
 */
export async function runStep(name: string, work: (report: Report) => unknown): Promise<void> {
  try {
    await work((line) => process.stdout.write(`${line}\n`));
  } catch (error) {
    process.exitCode = 1;
    process.stderr.write(`triplock ${name}: ${sentenceOf(error)}\n`);
  }
}

function sentenceOf(error: unknown): string {
  if (error instanceof LauncherError) {
    return error.message
      .replaceAll('npm run down -- --volumes', 'docker compose down --volumes')
      .replaceAll('this home', 'these volumes')
      .replaceAll('another --home', 'another project (docker compose -p)');
  }
  if (!(error instanceof Error)) return String(error);
  // PostgreSQL took its password from the credentials when its volume was made.
  if ((error as { code?: unknown }).code === '28P01') {
    return 'PostgreSQL refuses the password, so its volume and that of the credentials are of two installations: docker compose down --volumes forgets both';
  }
  return error.stack ?? error.message;
}
