/**
 * Drives the page as a user does: drops real folders on it, sets its controls, presses its buttons.
 *
 * @module
 */

import { existsSync } from 'node:fs';
import type { Locator, Page } from 'playwright';
import type { Report } from '../../src/index.js';
import type { Stage } from '../../src/ui/state.js';
import { dropFolders } from '../helpers/page.js';

/** The options of the page, by the names of its controls. What is absent is left as it stands. */
export interface PageOptions {
  readonly tag?: string;
  /** `model`, `adapter` or `merged`. Offered for LoRA runs alone. */
  readonly kind?: string;
  /** Offered where there are several adapters. */
  readonly adapterName?: string;
  /** As it is typed. Asked for where adapter_config.json is missing and the adapter is to be merged. */
  readonly loraAlpha?: string;
  /** As it is typed, beside it. */
  readonly loraR?: string;
  readonly loraRslora?: boolean;
  readonly dtype?: string;
  /** `PATTERN=DTYPE` each. */
  readonly dtypeFor?: readonly string[];
  readonly format?: string;
  /** As it is typed: `500MB`. */
  readonly maxShardSize?: string;
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  readonly excludeFrozen?: boolean;
  readonly trainableOnly?: boolean;
  readonly stripPrefix?: string;
  /** Offered where embeddings have more rows than the vocabulary. */
  readonly trimVocab?: boolean;
  readonly duplicateTied?: boolean;
  readonly overflow?: string;
  readonly backend?: string;
  readonly verify?: boolean;
  readonly sha256?: boolean;
  readonly overwrite?: boolean;
}

/** One conversion. Paths are absolute. */
export interface PageConversion extends PageOptions {
  readonly checkpoint: string;
  /** Further folders with shards of the checkpoint, added one after another. */
  readonly also?: readonly string[];
  /** Do without optimizer files that are missing or damaged. */
  readonly partial?: boolean;
  /** `PATTERN=HOW` each: how tensor-parallel shards are joined. */
  readonly tpRules?: readonly string[];
  /** The tensor-parallel rank to take alone. */
  readonly tpRank?: string;
  /** A folder that is there; undefined for downloads. */
  readonly output: string | undefined;
  /** Called with each stage that the page comes to, once it has settled. */
  readonly onStage?: (stage: Stage) => Promise<void>;
}

