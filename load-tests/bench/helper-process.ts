import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(import.meta.url);

/** Another process of the bench, so that its CPU time is its own. */
export type Helper<Request, Result> = {
  /** One question at a time. */
  ask(request: Request): Promise<Result>;
  stop(): Promise<void>;
};

/**
 * Starts a process that answers by the function that `openHelper` of a module beside this one
 * returns, told `which` where there are several. Once the signal is aborted every question is
 * rejected with its reason.
 */
export async function startHelper<Request extends object, Result>(
  module: string,
  signal: AbortSignal,
  which = '',
): Promise<Helper<Request, Result>> {
  const child = fork(main, [new URL(module, import.meta.url).href, which], { execArgv: [] });
  const gone = once(child, 'exit');
  const nextMessage = async (): Promise<unknown> => {
    const stopWaiting = new AbortController();
    const limits = { signal: AbortSignal.any([signal, stopWaiting.signal]) };
    try {
      const ended = once(child, 'exit', limits).then(() => {
        const { exitCode, signalCode } = child;
        throw new Error(`${module} ended by ${signalCode ?? `code ${exitCode}`}`);
      });
      const [message] = (await Promise.race([once(child, 'message', limits), ended])) as [unknown];
      return message;
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      stopWaiting.abort();
    }
  };
  const helper: Helper<Request, Result> = {
    ask: async (request) => {
      signal.throwIfAborted();
      const answer = nextMessage();
      child.send(request);
      const reply = (await answer) as { result: Result } | { failed: string };
      if ('failed' in reply) throw new Error(`${module}: ${reply.failed}`);
      return reply.result;
    },
    stop: async () => {
      if (child.connected) child.disconnect();
      await gone;
    },
  };
  await nextMessage().catch(async (error: unknown) => {
    await helper.stop();
    throw error;
  });
  return helper;
}

/**
 * What this file does as the main one of a helper: loads the module that it is started with and
 * answers every message of the process that started it with what the module's `openHelper` makes of
 * it. It ends together with that process.
 */
async function answerParent(module: string, which: string): Promise<void> {
  // A Ctrl-C reaches the whole group; the parent gets it too, and ends its helpers in its own
  // order.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
  const { openHelper } = (await import(module)) as {
    openHelper(which: string): Promise<(request: unknown) => Promise<unknown>>;
  };
  const answer = await openHelper(which);
  process.on('message', (request) => {
    answer(request).then(
      (result) => process.send?.({ result }),
      (error: unknown) => {
        const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
        process.send?.({ failed: message });
      },
    );
  });
  process.send?.('ready');
}

// Not awaited: the module that it loads imports this one, and would wait for it for ever.
if (import.meta.main) void answerParent(process.argv[2]!, process.argv[3]!);
