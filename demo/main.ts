import { once } from 'node:events';
import {
  type Endpoints,
  parseParts,
  runCommand,
  runningSystem,
  startCommand,
  takeDown,
  titlesOfParts,
} from '@triplock/launcher';
import { titleOfClaims } from '@triplock/inspect';
import { ledgerStoreNamed } from '@triplock/ledgers';
import { formatSpan, openTerminal, style, type Terminal, wholeNumber } from '@triplock/command';
import { renderInvitation, tellStory, type StoryEnd } from './story.ts';
import { startSystem } from './system.ts';

const help = `
npm run demo -- [options]

Starts everything, sends payments through the three guards while things break for real, shows what
each guard did, audits every layer, and stays up until Ctrl-C, which stops what it started. A system
that was up before is used as it is, and stays up.

  --once         ends after the audit; exit code 0 when every step and the audit held
  --replicas N   N of each service (as many as run, or 1)
  --parts HOW    native: processes; docker: containers (npm run up -- --help)
  --home DIR     the instance (.triplock)
  --json         prints the story as JSON
  --help
`;

/** What a stranger has to know before the story begins. */
const legendOf = (endpoints: Endpoints) => [
  '',
  `${style.name('guard 1 claims')}  ${titleOfClaims(endpoints.claims)}: one request at work per key, and whether it was answered`,
  `${style.name('guard 2 ledger')}  ${ledgerStoreNamed(endpoints.ledger).title}: one row per payment id; row, entry and event commit together`,
  `${style.name('guard 3 inbox')}   one effect per event id, however often it is published`,
];

await runCommand({
  name: 'demo',
  help,
  options: {
    once: { type: 'boolean' },
    replicas: { type: 'string' },
    parts: { type: 'string' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  run: async ({ values, interrupted }) => {
    const replicas = wholeNumber(values.replicas, { option: 'replicas', min: 1, max: 10 });
    const terminal = openTerminal({ json: values.json ?? false });
    const parts = parseParts(values.parts);
    const instance = { home: values.home, replicas, parts, agent: 'up' as const };
    const show: Show = { instance, terminal, signal: interrupted() };
    const wasUp = await isUp(values.home);
    let end: StoryEnd | undefined;
    try {
      end = await Promise.race([tellTo(show), interruption(show.signal)]);
      if (!end.story.ok) process.exitCode = 1;
      if (values.once) return;
      for (const line of renderInvitation(end, { home: values.home, staysUp: wasUp })) {
        terminal.line(line);
      }
      await untilInterrupted(show.signal);
    } finally {
      await (wasUp ? leaveUp(show, { whole: end !== undefined }) : stopEverything(show));
      // What was under way when Ctrl-C came may hold a connection for a while.
      if (show.signal.aborted) setImmediate(() => process.exit());
    }
  },
});

type Show = {
  instance: Parameters<typeof startSystem>[0];
  terminal: Terminal;
  signal: AbortSignal;
};

async function tellTo({ instance, terminal, signal }: Show): Promise<StoryEnd> {
  terminal.line(style.title('Triplock') + ' · a payment takes effect once, whatever crashes');
  const startedMs = performance.now();
  const system = await startSystem(instance, { terminal, signal });
  try {
    const { endpoints } = system;
    const what = `${titlesOfParts(endpoints).join(', ')} and ${endpoints.services.length} services`;
    const took = formatSpan(performance.now() - startedMs);
    terminal.line(style.faint(`${what} are up (${took}); gateway ${endpoints.gateways.join(' ')}`));
    for (const line of legendOf(endpoints)) terminal.line(line);
    terminal.line();
    const story = await tellStory(system, terminal);
    terminal.result(story);
    return { story, endpoints: system.endpoints };
  } finally {
    await system.close();
  }
}

async function untilInterrupted(signal: AbortSignal): Promise<void> {
  // After the story nothing else keeps the process alive.
  const alive = setInterval(() => undefined, 60_000);
  if (!signal.aborted) await once(signal, 'abort');
  clearInterval(alive);
}

/** Ctrl-C ends the story at once, also where it waits for something that cannot be interrupted. */
function interruption(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
}

/** Whether anything of the instance runs: then it is somebody's who wants it to go on. */
async function isUp(home: string | undefined): Promise<boolean> {
  return (await runningSystem(home)).running.length > 0;
}

/** What a story that was broken off had stopped runs again; the rest is as it was. */
async function leaveUp({ instance, terminal }: Show, { whole }: { whole: boolean }): Promise<void> {
  if (!whole) {
    terminal.progress('starting again what the story has stopped');
    // Ctrl-C has ended the story; it must not end this.
    const { signal } = new AbortController();
    await (await startSystem(instance, { terminal, signal })).close();
  }
  const down = startCommand(instance.home).replace('npm run up', 'npm run down');
  terminal.line(style.faint(`it was up before and stays up; ${down} stops it`));
}

async function stopEverything({ instance: { home }, terminal }: Show): Promise<void> {
  terminal.progress('stopping everything');
  const data = await takeDown({
    report: (line) => terminal.progress(line),
    ...(home !== undefined && { home }),
  });
  terminal.line(style.faint(`everything is stopped; its data is ${data}`));
}
