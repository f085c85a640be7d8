/** Writes infra/observability/grafana/dashboards, which Grafana reads. A test compares them. */
import { writeFileSync } from 'node:fs';
import { dashboardFiles } from './dashboard-files.ts';

for (const { path, text } of dashboardFiles()) writeFileSync(path, text);
