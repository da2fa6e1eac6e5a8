/** `crc32-fold.wat`, assembled by `npm run wasm`: the bytes of the module in base64. */
export const CRC32_FOLD_MODULE =
  'AGFzbQEAAAABCAFgBH9/f38AAhMBB3Vuc2hhcmQGbWVtb3J5AgABAwIBAAcIAQRmb2xkAAAKUgFQAANAIAMgAP0ABAAgAv0ABAD9USAC/QAEkAsgAv0ABNAOIAL9AASwE/1R/VH9Uf0LBAAgAkEQaiECIANBEGohAyAAQRBqIQAgACABSQ0ACws=';
