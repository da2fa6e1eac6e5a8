// The frame of every conversion: gathers elements from pieces at any byte alignment, converts them, packs the results
// into whole words and counts what was special. The conversion is put in front of this file as two functions:
//
//   widen(low, high)   the fp32 word of an element; high is 0 unless the element is fp64
//   narrow(word)       the bits of the result
//
// All buffers are words of 32 bits, and only integers are computed with: a float type may flush subnormals, lose NaNs
// and round either way.

// Bytes of an element of the input (2, 4 or 8) and of the output (2 or 4).
override ELEMENT_BYTES: u32;
override RESULT_BYTES: u32;
// The smallest fp32 magnitude that the output holds as infinity, and the smallest that it does not hold as zero.
override OVERFLOW_FROM: u32;
override UNDERFLOW_BELOW: u32;
// A finite value beyond the range becomes the largest finite value, not infinity.
override CLAMP: bool;
override WORKGROUP_SIZE: u32;
// Elements that one invocation converts: whole words of output.
override RUN_ELEMENTS: u32;

@group(0) @binding(0) var<storage, read> input: array<u32>;
// The number of elements, the number of pieces, the job's id, one word unused; then three words for each piece, in order
// of output: byte offset in the input, first element of the output, slot; then one piece more, which starts at the end.
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
// The job's id and the number of elements as a proof that the job ran; then five counts for each slot.
@group(0) @binding(3) var<storage, read_write> tally: array<atomic<u32>>;

const TABLE_HEADER = 4u;
const TABLE_PIECE = 3u;
const TALLY_HEADER = 2u;
const TALLY_SLOT = 5u;

struct Counts {
  overflow: u32,
  underflow: u32,
  nan: u32,
  inf: u32,
  largest: u32,
}

fn inputOf(piece: u32) -> u32 { return table[TABLE_HEADER + piece * TABLE_PIECE]; }
fn startOf(piece: u32) -> u32 { return table[TABLE_HEADER + piece * TABLE_PIECE + 1u]; }
fn slotOf(piece: u32) -> u32 { return table[TABLE_HEADER + piece * TABLE_PIECE + 2u]; }

// The last piece that starts at or before the element.
fn pieceOf(element: u32) -> u32 {
  var low = 0u;
  var high = table[1];
  while (high - low > 1u) {
    let middle = (low + high) >> 1u;
    if (startOf(middle) <= element) { low = middle; } else { high = middle; }
  }
  return low;
}

// `bytes` bytes (at most 4) from a byte offset; what lies above them in the word is not cleared.
fn load(offset: u32, bytes: u32) -> u32 {
  let index = offset >> 2u;
  let shift = (offset & 3u) << 3u;
  let word = input[index] >> shift;
  if (shift + (bytes << 3u) <= 32u) { return word; }
  return word | (input[index + 1u] << (32u - shift));
}

fn element(offset: u32) -> vec2<u32> {
  if (ELEMENT_BYTES == 2u) { return vec2<u32>(load(offset, 2u) & 0xffffu, 0u); }
  if (ELEMENT_BYTES == 4u) { return vec2<u32>(load(offset, 4u), 0u); }
  return vec2<u32>(load(offset, 4u), load(offset + 4u, 4u));
}

// Infinities and NaNs have all bits of the exponent. An fp64 is asked before it is widened, since that may overflow.
fn isFinite(bits: vec2<u32>, word: u32) -> bool {
  if (ELEMENT_BYTES == 8u) { return (bits.y & 0x7ff00000u) != 0x7ff00000u; }
  return (word & 0x7f800000u) != 0x7f800000u;
}

fn isZero(bits: vec2<u32>, word: u32) -> bool {
  if (ELEMENT_BYTES == 8u) { return (bits.x | (bits.y << 1u)) == 0u; }
  return (word << 1u) == 0u;
}

fn convert(bits: vec2<u32>, counts: ptr<function, Counts>) -> u32 {
  let word = widen(bits.x, bits.y);
  let magnitude = word & 0x7fffffffu;
  let result = narrow(word);
  // A single question of an ordinary value.
  if (magnitude - UNDERFLOW_BELOW < OVERFLOW_FROM - UNDERFLOW_BELOW) {
    (*counts).largest = max((*counts).largest, magnitude);
    return result;
  }
  if (!isFinite(bits, word)) {
    if (magnitude > 0x7f800000u) { (*counts).nan += 1u; } else { (*counts).inf += 1u; }
    return result;
  }
  (*counts).largest = max((*counts).largest, min(magnitude, 0x7f7fffffu));
  if (magnitude < UNDERFLOW_BELOW) {
    if (!isZero(bits, word)) { (*counts).underflow += 1u; }
    return result;
  }
  (*counts).overflow += 1u;
  // The largest finite value has the bits before infinity.
  return select(result, result - 1u, CLAMP);
}

// Most runs have nothing to add: atomics are shared by all invocations, and loading one is much cheaper than changing it.
fn record(slot: u32, counts: Counts) {
  let at = TALLY_HEADER + slot * TALLY_SLOT;
  if (counts.overflow != 0u) { atomicAdd(&tally[at], counts.overflow); }
  if (counts.underflow != 0u) { atomicAdd(&tally[at + 1u], counts.underflow); }
  if (counts.nan != 0u) { atomicAdd(&tally[at + 2u], counts.nan); }
  if (counts.inf != 0u) { atomicAdd(&tally[at + 3u], counts.inf); }
  if (counts.largest > atomicLoad(&tally[at + 4u])) { atomicMax(&tally[at + 4u], counts.largest); }
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) local: u32,
) {
  let elements = table[0];
  let first = ((group.y * groups.x + group.x) * WORKGROUP_SIZE + local) * RUN_ELEMENTS;
  if (first >= elements) { return; }
  let end = min(first + RUN_ELEMENTS, elements);
  var piece = pieceOf(first);
  var i = first;
  var packed = 0u;
  while (i < end) {
    let pieceEnd = min(end, startOf(piece + 1u));
    var offset = inputOf(piece) + (i - startOf(piece)) * ELEMENT_BYTES;
    var counts = Counts();
    for (; i < pieceEnd; i++) {
      let result = convert(element(offset), &counts);
      offset += ELEMENT_BYTES;
      if (RESULT_BYTES == 4u) {
        output[i] = result;
      } else if ((i & 1u) == 0u) {
        packed = result;
        if (i + 1u == elements) { output[i >> 1u] = packed; }
      } else {
        output[i >> 1u] = packed | (result << 16u);
      }
    }
    record(slotOf(piece), counts);
    piece++;
  }
  if (first == 0u) { atomicStore(&tally[0], table[2]); }
  if (end == elements) { atomicStore(&tally[1], elements); }
}
