import {
  agentIn,
  breakSchema,
  lookAtAgent,
  noAgent,
  watchAgent,
  type AgentView,
  type Breakable,
  type Job,
  type StoryLine,
} from './break-agent.ts';
import {
  mayAct,
  Refusal,
  type Answer,
  type Console,
  type Route,
  type ServerSentEvent,
  type Session,
  type Visit,
} from '../console.ts';
import { page, reading } from '../edge/route.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { breakingActs } from './break-acts.ts';
import { id, seconds, state, table, time } from '../html/shown.ts';
import {
  type KnownScenario,
  missingGuardNames,
  loadLimits,
  knownScenarios,
} from '@triplock/inspect';

/** Why somebody breaks a demo, until they say otherwise. */
const usualReason = 'trying it out';

/** The page on which a demo is broken, and the same for programs; in production there is none. */
export const breakRoutes: readonly Route[] = [
  page('/break', showBreak),
  page('/break/events', tellBreak),
  reading('/break', {
    operationId: 'readBreak',
    summary: 'What of a demo can be broken, and what is under way; there is none in production.',
    answers: breakSchema,
    read: async ({ config }) => {
      const view = await lookAtAgent(agentIn(config));
      const known = {
        scenarios: [...knownScenarios()],
        guards: [...missingGuardNames()],
        loadLimits,
      };
      return { ...view, ...known };
    },
  }),
].map((route) => ({ ...route, except: 'production' }));

async function showBreak({ config }: Console, { session }: Visit): Promise<Answer> {
  const view = await lookAtAgent(agentIn(config));
  const main = html`<p class="lead">
      Break the running system and watch what its guards make of it. Everything here is a real
      fault: processes die, payments are sent twice, stores forget.
    </p>
    ${view.agent === 'none' ? commands() : workshop(view, session)}`;
  return { is: 'page', title: 'Break it', section: 'break', main };
}

/** The same as events: each line of a story, and all anew when a job or a process changes. */
async function tellBreak({ config }: Console, { session }: Visit): Promise<Answer> {
  const agent = agentIn(config);
  if (agent === undefined) throw new Refusal('unavailable', noAgent);
  return {
    is: 'events',
    events: async function* (signal): AsyncGenerator<ServerSentEvent> {
      for await (const news of watchAgent(agent, signal)) {
        yield { data: ('view' in news ? live(news.view, session) : appended(news.added)).text };
      }
    },
  };
}

/** Lines for a browser to put behind those that it has, whatever else the page shows. */
function appended(lines: readonly StoryLine[]): Html {
  const spans = lines.map(storyLine);
  return html`<hx-partial hx-target="#story" hx-swap="beforeend">${spans}</hx-partial>`;
}

/** Where all buttons of the page belong, wherever they stand: they share one reason. */
const formId = 'breaks';

type BreakingAct = keyof typeof breakingActs;

/** Everything where there is an agent. What is told anew has no field that somebody types into. */
function workshop(view: AgentView, session: Session): Html {
  return html`${mayBreak(session) && reasonForm(session)}
    <p class="trouble" id="untold" role="status"></p>
    <div
      hx-sse:connect="/break/events"
      hx-sse:close="superseded"
      hx-swap="innerMorph"
      data-live="#untold"
    >
      ${live(view, session)}
    </div>
    <p><a href="/break">Look again</a></p>
    <h2>Failures</h2>
    <p class="hint">
      Each breaks the running system, looks at every layer, and puts it right again. One is run at a
      time.
    </p>
    ${scenarioTable((each) => scenarioButtons(each, session))}
    ${mayBreak(session) && [withoutForm(session), loadForm(session), auditButton()]}`;
}

/** The end of every story: what each layer has of each payment. */
function auditButton(): Html {
  return html`<h2>Did it hold?</h2>
    <p class="hint">
      The audit compares every accepted payment with what became of it in every layer.
    </p>
    <p class="actions">
      <button form="${formId}" formaction="${actOnce('audit.run')}">Run the audit</button>
      <a href="/">Watch it pass on the page Flow</a>
    </p>`;
}

function mayBreak({ role }: Session): boolean {
  return mayAct(role, breakingActs['scenarios.run'].role);
}

