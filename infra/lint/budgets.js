/** A reader holds one file, one function, one call in the head: beyond this it is two things. */
export const budgets = {
  'max-lines': ['error', { max: 300 }],
  'house/function-budget': ['error', { max: 70 }],
  '@typescript-eslint/max-params': ['error', { max: 4 }],
};

const suites = ['describe', 'suite', 'it', 'test'];

/**
 * No function is longer than `max` lines. A test inside a function has the budget for itself and
 * does not count for the function around it, so that a suite may hold as many as it needs.
 */
export const functionBudget = {
  meta: { schema: [{ type: 'object', properties: { max: { type: 'integer' } } }] },
  create(context) {
    const { max } = context.options[0];
    const open = [];
    const leave = (node) => {
      const whole = lines(node);
      const own = whole - open.pop();
      if (open.length > 0 && isTestBody(node)) open.push(open.pop() + whole);
      if (own > max) {
        context.report({
          node,
          message: `This function has ${own} lines; the house allows ${max}.`,
        });
      }
    };
    return { ':function': () => open.push(0), ':function:exit': leave };
  },
};

function lines(node) {
  return node.loc.end.line - node.loc.start.line + 1;
}

function isTestBody({ parent }) {
  if (parent?.type !== 'CallExpression') return false;
  const callee = parent.callee.type === 'MemberExpression' ? parent.callee.object : parent.callee;
  return suites.includes(callee.name);
}
