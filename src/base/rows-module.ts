/** `rows.wat`, assembled by `npm run wasm`: the bytes of the module in base64. */
export const ROWS_MODULE =
  'AGFzbQEAAAABCgFgBn9/f39/fwACEwEHdW5zaGFyZAZtZW1vcnkCAAEDAgEABwgBBHJvd3MAAAoqASgAA0AgAiAAIAT8CgAAIAAgAWohACACIANqIQIgBUEBayEFIAUNAAsL';
