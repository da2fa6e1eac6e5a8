/**
 * What to tell the user about the classes and functions that a pickle names. This is no safety boundary: whatever the
 * class, nothing is ever executed. A dangerous name says that the file would harm a program that runs pickles.
 *
 * @module
 */

import { DTYPES } from '../../base/dtype.js';
import type { PyGlobal } from './values.js';

/** How a global is classed. */
export type GlobalClass =
  /** A class of DeepSpeed or of Megatron, which DeepSpeed checkpoints hold. */
  | 'known-deepspeed'
  /** A class or function of Python, torch, NumPy or a training library that honest checkpoints hold. */
  | 'known-library'
  /** Anything else: a class of the user's own code, as a rule. */
  | 'unknown'
  /** A function that runs commands or code, reaches files or the network, or finds functions that do. */
  | 'dangerous';

/** Packages whose classes may all appear. */
const DEEPSPEED_PACKAGES = ['deepspeed', 'megatron'];

/** Modules whose classes hold settings and states. */
const LIBRARY_PACKAGES = [
  ...['torch.optim', 'argparse', 'datetime', 'decimal', 'enum', 'pathlib', 'uuid', 'omegaconf'],
  ...['transformers.training_args', 'transformers.trainer_utils', 'transformers.trainer_pt_utils'],
  ...['transformers.integrations.deepspeed', 'transformers.deepspeed'],
  ...['accelerate.state', 'accelerate.utils.dataclasses'],
];

/** Single names that honest checkpoints hold. */
const LIBRARY_NAMES = new Set([
  ...['OrderedDict', 'defaultdict', 'Counter', 'deque'].map((name) => `collections.${name}`),
  ...['set', 'frozenset', 'bytes', 'bytearray', 'complex', 'slice', 'range', 'xrange', 'int', 'long', 'float']
    .concat(['bool', 'str', 'unicode', 'dict', 'list', 'tuple', 'object', 'type', 'Ellipsis', 'NoneType'])
    .flatMap((name) => [`builtins.${name}`, `__builtin__.${name}`]),
  '_codecs.encode',
  'copyreg._reconstructor',
  'copy_reg._reconstructor',
  'functools.partial',
  'types.SimpleNamespace',
  ...['numpy.core', 'numpy._core'].flatMap((core) => [
    `${core}.multiarray._reconstruct`,
    `${core}.multiarray.scalar`,
    `${core}.numeric._frombuffer`,
  ]),
  'numpy.ndarray',
  'numpy.dtype',
  'numpy.random._pickle.__randomstate_ctor',
  'numpy.random._pickle.__generator_ctor',
  'numpy.random._pickle.__bit_generator_ctor',
  ...['tensor', 'tensor_v2', 'tensor_v3', 'parameter', 'parameter_with_state', 'qtensor', 'sparse_tensor']
    .concat(['sparse_csr_tensor', 'nested_tensor', 'meta_tensor_no_storage', 'device_tensor_from_numpy'])
    .map((name) => `torch._utils._rebuild_${name}`),
  'torch._tensor._rebuild_from_type',
  'torch._tensor._rebuild_from_type_v2',
  'torch.Tensor',
  'torch.Size',
  'torch.device',
  'torch.nn.parameter.Parameter',
  'torch.nn.parameter.Buffer',
  'torch.serialization._get_layout',
  'torch.storage.UntypedStorage',
  ...Object.values(DTYPES).map(({ torch }) => `torch.${torch}`),
  'torch.complex128',
  'pytorch_lightning.utilities.parsing.AttributeDict',
  'lightning_fabric.utilities.data.AttributeDict',
  'lightning.fabric.utilities.data.AttributeDict',
]);

/** `torch.FloatStorage`, `torch.QInt8Storage` and their like. */
const STORAGE_CLASS = /^torch\.[A-Z]\w*Storage$/;

/** Modules with no honest use in a checkpoint. */
const DANGEROUS_PACKAGES = [
  ...['_posixsubprocess', 'pty', 'platform', 'shutil', 'tempfile', 'commands', 'popen2', 'multiprocessing', 'asyncio'],
  ...['socket', 'ssl', 'urllib', 'http', 'httplib', 'requests', 'aiohttp', 'ftplib', 'smtplib', 'telnetlib'],
  ...['runpy', 'importlib', 'imp', 'pkgutil', 'zipimport', 'pip', 'ensurepip', 'venv', 'code', 'codeop', 'ctypes'],
  ...['pickle', '_pickle', 'cPickle', 'dill', 'cloudpickle', 'joblib', 'shelve', 'marshal', 'operator', '_operator'],
  ...['timeit', 'pdb', 'bdb', 'profile', 'cProfile', 'trace', 'doctest', 'pydoc', 'idlelib', 'lib2to3', 'webbrowser'],
  ...['distutils', 'setuptools', 'numpy.testing', 'numpy.f2py', 'numpy.distutils', 'logging.config', 'sympy'],
  ...['torch.hub', 'torch.jit', 'torch.package', 'torch.ops', 'torch.classes', 'torch.utils.cpp_extension'],
  ...['torch.utils.bottleneck', 'torch.utils.collect_env', 'torch.distributed.run', 'torch.distributed.launcher'],
];

/** Modules that have no honest use in a checkpoint, not even reached through another one that imports them. */
const DANGEROUS_ANYWHERE = /(^|\.)(os|posix|nt|subprocess|sys|__builtins__)\./;

/** Single names with no honest use in a checkpoint. */
const DANGEROUS_NAMES = new Set([
  ...['eval', 'exec', 'execfile', 'compile', 'open', 'file', 'input', 'apply', 'reload', 'breakpoint', '__import__']
    .concat(['getattr', 'setattr', 'delattr', 'globals', 'locals', 'vars'])
    .flatMap((name) => [`builtins.${name}`, `__builtin__.${name}`]),
  'io.open',
  '_io.open',
  'logging.FileHandler',
  'torch.load',
  'torch.serialization.load',
  'torch.storage._load_from_bytes',
  'torch._dynamo.guards.GuardBuilder.get',
  'torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression',
  'numpy.load',
  'functools.reduce',
  'types.FunctionType',
  'types.CodeType',
  'types.MethodType',
]);

/** Classes a global by its name. */
export function classifyGlobal({ path }: PyGlobal): GlobalClass {
  if (LIBRARY_NAMES.has(path) || STORAGE_CLASS.test(path)) return 'known-library';
  if (DANGEROUS_NAMES.has(path) || DANGEROUS_ANYWHERE.test(path) || isInside(path, DANGEROUS_PACKAGES)) {
    return 'dangerous';
  }
  if (isInside(path, DEEPSPEED_PACKAGES)) return 'known-deepspeed';
  return isInside(path, LIBRARY_PACKAGES) ? 'known-library' : 'unknown';
}

function isInside(path: string, packages: readonly string[]): boolean {
  return packages.some((name) => path.startsWith(`${name}.`));
}
