import type { Answer, Console, ServerSentEvent, Visit } from '../console.ts';
import type { ChartName, Flow, ProcessState } from './flow-history.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { mebibytes, number, rate, seconds, state, table, time } from '../html/shown.ts';
import { words } from '../html/words.ts';

const say = words.flow;

/** The first page: the pipeline as it is now, told anew by the console while somebody looks. */
export async function showFlow({ flow }: Console): Promise<Answer> {
  const main = html`<p class="lead">${say.intro}</p>
    <p class="trouble" id="untold" role="status"></p>
    <div
      hx-sse:connect="/flow/events"
      hx-sse:close="superseded"
      hx-swap="innerMorph"
      data-live="#untold"
    >
      ${pictureOnce(await flow.now())}
    </div>`;
  return { is: 'page', title: words.pages.flow, section: 'flow', main };
}

/** The same as events, two seconds apart, for as long as the browser's page is in front. */
export async function tellFlow({ flow }: Console): Promise<Answer> {
  return {
    is: 'events',
    events: async function* (signal): AsyncGenerator<ServerSentEvent> {
      for await (const each of flow.watch(signal)) yield { data: pictureOnce(each).text };
    },
  };
}

/** The same for programs. */
export async function readFlow({ flow }: Console, _visit: Visit): Promise<Answer> {
  return { is: 'json', body: await flow.now() };
}

const pictures = new WeakMap<Flow, Html>();

/** However many browsers look, the picture of a look is drawn once. */
function pictureOnce(flow: Flow): Html {
  const drawn = pictures.get(flow) ?? picture(flow);
  pictures.set(flow, drawn);
  return drawn;
}

function picture(flow: Flow): Html {
  return html`<div class="board">
      <ol class="flow">
        <li>
          <div class="channel">
            <span class="name">${say.partner}</span>${pipe(flow.perSecond.accepted)}
            <span>${say.channels.http}</span>
          </div>
        </li>
        <li>${hop(flow, 'ingest-gateway')}</li>
        <li>${channel(flow, 'kafka')}</li>
        <li>${hop(flow, 'ledger-worker')}</li>
        <li>${channel(flow, 'outbox')}</li>
        <li>${hop(flow, 'outbox-dispatcher')}</li>
        <li>${channel(flow, 'pubsub')}</li>
        <li class="consumers">
          ${hop(flow, 'partner-notifier')} ${hop(flow, 'settlement-feed')} ${hop(flow, 'auditor')}
        </li>
      </ol>
      <section class="beneath" aria-labelledby="hour">
        <h2 id="hour">${say.hour}</h2>
        <div class="charts">
          ${(Object.keys(say.charts) as ChartName[]).map((name) => chart(flow, name))}
        </div>
        <p class="hint">${say.begins(clock(flow.since))}</p>
      </section>
    </div>
    <h2>${say.audit}</h2>
    ${auditLine(flow)}
    <h2>${say.processes}</h2>
    ${processes(flow)}
    <p class="hint below">${say.looks(number(flow.everySeconds))}</p>`;
}

type HopName = keyof typeof say.hops;

/** What of the flow each hop shows, besides its rate. */
const figures: Readonly<Record<HopName, (flow: Flow) => HopFigures>> = {
  'ingest-gateway': ({ perSecond, lastMinute }) => ({
    rate: perSecond.accepted,
    caught: lastMinute.caughtByClaims,
  }),
  'ledger-worker': ({ perSecond, lastMinute }) => ({
    rate: perSecond.read,
    caught: lastMinute.caughtByLedger,
  }),
  'outbox-dispatcher': ({ perSecond }) => ({ rate: perSecond.published }),
  'partner-notifier': ({ perSecond, lastMinute, gauges }) => ({
    rate: perSecond.notified,
    caught: lastMinute.caughtByInbox,
    inHand: gauges.notifierInHand,
    oldest: gauges.notifierOldest,
    beneath: html`<p class="small">
      ${say.channels.webhooks} → ${say.partner}:
      <b>${figure(perSecond.delivered, rate)}</b
      >${perSecond.delivered !== null && html` ${say.perSecond}`},
      ${counted(gauges.webhooksWaiting, say.waiting)}
      ${age(gauges.webhooksOldest)}${some(gauges.webhooksParked, say.parked)}
    </p>`,
  }),
  'settlement-feed': ({ perSecond, gauges }) => ({
    rate: perSecond.settled,
    inHand: gauges.settlementInHand,
    oldest: gauges.settlementOldest,
  }),
  auditor: ({ perSecond, gauges }) => ({
    rate: perSecond.witnessed,
    inHand: gauges.auditorInHand,
    oldest: gauges.auditorOldest,
  }),
};

type HopFigures = {
  rate: number | null;
  caught?: number | null;
  inHand?: number | null;
  oldest?: number | null;
  beneath?: Html;
};

function hop(flow: Flow, name: HopName): Html {
  const { guard, does, rate: unit } = say.hops[name];
  const { rate: perSecond, caught, inHand, oldest, beneath } = figures[name](flow);
  const mine = flow.processes.filter(({ service }) => service === name);
  const up = mine.filter((each) => each.is === 'up').length;
  const [isAway, isDown] = [up === 0, up < mine.length];
  return html`<section class="hop ${isAway && 'away'}" aria-label="${name}">
    <div class="guard">${guard}</div>
    <h2>${name}</h2>
    <div class="does">${does}</div>
    <div class="big">
      ${figure(perSecond, rate)}${perSecond !== null && html` <small>${say.perSecond} ${unit}</small>`}
    </div>
    ${
      caught !== undefined &&
      html`<span class="caught ${caught !== null && caught > 0 && 'some'}">
        ${counted(caught, say.caught)}
      </span>`
    }
    ${
      inHand !== undefined &&
      html`<p class="small">${counted(inHand, say.inHand)} ${age(oldest)}</p>`
    }
    ${beneath}
    <span class="lamp ${isDown && 'bad'}">
      ${mine.length === 0 ? say.noProcess : say.up(up, mine.length)}
    </span>
    ${isAway && html`<p class="small">${say.whyUnknown.hop}</p>`}
  </section>`;
}

