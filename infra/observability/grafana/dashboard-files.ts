import { join } from 'node:path';
import type { Dashboard } from './dashboard.ts';
import { guard1 } from './guard-1-claims.ts';
import { guard2 } from './guard-2-ledger.ts';
import { guard3 } from './guard-3-outbox-and-inbox.ts';
import { overview } from './overview.ts';
import { renderDashboard } from './render-dashboard.ts';
import { whereIsMyPayment } from './where-is-my-payment.ts';

/** Every dashboard. */
export const dashboards: readonly Dashboard[] = [
  overview,
  guard1,
  guard2,
  guard3,
  whereIsMyPayment,
];

/** The files that Grafana reads, and what belongs into them. */
export function dashboardFiles(): { path: string; text: string }[] {
  return dashboards.map((dashboard) => ({
    path: join(import.meta.dirname, 'dashboards', `${dashboard.uid.replace('triplock-', '')}.json`),
    text: `${JSON.stringify(renderDashboard(dashboard), null, 2)}\n`,
  }));
}
