;; The conversions of bits.ts on eight elements at a time, and in the same pass the extremes of what was converted: from
;; them it is seen whether there was anything to count. Counts as of scan.ts are a second pass over those blocks alone.
;; Tests over every fp32 and every 16-bit pattern hold all of it to be equal to the specification.
;;
;; Functions walk from byte address $from to $end (at least eight elements, a multiple of eight, at any alignment) and
;; write their results from $to on. Extremes are merged into what is at $tally.
;;
;; Only integers are computed with, but for two places where fp32 arithmetic is exact by its definition (IEEE 754, to
;; nearest even, subnormals kept): subnormal fp16, and fp64 to fp32. What a NaN's bits become is left open there, so that
;; NaNs never come from it.
;;
;; Comparisons are of signed words: magnitudes (words without their sign) are never negative. A true lane is -1, so that
;; subtracting it counts.
;;
;; A conversion is put together from steps, so that it needs one pass. Steps are macros, which `npm run wasm` expands:
;; where (NAME) stands, the forms of (macro NAME forms) are put. They work on locals:
;;
;;   $word       four fp32 words, and $magnitude without their sign; then four results of 16 bits, sign-extended
;;   $halves     eight elements of 16 bits, and $half four of them, sign-extended
(module
  (import "unshard" "memory" (memory 1))

  (macro LOCALS
    (local $magnitudeMask v128) (local $infinity v128) (local $quiet v128) (local $minusOne v128)
    (local $beyond v128) (local $normal v128) (local $rebias v128) (local $unit v128) (local $halfQuiet v128)
    (local $below v128) (local $one v128) (local $bfQuiet v128)
    (local $sign v128) (local $halfMask v128) (local $halfInfinity v128) (local $halfNormal v128) (local $widenBias v128)
    (local $special v128) (local $payload v128) (local $quietNan v128) (local $steps v128) (local $zero v128)
    (local $word v128) (local $magnitude v128) (local $firstWord v128) (local $halves v128) (local $half v128)
    (local $most v128) (local $least v128) (local $overflow v128) (local $underflow v128)
    (local $nan v128) (local $held v128) (local $high v128) (local $low v128)
    (local $first v128) (local $second v128) (local $result v128) (local $grown v128))

  ;; Constants are set before a loop, since engines do not move them out of it.
  (macro CONSTANTS
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $infinity (i32x4.splat (i32.const 0x7f800000)))
    (local.set $quiet (i32x4.splat (i32.const 0x00400000)))
    (local.set $minusOne (i32x4.splat (i32.const -1))))

  ;; Extremes: at $tally the largest magnitude, at $tally + 16 the smallest less one, each of four lanes of 32 bits, or of
  ;; eight of 16 bits where the elements are of 16 bits. Less one, zero is the largest.
  (macro START
    (CONSTANTS)
    (local.set $most (v128.load (local.get $tally)))
    (local.set $least (v128.load offset=16 (local.get $tally))))
  (macro END
    (v128.store (local.get $tally) (local.get $most))
    (v128.store offset=16 (local.get $tally) (local.get $least)))

  (macro MAGNITUDE
    (local.set $magnitude (v128.and (local.get $word) (local.get $magnitudeMask))))
  (macro MOST
    (local.set $most (i32x4.max_s (local.get $most) (local.get $magnitude))))
  (macro EXTREMES
    (MAGNITUDE)
    (MOST)
    (local.set $least
      (i32x4.min_u (local.get $least) (i32x4.add (local.get $magnitude) (local.get $minusOne)))))

  ;; Eight elements of 16 bits with their extremes, and the first four or the last four of them.
  (macro LOAD-HALVES
    (local.set $halves (v128.load (local.get $from)))
    (local.set $magnitude (v128.and (local.get $halves) (i16x8.splat (i32.const 0x7fff))))
    (local.set $most (i16x8.max_s (local.get $most) (local.get $magnitude)))
    (local.set $least (i16x8.min_u (local.get $least) (i16x8.add (local.get $magnitude) (local.get $minusOne)))))
  (macro FIRST-HALVES
    (local.set $half (i32x4.extend_low_i16x8_s (local.get $halves))))
  (macro LAST-HALVES
    (local.set $half (i32x4.extend_high_i16x8_s (local.get $halves))))

  ;; The results of 16 bits of $firstWord and $word.
  (macro STORE-HALVES
    (v128.store (local.get $to) (i16x8.narrow_i32x4_s (local.get $firstWord) (local.get $word))))

  ;; To the next eight elements.
  (macro NEXT-HALVES (local.set $from (i32.add (local.get $from) (i32.const 16))))
  (macro NEXT-WORDS (local.set $from (i32.add (local.get $from) (i32.const 32))))
  (macro NEXT-HALF-RESULTS (local.set $to (i32.add (local.get $to) (i32.const 16))))
  (macro NEXT-WORD-RESULTS (local.set $to (i32.add (local.get $to) (i32.const 32))))
  (macro REPEAT (br_if $next (i32.lt_u (local.get $from) (local.get $end))))

  ;; $word and its $magnitude become the nearest fp16.
  (macro CONSTANTS-TO-F16
    ;; 65536 and all above it are infinite. What lies between 65520 and 65536 is rounded to 65536.
    (local.set $beyond (i32x4.splat (i32.const 0x47800000)))
    ;; 2^-14, the smallest normal fp16.
    (local.set $normal (i32x4.splat (i32.const 0x38800000)))
    ;; The exponent bias changes from 127 to 15; 0xfff is one less than half of the 13 bits that go.
    (local.set $rebias (i32x4.splat (i32.const 0xc8000fff)))
    ;; 0.5: added to a subnormal, it leaves the multiple of 2^-24 in the lowest bits, rounded by the addition.
    (local.set $unit (i32x4.splat (i32.const 0x3f000000)))
    (local.set $halfQuiet (i32x4.splat (i32.const 0x0200))))
  (macro TO-F16
    ;; 10 bits, where it is a NaN.
    (local.set $nan (i32x4.shr_u (i32x4.gt_s (local.get $magnitude) (local.get $infinity)) (i32.const 22)))
    (local.set $held (i32x4.min_s (local.get $magnitude) (local.get $beyond)))
    (local.set $word
      (v128.or
        (v128.or
          (i32x4.shl (i32x4.shr_s (local.get $word) (i32.const 31)) (i32.const 15))
          (v128.and
            (local.get $nan)
            (v128.or (i32x4.shr_u (local.get $magnitude) (i32.const 13)) (local.get $halfQuiet))))
        (v128.bitselect
          (i32x4.sub (f32x4.add (local.get $held) (local.get $unit)) (local.get $unit))
          (i32x4.shr_u
            ;; One is added where the last bit that stays is set: a tie then goes up.
            (i32x4.sub
              (i32x4.add (local.get $held) (local.get $rebias))
              (i32x4.shr_s (i32x4.shl (local.get $held) (i32.const 18)) (i32.const 31)))
            (i32.const 13))
          (i32x4.gt_s (local.get $normal) (local.get $held))))))

  ;; $word and its $magnitude become the nearest bf16.
  (macro CONSTANTS-TO-BF16
    ;; One less than half of the 16 bits that go.
    (local.set $below (i32x4.splat (i32.const 0x7fff)))
    (local.set $one (i32x4.splat (i32.const 1)))
    (local.set $bfQuiet (i32x4.splat (i32.const 0x0040))))
  (macro TO-BF16
    (local.set $high (i32x4.shr_s (local.get $word) (i32.const 16)))
    (local.set $word
      (v128.bitselect
        (v128.or (local.get $high) (local.get $bfQuiet))
        (i32x4.shr_s
          (i32x4.add
            (i32x4.add (local.get $word) (local.get $below))
            (v128.and (local.get $high) (local.get $one)))
          (i32.const 16))
        (i32x4.gt_s (local.get $magnitude) (local.get $infinity)))))

  ;; $half, of fp16, becomes the $word of the same value.
  (macro CONSTANTS-FROM-F16
    (local.set $sign (i32x4.splat (i32.const 0x80000000)))
    (local.set $halfMask (i32x4.splat (i32.const 0x7fff)))
    ;; Magnitudes of fp16 in the place of fp32's: infinity and the smallest normal number.
    (local.set $halfInfinity (i32x4.splat (i32.const 0x0f800000)))
    (local.set $halfNormal (i32x4.splat (i32.const 0x00800000)))
    ;; The exponent bias changes from 15 to 127; a second time, it takes infinity to infinity.
    (local.set $widenBias (i32x4.splat (i32.const 0x38000000)))
    ;; 2^-14: with a subnormal's bits as mantissa, it is larger by 2^-14 than that subnormal.
    (local.set $normal (i32x4.splat (i32.const 0x38800000))))
  (macro FROM-F16
    (local.set $held (i32x4.shl (v128.and (local.get $half) (local.get $halfMask)) (i32.const 13)))
    (local.set $word
      (v128.or
        (v128.or
          (v128.and (local.get $half) (local.get $sign))
          (v128.and (i32x4.gt_s (local.get $held) (local.get $halfInfinity)) (local.get $quiet)))
        (v128.bitselect
          (f32x4.sub (v128.or (local.get $held) (local.get $normal)) (local.get $normal))
          (i32x4.add
            (i32x4.add (local.get $held) (local.get $widenBias))
            (v128.and (i32x4.ge_s (local.get $held) (local.get $halfInfinity)) (local.get $widenBias)))
          (i32x4.gt_s (local.get $halfNormal) (local.get $held))))))

  ;; $half, of bf16, becomes the $word of the same value, and its $magnitude.
  (macro FROM-BF16
    (local.set $word (i32x4.shl (local.get $half) (i32.const 16)))
    (MAGNITUDE)
    (local.set $word
      (v128.or
        (local.get $word)
        (v128.and (i32x4.gt_s (local.get $magnitude) (local.get $infinity)) (local.get $quiet)))))

  ;; The next four fp64 become the nearest $word, and $from goes beyond them. $step is what is added to a finite value that
  ;; became infinite: -1 makes it the largest finite one, 0 leaves it. The numbers of such values, and of those that became
  ;; zero, are added to what is at $tally + 32 and + 48, in four lanes each.
  (macro START-F64
    (START)
    ;; The high word of an infinity or a NaN is this or more.
    (local.set $special (i32x4.splat (i32.const 0x7ff00000)))
    (local.set $payload (i32x4.splat (i32.const 0x003fffff)))
    (local.set $quietNan (i32x4.splat (i32.const 0x7fc00000)))
    (local.set $steps (i32x4.splat (local.get $step)))
    (local.set $overflow (v128.load offset=32 (local.get $tally)))
    (local.set $underflow (v128.load offset=48 (local.get $tally))))
  (macro END-F64
    (END)
    (v128.store offset=32 (local.get $tally) (local.get $overflow))
    (v128.store offset=48 (local.get $tally) (local.get $underflow)))
  (macro FROM-F64
    (local.set $first (v128.load (local.get $from)))
    (local.set $second (v128.load offset=16 (local.get $from)))
    (local.set $low
      (i8x16.shuffle 0 1 2 3 8 9 10 11 16 17 18 19 24 25 26 27 (local.get $first) (local.get $second)))
    (local.set $high
      (i8x16.shuffle 4 5 6 7 12 13 14 15 20 21 22 23 28 29 30 31 (local.get $first) (local.get $second)))
    (local.set $held (v128.and (local.get $high) (local.get $magnitudeMask)))
    (local.set $word
      (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23
        (f32x4.demote_f64x2_zero (local.get $first))
        (f32x4.demote_f64x2_zero (local.get $second))))
    (local.set $result (v128.and (local.get $word) (local.get $magnitudeMask)))
    (local.set $grown
      (v128.and
        (i32x4.eq (local.get $result) (local.get $infinity))
        (i32x4.gt_s (local.get $special) (local.get $held))))
    (local.set $overflow (i32x4.sub (local.get $overflow) (local.get $grown)))
    (local.set $underflow
      (i32x4.sub (local.get $underflow)
        (v128.andnot
          (i32x4.eq (local.get $result) (local.get $zero))
          (i32x4.eq (v128.or (local.get $held) (local.get $low)) (local.get $zero)))))
    (local.set $word
      (v128.bitselect
        (v128.or
          (v128.or (v128.andnot (local.get $high) (local.get $magnitudeMask)) (local.get $quietNan))
          (v128.and
            (v128.or
              (i32x4.shl (local.get $high) (i32.const 3))
              (i32x4.shr_u (local.get $low) (i32.const 29)))
            (local.get $payload)))
        (i32x4.add (local.get $word) (v128.and (local.get $grown) (local.get $steps)))
        (i32x4.gt_s (local.get $result) (local.get $infinity))))
    (NEXT-WORDS))

  (func (export "f32ToF16") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START) (CONSTANTS-TO-F16)
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (EXTREMES) (TO-F16)
      (local.set $firstWord (local.get $word))
      (local.set $word (v128.load offset=16 (local.get $from)))
      (EXTREMES) (TO-F16)
      (STORE-HALVES) (NEXT-HALF-RESULTS) (NEXT-WORDS) (REPEAT))
    (END))

  (func (export "f32ToBf16") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START) (CONSTANTS-TO-BF16)
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (EXTREMES) (TO-BF16)
      (local.set $firstWord (local.get $word))
      (local.set $word (v128.load offset=16 (local.get $from)))
      (EXTREMES) (TO-BF16)
      (STORE-HALVES) (NEXT-HALF-RESULTS) (NEXT-WORDS) (REPEAT))
    (END))

  (func (export "f16ToF32") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START) (CONSTANTS-FROM-F16)
    (loop $next
      (LOAD-HALVES) (FIRST-HALVES) (FROM-F16)
      (v128.store (local.get $to) (local.get $word))
      (LAST-HALVES) (FROM-F16)
      (v128.store offset=16 (local.get $to) (local.get $word))
      (NEXT-WORD-RESULTS) (NEXT-HALVES) (REPEAT))
    (END))

  (func (export "f16ToBf16") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START) (CONSTANTS-FROM-F16) (CONSTANTS-TO-BF16)
    (loop $next
      (LOAD-HALVES) (FIRST-HALVES) (FROM-F16) (MAGNITUDE) (TO-BF16)
      (local.set $firstWord (local.get $word))
      (LAST-HALVES) (FROM-F16) (MAGNITUDE) (TO-BF16)
      (STORE-HALVES) (NEXT-HALF-RESULTS) (NEXT-HALVES) (REPEAT))
    (END))

  (func (export "bf16ToF32") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START)
    (loop $next
      (LOAD-HALVES) (FIRST-HALVES) (FROM-BF16)
      (v128.store (local.get $to) (local.get $word))
      (LAST-HALVES) (FROM-BF16)
      (v128.store offset=16 (local.get $to) (local.get $word))
      (NEXT-WORD-RESULTS) (NEXT-HALVES) (REPEAT))
    (END))

  (func (export "bf16ToF16") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START) (CONSTANTS-TO-F16)
    (loop $next
      (LOAD-HALVES) (FIRST-HALVES) (FROM-BF16) (MAGNITUDE) (TO-F16)
      (local.set $firstWord (local.get $word))
      (LAST-HALVES) (FROM-BF16) (MAGNITUDE) (TO-F16)
      (STORE-HALVES) (NEXT-HALF-RESULTS) (NEXT-HALVES) (REPEAT))
    (END))

  (func (export "f64ToF32")
    (param $from i32) (param $end i32) (param $to i32) (param $tally i32) (param $step i32)
    (LOCALS) (START-F64)
    (loop $next
      (FROM-F64) (EXTREMES)
      (v128.store (local.get $to) (local.get $word))
      (FROM-F64) (EXTREMES)
      (v128.store offset=16 (local.get $to) (local.get $word))
      (NEXT-WORD-RESULTS) (REPEAT))
    (END-F64))

  (func (export "f64ToF16")
    (param $from i32) (param $end i32) (param $to i32) (param $tally i32) (param $step i32)
    (LOCALS) (START-F64) (CONSTANTS-TO-F16)
    (loop $next
      (FROM-F64) (EXTREMES) (TO-F16)
      (local.set $firstWord (local.get $word))
      (FROM-F64) (EXTREMES) (TO-F16)
      (STORE-HALVES) (NEXT-HALF-RESULTS) (REPEAT))
    (END-F64))

  (func (export "f64ToBf16")
    (param $from i32) (param $end i32) (param $to i32) (param $tally i32) (param $step i32)
    (LOCALS) (START-F64) (CONSTANTS-TO-BF16)
    (loop $next
      (FROM-F64) (EXTREMES) (TO-BF16)
      (local.set $firstWord (local.get $word))
      (FROM-F64) (EXTREMES) (TO-BF16)
      (STORE-HALVES) (NEXT-HALF-RESULTS) (REPEAT))
    (END-F64))

  ;; The largest magnitude of fp32 words that are copied. Nothing is written to $to.
  (func (export "scan32") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START)
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (MAGNITUDE) (MOST)
      (local.set $word (v128.load offset=16 (local.get $from)))
      (MAGNITUDE) (MOST)
      (NEXT-WORDS) (REPEAT))
    (END))

  ;; The extremes of elements of 16 bits that are copied. Nothing is written to $to.
  (func (export "scan16") (param $from i32) (param $end i32) (param $to i32) (param $tally i32)
    (LOCALS) (START)
    (loop $next
      (LOAD-HALVES)
      (NEXT-HALVES) (REPEAT))
    (END))

  ;; Brings finite fp32 words whose magnitude is $limit or more to the magnitude before $limit, in place.
  (func (export "clamp") (param $from i32) (param $end i32) (param $limit i32)
    (LOCALS) (local $finite v128) (local $largest v128) (CONSTANTS)
    (local.set $finite (i32x4.splat (i32.const 0x7f7fffff)))
    (local.set $largest (i32x4.splat (i32.sub (local.get $limit) (i32.const 1))))
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (MAGNITUDE)
      (v128.store (local.get $from)
        (v128.bitselect
          (v128.or (v128.andnot (local.get $word) (local.get $magnitudeMask)) (local.get $largest))
          (local.get $word)
          (v128.andnot
            (i32x4.gt_s (local.get $magnitude) (local.get $largest))
            (i32x4.gt_s (local.get $magnitude) (local.get $finite)))))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (REPEAT)))

  ;; Counts over fp32 words. At $counts are written: finite magnitudes of $overflowFrom or more, magnitudes other than
  ;; zero below $underflowBelow, NaNs, infinities, the largest finite magnitude in four lanes.
  (func (export "count")
    (param $from i32) (param $end i32) (param $overflowFrom i32) (param $underflowBelow i32) (param $counts i32)
    (LOCALS) (local $finite v128) (local $last v128) (local $lost v128) (local $notFinite v128) (CONSTANTS)
    (local.set $finite (i32x4.splat (i32.const 0x7f7fffff)))
    (local.set $last (i32x4.splat (i32.sub (local.get $overflowFrom) (i32.const 1))))
    ;; Plus 0x7fffffff, as magnitudes are below: that makes zero the greatest word, and one the least.
    (local.set $lost (i32x4.splat (i32.add (local.get $underflowBelow) (i32.const 0x7fffffff))))
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (MAGNITUDE)
      (local.set $special (i32x4.gt_s (local.get $magnitude) (local.get $finite)))
      (local.set $notFinite (i32x4.sub (local.get $notFinite) (local.get $special)))
      (local.set $nan (i32x4.sub (local.get $nan) (i32x4.gt_s (local.get $magnitude) (local.get $infinity))))
      (local.set $overflow (i32x4.sub (local.get $overflow) (i32x4.gt_s (local.get $magnitude) (local.get $last))))
      (local.set $underflow
        (i32x4.sub (local.get $underflow)
          (i32x4.gt_s (local.get $lost) (i32x4.add (local.get $magnitude) (local.get $magnitudeMask)))))
      (local.set $most
        (i32x4.max_s (local.get $most) (v128.andnot (local.get $magnitude) (local.get $special))))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (REPEAT))
    ;; Infinities and NaNs are beyond every limit.
    (i32.store (local.get $counts) (call $sum (i32x4.sub (local.get $overflow) (local.get $notFinite))))
    (i32.store offset=4 (local.get $counts) (call $sum (local.get $underflow)))
    (i32.store offset=8 (local.get $counts) (call $sum (local.get $nan)))
    (i32.store offset=12 (local.get $counts) (call $sum (i32x4.sub (local.get $notFinite) (local.get $nan))))
    (v128.store offset=16 (local.get $counts) (local.get $most)))

  (func $sum (param $lanes v128) (result i32)
    (i32.add
      (i32.add (i32x4.extract_lane 0 (local.get $lanes)) (i32x4.extract_lane 1 (local.get $lanes)))
      (i32.add (i32x4.extract_lane 2 (local.get $lanes)) (i32x4.extract_lane 3 (local.get $lanes))))))
