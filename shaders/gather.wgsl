// The frame of every conversion: gathers elements from pieces at any byte alignment, converts them, packs the results
// into whole words and counts what was special. The conversion is put in front of this file as two functions of four
// elements each:
//
//   widen(low, high)   the fp32 words of elements; high is 0 unless they are fp64
//   narrow(word)       the bits of the results
//
// All buffers are words of 32 bits, and only integers are computed with: a float type may flush subnormals, lose NaNs
// and round either way.
//
// Neighbouring invocations convert neighbouring octets, eight elements each. Nothing branches for the sake of a value: a
// branch that one invocation takes, those beside it wait for; some devices take every branch. What is rare stands after the
// loop of what is frequent: elements are counted where the extremes of all octets say that there is something to count.

// Bytes of an element of the input (2, 4 or 8) and of the output (2 or 4).
override ELEMENT_BYTES: u32;
override RESULT_BYTES: u32;
// The smallest fp32 magnitude that the output holds as infinity, and the smallest that it does not hold as zero.
override OVERFLOW_FROM: u32;
override UNDERFLOW_BELOW: u32;
// A finite value beyond the range becomes the largest finite value, not infinity.
override CLAMP: bool;
override WORKGROUP_SIZE: u32;
// Octets that one invocation converts.
override RUN_OCTETS: u32;
// Octets within a piece start at a multiple of so many bytes: 16, 4 or 1.
override ALIGNMENT: u32;

@group(0) @binding(0) var<storage, read> input: array<u32>;
// The same, four words at a time.
@group(0) @binding(1) var<storage, read> input4: array<vec4<u32>>;
// The number of elements, the number of pieces, the job's id, one word unused; then three words for each piece, in order
// of output: byte offset in the input, first element of the output, slot; then one piece more, which starts at the end.
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read_write> output: array<vec4<u32>>;
// The job's id and the number of elements as a proof that the job ran; then five counts for each slot.
@group(0) @binding(4) var<storage, read_write> tally: array<atomic<u32>>;

const TABLE_HEADER = 4u;
const TABLE_PIECE = 3u;
const TALLY_HEADER = 2u;
const TALLY_SLOT = 5u;

// Elements of an invocation.
const OCTET = 8u;

const MAGNITUDE = 0x7fffffffu;
const INFINITY = 0x7f800000u;

// Four elements as they are stored.
struct Bits {
  low: vec4<u32>,
  high: vec4<u32>,
}

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

// Four bytes from a byte offset.
fn load(offset: u32) -> u32 {
  let index = offset >> 2u;
  let shift = (offset & 3u) << 3u;
  // Not a shift by 32, which would be one by 0.
  return (input[index] >> shift) | ((input[index + 1u] << 1u) << (31u - shift));
}

// Sixteen bytes of an octet.
fn load4(offset: u32) -> vec4<u32> {
  if (ALIGNMENT == 16u) { return input4[offset >> 4u]; }
  if (ALIGNMENT == 4u) {
    let index = offset >> 2u;
    return vec4<u32>(input[index], input[index + 1u], input[index + 2u], input[index + 3u]);
  }
  return vec4<u32>(load(offset), load(offset + 4u), load(offset + 8u), load(offset + 12u));
}

// Elements 4 * half to 4 * half + 3 of the eight from a byte offset.
fn elements(offset: u32, half: u32) -> Bits {
  if (ELEMENT_BYTES == 2u) {
    let words = load4(offset);
    let pair = select(words.xy, words.zw, half == 1u);
    return Bits(vec4<u32>(pair.x & 0xffffu, pair.x >> 16u, pair.y & 0xffffu, pair.y >> 16u), vec4<u32>(0u));
  }
  if (ELEMENT_BYTES == 4u) { return Bits(load4(offset + 16u * half), vec4<u32>(0u)); }
  let first = load4(offset + 32u * half);
  let second = load4(offset + 32u * half + 16u);
  return Bits(vec4<u32>(first.xz, second.xz), vec4<u32>(first.yw, second.yw));
}