/** Whoever ends the line of the reason has not said yet what to do. */
function reasonForm({ csrf }: Session): Html {
  return html`<form class="act" id="${formId}" method="post" action="/acts/audit.run">
    <button disabled hidden></button>
    <input type="hidden" name="csrf" value="${csrf}" />
    <label
      >Kept with every act of this page:
      <input name="reason" required maxlength="500" autocomplete="off" value="${usualReason}"
    /></label>
  </form>`;
}

function hidden(csrf: string): Html {
  return html`<input type="hidden" name="csrf" value="${csrf}" />
    <input type="hidden" name="form" value="${crypto.randomUUID()}" />`;
}

type Pressed = { name: string; value: string; label: string; says?: string; look?: 'danger' };

/** Where a button of the page's form sends it: one press of one button is one act. */
function actOnce(act: BreakingAct | 'audit.run'): string {
  return `/acts/${act}?form=${crypto.randomUUID()}`;
}

/** A button of the page's form, which names its act and what that is done to. */
function button(act: BreakingAct, { name, value, label, says = label, look }: Pressed): Html {
  return html`<button
    class="${look ?? 'quiet'}"
    form="${formId}"
    formaction="${actOnce(act)}"
    name="${name}"
    value="${value}"
    aria-label="${says}"
  >
    ${label}
  </button>`;
}

/** What changes while somebody looks: the story, and how processes are. */
function live(view: AgentView, session: Session): Html {
  if (view.agent !== 'up') {
    return html`<p class="trouble">
      The agent of this system does not answer: npm run up starts it again.
    </p>`;
  }
  return html`${story(view.job, session)}
    <h2>Processes</h2>
    ${processList(view.processes, session)}
    <p class="hint below">
      Stop is SIGSTOP: the process stands still and keeps its connections. Nothing is lost by any of
      these: what a dead process held, another one or its next start takes up.
    </p>`;
}

function story(job: Job | null, session: Session): Html {
  if (job === null) {
    return html`<h2>What is under way</h2>
      <p class="empty">Nothing has been run from here yet.</p>`;
  }
  const { command, startedAt, endedAt, story: lines } = job;
  const lasts = endedAt === undefined ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
  const cancel = { name: 'job', value: String(job.id), label: 'Cancel', look: 'danger' } as const;
  return html`<h2>${endedAt === undefined ? 'What is under way' : 'What was run last'}</h2>
    <div class="title-line">
      ${verdict(job)} ${id(command)} ${time(new Date(startedAt))}
      ${lasts !== undefined && `in ${seconds(lasts / 1_000)}`}
      ${job.state === 'running' && mayBreak(session) && button('job.cancel', cancel)}
    </div>
    <pre class="story" id="story" role="log" aria-label="${command}">${lines.map(storyLine)}</pre>`;
}

function storyLine({ kind, text }: StoryLine): Html {
  return html`<span class="${kind}">${text}</span>`;
}

/** What came of it, which is the other way round where a guard was taken away. */
function verdict({ state: now, order }: Job): Html {
  const lacksGuard = order.run === 'scenario' && order.without !== undefined;
  const pill = (tone: 'good' | 'bad' | 'wait', text: string) =>
    html`<span class="pill ${tone}">${text}</span>`;
  switch (now) {
    case 'running':
      return pill('wait', 'under way');
    case 'cancelling':
      return pill('wait', 'is being put right again');
    case 'cancelled':
      return pill('wait', 'cancelled, and put right again');
    case 'done':
      if (order.run === 'load') return pill('good', 'every payment took effect once');
      return lacksGuard
        ? pill('bad', 'escaped, as seen above: that guard was needed')
        : pill('good', 'held');
    case 'failed':
      return lacksGuard
        ? pill('wait', 'none escaped, or it could not be run: its last lines say which')
        : pill('bad', 'did not hold, or could not be run: its last lines say which');
    default:
      return now satisfies never;
  }
}

const shownStates = { running: 'up', paused: 'paused', gone: 'away' } as const;

const kill = { act: 'processes.kill', label: 'Kill' } as const;

/** What can be done to a process, by how it is. */
const actsOn = {
  running: [kill, { act: 'processes.pause', label: 'Stop' }],
  paused: [{ act: 'processes.continue', label: 'Continue' }, kill],
  gone: [{ act: 'processes.start', label: 'Start again' }],
} as const satisfies Record<Breakable['state'], readonly { act: BreakingAct; label: string }[]>;

