/** A reader holds one file, one function, one call in the head: beyond this it is two things. */
export const budgets = {
  'max-lines': ['error', { max: 300 }],
  'house/function-budget': ['error', { max: 70 }],
  '@typescript-eslint/max-params': ['error', { max: 4 }],
};