/** What waits between two services, by the name of what it waits in. */
function channel({ perSecond, gauges }: Flow, name: 'kafka' | 'outbox' | 'pubsub'): Html {
  const waits = {
    kafka: { passes: perSecond.read, many: gauges.unread, oldest: gauges.unreadOldest },
    outbox: {
      passes: perSecond.published,
      many: gauges.outboxPending,
      oldest: gauges.outboxOldest,
    },
    pubsub: { passes: perSecond.notified, many: undefined, oldest: undefined },
  }[name];
  return html`<div class="channel">
    <span class="name">${say.channels[name]}</span>${pipe(waits.passes)}
    ${
      waits.many !== undefined &&
      html`<span>${counted(waits.many, say.waiting)}</span>
        <span>
          ${waits.many === null && name !== 'pubsub' ? say.whyUnknown[name] : age(waits.oldest)}
        </span>`
    }
    ${name === 'outbox' && html`<span>${some(gauges.outboxHeld, say.held)}</span>`}
  </div>`;
}

function pipe(perSecond: number | null): Html {
  return html`<span class="pipe ${perSecond !== null && perSecond > 0 && 'moving'}"></span>`;
}

/** A figure with what it counts: `3 waiting`, or `waiting: unknown`, which is not none. */
function counted(value: number | null | undefined, what: string): Html {
  return value === null || value === undefined
    ? html`${what}: ${say.unknown}`
    : html`<b>${number(value)}</b> ${what}`;
}

function figure(value: number | null | undefined, form: (value: number) => string): string {
  return value === null || value === undefined ? say.unknown : form(value);
}

/** Of what waits for longer than a minute the age is a warning, as the alerts have it. */
const oldAfterSeconds = 60;

function age(oldest: number | null | undefined): Shown {
  if (oldest === null || oldest === undefined || oldest === 0) return '';
  const text = `${say.oldest} ${seconds(oldest)}`;
  return oldest > oldAfterSeconds ? html`<b class="old">${text}</b>` : text;
}

function some(many: number | null, what: string): Shown {
  return many !== null && many > 0 && html`<b class="old">${number(many)} ${what}</b>`;
}

function auditLine({ gauges: { auditDrift, auditEnded } }: Flow): Html {
  if (auditEnded === null || auditEnded === 0) return html`<p>${say.noAudit}</p>`;
  const drift = auditDrift ?? 0;
  return html`<p>
    ${say.auditEnded} ${time(new Date(auditEnded * 1_000))}:
    ${
      drift === 0
        ? html`<span class="pill good">${say.noDrift}</span>`
        : html`<a class="pill bad" href="/audit">${say.drift(number(drift))}</a>`
    }
  </p>`;
}

const width = 240;
const height = 40;

/** One figure of the last hour: as a curve, and in words what its greatest and its last are. */
function chart({ hour, since }: Flow, name: ChartName): Html {
  const [title, unit] = say.charts[name];
  const told = hour.flatMap((point) => {
    const value = point[name];
    return value === null ? [] : [{ at: point.at.getTime(), value }];
  });
  const greatest = Math.max(0, ...told.map(({ value }) => value));
  const end = hour.at(-1)?.at.getTime() ?? since.getTime();
  const begin = Math.max(end - 3_600_000, since.getTime() - 15_000);
  const span = Math.max(60_000, end - begin);
  const points = told.map(({ at, value }) => {
    const x = ((at - (end - span)) / span) * width;
    const y = height - (greatest === 0 ? 0 : (value / greatest) * (height - 2));
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const last = told.at(-1)?.value;
  const shownValue = name === 'oldest' ? seconds : rate;
  const summary = `${say.greatest} ${shownValue(greatest)}`;
  const named = unit === '' ? title : html`${title} <small>${unit}</small>`;
  return html`<figure class="chart">
    <figcaption><span>${named}</span> <b>${figure(last, shownValue)}</b></figcaption>
    <svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img">
      <title>${title} ${unit}: ${summary}</title>
      <line class="base" x1="0" x2="${width}" y1="${height}" y2="${height}" />
      ${
        points.length > 1 &&
        html`<path
            class="area"
            d="M${points[0]!.split(',')[0]},${height} L${points.join(' ')} L${points.at(-1)!.split(',')[0]},${height}z"
          />
          <polyline class="curve" points="${points.join(' ')}" />`
      }
    </svg>
    <div class="ends">
      <span>${clock(new Date(end - span))}</span><span>${summary}</span>
      <span>${clock(new Date(end))}</span>
    </div>
  </figure>`;
}

function clock(at: Date): string {
  return `${at.toISOString().slice(11, 16)} UTC`;
}

function processes({ processes: all }: Flow): Html {
  const rows = all.map((each): Shown[] => [
    html`<b>${each.name}</b>`,
    state(each.is),
    ...describeProcess(each),
  ]);
  return table(say.processes, say.processHeads, { rows, empty: say.noProcesses });
}

function describeProcess(each: ProcessState): Shown[] {
  if (each.is === 'away') return [time(each.since), '', '', each.why];
  const cpu = each.cpuShare === null ? '' : `${(each.cpuShare * 100).toFixed(1)} %`;
  return [time(each.startedAt), cpu, mebibytes(each.memoryBytes), ''];
}
