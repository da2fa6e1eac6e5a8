;; Finds where two runs of bytes differ.
(module
  (import "unshard" "memory" (memory 1))

  ;; Compares 32 bytes at a time, from $left up to $end (a multiple of 32 away, at least one) with those from $right on.
  ;; Gives the first address of $left whose 32 bytes differ, or $end.
  (func (export "difference") (param $left i32) (param $right i32) (param $end i32) (result i32)
    (loop $next
      (if
        (v128.any_true
          (v128.or
            (v128.xor (v128.load (local.get $left)) (v128.load (local.get $right)))
            (v128.xor (v128.load offset=16 (local.get $left)) (v128.load offset=16 (local.get $right)))))
        (then (return (local.get $left))))
      (local.set $left (i32.add (local.get $left) (i32.const 32)))
      (local.set $right (i32.add (local.get $right) (i32.const 32)))
      (br_if $next (i32.lt_u (local.get $left) (local.get $end))))
    (local.get $end)))
