/** `crc32-fold.wat`, assembled by `npm run wasm`: the bytes of the module in base64. */
export const CRC32_FOLD_MODULE =
  'AGFzbQEAAAABBgFgAn9/AAITAQd1bnNoYXJkBm1lbW9yeQIAAQMCAQAHCAEEZm9sZAAACmcBZQEBewNAIAD9AAQAIQIgACAA/QAEkBIgAv1R/QsEkBIgACAA/QAE8BYgAv1R/QsE8BYgACAA/QAEsBogAv1R/QsEsBogACAA/QAEwCUgAv1R/QsEwCUgAEEQaiEAIAAgAUkNAAsL';
