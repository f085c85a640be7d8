import { hasCardNumber, formatMoney, maskCardNumbers, cardNumberMask } from '@triplock/payments';
import { formatSpan } from '@triplock/command';
import { html, type Html, type Shown } from './html.ts';

/** A moment with its zone, to the second or the millisecond; the machine's form beside it. */
export function time(at: Date, precision: 'seconds' | 'milliseconds' = 'seconds'): Html {
  const iso = at.toISOString();
  const clock = precision === 'seconds' ? iso.slice(11, 19) : iso.slice(11, 23);
  return html`<time datetime="${iso}">${iso.slice(0, 10)} <b>${clock}</b> UTC</time>`;
}

/** Money in minor units as every command writes it; it stays on one line. */
export function money(minorUnits: bigint | number | string, currency: string): string {
  return formatMoney(minorUnits, currency).replaceAll(' ', '\u00a0');
}

const whole = new Intl.NumberFormat('en');
const rounded = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

/** A number of things. */
export function number(many: number | bigint): string {
  return whole.format(many);
}

/** A rate a second: three digits, and never 0 where there was something. */
export function rate(perSecond: number): string {
  if (perSecond > 0 && perSecond < 0.01) return '< 0.01';
  return rounded.format(perSecond);
}

/** Seconds for people. */
export function seconds(many: number): string {
  return formatSpan(many * 1_000);
}

/** Bytes of memory. */
export function mebibytes(bytes: number): string {
  return `${whole.format(Math.round(bytes / 2 ** 20))} MiB`;
}

/** How a state looks: good and over, bad and over, or still to come. */
const tones: Readonly<Record<string, 'good' | 'bad' | 'wait'>> = {
  succeeded: 'good',
  captured: 'good',
  delivered: 'good',
  published: 'good',
  up: 'good',
  open: 'good',
  good: 'good',
  done: 'good',
  drift: 'bad',
  doubted: 'bad',
  'open-loss': 'bad',
  failed: 'bad',
  refused: 'bad',
  parked: 'bad',
  away: 'bad',
  disabled: 'bad',
  failing: 'bad',
  disputed: 'bad',
};

/** Of states that are not said as they are kept, how they are. */
const saidOtherwise: Readonly<Record<string, string>> = {
  authorized: 'authorised',
  canceled: 'cancelled',
  'in-flight': 'in flight',
  waiting: 'waits for others',
  'open-loss': 'nobody knows of it yet',
  doubted: 'found otherwise since',
  nothing: 'nothing to do',
  unknown: 'not known',
};

/** A state as pages say it. */
function stateInWords(name: string): string {
  return saidOtherwise[name] ?? name;
}

/** A state in a pill; its word says all, and the colour only helps. */
export function state(name: string): Html {
  return html`<span class="pill ${tones[name] ?? 'wait'}">${stateInWords(name)}</span>`;
}

/** An id that is copied rather than read. */
export function id(text: string): Html {
  return html`<code>${text}</code>`;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A link to a payment or what follows one, where the text may be its id; else `undefined`. */
export function paymentLink(text: string): Html | undefined {
  return uuid.test(text) ? html`<a href="/payments/${text}">${id(text)}</a>` : undefined;
}

const uuids = /\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/;

/** A text in which every id that may be a payment's leads to it. */
export function linked(text: string): Shown {
  // What is split by is every second piece.
  return text.split(uuids).map((piece, n) => (n % 2 === 1 ? paymentLink(piece) : piece));
}

/** A column: its heading, and `figure` where it is aligned to the right. */
export type Head = string | { figure: string };

/** A table that scrolls by itself on a narrow screen. `empty` is shown where it has no row. */
export function table(
  caption: string,
  heads: readonly Head[],
  { rows, empty }: { rows: readonly (readonly Shown[])[]; empty: string },
): Html {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const isFigure = heads.map((head) => typeof head !== 'string');
  return html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0">
    <table>
      <caption class="unseen">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${heads.map((head) =>
            typeof head === 'string'
              ? html`<th scope="col">${head}</th>`
              : html`<th scope="col" class="figure">${head.figure}</th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (cells) =>
            html`<tr>
              ${cells.map((cell, nth) =>
                isFigure[nth] ? html`<td class="figure">${cell}</td>` : html`<td>${cell}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** What is known of one thing, as names and values; what is not there is left out. */
export function facts(pairs: readonly (readonly [name: string, value: Shown])[]): Html {
  const there = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return html`<dl class="facts">
    ${there.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** A choice of one of some values, or of all. */
export function select(
  name: string,
  label: string,
  { values, chosen }: { values: readonly string[]; chosen: string },
): Html {
  const options = values.map((value) =>
    value === chosen
      ? html`<option value="${value}" selected>${stateInWords(value)}</option>`
      : html`<option value="${value}">${stateInWords(value)}</option>`,
  );
  return html`<label
    >${label}<select name="${name}">
      <option value="">all</option>
      ${options}
    </select></label
  >`;
}

/** A link to where a list goes on: with what was asked for, and the place. */
export function goesOn(
  path: string,
  label: string,
  { query, place }: { query: URLSearchParams; place: Readonly<Record<string, string>> },
): Html {
  const onto = new URLSearchParams([...new Map([...query, ...Object.entries(place)])]);
  return html`<a class="button" rel="next" href="${path}?${onto.toString()}">${label}</a>`;
}

/**
 * A value without what looks like a card's number in any text of it, in names, and in bytes in
 * base64. Numbers and times stay.
 */
export function maskedIn<Value>(value: Value): Value {
  return maskAll(value) as Value;
}

function maskAll(value: unknown): unknown {
  if (typeof value === 'string') {
    const text = withoutNuls(value);
    return hasCardNumber(text) ? maskCardNumbers(text) : value;
  }
  if (Array.isArray(value)) return value.map(maskAll);
  if (value === null || typeof value !== 'object' || value instanceof Date) return value;
  if ('base64' in value && hasCardNumber(textOf(String(value.base64)))) return cardNumberMask;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [maskCardNumbers(name), maskAll(each)]),
  );
}

/** Whatever of ASCII is in bytes that are no UTF-8. */
function textOf(base64: string): string {
  return withoutNuls(Buffer.from(base64, 'base64').toString('latin1'));
}

/** Digits of UTF-16 are each one of ASCII and a NUL, which is UTF-8 as well. */
const withoutNuls = (text: string) => text.replaceAll('\0', '');
