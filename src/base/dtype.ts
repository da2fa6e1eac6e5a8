/**
 * The one table of tensor dtypes. Names are those of safetensors; `torch` and `storage` are those of PyTorch.
 *
 * @module
 */

/** A dtype that can be stored in a safetensors file. */
export type DType =
  | 'BOOL'
  | 'U8'
  | 'I8'
  | 'F8_E5M2'
  | 'F8_E4M3'
  | 'F8_E8M0'
  | 'F8_E4M3FNUZ'
  | 'F8_E5M2FNUZ'
  | 'I16'
  | 'U16'
  | 'F16'
  | 'BF16'
  | 'I32'
  | 'U32'
  | 'F32'
  | 'C64'
  | 'F64'
  | 'I64'
  | 'U64';

/** A dtype that a floating-point tensor can be converted from. */
export type FloatDType = 'F16' | 'BF16' | 'F32' | 'F64';

/** A dtype that a floating-point tensor can be converted to. */
export type TargetDType = 'F16' | 'BF16' | 'F32';

/** What is known of one dtype. */
export interface DTypeInfo {
  /** Size of one element. */
  readonly bytes: number;
  readonly kind: 'float' | 'float8' | 'int' | 'bool' | 'complex';
  /** The attribute of the `torch` module, for example `float32`. */
  readonly torch: string;
  /** The typed storage class of PyTorch; absent where torch stores the dtype as `UntypedStorage`. */
  readonly storage?: string;
}

/**
 * All dtypes in the order of the `Dtype` enum of safetensors 0.8 (increasing alignment). The writer of safetensors sorts
 * tensors by it, descending.
 */
export const DTYPES: Readonly<Record<DType, DTypeInfo>> = {
  BOOL: { bytes: 1, kind: 'bool', torch: 'bool', storage: 'BoolStorage' },
  U8: { bytes: 1, kind: 'int', torch: 'uint8', storage: 'ByteStorage' },
  I8: { bytes: 1, kind: 'int', torch: 'int8', storage: 'CharStorage' },
  F8_E5M2: { bytes: 1, kind: 'float8', torch: 'float8_e5m2' },
  F8_E4M3: { bytes: 1, kind: 'float8', torch: 'float8_e4m3fn' },
  F8_E8M0: { bytes: 1, kind: 'float8', torch: 'float8_e8m0fnu' },
  F8_E4M3FNUZ: { bytes: 1, kind: 'float8', torch: 'float8_e4m3fnuz' },
  F8_E5M2FNUZ: { bytes: 1, kind: 'float8', torch: 'float8_e5m2fnuz' },
  I16: { bytes: 2, kind: 'int', torch: 'int16', storage: 'ShortStorage' },
  U16: { bytes: 2, kind: 'int', torch: 'uint16' },
  F16: { bytes: 2, kind: 'float', torch: 'float16', storage: 'HalfStorage' },
  BF16: { bytes: 2, kind: 'float', torch: 'bfloat16', storage: 'BFloat16Storage' },
  I32: { bytes: 4, kind: 'int', torch: 'int32', storage: 'IntStorage' },
  U32: { bytes: 4, kind: 'int', torch: 'uint32' },
  F32: { bytes: 4, kind: 'float', torch: 'float32', storage: 'FloatStorage' },
  C64: { bytes: 8, kind: 'complex', torch: 'complex64', storage: 'ComplexFloatStorage' },
  F64: { bytes: 8, kind: 'float', torch: 'float64', storage: 'DoubleStorage' },
  I64: { bytes: 8, kind: 'int', torch: 'int64', storage: 'LongStorage' },
  U64: { bytes: 8, kind: 'int', torch: 'uint64' },
};

/** Position of each dtype in the safetensors enum. */
export const DTYPE_ORDER: ReadonlyMap<DType, number> = new Map(
  Object.keys(DTYPES).map((name, i) => [name as DType, i]),
);

/** The dtype of a torch attribute such as `bfloat16`, or undefined. */
export function dtypeOfTorch(attribute: string): DType | undefined {
  return BY_TORCH.get(attribute);
}

/** True where the name is a dtype of safetensors that this program knows. */
export function isDType(name: string): name is DType {
  return Object.hasOwn(DTYPES, name);
}

/** True where `convert` can read the dtype. */
export function isFloat(dtype: DType): dtype is FloatDType {
  return DTYPES[dtype].kind === 'float';
}

/** True where a conversion, or none at all, leads from one dtype to the other. */
export function roundsTo(from: DType, to: DType): boolean {
  return from === to || (isFloat(from) && isTarget(to));
}

/** True where `convert` can write the dtype. */
export function isTarget(dtype: DType): dtype is TargetDType {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16';
}

/** Size of one element in bytes. */
export function bytesOf(dtype: DType): number {
  return DTYPES[dtype].bytes;
}

const ENTRIES = Object.entries(DTYPES) as [DType, DTypeInfo][];
const BY_TORCH = new Map(ENTRIES.map(([dtype, info]) => [info.torch, dtype]));
