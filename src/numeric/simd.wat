;; The conversions of bits.ts and the counts of scan.ts on four elements at a time, under the same names. A test over
;; every fp32 holds them to be equal.
;;
;; Every function walks from byte address $from to $end (at least four elements, a multiple of four) and writes its
;; results from $to on. Constants are set before the loop, since engines do not move them out of it.
;;
;; Only integers are computed with, but for two places where fp32 arithmetic is exact by its definition (IEEE 754, to
;; nearest even, subnormals kept): subnormal fp16, and fp64 to fp32. What a NaN's bits become is left open there, so that
;; NaNs never come from it.
;;
;; Comparisons are of signed words: magnitudes (words without their sign) are never negative. A true lane is -1, so that
;; subtracting it counts.
(module
  (import "unshard" "memory" (memory 1))

  ;; The fp16 bits nearest to fp32 words.
  (func (export "f32ToF16") (param $from i32) (param $end i32) (param $to i32)
    (local $magnitudeMask v128) (local $infinity v128) (local $beyond v128) (local $normal v128)
    (local $rebias v128) (local $unit v128) (local $quiet v128)
    (local $word v128) (local $magnitude v128) (local $nan v128) (local $held v128) (local $odd v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $infinity (i32x4.splat (i32.const 0x7f800000)))
    ;; 65536 and all above it are infinite. What lies between 65520 and 65536 is rounded to 65536.
    (local.set $beyond (i32x4.splat (i32.const 0x47800000)))
    ;; 2^-14, the smallest normal fp16.
    (local.set $normal (i32x4.splat (i32.const 0x38800000)))
    ;; The exponent bias changes from 127 to 15; 0xfff is one less than half of the 13 bits that go.
    (local.set $rebias (i32x4.splat (i32.const 0xc8000fff)))
    ;; 0.5: added to a subnormal, it leaves the multiple of 2^-24 in the lowest bits, rounded by the addition.
    (local.set $unit (i32x4.splat (i32.const 0x3f000000)))
    (local.set $quiet (i32x4.splat (i32.const 0x0200)))
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (local.set $magnitude (v128.and (local.get $word) (local.get $magnitudeMask)))
      ;; 10 bits, where it is a NaN.
      (local.set $nan (i32x4.shr_u (i32x4.gt_s (local.get $magnitude) (local.get $infinity)) (i32.const 22)))
      (local.set $held (i32x4.min_s (local.get $magnitude) (local.get $beyond)))
      ;; -1 where the last bit that stays is set: a tie then goes up.
      (local.set $odd (i32x4.shr_s (i32x4.shl (local.get $held) (i32.const 18)) (i32.const 31)))
      (local.set $word
        (v128.or
          (v128.or
            ;; The sign fills the upper half, too: the last step takes signed words.
            (i32x4.shl (i32x4.shr_s (local.get $word) (i32.const 31)) (i32.const 15))
            (v128.and
              (local.get $nan)
              (v128.or (i32x4.shr_u (local.get $magnitude) (i32.const 13)) (local.get $quiet))))
          (v128.bitselect
            (i32x4.sub (f32x4.add (local.get $held) (local.get $unit)) (local.get $unit))
            (i32x4.shr_u
              (i32x4.sub (i32x4.add (local.get $held) (local.get $rebias)) (local.get $odd))
              (i32.const 13))
            (i32x4.gt_s (local.get $normal) (local.get $held)))))
      (v128.store64_lane 0 (local.get $to) (i16x8.narrow_i32x4_s (local.get $word) (local.get $word)))
      (local.set $to (i32.add (local.get $to) (i32.const 8)))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end)))))

  ;; The bf16 bits nearest to fp32 words.
  (func (export "f32ToBf16") (param $from i32) (param $end i32) (param $to i32)
    (local $magnitudeMask v128) (local $infinity v128) (local $half v128) (local $one v128) (local $quiet v128)
    (local $word v128) (local $high v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $infinity (i32x4.splat (i32.const 0x7f800000)))
    (local.set $half (i32x4.splat (i32.const 0x7fff)))
    (local.set $one (i32x4.splat (i32.const 1)))
    (local.set $quiet (i32x4.splat (i32.const 0x0040)))
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (local.set $high (i32x4.shr_u (local.get $word) (i32.const 16)))
      (local.set $word
        (v128.bitselect
          (v128.or (local.get $high) (local.get $quiet))
          (i32x4.shr_u
            (i32x4.add
              (i32x4.add (local.get $word) (local.get $half))
              (v128.and (local.get $high) (local.get $one)))
            (i32.const 16))
          (i32x4.gt_s (v128.and (local.get $word) (local.get $magnitudeMask)) (local.get $infinity))))
      (v128.store64_lane 0 (local.get $to) (i16x8.narrow_i32x4_u (local.get $word) (local.get $word)))
      (local.set $to (i32.add (local.get $to) (i32.const 8)))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end)))))

  ;; The fp32 words of fp16 bits, exact.
  (func (export "f16ToF32") (param $from i32) (param $end i32) (param $to i32)
    (local $magnitudeMask v128) (local $infinity v128) (local $normal v128) (local $rebias v128) (local $smallest v128)
    (local $sign v128) (local $quiet v128) (local $half v128) (local $magnitude v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fff)))
    (local.set $sign (i32x4.splat (i32.const 0x80000000)))
    (local.set $quiet (i32x4.splat (i32.const 0x00400000)))
    ;; Magnitudes of fp16 in the place of fp32's: infinity and the smallest normal number.
    (local.set $infinity (i32x4.splat (i32.const 0x0f800000)))
    (local.set $normal (i32x4.splat (i32.const 0x00800000)))
    ;; The exponent bias changes from 15 to 127; a second time, it takes infinity to infinity.
    (local.set $rebias (i32x4.splat (i32.const 0x38000000)))
    ;; 2^-14: with a subnormal's bits as mantissa, it is larger by 2^-14 than that subnormal.
    (local.set $smallest (i32x4.splat (i32.const 0x38800000)))
    (loop $next
      (local.set $half (v128.load16x4_s (local.get $from)))
      (local.set $magnitude
        (i32x4.shl (v128.and (local.get $half) (local.get $magnitudeMask)) (i32.const 13)))
      (v128.store (local.get $to)
        (v128.or
          (v128.or
            (v128.and (local.get $half) (local.get $sign))
            (v128.and (i32x4.gt_s (local.get $magnitude) (local.get $infinity)) (local.get $quiet)))
          (v128.bitselect
            (f32x4.sub (v128.or (local.get $magnitude) (local.get $smallest)) (local.get $smallest))
            (i32x4.add
              (i32x4.add (local.get $magnitude) (local.get $rebias))
              (v128.and (i32x4.ge_s (local.get $magnitude) (local.get $infinity)) (local.get $rebias)))
            (i32x4.gt_s (local.get $normal) (local.get $magnitude)))))
      (local.set $to (i32.add (local.get $to) (i32.const 16)))
      (local.set $from (i32.add (local.get $from) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end)))))

  ;; The fp32 words of bf16 bits, exact.
  (func (export "bf16ToF32") (param $from i32) (param $end i32) (param $to i32)
    (local $magnitudeMask v128) (local $infinity v128) (local $quiet v128) (local $word v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $infinity (i32x4.splat (i32.const 0x7f800000)))
    (local.set $quiet (i32x4.splat (i32.const 0x00400000)))
    (loop $next
      (local.set $word (i32x4.shl (v128.load16x4_u (local.get $from)) (i32.const 16)))
      (v128.store (local.get $to)
        (v128.or
          (local.get $word)
          (v128.and
            (i32x4.gt_s (v128.and (local.get $word) (local.get $magnitudeMask)) (local.get $infinity))
            (local.get $quiet))))
      (local.set $to (i32.add (local.get $to) (i32.const 16)))
      (local.set $from (i32.add (local.get $from) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end)))))

  ;; The fp32 words nearest to fp64. $step is what is added to a finite value that became infinite: -1 makes it the
  ;; largest finite one, 0 leaves it. At $tally are written the numbers of such values, and of those that became zero.
  (func (export "f64ToF32") (param $from i32) (param $end i32) (param $to i32) (param $step i32) (param $tally i32)
    (local $magnitudeMask v128) (local $infinity v128) (local $special v128) (local $payload v128) (local $quiet v128)
    (local $steps v128) (local $zero v128) (local $overflow v128) (local $underflow v128)
    (local $first v128) (local $second v128) (local $low v128) (local $high v128) (local $magnitude v128)
    (local $word v128) (local $result v128) (local $grown v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $infinity (i32x4.splat (i32.const 0x7f800000)))
    ;; The high word of an infinity or a NaN is this or more.
    (local.set $special (i32x4.splat (i32.const 0x7ff00000)))
    (local.set $payload (i32x4.splat (i32.const 0x003fffff)))
    (local.set $quiet (i32x4.splat (i32.const 0x7fc00000)))
    (local.set $steps (i32x4.splat (local.get $step)))
    (loop $next
      (local.set $first (v128.load (local.get $from)))
      (local.set $second (v128.load offset=16 (local.get $from)))
      (local.set $low
        (i8x16.shuffle 0 1 2 3 8 9 10 11 16 17 18 19 24 25 26 27 (local.get $first) (local.get $second)))
      (local.set $high
        (i8x16.shuffle 4 5 6 7 12 13 14 15 20 21 22 23 28 29 30 31 (local.get $first) (local.get $second)))
      (local.set $magnitude (v128.and (local.get $high) (local.get $magnitudeMask)))
      (local.set $word
        (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23
          (f32x4.demote_f64x2_zero (local.get $first))
          (f32x4.demote_f64x2_zero (local.get $second))))
      (local.set $result (v128.and (local.get $word) (local.get $magnitudeMask)))
      (local.set $grown
        (v128.and
          (i32x4.eq (local.get $result) (local.get $infinity))
          (i32x4.gt_s (local.get $special) (local.get $magnitude))))
      (local.set $overflow (i32x4.sub (local.get $overflow) (local.get $grown)))
      (local.set $underflow
        (i32x4.sub (local.get $underflow)
          (v128.andnot
            (i32x4.eq (local.get $result) (local.get $zero))
            (i32x4.eq (v128.or (local.get $magnitude) (local.get $low)) (local.get $zero)))))
      (v128.store (local.get $to)
        (v128.bitselect
          (v128.or
            (v128.or (v128.andnot (local.get $high) (local.get $magnitudeMask)) (local.get $quiet))
            (v128.and
              (v128.or
                (i32x4.shl (local.get $high) (i32.const 3))
                (i32x4.shr_u (local.get $low) (i32.const 29)))
              (local.get $payload)))
          (i32x4.add (local.get $word) (v128.and (local.get $grown) (local.get $steps)))
          (i32x4.gt_s (local.get $result) (local.get $infinity))))
      (local.set $to (i32.add (local.get $to) (i32.const 16)))
      (local.set $from (i32.add (local.get $from) (i32.const 32)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end))))
    (i32.store (local.get $tally) (call $sum (local.get $overflow)))
    (i32.store offset=4 (local.get $tally) (call $sum (local.get $underflow))))

  ;; Brings finite fp32 words whose magnitude is $limit or more to the magnitude before $limit, in place.
  (func (export "clamp") (param $from i32) (param $end i32) (param $limit i32)
    (local $magnitudeMask v128) (local $finite v128) (local $largest v128) (local $word v128) (local $magnitude v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $finite (i32x4.splat (i32.const 0x7f7fffff)))
    (local.set $largest (i32x4.splat (i32.sub (local.get $limit) (i32.const 1))))
    (loop $next
      (local.set $word (v128.load (local.get $from)))
      (local.set $magnitude (v128.and (local.get $word) (local.get $magnitudeMask)))
      (v128.store (local.get $from)
        (v128.bitselect
          (v128.or (v128.andnot (local.get $word) (local.get $magnitudeMask)) (local.get $largest))
          (local.get $word)
          (v128.andnot
            (i32x4.gt_s (local.get $magnitude) (local.get $largest))
            (i32x4.gt_s (local.get $magnitude) (local.get $finite)))))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end)))))

  ;; Counts over fp32 words. At $tally are written: finite magnitudes of $overflowFrom or more, magnitudes other than
  ;; zero below $underflowBelow, NaNs, infinities, the largest finite magnitude.
  (func (export "scan")
    (param $from i32) (param $end i32) (param $overflowFrom i32) (param $underflowBelow i32) (param $tally i32)
    (local $magnitudeMask v128) (local $finite v128) (local $infinity v128) (local $held v128) (local $lost v128)
    (local $overflow v128) (local $underflow v128) (local $nan v128) (local $notFinite v128) (local $largest v128)
    (local $magnitude v128) (local $special v128)
    (local.set $magnitudeMask (i32x4.splat (i32.const 0x7fffffff)))
    (local.set $finite (i32x4.splat (i32.const 0x7f7fffff)))
    (local.set $infinity (i32x4.splat (i32.const 0x7f800000)))
    (local.set $held (i32x4.splat (i32.sub (local.get $overflowFrom) (i32.const 1))))
    ;; Plus 0x7fffffff, as magnitudes are below: that makes zero the greatest word, and one the least.
    (local.set $lost (i32x4.splat (i32.add (local.get $underflowBelow) (i32.const 0x7fffffff))))
    (loop $next
      (local.set $magnitude (v128.and (v128.load (local.get $from)) (local.get $magnitudeMask)))
      (local.set $special (i32x4.gt_s (local.get $magnitude) (local.get $finite)))
      (local.set $notFinite (i32x4.sub (local.get $notFinite) (local.get $special)))
      (local.set $nan (i32x4.sub (local.get $nan) (i32x4.gt_s (local.get $magnitude) (local.get $infinity))))
      (local.set $overflow (i32x4.sub (local.get $overflow) (i32x4.gt_s (local.get $magnitude) (local.get $held))))
      (local.set $underflow
        (i32x4.sub (local.get $underflow)
          (i32x4.gt_s (local.get $lost) (i32x4.add (local.get $magnitude) (local.get $magnitudeMask)))))
      (local.set $largest
        (i32x4.max_s (local.get $largest) (v128.andnot (local.get $magnitude) (local.get $special))))
      (local.set $from (i32.add (local.get $from) (i32.const 16)))
      (br_if $next (i32.lt_u (local.get $from) (local.get $end))))
    ;; Infinities and NaNs are beyond every limit.
    (i32.store (local.get $tally) (call $sum (i32x4.sub (local.get $overflow) (local.get $notFinite))))
    (i32.store offset=4 (local.get $tally) (call $sum (local.get $underflow)))
    (i32.store offset=8 (local.get $tally) (call $sum (local.get $nan)))
    (i32.store offset=12 (local.get $tally) (call $sum (i32x4.sub (local.get $notFinite) (local.get $nan))))
    (v128.store offset=16 (local.get $tally) (local.get $largest)))

  (func $sum (param $lanes v128) (result i32)
    (i32.add
      (i32.add (i32x4.extract_lane 0 (local.get $lanes)) (i32x4.extract_lane 1 (local.get $lanes)))
      (i32.add (i32x4.extract_lane 2 (local.get $lanes)) (i32x4.extract_lane 3 (local.get $lanes))))))
