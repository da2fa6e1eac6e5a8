/** The number of elements of a shape; 1 for a scalar. */
export function numelOf(shape: readonly number[]): number {
  return shape.reduce((n, size) => n * size, 1);
}
