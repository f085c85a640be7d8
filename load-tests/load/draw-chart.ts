/** Lines over time in one frame. */
export type Chart = {
  title: string;
  unit: string;
  series: readonly {
    name: string;
    points: readonly (readonly [second: number, value: number])[];
  }[];
};

const size = { width: 720, height: 240, left: 64, right: 12, top: 12, bottom: 28 };
const ticks = 4;
/** Told apart by people who do not tell red from green (the palette of Okabe and Ito). */
const colours = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#8c8c8c'];

/** Draws it as an SVG with its legend, which needs no script and no other file. */
export function drawChart({ title, unit, series }: Chart): string {
  const drawn = series.filter(({ points }) => points.length > 0);
  const all = drawn.flatMap(({ points }) => points);
  const end = Math.max(1, ...all.map(([second]) => second));
  const top = roundUp(Math.max(...all.map(([, value]) => value), 0));
  const { width, height, left, right, bottom } = size;
  const x = (second: number) => left + (second / end) * (width - left - right);
  const y = (value: number) => height - bottom - (value / top) * (height - size.top - bottom);
  const at = (value: number) => value.toFixed(1);
  const steps = Array.from({ length: ticks + 1 }, (_, n) => n / ticks);
  const rows = steps.map(
    (part) =>
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${at(y(part * top))}" y2="${at(y(part * top))}"/>` +
      `<text class="value" x="${left - 6}" y="${at(y(part * top) + 4)}">${short(part * top)}</text>`,
  );
  const columns = steps.map(
    (part) => `<text x="${at(x(part * end))}" y="${height - 8}">${Math.round(part * end)} s</text>`,
  );
  const lines = drawn.map(({ points }, n) => {
    const path = points.map(([second, value]) => `${at(x(second))},${at(y(value))}`).join(' ');
    return `<polyline stroke="${colours[n % colours.length]}" points="${path}"/>`;
  });
  const legend = drawn.map(
    ({ name }, n) =>
      `<span><i style="background:${colours[n % colours.length]}"></i>${escapeHtml(name)}</span>`,
  );
  return [
    `<figure><figcaption>${escapeHtml(title)}, ${escapeHtml(unit)}</figcaption>`,
    `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeHtml(title)}">`,
    ...rows,
    ...columns,
    ...lines,
    `</svg><p class="legend">${legend.join('')}</p></figure>`,
  ].join('\n');
}

/** Text as HTML shows it. */
export function escapeHtml(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replace(/[&<>"]/g, (each) => names[each]!);
}

/** The next 1, 2 or 5 with zeros behind it. */
function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value)!;
}

function short(value: number): string {
  return value >= 10_000 ? `${value / 1_000}k` : `${Math.round(value * 100) / 100}`;
}
