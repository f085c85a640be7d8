import { actRoutes } from './acts-pages.ts';
import type { Route } from './console.ts';
import { loginRoutes } from './login.ts';
import { pageRoutes } from './pages.ts';

/** Every page and every path of the API; docs/operating.md has the same table, held by a test. */
export const routes: readonly Route[] = [...pageRoutes, ...actRoutes, ...loginRoutes];
