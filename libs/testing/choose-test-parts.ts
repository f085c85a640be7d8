import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { testImages } from './test-images.ts';

/** What the real parts of a test run are: processes of the launcher, or containers. */
export type TestParts = { parts: 'native' | 'containers'; because: string };

const run = promisify(execFile);
const answersWithinMs = 5_000;

/**
 * TRIPLOCK_TEST_PARTS says `native` or `containers`; without it they are containers where an engine
 * answers and has the images, and processes everywhere else.
 */
export async function chooseTestParts(): Promise<TestParts> {
  const asked = process.env['TRIPLOCK_TEST_PARTS']?.trim();
  if (asked === 'native' || asked === 'containers') {
    return { parts: asked, because: 'TRIPLOCK_TEST_PARTS asks for it' };
  }
  if (asked) throw new Error(`TRIPLOCK_TEST_PARTS takes native or containers, not '${asked}'`);
  const version = await docker('version', '--format', '{{.Server.Version}}');
  if (version === undefined) return { parts: 'native', because: 'no container engine answers' };
  const listed = await docker('image', 'ls', '--format', '{{.Repository}}:{{.Tag}}');
  const there = new Set(listed?.split('\n'));
  const missing = Object.values(testImages).filter((image) => !there.has(image));
  return missing.length === 0
    ? { parts: 'containers', because: `Docker ${version} answers and has the images` }
    : { parts: 'native', because: `Docker ${version} has no ${missing.join(', ')}` };
}

/** What the command printed; `undefined` when there is no engine, or none that answers in time. */
async function docker(...args: string[]): Promise<string | undefined> {
  const ran = run('docker', args, { timeout: answersWithinMs });
  return ran.then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}
