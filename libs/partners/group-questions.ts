/**
 * Asks the store for many keys at once; what it does not name is unknown. Keyed by the hash in
 * base64.
 */
export type AskMany<Answer> = (hashes: readonly Buffer[]) => Promise<ReadonlyMap<string, Answer>>;

// One statement for so many: a few milliseconds of PostgreSQL's time.
const groupMax = 1_000;
// Who comes when so many wait is told that nothing is known; only a store that hangs lets it come
// to that.
const waitingMax = 10_000;

type Waiting<Answer> = { hash: Buffer; settle: PromiseWithResolvers<Answer | undefined> };

/**
 * Groups questions: one is under way at a time, and asks for everything that came meanwhile. So a
 * flood of made-up keys takes one connection and a bounded number of statements, and a good key
 * waits behind one statement, never behind ten thousand.
 */
export function groupQuestions<Answer>(
  askMany: AskMany<Answer>,
): (hash: Buffer) => Promise<Answer | undefined> {
  const waiting: Waiting<Answer>[] = [];
  let isAsking = false;

  const askAll = async () => {
    isAsking = true;
    while (waiting.length > 0) await answerGroup(askMany, waiting.splice(0, groupMax));
    isAsking = false;
  };

  return async (hash) => {
    if (waiting.length >= waitingMax) throw new Error('too many keys wait to be looked up');
    const settle = Promise.withResolvers<Answer | undefined>();
    waiting.push({ hash, settle });
    if (!isAsking) void askAll();
    return settle.promise;
  };
}

/** Never rejects: an outage is told to each who waits. */
async function answerGroup<Answer>(
  askMany: AskMany<Answer>,
  group: readonly Waiting<Answer>[],
): Promise<void> {
  try {
    const answers = await askMany(group.map(({ hash }) => hash));
    for (const { hash, settle } of group) settle.resolve(answers.get(hash.toString('base64')));
  } catch (error) {
    for (const { settle } of group) settle.reject(error);
  }
}
