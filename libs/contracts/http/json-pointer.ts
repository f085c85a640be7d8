// A pointer shows where, it does not carry a partner's text back: longer names are cut.
const shownMax = 80;

/**
 * A JSON pointer as a URI fragment (RFC 6901, section 6), e.g. `#/metadata/order`; `#` is the whole
 * document.
 */
export function jsonPointer(path: readonly (string | number)[]): string {
  return ['#', ...path.map(segment)].join('/');
}

function segment(step: string | number): string {
  const text = String(step).slice(0, shownMax).toWellFormed();
  return encodeURIComponent(text.replaceAll('~', '~0').replaceAll('/', '~1'));
}
