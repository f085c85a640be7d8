import type { Answer, Console, Route, ServerSentEvent } from '../console.ts';
import { page, reading } from '../edge/route.ts';
import { hops, type Hop } from '@triplock/pipeline';
import { flowSchema, type ChartName, type Flow, type ProcessState } from './flow-history.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { mebibytes, number, rate, seconds, state, table, time } from '../html/shown.ts';

/** The first page: the pipeline as it is now, told anew by the console while somebody looks. */
export const flowRoutes: readonly Route[] = [
  page('/', showFlow),
  page('/flow/events', tellFlow),
  reading('/flow', {
    operationId: 'readFlow',
    summary: 'The pipeline as it is now, and its last hour.',
    answers: flowSchema,
    read: ({ flow }) => flow.now(),
  }),
];

async function showFlow({ flow }: Console): Promise<Answer> {
  const main = html`<p class="lead">
      Every payment passes three guards. This is what each hop tells now.
    </p>
    <p class="trouble" id="untold" role="status"></p>
    <div
      hx-sse:connect="/flow/events"
      hx-sse:close="superseded"
      hx-swap="innerMorph"
      data-live="#untold"
    >
      ${pictureOnce(await flow.now())}
    </div>`;
  return { is: 'page', title: 'Flow', section: 'flow', main };
}

