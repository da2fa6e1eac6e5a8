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
  const ended = state.stage === 'report' ? state : undefined;
  useEffect(() => {
    const learned = ended && pacesAfter(paces, ended);
    if (!learned || learned === paces) return;
    savePaces(learned);
    setPaces(learned);
  }, [ended?.outcome]);
  return paces;
}

/** The parts of a run that has ended which teach something. */
export interface EndedRun extends Pick<ReportState, 'destination'> {
  readonly plan: Pick<ReportState['plan'], 'files'>;
  readonly outcome: Pick<ReportState['outcome'], 'costs'>;
}

/** What is known after a run. */
export function pacesAfter(known: Paces, ended: EndedRun): Paces {
  const { costs } = ended.outcome;
  const road = roadOf(ended);
  return costs && road ? learn(known, road, costs) : known;
}

function roadOf({ destination, plan }: EndedRun): Road | undefined {
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