// One element from a byte offset, and zeros, which count as nothing.
fn single(offset: u32) -> Bits {
  let low = load(offset);
  if (ELEMENT_BYTES == 2u) { return Bits(vec4<u32>(low & 0xffffu, 0u, 0u, 0u), vec4<u32>(0u)); }
  if (ELEMENT_BYTES == 4u) { return Bits(vec4<u32>(low, 0u, 0u, 0u), vec4<u32>(0u)); }
  return Bits(vec4<u32>(low, 0u, 0u, 0u), vec4<u32>(load(offset + 4u), 0u, 0u, 0u));
}

// Infinities and NaNs have all bits of the exponent. An fp64 is asked before it is widened, since that may overflow.
fn isFinite(bits: Bits, word: vec4<u32>) -> vec4<bool> {
  if (ELEMENT_BYTES == 8u) { return (bits.high & vec4<u32>(0x7ff00000u)) != vec4<u32>(0x7ff00000u); }
  return (word & vec4<u32>(INFINITY)) != vec4<u32>(INFINITY);
}

fn isZero(bits: Bits, word: vec4<u32>) -> vec4<bool> {
  if (ELEMENT_BYTES == 8u) { return (bits.low | (bits.high << vec4<u32>(1u))) == vec4<u32>(0u); }
  return (word << vec4<u32>(1u)) == vec4<u32>(0u);
}

fn results(bits: Bits, word: vec4<u32>) -> vec4<u32> {
  let result = narrow(word);
  if (!CLAMP) { return result; }
  // The largest finite value has the bits before infinity.
  let beyond = (word & vec4<u32>(MAGNITUDE)) >= vec4<u32>(OVERFLOW_FROM);
  return select(result, result - vec4<u32>(1u), beyond & isFinite(bits, word));
}

// Whether there may be something to count: a magnitude beyond the range, or below it and not zero.
fn isSpecial(bits: Bits, word: vec4<u32>) -> vec4<bool> {
  let magnitude = word & vec4<u32>(MAGNITUDE);
  let beyond = magnitude >= vec4<u32>(OVERFLOW_FROM);
  if (ELEMENT_BYTES == 8u) {
    return beyond | ((magnitude < vec4<u32>(UNDERFLOW_BELOW)) & !isZero(bits, word));
  }
  // Less one, zero is the greatest.
  return beyond | (magnitude - vec4<u32>(1u) < vec4<u32>(UNDERFLOW_BELOW - 1u));
}

fn greatest(values: vec4<u32>) -> u32 { return max(max(values.x, values.y), max(values.z, values.w)); }

fn trues(values: vec4<bool>) -> u32 {
  let ones = select(vec4<u32>(0u), vec4<u32>(1u), values);
  return ones.x + ones.y + ones.z + ones.w;
}

fn count(bits: Bits, counts: ptr<function, Counts>) {
  let word = widen(bits.low, bits.high);
  let magnitude = word & vec4<u32>(MAGNITUDE);
  let finite = isFinite(bits, word);
  let nan = magnitude > vec4<u32>(INFINITY);
  (*counts).nan += trues(nan);
  (*counts).inf += trues(!finite & !nan);
  (*counts).overflow += trues(finite & (magnitude >= vec4<u32>(OVERFLOW_FROM)));
  (*counts).underflow += trues((magnitude < vec4<u32>(UNDERFLOW_BELOW)) & !isZero(bits, word));
  let held = select(vec4<u32>(0u), min(magnitude, vec4<u32>(INFINITY - 1u)), finite);
  (*counts).largest = max((*counts).largest, greatest(held));
}

// Most runs change nothing: atomics are shared by all invocations, and loading one is much cheaper than changing it.
fn record(slot: u32, counts: Counts) {
  let at = TALLY_HEADER + slot * TALLY_SLOT;
  if (counts.overflow != 0u) { atomicAdd(&tally[at], counts.overflow); }
  if (counts.underflow != 0u) { atomicAdd(&tally[at + 1u], counts.underflow); }
  if (counts.nan != 0u) { atomicAdd(&tally[at + 2u], counts.nan); }
  if (counts.inf != 0u) { atomicAdd(&tally[at + 3u], counts.inf); }
  if (counts.largest > atomicLoad(&tally[at + 4u])) { atomicMax(&tally[at + 4u], counts.largest); }
}

