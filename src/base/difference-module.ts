/** `difference.wat`, assembled by `npm run wasm`: the bytes of the module in base64. */
export const DIFFERENCE_MODULE =
  'AGFzbQEAAAABCAFgA39/fwF/AhMBB3Vuc2hhcmQGbWVtb3J5AgABAwIBAAcOAQpkaWZmZXJlbmNlAAAKRAFCAANAIAD9AAQAIAH9AAQA/VEgAP0ABBAgAf0ABBD9Uf1Q/VMEQCAADwsgAEEgaiEAIAFBIGohASAAIAJJDQALIAIL';
