/**
 * What earlier runs have measured, kept in the browser from one visit to the next.
 *
 * @module
 */

import { useEffect, useState } from 'preact/hooks';
import { folderRoad, learn, type Paces, parsePaces, type Road } from './paces.js';
import type { ReportState, State } from './state.js';

const KEY = 'unshard-paces';

/** The paces of this machine. Each run that has ended betters them. */
export function usePaces(state: State): Paces {
  const [paces, setPaces] = useState(loadPaces);
  const costs = state.stage === 'report' ? state.outcome.costs : undefined;
  useEffect(() => {
    const road = state.stage === 'report' ? roadOf(state) : undefined;
    if (!costs || !road) return;
    const learned = learn(paces, road, costs);
    savePaces(learned);
    setPaces(learned);
  }, [costs]);
  return paces;
}

function roadOf({ destination, plan }: ReportState): Road | undefined {
  return destination.ref.kind === 'download' ? 'download' : folderRoad(plan.files);
}

/** A browser that keeps nothing makes every visit the first one. */
function loadPaces(): Paces {
  try {
    return parsePaces(localStorage.getItem(KEY) ?? '');
  } catch {
    return parsePaces('');
  }
}

function savePaces(paces: Paces): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(paces));
  } catch {
    // Nothing is lost but the figures.
  }
}
