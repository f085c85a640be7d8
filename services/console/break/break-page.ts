import {
  agentIn,
  lookAtAgent,
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
import { html, type Html, type Shown } from '../html/html.ts';
import { breakingActs } from './break-acts.ts';
import { id, seconds, state, table, time } from '../html/shown.ts';
import { words } from '../html/words.ts';
import {
  type KnownScenario,
  missingGuardNames,
  loadLimits,
  knownScenarios,
} from '@triplock/inspect';

const say = words.breaking;

const look = { method: 'GET', role: 'viewer', except: 'production' } as const;

/** The page on which a demo is broken, and the same for programs; in production there is none. */
export const breakRoutes: readonly Route[] = [
  { ...look, path: '/break', answer: showBreak },
  { ...look, path: '/break/events', answer: tellBreak },
  { ...look, path: '/api/v1/break', answer: readBreak },
];

async function showBreak({ config }: Console, { session }: Visit): Promise<Answer> {
  const view = await lookAtAgent(agentIn(config));
  const main = html`<p class="lead">${say.intro}</p>
    ${view.agent === 'none' ? commands() : workshop(view, session)}`;
  return { is: 'page', title: words.pages.break, section: 'break', main };
}

/** The same as events: each line of a story, and all anew when a job or a process changes. */
async function tellBreak({ config }: Console, { session }: Visit): Promise<Answer> {
  const agent = agentIn(config);
  if (agent === undefined) throw new Refusal('unavailable', say.noAgent);
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

/** What there is to break and what is under way: `{ agent, job, processes, scenarios, … }`. */
async function readBreak({ config }: Console): Promise<Answer> {
  const view = await lookAtAgent(agentIn(config));
  const known = { scenarios: knownScenarios(), guards: missingGuardNames(), loadLimits };
  return { is: 'json', body: { ...view, ...known } };
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
    <p><a href="/break">${say.lookAgain}</a></p>
    <h2>${say.scenarios}</h2>
    <p class="hint">${say.scenarioHint}</p>
    ${scenarioTable((each) => scenarioButtons(each, session))}
    ${mayBreak(session) && [withoutForm(session), loadForm(session), auditButton()]}`;
}

/** The end of every story: what each layer has of each payment. */
function auditButton(): Html {
  return html`<h2>${say.audit}</h2>
    <p class="hint">${say.auditHint}</p>
    <p class="actions">
      <button form="${formId}" formaction="${actOnce('audit.run')}">${say.runAudit}</button>
      <a href="/">${say.seeFlow}</a>
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
      >${say.reasonHint}
      <input name="reason" required maxlength="500" autocomplete="off" value="${say.reason}"
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
  if (view.agent !== 'up') return html`<p class="trouble">${say.agentAway}</p>`;
  return html`${story(view.job, session)}
    <h2>${say.processes}</h2>
    ${processList(view.processes, session)}
    <p class="hint below">${say.processHint}</p>`;
}

function story(job: Job | null, session: Session): Html {
  if (job === null) {
    return html`<h2>${say.under}</h2>
      <p class="empty">${say.nothing}</p>`;
  }
  const { command, startedAt, endedAt, story: lines } = job;
  const lasts = endedAt === undefined ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
  const cancel = { name: 'job', value: String(job.id), label: say.cancel, look: 'danger' } as const;
  return html`<h2>${endedAt === undefined ? say.under : say.last}</h2>
    <div class="title-line">
      ${verdict(job)} ${id(command)} ${time(new Date(startedAt))}
      ${lasts !== undefined && say.took(seconds(lasts / 1_000))}
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
      return pill('wait', say.running);
    case 'cancelling':
      return pill('wait', say.cancelling);
    case 'cancelled':
      return pill('wait', say.wasCancelled);
    case 'done':
      if (order.run === 'load') return pill('good', say.loadHeld);
      return lacksGuard ? pill('bad', say.escaped) : pill('good', say.held);
    case 'failed':
      return lacksGuard ? pill('wait', say.noneEscaped) : pill('bad', say.didNotHold);
    default:
      return now satisfies never;
  }
}

const shownStates = { running: 'up', paused: 'paused', gone: 'away' } as const;

/** What can be done to a process, by how it is. */
const actsOn: Readonly<Record<Breakable['state'], readonly (keyof typeof say.acts)[]>> = {
  running: ['kill', 'pause'],
  paused: ['continue', 'kill'],
  gone: ['start'],
};

function processList(processes: readonly Breakable[], session: Session): Html {
  if (processes.length === 0) return html`<p class="empty">${say.noProcesses}</p>`;
  const each = ({ name, state: now, restarts }: Breakable) => {
    const acts = actsOn[now].map((act) => {
      const label = say.acts[act];
      const says = say.onProcess(label, name);
      return button(`processes.${act}`, { name: 'process', value: name, label, says });
    });
    return html`<li>
      <b>${name}</b> ${state(shownStates[now])}
      ${restarts > 0 && html`<small>${say.restarted(restarts)}</small>`}
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
  return table(say.scenarios, say.scenarioHeads, { rows, empty: '' });
}

function scenarioButtons({ name, shows }: KnownScenario, session: Session): Shown {
  if (!mayBreak(session)) return '';
  const run = { name: 'scenario', value: name, label: say.run, says: say.runNamed(name) };
  return html`<span class="actions"
    >${button('scenarios.run', run)}
    ${
      shows !== undefined &&
      button('scenarios.run', { name: 'without', value: shows, label: say.runWithout(shows) })
    }</span
  >`;
}

function withoutForm({ csrf }: Session): Html {
  const options = (names: readonly string[]) => names.map((name) => html`<option>${name}</option>`);
  return html`<h2>${say.withoutTitle}</h2>
    <p class="hint">${say.withoutHint}</p>
    <form class="act" method="post" action="/acts/scenarios.run">
      ${hidden(csrf)} <input type="hidden" name="reason" value="${say.reason}" />
      <label
        >${say.guard}
        <select name="without">
          ${options(missingGuardNames())}
        </select></label
      >
      <label
        >${say.scenario}
        <select name="scenario">
          <option value="">${say.best}</option>
          ${options(knownScenarios().map(({ name }) => name))}
        </select>
      </label>
      <button>${say.run}</button>
    </form>`;
}

function loadForm({ csrf }: Session): Html {
  const fields = Object.entries(loadLimits) as [keyof typeof loadLimits, { min: 0; max: 90 }][];
  return html`<h2>${say.load}</h2>
    <p class="hint">${say.loadHint}</p>
    <form class="act" method="post" action="/acts/load.run">
      ${hidden(csrf)} <input type="hidden" name="reason" value="${say.reason}" />
      ${fields.map(
        ([name, { min, max }]) =>
          html`<label
            >${say.loadFields[name]}
            <input
              type="number"
              name="${name}"
              required
              min="${min}"
              max="${max}"
              value="${say.usualLoad[name]}"
          /></label>`,
      )}
      <button>${say.loadRun}</button>
    </form>`;
}

/** Where there is no agent, the commands that do the same. */
function commands(): Html {
  const rows = say.commandLines.map(([what, command]): Shown[] => [what, id(command)]);
  return html`<p class="note">${say.noAgent} ${say.noAgentHere}</p>
    <h2>${say.scenarios}</h2>
    ${scenarioTable(({ name }) => id(`npm run scenario -- ${name}`))}
    <h2>${say.commands}</h2>
    ${table(say.commands, say.commandHeads, { rows, empty: '' })}`;
}