function processList(processes: readonly Breakable[], session: Session): Html {
  if (processes.length === 0) return html`<p class="empty">No process is known.</p>`;
  const each = ({ name, state: now, restarts }: Breakable) => {
    const acts = actsOn[now].map(({ act, label }) =>
      button(act, { name: 'process', value: name, label, says: `${label} ${name}` }),
    );
    return html`<li>
      <b>${name}</b> ${state(shownStates[now])}
      ${
        restarts > 0 &&
        html`<small>started again ${restarts === 1 ? 'once' : `${restarts} times`}</small>`
      }
      ${mayBreak(session) && html`<span class="actions">${acts}</span>`}
    </li>`;
  };
  return html`<ul class="processes">
    ${processes.map(each)}
  </ul>`;
}

function scenarioTable(last: (scenario: KnownScenario) => Shown): Html {
  const rows = knownScenarios().map((each): Shown[] => [
    id(each.name),
    each.failure,
    each.absorbedBy,
    last(each),
  ]);
  return table('Failures', ['Scenario', 'What fails', 'Absorbed by', 'Act'], { rows, empty: '' });
}

function scenarioButtons({ name, shows }: KnownScenario, session: Session): Shown {
  if (!mayBreak(session)) return '';
  const run = { name: 'scenario', value: name, label: 'Run', says: `Run ${name}` };
  return html`<span class="actions"
    >${button('scenarios.run', run)}
    ${
      shows !== undefined &&
      button('scenarios.run', { name: 'without', value: shows, label: `Run without ${shows}` })
    }</span
  >`;
}

function withoutForm({ csrf }: Session): Html {
  const options = (names: readonly string[]) => names.map((name) => html`<option>${name}</option>`);
  return html`<h2>Without a guard</h2>
    <p class="hint">
      The same failure in a second system that lacks one guard, on the same stores under other
      names, which is dropped afterwards: it shows which duplicates then escape.
    </p>
    <form class="act" method="post" action="/acts/scenarios.run">
      ${hidden(csrf)} <input type="hidden" name="reason" value="${usualReason}" />
      <label
        >Without
        <select name="without">
          ${options(missingGuardNames())}
        </select></label
      >
      <label
        >Scenario
        <select name="scenario">
          <option value="">the one that shows it best</option>
          ${options(knownScenarios().map(({ name }) => name))}
        </select>
      </label>
      <button>Run</button>
    </form>`;
}

function loadForm({ csrf }: Session): Html {
  return html`<h2>Load</h2>
    <p class="hint">
      Payments from a partner with k6, many of them sent again, and the audit of all of them at its
      end. Kill something meanwhile.
    </p>
    <form class="act" method="post" action="/acts/load.run">
      ${hidden(csrf)} <input type="hidden" name="reason" value="${usualReason}" />
      ${loadField('ratePerSecond', 'Payments a second', 20)} ${loadField('seconds', 'Seconds', 60)}
      ${loadField('duplicatesPercent', 'Of 100 sent again', 45)}
      <button>Send load</button>
    </form>`;
}

function loadField(name: keyof typeof loadLimits, label: string, usual: number): Html {
  const { min, max } = loadLimits[name];
  return html`<label
    >${label}
    <input type="number" name="${name}" required min="${min}" max="${max}" value="${usual}"
  /></label>`;
}

const commandLines = [
  ['kill a process', 'docker compose kill ledger-worker'],
  ['have it stand still', 'docker compose pause ledger-worker'],
  ['have it go on', 'docker compose unpause ledger-worker'],
  ['start it again', 'docker compose up --detach ledger-worker'],
  ['see what escapes without a guard', 'npm run scenario -- --without claims'],
  [
    'send load, many of it twice',
    'npm run load -- duplicates --rate 20 --seconds 60 --duplicates 45',
  ],
  ['reconcile every layer', 'npm run audit'],
] as const;

/** Where there is no agent, the commands that do the same. */
function commands(): Html {
  const rows = commandLines.map(([what, command]): Shown[] => [what, id(command)]);
  return html`<p class="note">
      ${noAgent} The console starts and kills nothing by itself. Here are the commands, for a clone:
    </p>
    <h2>Failures</h2>
    ${scenarioTable(({ name }) => id(`npm run scenario -- ${name}`))}
    <h2>As commands</h2>
    ${table('As commands', ['To', 'Command'], { rows, empty: '' })}`;
}
