import { parser } from '@prometheus-io/lezer-promql';

/** One condition on a label. */
export type Matcher = { label: string; op: '=' | '!=' | '=~' | '!~'; value: string };

/** What a query asks of one metric: its name, its conditions, and labels that it groups by. */
export type Selector = { metric: string; matchers: Matcher[]; groupedBy: string[] };

type Node = ReturnType<typeof parser.parse>['topNode'];

/**
 * Every selector of a PromQL query, by Prometheus' own grammar. Variables of Grafana stand for
 * anything.
 *
 * @throws when it is no PromQL.
 */
export function selectorsOf(query: string): Selector[] {
  const promQl = query
    .replaceAll('$__rate_interval', '5m')
    .replaceAll(/\$(service|instance)\b/g, '.*');
  const tree = parser.parse(promQl);
  const selectors: Selector[] = [];
  const text = (node: Node) => promQl.slice(node.from, node.to);
  tree.iterate({
    enter: ({ node }) => {
      if (node.type.isError) throw new Error(`no PromQL near ${node.from}: ${query}`);
      if (node.name !== 'VectorSelector') return;
      selectors.push({
        metric: text(node.getChild('Identifier')!),
        matchers: matchersOf(node, text),
        groupedBy: groupingOf(node, text),
      });
    },
  });
  return selectors;
}

function matchersOf(selector: Node, text: (node: Node) => string): Matcher[] {
  const all = selector.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
  return all.map((matcher) => ({
    label: text(matcher.getChild('LabelName')!),
    op: text(matcher.getChild('MatchOp')!) as Matcher['op'],
    // Strings of PromQL are escaped as those of JSON are, as far as ours go.
    value: JSON.parse(text(matcher.getChild('StringLiteral')!)) as string,
  }));
}

/** Labels that any aggregation around it keeps. */
function groupingOf(selector: Node, text: (node: Node) => string): string[] {
  const labels: string[] = [];
  for (let node = selector.parent; node !== null; node = node.parent) {
    const modifier = node.name === 'AggregateExpr' ? node.getChild('AggregateModifier') : null;
    if (!modifier?.getChild('By')) continue;
    const names = modifier.getChild('GroupingLabels')?.getChildren('LabelName') ?? [];
    labels.push(...names.map(text));
  }
  return labels;
}