/** The same as events, two seconds apart, for as long as the browser's page is in front. */
async function tellFlow({ flow }: Console): Promise<Answer> {
  return {
    is: 'events',
    events: async function* (signal): AsyncGenerator<ServerSentEvent> {
      for await (const each of flow.watch(signal)) yield { data: pictureOnce(each).text };
    },
  };
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
            <span class="name">partner</span>${pipe(flow.perSecond.accepted)}
            <span>HTTP</span>
          </div>
        </li>
        <li>${hopsFrom(flow, 'partners')}</li>
        <li>${channel(flow, 'kafka')}</li>
        <li>${hopsFrom(flow, 'kafka')}</li>
        <li>${channel(flow, 'outbox')}</li>
        <li>${hopsFrom(flow, 'outbox')}</li>
        <li>${channel(flow, 'pubsub')}</li>
        <li class="consumers">${hopsFrom(flow, 'pubsub')}</li>
      </ol>
      <section class="beneath" aria-labelledby="hour">
        <h2 id="hour">The last hour</h2>
        <div class="charts">
          ${(Object.keys(charts) as ChartName[]).map((name) => chart(flow, name))}
        </div>
        <p class="hint">
          These begin at ${clock(flow.since)}, when this console was started: it remembers an hour,
          and nothing longer than itself.
        </p>
      </section>
    </div>
    <h2>Audit</h2>
    ${auditLine(flow)}
    <h2>Processes</h2>
    ${processes(flow)}
    <p class="hint below">A look every ${number(flow.everySeconds)} s.</p>`;
}

/** The services that take from the same, each with what it does there and its figures. */
function hopsFrom(flow: Flow, from: Hop['from']): Html[] {
  return hops.filter((hop) => hop.from === from).map((hop) => drawHop(flow, hop));
}

type Leaving = Extract<(typeof hops)[number], { beneath: object }>['beneath'];

function whatLeaves({ perSecond, gauges }: Flow, its: Leaving): Html {
  const passes = perSecond[its.rate];
  return html`<p class="small">
    ${its.says}: <b>${figure(passes, rate)}</b>${passes !== null && html` / s`},
    ${counted(gauges[its.waiting], 'waiting')}
    ${age(gauges[its.oldest])}${some(gauges[its.parked], 'parked')}
  </p>`;
}

function drawHop(flow: Flow, hop: (typeof hops)[number]): Html {
  const { lastMinute, gauges } = flow;
  const perSecond = flow.perSecond[hop.rate];
  const caught = 'caught' in hop ? lastMinute[hop.caught] : undefined;
  const mine = flow.processes.filter(({ service }) => service === hop.name);
  const up = mine.filter((each) => each.is === 'up').length;
  const [isAway, isDown] = [up === 0, up < mine.length];
  return html`<section class="hop ${isAway && 'away'}" aria-label="${hop.name}">
    <div class="guard">${hop.guard}</div>
    <h2>${hop.name}</h2>
    <div class="does">${hop.does}</div>
    <div class="big">
      ${figure(perSecond, rate)}${perSecond !== null && html` <small>/ s ${hop.unit}</small>`}
    </div>
    ${
      caught !== undefined &&
      html`<span class="caught ${caught !== null && caught > 0 && 'some'}">
        ${counted(caught, 'caught, last minute')}
      </span>`
    }
    ${
      'inHand' in hop &&
      html`<p class="small">
        ${counted(gauges[hop.inHand], 'in hand')} ${age(gauges[hop.oldest])}
      </p>`
    }
    ${'beneath' in hop && whatLeaves(flow, hop.beneath)}
    ${'cold' in hop && html`<p class="small">${warmth(gauges[hop.cold])}</p>`}
    <span class="lamp ${isDown && 'bad'}">
      ${mine.length === 0 ? 'no process is known' : `${up} of ${mine.length} up`}
    </span>
    ${isAway && html`<p class="small">unknown while no process of it answers</p>`}
  </section>`;
}

/** What waits between two services, by the name of what it waits in. */
function channel({ perSecond, gauges }: Flow, name: 'kafka' | 'outbox' | 'pubsub'): Html {
  const waits = {
    kafka: {
      title: 'Kafka',
      passes: perSecond.read,
      many: gauges.unread,
      oldest: gauges.unreadOldest,
      whyUnknown: 'unknown until an auditor has counted again',
    },
    outbox: {
      title: 'outbox',
      passes: perSecond.published,
      many: gauges.outboxPending,
      oldest: gauges.outboxOldest,
      whyUnknown: 'unknown while no dispatcher answers',
    },
    pubsub: { title: 'Pub/Sub', passes: perSecond.notified },
  }[name];
  return html`<div class="channel">
    <span class="name">${waits.title}</span>${pipe(waits.passes)}
    ${
      'many' in waits &&
      html`<span>${counted(waits.many, 'waiting')}</span>
        <span> ${waits.many === null ? waits.whyUnknown : age(waits.oldest)} </span>`
    }
    ${
      name === 'outbox' &&
      html`<span>${some(gauges.outboxHeld, 'held behind a parked event')}</span>`
    }
  </div>`;
}

function pipe(perSecond: number | null): Html {
  return html`<span class="pipe ${perSecond !== null && perSecond > 0 && 'moving'}"></span>`;
}

/** A figure with what it counts: `3 waiting`, or `waiting: unknown`, which is not none. */
function counted(value: number | null | undefined, what: string): Html {
  return value === null || value === undefined
    ? html`${what}: unknown`
    : html`<b>${number(value)}</b> ${what}`;
}

function figure(value: number | null | undefined, form: (value: number) => string): string {
  return value === null || value === undefined ? 'unknown' : form(value);
}

/** Of what waits for longer than a minute the age is a warning, as the alerts have it. */
const oldAfterSeconds = 60;

function age(oldest: number | null | undefined): Shown {
  if (oldest === null || oldest === undefined || oldest === 0) return '';
  const text = `oldest ${seconds(oldest)}`;
  return oldest > oldAfterSeconds ? html`<b class="old">${text}</b>` : text;
}

function some(many: number | null, what: string): Shown {
  return many !== null && many > 0 && html`<b class="old">${number(many)} ${what}</b>`;
}

/** Whether it remembers by itself, and if not, how much it has still to read back. */
function warmth(cold: number | null): Shown {
  if (cold === null) return 'warm or cold: unknown';
  if (cold === 0) return 'warm';
  return html`<b class="old">cold, ${number(Math.ceil(cold * 100))} % to read back</b>`;
}

function auditLine({ gauges: { auditDrift, auditEnded } }: Flow): Html {
  if (auditEnded === null || auditEnded === 0) {
    return html`<p>No audit has ended yet, or no auditor tells.</p>`;
  }
  const drift = auditDrift ?? 0;
  return html`<p>
    The last audit ended ${time(new Date(auditEnded * 1_000))}:
    ${
      drift === 0
        ? html`<span class="pill good">no drift</span>`
        : html`<a class="pill bad" href="/audit">${number(drift)} offending ids</a>`
    }
  </p>`;
}

const width = 240;
const height = 40;

/** The figures of the last hour, and what each is counted by. */
const charts: Readonly<Record<ChartName, readonly [title: string, unit: string]>> = {
  accepted: ['Accepted', 'a second'],
  read: ['Read by the ledger', 'a second'],
  published: ['Published', 'a second'],
  delivered: ['Webhooks delivered', 'a second'],
  caught: ['Duplicates caught', 'a minute'],
  oldest: ['Oldest waiting', ''],
};

/** One figure of the last hour: as a curve, and in words what its greatest and its last are. */
function chart({ hour, since }: Flow, name: ChartName): Html {
  const [title, unit] = charts[name];
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
  const summary = `greatest ${shownValue(greatest)}`;
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
  return table(
    'Processes',
    ['Process', 'State', 'Since', { figure: 'CPU' }, { figure: 'Memory' }, 'Why'],
    { rows, empty: 'No process is known: PROCESS_URLS names none.' },
  );
}

function describeProcess(each: ProcessState): Shown[] {
  if (each.is === 'away') return [time(each.since), '', '', each.why];
  const cpu = each.cpuShare === null ? '' : `${(each.cpuShare * 100).toFixed(1)} %`;
  return [time(each.startedAt), cpu, mebibytes(each.memoryBytes), ''];
}
