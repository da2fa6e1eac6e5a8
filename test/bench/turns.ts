/**
 * Runs every step `runs` times, the steps by turns, every other turn in reverse, so that none has always the disk as
 * another left it. Gives the results of each step in the order of the turns.
 */
export async function takeTurns<T>(runs: number, steps: readonly (() => Promise<T>)[]): Promise<T[][]> {
  const results = steps.map((): T[] => []);
  const numbered = [...steps.entries()];
  for (let run = 0; run < runs; run++) {
    for (const [i, step] of run % 2 === 0 ? numbered : numbered.toReversed()) results[i]?.push(await step());
  }
  return results;
}
