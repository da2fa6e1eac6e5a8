import { describe, expect, it } from 'vitest';
import { classifyGlobal } from '../../../../src/formats/pickle/globals.js';
import { PyGlobal } from '../../../../src/formats/pickle/values.js';

function classOf(path: string) {
  const dot = path.lastIndexOf('.');
  return classifyGlobal(new PyGlobal(path.slice(0, dot), path.slice(dot + 1)));
}

describe('classifyGlobal', () => {
  it.each([
    'deepspeed.runtime.fp16.loss_scaler.LossScaler',
    'deepspeed.runtime.zero.config.ZeroStageEnum',
    'deepspeed.utils.tensor_fragment.fragment_address',
    'megatron.model.enums.AttnMaskType',
  ])('knows %s as DeepSpeed', (path) => expect(classOf(path)).toBe('known-deepspeed'));

  it.each([
    'collections.OrderedDict',
    'torch._utils._rebuild_tensor_v2',
    'torch._tensor._rebuild_from_type_v2',
    'torch.BFloat16Storage',
    'torch.QInt8Storage',
    'torch.storage.UntypedStorage',
    'torch.float8_e4m3fn',
    '__builtin__.set',
    'argparse.Namespace',
    'numpy._core.multiarray._reconstruct',
    'numpy.core.multiarray.scalar',
    'pathlib.PosixPath',
    'torch.optim.adamw.AdamW',
    'transformers.training_args.TrainingArguments',
    'accelerate.utils.dataclasses.DeepSpeedPlugin',
  ])('knows %s as a library', (path) => expect(classOf(path)).toBe('known-library'));

  it.each([
    'os.system',
    'posix.system',
    'nt.system',
    'subprocess.Popen',
    'builtins.eval',
    'builtins.exec',
    '__builtin__.getattr',
    'runpy._run_code',
    'pickle.loads',
    'torch.load',
    'torch.hub.load',
    'pkgutil.resolve_name',
    'pip.main',
    'pip._internal.main',
    'operator.attrgetter',
    'numpy.testing._private.utils.runstring',
    'logging.FileHandler',
    // A dotted name of protocol 4 reaches a module through another one.
    'torch.serialization.os.system',
    'collections.abc.sys.modules',
  ])('warns of %s', (path) => expect(classOf(path)).toBe('dangerous'));

  it.each(['__main__.Config', 'mymodel.io.Loader', 'osprey.Net', 'oslo.os_thing', 'torchvision.x.Y'])(
    'does not know %s',
    (path) => expect(classOf(path)).toBe('unknown'),
  );
});