/** What the page said when it could not go on. */
export class PageFailure extends Error {
  /** Code of the error; `problem` for problems of the checkpoint, `obstacle` for what keeps it from starting. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'PageFailure';
    this.code = code;
  }
}

/** Longest time for one stage, in milliseconds. */
const STAGE_MS = 600_000;

/** Longest time for the page to look at destination and converters, in milliseconds. */
const READY_MS = 240_000;

/** How long the first click on Start may take, in milliseconds. Each further one may take twice as long. */
const CLICK_MS = 2000;

/** Fails with an advice where the page was not built. */
export function assertPageBuilt(): void {
  if (!existsSync(new URL('../../dist/page/index.html', import.meta.url))) {
    throw new Error('The page is not built. Run: npm run build');
  }
}

/** Longest time until a dropped folder shows, in milliseconds, and how often it is dropped. */
const DROP_MS = 5000;
const DROPS = 12;

/** Opens the page and waits until it can be used. */
export async function openPage(page: Page, url: string): Promise<void> {
  await page.goto(url);
  await reachStage(page, 'pick');
}

/** Waits until the page is in one of the stages, and returns which. */
export async function reachStage(page: Page, ...stages: Stage[]): Promise<Stage> {
  const wanted = page.locator(stages.map((stage) => `main[data-state="${stage}"]`).join(', '));
  for (;;) {
    await wanted.waitFor({ timeout: STAGE_MS });
    // A stage that ends by itself may be over by now.
    const stage = await page.locator('main').getAttribute('data-state');
    const reached = stages.find((one) => one === stage);
    if (reached) return reached;
  }
}

/** Drops a checkpoint on the page, then what its other folders are, and waits for the plan. @throws PageFailure */
export async function openCheckpoint(page: Page, checkpoint: string, also: readonly string[] = []): Promise<void> {
  for (const [i, folder] of [checkpoint, ...also].entries()) {
    await dropFolders(page, 'main', [folder]);
    await page.locator(`main[data-state="failed"], [data-folders="${i + 1}"]`).waitFor();
  }
  await planOrFailure(page);
}

/** Opens a checkpoint, and where that cannot be done, asks to do without the optimizer files. @throws PageFailure */
async function openPartial(page: Page, checkpoint: string, also: readonly string[] = []): Promise<void> {
  try {
    return await openCheckpoint(page, checkpoint, also);
  } catch (error) {
    const box = page.locator('input[name="partial"]');
    const button = page.getByRole('button', { name: 'Try without this file' });
    if (!(error instanceof PageFailure)) throw error;
    if (await button.isVisible()) await button.click();
    else if (await box.isVisible()) await box.click();
    else throw error;
  }
  await page.locator('main[data-state="failed"], main:has(input[name="partial"]:checked)').waitFor();
  await planOrFailure(page);
}

/** Says how tensor-parallel shards are joined, or which to take, and waits for the plan. @throws PageFailure */
export async function joinRanks(page: Page, rules: readonly string[] = [], rank?: string): Promise<void> {
  const title = page.getByText('Tensor-parallel shards', { exact: true });
  await title.waitFor(OFFERED);
  // Where the ranks are a problem, nothing is folded.
  const fold = page.locator('details').filter({ has: title });
  if ((await fold.count()) > 0) await unfold(fold);
  if (rank !== undefined) await page.locator('select[name="tp-rank"]').selectOption(rank, OFFERED);
  for (const [i, rule] of rules.entries()) {
    const at = rule.lastIndexOf('=');
    await page.locator('input[name="tp-rule-pattern"]').nth(i).fill(rule.slice(0, at));
    await page
      .locator('select[name="tp-rule-how"]')
      .nth(i)
      .selectOption(rule.slice(at + 1), OFFERED);
  }
  await page.getByRole('button', { name: 'Read again' }).click();
  const read = rank === undefined ? `[data-tp-rules="${rules.length}"]` : `[data-tp-rank="${rank}"]`;
  await page.locator(`main[data-state="failed"], ${read}`).waitFor();
  await planOrFailure(page);
}

/** Sets the controls of the plan stage. @throws PageFailure where another tag cannot be read */
export async function setOptions(page: Page, options: PageOptions): Promise<void> {
  if (options.tag !== undefined) await chooseTag(page, options.tag);
  const radios = [
    ['output', options.kind],
    ['dtype', options.dtype],
    ['format', options.format],
  ] as const;
  for (const [name, value] of radios) {
    if (value !== undefined) await page.locator(`input[name="${name}"][value="${value}"]`).check(OFFERED);
  }
  if (options.maxShardSize !== undefined) {
    await page.locator('select[name="max-shard-size"]').selectOption('custom');
    await page.locator('input[name="custom-shard-size"]').fill(options.maxShardSize);
  }
  const selects = [
    ['adapter-name', options.adapterName],
    ['overflow', options.overflow],
    ['backend', options.backend],
  ] as const;
  for (const [name, value] of selects) {
    if (value !== undefined) await page.locator(`select[name="${name}"]`).selectOption(value, OFFERED);
  }
  const texts = [
    ['lora-alpha', options.loraAlpha],
    ['lora-r', options.loraR],
  ] as const;
  for (const [name, value] of texts) {
    if (value !== undefined) await page.locator(`input[name="${name}"]`).fill(value, OFFERED);
  }
  await setChecks(page, [
    ['lora-rslora', options.loraRslora],
    ['exclude-frozen', options.excludeFrozen],
    ['duplicate-tied', options.duplicateTied],
    ['trim-vocab', options.trimVocab],
  ]);
  await setMoreOptions(page, options);
}

/** How long a control that is not always offered may take to appear, in milliseconds. */
const OFFERED = { timeout: 60_000 };

async function setChecks(page: Page, checks: readonly (readonly [string, boolean | undefined])[]): Promise<void> {
  for (const [name, value] of checks) {
    if (value !== undefined) await page.locator(`input[name="${name}"]`).setChecked(value, OFFERED);
  }
}

/** Opens a fold, once more where it has moved away under the click: what stands above it may come a moment later. */
async function unfold(fold: Locator): Promise<void> {
  const isOpen = () => fold.evaluate((details) => (details as HTMLDetailsElement).open);
  while (!(await isOpen())) await inTime(fold.locator('> summary').click({ timeout: CLICK_MS }));
}

/** Sets what stands below "More options". */
async function setMoreOptions(page: Page, options: PageOptions): Promise<void> {
  const { include, exclude, dtypeFor = [], stripPrefix, trainableOnly, verify, sha256 } = options;
  const wanted = [include, exclude, options.dtypeFor, stripPrefix, trainableOnly, verify, sha256];
  if (wanted.every((value) => value === undefined)) return;
  await unfold(page.locator('details.more-options'));
  await setChecks(page, [
    ['trainable-only', trainableOnly],
    ['verify', verify],
    ['sha256', sha256],
  ]);
  if (include !== undefined) await page.locator('textarea[name="include"]').fill(include.join('\n'));
  if (exclude !== undefined) await page.locator('textarea[name="exclude"]').fill(exclude.join('\n'));
  for (const [i, rule] of dtypeFor.entries()) {
    const at = rule.lastIndexOf('=');
    await page.locator('input[name="dtype-for-pattern"]').nth(i).fill(rule.slice(0, at));
    await page
      .locator('select[name="dtype-for-dtype"]')
      .nth(i)
      .selectOption(rule.slice(at + 1));
  }
  if (stripPrefix !== undefined) await page.locator('input[name="strip-prefix"]').fill(stripPrefix);
}

/** Drops a folder on the zone of destination. */
export async function chooseDestination(page: Page, output: string): Promise<void> {
  await dropOnDestination(page, output, page.getByTestId('chosen-destination'));
}

/**
 * Drops a file or folder on the zone of destination until the answer shows: once more where the zone has moved away under
 * the drop, as a user would.
 */
export async function dropOnDestination(page: Page, path: string, answer: Locator): Promise<void> {
  const zone = page.getByTestId('destination');
  for (let drop = 1; ; drop++) {
    await page.locator('.output[aria-busy="false"]').waitFor();
    await zone.scrollIntoViewIfNeeded();
    await standsStill(zone);
    await dropFolders(page, '[data-testid="destination"]', [path]);
    try {
      await answer.waitFor({ timeout: DROP_MS });
      return;
    } catch (error) {
      if (drop === DROPS) throw error;
    }
  }
}

/** Waits until an element stays where it is: what stands above it may come a moment later. */
async function standsStill(element: Locator): Promise<void> {
  let before = '';
  for (;;) {
    const box = JSON.stringify(await element.boundingBox());
    if (box === before) return;
    before = box;
    await element.page().waitForTimeout(100);
  }
}

/** Presses Start when the page has made up its mind, and waits until the run has begun. @throws PageFailure where it refuses */
export async function pressStart(page: Page, overwrite: boolean): Promise<void> {
  const deadline = Date.now() + READY_MS;
  for (let patience = CLICK_MS; ; ) {
    const { stage, canStart, reason, problems } = await lookAtStart(page);
    if (stage !== 'plan') return;
    // On a busy machine a click that came through may be told of too late: only the page says whether the run has begun.
    if (canStart) {
      await press(page.getByRole('button', { name: 'Start' }), patience);
      patience *= 2;
    } else if (overwrite && reason.startsWith('Agree')) await page.locator('input[name="overwrite"]').check();
    else if (reason !== '' && !reason.startsWith('Looking')) {
      throw new PageFailure('obstacle', [reason, ...problems].join(' '));
    }
    if (Date.now() > deadline) throw new Error(`The page does not get ready to start: ${reason}`);
    await page.waitForTimeout(20);
  }
}

/** What the page says of the start, all at one moment: it may leave the plan at any time. */
function lookAtStart(page: Page) {
  return page.evaluate(async () => {
    // What was typed or pressed a moment ago shows with the next frame; until then the button may still look ready.
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const problems = document.querySelectorAll('.output .notice.problem, .output .notice.warning');
    return {
      stage: document.querySelector('main')?.dataset['state'],
      canStart: document.querySelector<HTMLButtonElement>('button[aria-describedby="obstacle"]')?.disabled === false,
      reason: document.querySelector('#obstacle')?.textContent ?? '',
      problems: [...problems].map((problem) => problem.textContent),
    };
  });
}

/** Clicks a button, and where no click is taken in time presses it by keyboard: after a drop a busy browser may take none. */
async function press(button: Locator, timeout: number): Promise<void> {
  if (!(await inTime(button.click({ timeout })))) await inTime(button.press('Enter', { timeout }));
}

/** False where an action on the page has timed out. */
export async function inTime(action: Promise<void>): Promise<boolean> {
  try {
    await action;
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') return false;
    throw error;
  }
}

/** Waits for the report of a run. @throws PageFailure */
export async function readReport(page: Page): Promise<Report> {
  const stage = await reachStage(page, 'report', 'failed', 'plan');
  if (stage === 'plan') throw new PageFailure('cancelled', 'The run was cancelled.');
  if (stage === 'failed') throw await failureOf(page);
  return JSON.parse((await page.locator('script#report').textContent()) ?? '') as Report;
}

/** Opens a checkpoint whose tensor-parallel shards may need the choices of the user. @throws PageFailure */
async function openCut(page: Page, conversion: PageConversion): Promise<void> {
  const { checkpoint, also, tpRules, tpRank } = conversion;
  try {
    await openCheckpoint(page, checkpoint, also);
  } catch (error) {
    if (!(error instanceof PageFailure) || error.code !== 'problem') throw error;
  }
  await joinRanks(page, tpRules, tpRank);
}

/** The whole road from a checkpoint on disk to files on disk. Starts from the page's first stage, whatever it shows. */
export async function convertInPage(page: Page, conversion: PageConversion): Promise<Report> {
  const {
    checkpoint,
    also,
    partial = false,
    tpRules,
    tpRank,
    output,
    onStage = async () => {},
    overwrite = false,
  } = conversion;
  await page.reload();
  await reachStage(page, 'pick');
  await onStage('pick');
  try {
    if (tpRules || tpRank !== undefined) await openCut(page, conversion);
    else if (partial) await openPartial(page, checkpoint, also);
    else await openCheckpoint(page, checkpoint, also);
    await setOptions(page, conversion);
    if (output !== undefined) await chooseDestination(page, output);
    else await page.getByRole('button', { name: /^Download/ }).click();
    await onStage('plan');
    await pressStart(page, overwrite);
    if ((await page.locator('main').getAttribute('data-state')) === 'running') await onStage('running');
    const report = await readReport(page);
    await onStage('report');
    return report;
  } catch (error) {
    if (error instanceof PageFailure) await onStage('failed');
    throw error;
  }
}

async function planOrFailure(page: Page): Promise<void> {
  if ((await reachStage(page, 'plan', 'failed')) === 'failed') throw await failureOf(page);
  const problems = await page.getByTestId('problem').allTextContents();
  if (problems.length > 0) throw new PageFailure('problem', problems.join('\n'));
}

async function failureOf(page: Page): Promise<PageFailure> {
  const text = (id: string): Promise<string | null> => page.getByTestId(id).textContent();
  const message = `${await text('failure-message')} ${await text('failure-advice')}`;
  return new PageFailure((await text('failure-code')) ?? '', message);
}

/** A checkpoint with a single tag offers no choice: then the one there is has to be the one that is asked for. */
async function chooseTag(page: Page, tag: string): Promise<void> {
  const select = page.locator('select[name="tag"]');
  if ((await select.count()) === 0) {
    const only = await page.getByTestId('only-tag').textContent();
    if (only !== tag) throw new PageFailure('no-such-tag', `The checkpoint has the tag ${only} alone, not ${tag}.`);
    return;
  }
  const options = await select
    .locator('option')
    .evaluateAll((all) =>
      all.map((option) => ({ value: (option as HTMLOptionElement).value, tag: option.getAttribute('data-tag') })),
    );
  const found = options.find((option) => option.tag === tag || option.value === tag);
  if (!found) throw new PageFailure('no-such-tag', `The checkpoint has no tag ${tag}.`);
  if ((await select.inputValue()) === found.value) return;
  await select.selectOption(found.value);
  await page.locator(`main[data-state="failed"], select[name="tag"][data-value="${found.value}"]`).waitFor();
  await planOrFailure(page);
}
