/** Markup that may go out as it is: only {@link html} makes it. */
export class Html {
  readonly text: string;
  private constructor(text: string) {
    this.text = text;
  }

  /** Joins markup that is made already; nobody else may say that a text is markup. */
  static of(strings: TemplateStringsArray, values: readonly Shown[]): Html {
    const pieces = strings.map((each, n) => each + (n < values.length ? render(values[n]) : ''));
    return new Html(pieces.join(''));
  }
}

/** What a template shows; nothing for `undefined`, `null` and `false`. */
export type Shown = Html | string | number | bigint | undefined | null | false | readonly Shown[];

/**
 * Markup with values in it. Every value is escaped for text and for attributes in double quotes,
 * unless it is markup itself. A value is for either of these alone: never for a name, a tag, an
 * attribute without quotes, or a script.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Shown[]): Html {
  return Html.of(strings, values);
}

function render(value: Shown): string {
  if (value === undefined || value === null || value === false) return '';
  if (value instanceof Html) return value.text;
  if (isList(value)) return value.map(render).join('');
  return escape(String(value));
}

function isList(value: Shown): value is readonly Shown[] {
  return Array.isArray(value);
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escape(text: string): string {
  return text.toWellFormed().replaceAll(/[&<>"']/g, (each) => entities[each]!);
}