// Beyond the last element it writes what nobody reads: the buffer is longer than the output.
fn store(octet: u32, first: vec4<u32>, second: vec4<u32>) {
  if (RESULT_BYTES == 2u) {
    let pairs = vec4<u32>(first.xz, second.xz) | (vec4<u32>(first.yw, second.yw) << vec4<u32>(16u));
    output[octet] = pairs;
  } else {
    output[2u * octet] = first;
    output[2u * octet + 1u] = second;
  }
}

// What is known of several octets: the greatest magnitude, and whether there may be something to count.
struct Extremes {
  most: vec4<u32>,
  special: vec4<bool>,
}

fn offsetOf(piece: u32, octet: u32) -> u32 {
  return inputOf(piece) + (octet * OCTET - startOf(piece)) * ELEMENT_BYTES;
}

// Eight elements of one piece.
fn convertTogether(offset: u32, octet: u32, extremes: ptr<function, Extremes>) {
  let first = elements(offset, 0u);
  let second = elements(offset, 1u);
  let firstWord = widen(first.low, first.high);
  let secondWord = widen(second.low, second.high);
  store(octet, results(first, firstWord), results(second, secondWord));
  let magnitudes = max(firstWord & vec4<u32>(MAGNITUDE), secondWord & vec4<u32>(MAGNITUDE));
  (*extremes).most = max((*extremes).most, magnitudes);
  (*extremes).special = (*extremes).special | isSpecial(first, firstWord) | isSpecial(second, secondWord);
}

fn countTogether(offset: u32, counts: ptr<function, Counts>) {
  count(elements(offset, 0u), counts);
  count(elements(offset, 1u), counts);
}

// Up to eight elements of several pieces, or the last ones of all.
fn convertApart(firstPiece: u32, octet: u32, length: u32) {
  var piece = firstPiece;
  var made = array<vec4<u32>, 2>();
  for (var k = 0u; k < length; k++) {
    let element = octet * OCTET + k;
    if (element >= startOf(piece + 1u)) { piece = pieceOf(element); }
    let bits = single(inputOf(piece) + (element - startOf(piece)) * ELEMENT_BYTES);
    made[k >> 2u][k & 3u] = results(bits, widen(bits.low, bits.high)).x;
    var counts = Counts();
    count(bits, &counts);
    record(slotOf(piece), counts);
  }
  store(octet, made[0], made[1]);
}

@compute @workgroup_size(WORKGROUP_SIZE)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let total = table[0];
  let octets = (total + OCTET - 1u) / OCTET;
  let begin = group.x * WORKGROUP_SIZE * RUN_OCTETS;
  let end = min(begin + WORKGROUP_SIZE * RUN_OCTETS, octets);
  let piece = pieceOf(begin * OCTET);
  let together = end * OCTET <= startOf(piece + 1u);

  let runEnd = select(begin, end, together);
  let first = offsetOf(piece, 0u);
  var extremes = Extremes(vec4<u32>(0u), vec4<bool>(false));
  for (var octet = begin + local; octet < runEnd; octet += WORKGROUP_SIZE) {
    convertTogether(first + octet * OCTET * ELEMENT_BYTES, octet, &extremes);
  }
  let special = any(extremes.special);
  var counts = Counts();
  counts.largest = select(greatest(extremes.most), 0u, special);
  let countEnd = select(begin, runEnd, special);
  for (var octet = begin + local; octet < countEnd; octet += WORKGROUP_SIZE) {
    countTogether(first + octet * OCTET * ELEMENT_BYTES, &counts);
  }
  record(slotOf(piece), counts);

  // Where the workgroup has several pieces, each octet is asked whose it is.
  let apartEnd = select(end, begin, together);
  for (var octet = begin + local; octet < apartEnd; octet += WORKGROUP_SIZE) {
    let own = pieceOf(octet * OCTET);
    if (octet * OCTET + OCTET <= startOf(own + 1u)) {
      var ownExtremes = Extremes(vec4<u32>(0u), vec4<bool>(false));
      var ownCounts = Counts();
      convertTogether(offsetOf(own, octet), octet, &ownExtremes);
      countTogether(offsetOf(own, octet), &ownCounts);
      record(slotOf(own), ownCounts);
    } else {
      convertApart(own, octet, min(OCTET, total - octet * OCTET));
    }
  }
  if (local != 0u) { return; }
  if (begin == 0u) { atomicStore(&tally[0], table[2]); }
  if (end == octets) { atomicStore(&tally[1], total); }
}
