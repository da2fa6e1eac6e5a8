/**
 * What can be wrong with the files of DeepSpeed before 0.5.4, and with masters that were swapped to files of their own.
 *
 * @module
 */

import type { ErrorDetail } from '../../base/errors.js';
import { counted } from '../../base/words.js';
import type { ModelStates, OptimStates } from './states.js';

/** The one list of parameters does not fill the sub-groups of stage 3. */
export function orderUnknown(file: string, needed: number, found: number): ErrorDetail {
  return {
    kind: 'unsupported',
    code: 'flat-order-unknown',
    message: `${file} lists parameters whose shares are ${needed} elements; its sub-groups hold ${found}, and are not filled by the listed parameters one after another.`,
    advice:
      'Before 0.4.3 DeepSpeed lists frozen parameters too, and no file tells them apart. Load and save the checkpoint once with a newer version.',
    facts: { file, expected: needed, found },
  };
}

/** No order of the parameters gives the weights of the state dict. */
export function orderUnproven(model: ModelStates, optims: readonly OptimStates[]): ErrorDetail {
  const file = optims[0]?.shard.path ?? '';
  const version = model.deepspeedVersion ?? optims[0]?.deepspeedVersion ?? 'before 0.4.0';
  return {
    kind: 'inconsistent',
    code: 'flat-order-unproven',
    message: `${file} (DeepSpeed ${version}) does not list the parameters of each flat buffer, and no order of them gives the weights of ${model.shard.path}.`,
    advice:
      'The files may belong to different steps. The weights of the model file alone can be had: move the *_optim_states.pt files away.',
    facts: { file, other: model.shard.path, found: version },
  };
}

/** A model with experts whose weights are no views of the flat buffers, or not of these. */
export function viewsUnproven(model: ModelStates, optims: readonly OptimStates[]): ErrorDetail {
  const file = optims[0]?.shard.path ?? '';
  const version = model.deepspeedVersion ?? optims[0]?.deepspeedVersion ?? 'of unknown version';
  return {
    kind: 'inconsistent',
    code: 'flat-order-unproven',
    message: `${file} (DeepSpeed ${version}) does not list the parameters of each flat buffer, and the weights of ${model.shard.path} and of the expert files are not views that lie where their masters do.`,
    advice:
      'The files may belong to different steps, or were saved again by other code. The weights alone can be had: move the *_optim_states.pt files away.',
    facts: { file, other: model.shard.path, found: version },
  };
}

/** Masters were swapped to files that are not here. */
export function swapFilesMissing(file: string, folder: string, expected: number, found: number): ErrorDetail {
  return {
    kind: 'missing-shard',
    code: 'swap-files-missing',
    message: `${file} holds no masters for ${counted(expected, 'sub-group')}: the weights are in swap files that are not here. ${folder} should hold ${counted(expected, 'file')} *.tensor.swp; it holds ${found}.`,
    advice:
      'DeepSpeed copies them into the checkpoint since 0.13.0. Before, they stayed in nvme_path of the machine that trained, under zero_stage_3/optimizer. Copy them to that folder.',
    facts: { file, other: folder, expected, found },
  };
}

/** A swap file is shorter than its sub-group. */
export function swapFileShort(file: string, group: number, expected: number, found: number): ErrorDetail {
  return {
    kind: 'bad-file',
    code: 'swap-file-short',
    message: `${file} must hold ${expected} bytes of sub-group ${group}; it has ${found}.`,
    advice: 'The file was cut off when it was copied, or is of another run. Take it from the original checkpoint.',
    facts: { file, group, expected, found },
  };
}

/** The ids in the names of swap files do not tell which sub-group each is of. */
export function swapFileUnclear(file: string, group: number, expected: string, found: string): ErrorDetail {
  return {
    kind: 'unsupported',
    code: 'swap-file-unclear',
    message: `${file} should be of sub-group ${group} by the order of the parameters, which asks for ${expected}; its name says ${found}.`,
    advice: 'Load the checkpoint with DeepSpeed and save it once without offloading to NVMe.',
    facts: { file, group, expected, found },
  };
}
