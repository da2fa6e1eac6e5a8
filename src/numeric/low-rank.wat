;; `addProduct` of low-rank.ts for a part of one row, four elements at a time. fp32 multiplication and addition are exact
;; by their definition (IEEE 754, to nearest even, subnormals kept) and never fused; only the bits of a NaN are left open.
;;
;; For each element from address $sum to $end (16 bytes or more, a multiple of 16) the terms left[k] * right[k] are added by
;; rising k. The left elements lie from $left to $leftEnd (one or more); rows of the right matrix start $pitch bytes apart.
(module
  (import "unshard" "memory" (memory 1))

  (func (export "addRow")
    (param $sum i32) (param $end i32) (param $left i32) (param $leftEnd i32) (param $right i32) (param $pitch i32)
    (local $at i32) (local $r0 i32) (local $r1 i32) (local $r2 i32) (local $r3 i32) (local $value v128)
    (local $b0 v128) (local $b1 v128) (local $b2 v128) (local $b3 v128)

    ;; Four terms for each look at the sum, as long as there are four.
    (block $single
      (loop $next
        (br_if $single (i32.lt_u (i32.sub (local.get $leftEnd) (local.get $left)) (i32.const 16)))
        (local.set $b0 (v128.load32_splat (local.get $left)))
        (local.set $b1 (v128.load32_splat offset=4 (local.get $left)))
        (local.set $b2 (v128.load32_splat offset=8 (local.get $left)))
        (local.set $b3 (v128.load32_splat offset=12 (local.get $left)))
        (local.set $at (local.get $sum))
        (local.set $r0 (local.get $right))
        (local.set $r1 (i32.add (local.get $r0) (local.get $pitch)))
        (local.set $r2 (i32.add (local.get $r1) (local.get $pitch)))
        (local.set $r3 (i32.add (local.get $r2) (local.get $pitch)))
        (loop $element
          (local.set $value
            (f32x4.add (v128.load (local.get $at)) (f32x4.mul (local.get $b0) (v128.load (local.get $r0)))))
          (local.set $value (f32x4.add (local.get $value) (f32x4.mul (local.get $b1) (v128.load (local.get $r1)))))
          (local.set $value (f32x4.add (local.get $value) (f32x4.mul (local.get $b2) (v128.load (local.get $r2)))))
          (v128.store (local.get $at)
            (f32x4.add (local.get $value) (f32x4.mul (local.get $b3) (v128.load (local.get $r3)))))
          (local.set $r0 (i32.add (local.get $r0) (i32.const 16)))
          (local.set $r1 (i32.add (local.get $r1) (i32.const 16)))
          (local.set $r2 (i32.add (local.get $r2) (i32.const 16)))
          (local.set $r3 (i32.add (local.get $r3) (i32.const 16)))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (br_if $element (i32.lt_u (local.get $at) (local.get $end))))
        (local.set $left (i32.add (local.get $left) (i32.const 16)))
        (local.set $right (i32.add (local.get $right) (i32.mul (local.get $pitch) (i32.const 4))))
        (br $next)))

    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $left) (local.get $leftEnd)))
        (local.set $b0 (v128.load32_splat (local.get $left)))
        (local.set $at (local.get $sum))
        (local.set $r0 (local.get $right))
        (loop $element
          (v128.store (local.get $at)
            (f32x4.add (v128.load (local.get $at)) (f32x4.mul (local.get $b0) (v128.load (local.get $r0)))))
          (local.set $r0 (i32.add (local.get $r0) (i32.const 16)))
          (local.set $at (i32.add (local.get $at) (i32.const 16)))
          (br_if $element (i32.lt_u (local.get $at) (local.get $end))))
        (local.set $left (i32.add (local.get $left) (i32.const 4)))
        (local.set $right (i32.add (local.get $right) (local.get $pitch)))
        (br $next)))))
