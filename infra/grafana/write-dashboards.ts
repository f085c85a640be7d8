/** Writes infra/grafana/dashboards anew, which Grafana reads. A test holds the two together. */
import { writeFileSync } from 'node:fs';
import { dashboardFiles } from './dashboard-files.ts';

for (const { path, text } of dashboardFiles()) writeFileSync(path, text);
