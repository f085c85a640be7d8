// Runs the commands that its parent sends, one after the other, and tells how each ended.
import type { CommandLine, Ran, ToRun } from './commands.ts';

const [, , module, exported] = process.argv as [string, string, string, string];
const { [exported]: runByWords } = (await import(module)) as Record<string, CommandLine>;

// Each command adds its own to these and counts on the end of the process.
const listened = ['SIGINT', 'SIGTERM', 'SIGHUP'];

process.on('message', ({ words, environment }: ToRun) => {
  void run(words, environment).then((ran) => process.send!(ran));
});
// The test that started it was killed, and nobody would end it.
process.on('disconnect', () => process.exit());

async function run(
  words: readonly string[],
  environment: Readonly<NodeJS.ProcessEnv>,
): Promise<Ran> {
  process.env = { ...environment };
  process.exitCode = undefined;
  const streams = [process.stdout, process.stderr] as const;
  const printed = streams.map(record);
  await runByWords!(words);
  const [stdout, stderr] = printed.map((end) => end()) as [string, string];
  for (const name of listened) process.removeAllListeners(name);
  for (const stream of streams) stream.removeAllListeners('error');
  return { code: Number(process.exitCode ?? 0), stdout, stderr };
}

/** Keeps what is written to a stream, until what this returns is called, which gives it. */
function record(stream: NodeJS.WriteStream): () => string {
  const { write } = stream;
  let text = '';
  stream.write = (piece: string | Uint8Array) => {
    text += typeof piece === 'string' ? piece : Buffer.from(piece).toString();
    return true;
  };
  return () => {
    stream.write = write;
    return text;
  };
}
