/** One moment of a run as k6 saw it: rates over the last period, latencies in milliseconds. */
export type Moment = {
  /** Seconds since the run began. */
  second: number;
  requestsPerSecond: number;
  acceptedPerSecond: number;
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
};

type Line =
  | { event: 'param'; data: { aggregates: Record<string, string[]> } }
  | { event: 'metric'; data: Record<string, { type: string }> }
  | { event: 'start' | 'stop' | 'cumulative' | 'snapshot'; data: number[][] };

/**
 * Reads what k6's dashboard recorded, one JSON object a line: metrics are declared as they appear,
 * and a snapshot has the aggregates of all that are known by then, in the order of their names.
 */
export function readRecording(text: string): Moment[] {
  const types = new Map<string, string>();
  let aggregates: Record<string, string[]> = {};
  let startMs = 0;
  const moments: Moment[] = [];
  for (const line of text.split('\n').filter(Boolean)) {
    const { event, data } = JSON.parse(line) as Line;
    if (event === 'param') aggregates = data.aggregates;
    if (event === 'metric') {
      for (const [name, { type }] of Object.entries(data)) types.set(name, type);
    }
    if (event === 'start') startMs = data[0]![0]!;
    if (event !== 'snapshot') continue;
    const names = [...types.keys()].sort();
    const valueOf = (name: string, aggregate: string) => {
      const column = aggregates[types.get(name) ?? '']?.indexOf(aggregate) ?? -1;
      return data[names.indexOf(name)]?.[column] ?? 0;
    };
    moments.push({
      second: Math.round((valueOf('time', 'value') - startMs) / 1_000),
      requestsPerSecond: valueOf('http_reqs', 'rate'),
      acceptedPerSecond: valueOf('payments_accepted', 'rate') + valueOf('refunds_accepted', 'rate'),
      p50Ms: valueOf('http_req_duration', 'med'),
      p95Ms: valueOf('http_req_duration', 'p(95)'),
      p99Ms: valueOf('http_req_duration', 'p(99)'),
    });
  }
  return moments;
}
