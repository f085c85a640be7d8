/** A text that is HTML already; made by {@link markup} only. */
export type Markup = { readonly html: string };

const named: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * HTML with every value that is not HTML itself escaped; a list is its members one after the other.
 */
export function markup(
  texts: TemplateStringsArray,
  ...values: readonly (string | Markup | readonly Markup[])[]
): Markup {
  const parts = texts.map((text, at) => text + (at < values.length ? render(values[at]!) : ''));
  return { html: parts.join('') };
}

/** A description: what stands between backticks is code. */
export function prose(text: string): readonly Markup[] {
  return text
    .split(/`([^`]*)`/)
    .map((part, at) => (at % 2 === 1 ? markup`<code>${part}</code>` : markup`${part}`));
}

function render(value: string | Markup | readonly Markup[]): string {
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (each) => named[each]!);
  return 'html' in value ? value.html : value.map((each) => each.html).join('');
}
