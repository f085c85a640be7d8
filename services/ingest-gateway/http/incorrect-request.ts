import { Problem, type FieldProblem } from '@triplock/contracts';

/** The query of a request target, without its `?`. */
export function queryText(target: string): string {
  const at = target.indexOf('?');
  return at < 0 ? '' : target.slice(at + 1);
}

/** A query that is not what the route asks for: 400, with every parameter that is wrong. */
export function incorrectParameters(errors: readonly FieldProblem[]): Problem {
  return new Problem('invalid_request', 'Correct these parameters and ask again.', { errors });
}

/** A body that is not what the route asks for: 400, with every field that is wrong. */
export function incorrectFields(errors: readonly FieldProblem[]): Problem {
  return new Problem('invalid_request', 'Correct these fields and send it again.', { errors });
}
