import type { Schema } from './document.ts';
import { markup, prose, type Markup } from './markup.ts';

// More than these would hide what stands around them; the document has all.
const shownWordsMax = 8;

/** The fields of an object as the rows of a table. */
export function renderFields(schema: Schema): Markup {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const need = schema.required?.includes(name) === true ? '' : 'optional';
    return markup`<tr>
      <td><code>${name}</code> <small>${need}</small></td>
      <td>${kindOf(field)}</td>
      <td>${prose(field.description ?? '')}</td>
    </tr>`;
  });
  return markup`<table>
    <tr>
      <th>field</th>
      <th>type</th>
      <th></th>
    </tr>
    ${rows}
  </table>`;
}

/** What a value is, in a few words; another schema by a link to it. */
export function kindOf(schema: Schema): Markup {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1)!;
    return markup`<a href="#${name}">${name}</a>`;
  }
  if (schema.const !== undefined) return markup`<code>${JSON.stringify(schema.const)}</code>`;
  if (schema.enum !== undefined) return markup`${words(schema.enum)}`;
  if (schema.items !== undefined) return markup`list of ${kindOf(schema.items)}`;
  if (schema.properties !== undefined) {
    const fields = Object.entries(schema.properties);
    return markup`object:
    ${fields.map(([name, field]) => markup`<br /><code>${name}</code>: ${kindOf(field)}`)}`;
  }
  return markup`${[schema.type ?? 'nothing'].flat().join(' or ')}${limitsOf(schema)}`;
}

function words(all: readonly (string | null)[]): readonly Markup[] {
  const shown = all.slice(0, shownWordsMax).map((word) => markup`<code>${String(word)}</code> `);
  return all.length > shownWordsMax
    ? [...shown, markup`and ${`${all.length - shown.length}`} more`]
    : shown;
}

function limitsOf({ minimum, maximum, maxLength, default: usual }: Schema): string {
  const limits = [
    minimum === undefined ? [] : [`from ${minimum}`],
    maximum === undefined ? [] : [`to ${maximum}`],
    maxLength === undefined ? [] : [`at most ${maxLength} characters`],
    usual === undefined ? [] : [`${JSON.stringify(usual)} unless told`],
  ].flat();
  return limits.length === 0 ? '' : `, ${limits.join(' ')}`;
}
