;; Copies runs of bytes that are at equal distances.
(module
  (import "unshard" "memory" (memory 1))

  ;; Copies $count runs, at least one, of $length bytes: the first from $from to $to, each further one so many bytes on.
  (func (export "rows")
    (param $from i32) (param $stepFrom i32) (param $to i32) (param $stepTo i32) (param $length i32) (param $count i32)
    (loop $next
      (memory.copy (local.get $to) (local.get $from) (local.get $length))
      (local.set $from (i32.add (local.get $from) (local.get $stepFrom)))
      (local.set $to (i32.add (local.get $to) (local.get $stepTo)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $next (local.get $count)))))
